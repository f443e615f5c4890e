// Does work in other processes come back whole, in any order, and without taking others down?
#include "sim/base/processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <stdexcept>
#include <string>

#include "sim/base/error.hpp"

namespace trainyard {
namespace {

using Answers = std::map<std::size_t, Answer>;

Answers run(std::size_t count, const std::function<std::string(std::size_t)>& work,
            std::size_t processes = 2) {
  Answers answers;
  run_in_processes(count, {.work = work,
                           .done = [&](std::size_t i, const Answer& a) { answers[i] = a; },
                           .processes = processes});
  return answers;
}

TEST(Processes, EveryPieceAnswersOnce) {
  const Answers answers = run(20, [](std::size_t i) { return std::to_string(i * i); });
  ASSERT_EQ(answers.size(), 20U);
  for (const auto& [number, answer] : answers) {
    EXPECT_EQ(answer.kind, Answer::Kind::Fine);
    EXPECT_EQ(answer.text, std::to_string(number * number));
  }
}

TEST(Processes, LongAnswersArriveWhole) {
  const std::string text(3'000'000, 'x');  // far more than a pipe holds
  const Answers answers = run(3, [&](std::size_t) { return text; });
  for (const auto& [number, answer] : answers) EXPECT_EQ(answer.text, text) << number;
}

TEST(Processes, ErrorsKeepTheirKindAndWords) {
  const Answers answers = run(4, [](std::size_t i) -> std::string {
    if (i == 0)
      throw InputError(Problem{.file = "a.json", .pointer = {}, .problem = "is wrong", .hint = {}});
    if (i == 1) throw RunError("does not fit");
    if (i == 2) throw std::runtime_error("a bug");
    return "fine";
  });
  EXPECT_EQ(answers.at(0).kind, Answer::Kind::InputError);
  EXPECT_THAT(answers.at(0).text, testing::HasSubstr("a.json"));
  EXPECT_EQ(answers.at(1).kind, Answer::Kind::RunError);
  EXPECT_EQ(answers.at(1).text, "does not fit");
  EXPECT_EQ(answers.at(2).kind, Answer::Kind::Crash);
  EXPECT_EQ(answers.at(3).text, "fine");
}

TEST(Processes, ACrashEndsOnePieceAlone) {
  const Answers answers = run(3, [](std::size_t i) -> std::string {
    if (i == 1) std::raise(SIGKILL);
    return "fine";
  });
  EXPECT_EQ(answers.at(1).kind, Answer::Kind::Crash);
  EXPECT_THAT(answers.at(1).text, testing::HasSubstr("signal 9"));
  EXPECT_EQ(answers.at(0).text, "fine");
  EXPECT_EQ(answers.at(2).text, "fine");
}

TEST(Processes, StoppedMeansNoMoreAreStarted) {
  std::size_t done = 0;
  run_in_processes(100, {.work = [](std::size_t) { return std::string("x"); },
                         .done = [&](std::size_t, const Answer&) { ++done; },
                         .processes = 1,
                         .stop = [&] { return done >= 5; }});
  EXPECT_EQ(done, 5U);
}

}  // namespace
}  // namespace trainyard
