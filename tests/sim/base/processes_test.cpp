// Work in other processes: results arrive complete and in any order, and a failure ends only its
// own piece.
#include "sim/base/processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

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

// Does every piece return exactly one result?
TEST(Processes, EveryPieceReturnsOneResult) {
  const Answers answers = run(20, [](std::size_t i) { return std::to_string(i * i); });
  ASSERT_EQ(answers.size(), 20U);
  for (const auto& [number, answer] : answers) {
    EXPECT_EQ(answer.kind, Answer::Kind::Fine);
    EXPECT_EQ(answer.text, std::to_string(number * number));
  }
}

// Do long results arrive complete?
TEST(Processes, LongResultsArriveComplete) {
  const std::string text(3'000'000, 'x');  // far more than a pipe holds
  const Answers answers = run(3, [&](std::size_t) { return text; });
  for (const auto& [number, answer] : answers) EXPECT_EQ(answer.text, text) << number;
}

// Does a result arrive complete where signals interrupt the worker? A timer does so every
// millisecond while the parent sleeps for five and the pipe is full: some writes then end after a
// part of their bytes, others before the first (EINTR).
TEST(Processes, InterruptedResultsArriveComplete) {
  std::string text;
  while (text.size() < 1'000'000) text += std::to_string(text.size()) + ' ';
  std::vector<Answer> answers;
  run_in_processes(1, {.work =
                           [&](std::size_t) {
                             struct sigaction interrupt = {};
                             interrupt.sa_handler = [](int) {};
                             ::sigaction(SIGALRM, &interrupt, nullptr);
                             const itimerval timer{.it_interval = {.tv_sec = 0, .tv_usec = 1000},
                                                   .it_value = {.tv_sec = 0, .tv_usec = 1000}};
                             ::setitimer(ITIMER_REAL, &timer, nullptr);
                             return text;
                           },
                       .done = [&](std::size_t, const Answer& a) { answers.push_back(a); },
                       .end =
                           [] {
                             std::this_thread::sleep_for(std::chrono::milliseconds(5));
                             return false;
                           }});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers.front().kind, Answer::Kind::Fine);
  EXPECT_TRUE(answers.front().text == text) << answers.front().text.size();
}

// Do errors keep their kind and their text?
TEST(Processes, ErrorsKeepTheirTypeAndText) {
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

// Does a crash end only one piece?
TEST(Processes, ACrashEndsOnlyItsPiece) {
  const Answers answers = run(3, [](std::size_t i) -> std::string {
    if (i == 1) std::raise(SIGKILL);
    return "fine";
  });
  EXPECT_EQ(answers.at(1).kind, Answer::Kind::Crash);
  EXPECT_THAT(answers.at(1).text, testing::HasSubstr("signal 9"));
  EXPECT_EQ(answers.at(0).text, "fine");
  EXPECT_EQ(answers.at(2).text, "fine");
}

// Is an incomplete result a crash? The first bytes of a result mean nothing without the rest. The
// parent reads 64 KiB at a time and polls `end` in between, so the worker is killed after a part of
// its result has arrived.
TEST(Processes, ATruncatedResultIsACrash) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  std::vector<Answer> answers;
  std::size_t asked = 0;
  run_in_processes(1, {.work =
                           [&](std::size_t) {
                             const pid_t self = ::getpid();
                             (void)!::write(ends[1], &self, sizeof self);
                             return std::string(100'000'000, 'x');
                           },
                       .done = [&](std::size_t, const Answer& a) { answers.push_back(a); },
                       .end =
                           [&] {
                             if (++asked != 20) return false;
                             pid_t worker = 0;
                             (void)!::read(ends[0], &worker, sizeof worker);
                             ::kill(worker, SIGKILL);
                             return false;
                           }});
  ::close(ends[0]);
  ::close(ends[1]);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers.front().kind, Answer::Kind::Crash);
  EXPECT_THAT(answers.front().text, testing::HasSubstr("signal 9"));
}

// Do workers end with their parent?
TEST(Processes, WorkersEndWithTheirParent) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    (void)run(1, [&](std::size_t) -> std::string {
      const pid_t self = ::getpid();
      (void)!::write(ends[1], &self, sizeof self);
      std::this_thread::sleep_for(std::chrono::seconds(60));
      return "";
    });
    ::_exit(0);
  }
  ::close(ends[1]);  // the worker and the parent that will be killed have the other write ends
  pid_t worker = 0;
  ASSERT_EQ(::read(ends[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  ::kill(parent, SIGKILL);
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  // Now only the worker has a write end: the pipe ends when the worker does.
  pollfd end{.fd = ends[0], .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&end, 1, 30'000), 1) << "the worker outlived its parent";
  EXPECT_EQ(::read(ends[0], &worker, 1), 0);
  ::close(ends[0]);
}

// Do running pieces end when `end` returns true?
TEST(Processes, RunningPiecesEndOnRequest) {
  std::size_t done = 0;
  bool end = false;
  const auto start = std::chrono::steady_clock::now();
  run_in_processes(100, {.work =
                             [](std::size_t i) {
                               if (i > 0) std::this_thread::sleep_for(std::chrono::seconds(60));
                               return std::string("x");
                             },
                         .done =
                             [&](std::size_t, const Answer&) {
                               ++done;
                               end = true;
                             },
                         .processes = 2,
                         .end = [&] { return end; }});
  EXPECT_EQ(done, 1U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

// Are no more pieces started after `stop` returns true?
TEST(Processes, NoPieceStartsAfterAStop) {
  std::size_t done = 0;
  run_in_processes(100, {.work = [](std::size_t) { return std::string("x"); },
                         .done = [&](std::size_t, const Answer&) { ++done; },
                         .processes = 1,
                         .stop = [&] { return done >= 5; }});
  EXPECT_EQ(done, 5U);
}

}  // namespace
}  // namespace trainyard
