// A run of the profiler on a simulated GPU: the rows that are kept and written, and the messages.
#include "kernels/bench/run_tasks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace trainyard::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A GEMM takes as many microseconds as it is wide. The GPU does not support fp8, and computes n = 3
// wrongly.
struct PretendedGpu {
  std::vector<std::string> asked, said, shown;
  std::size_t interrupted_after = 1000;

  Measuring measuring() {
    return {.measure =
                [this](const Task& task) {
                  asked.push_back(task_text(task));
                  const Gemm& asked_for = std::get<Gemm>(task);
                  if (asked_for.dtype == DataType::Fp8) throw Unsupported("no fp8 here");
                  if (asked_for.n == 3) throw WrongResult("entry (0, 0, 0) is 1, not 2");
                  const auto us = static_cast<double>(asked_for.n);
                  return MeasuredRow{task, {.median = us, .p10 = us, .p90 = us}, "pretended"};
                },
            .interrupted = [this] { return asked.size() >= interrupted_after; },
            .say = [this](const std::string& line) { said.push_back(line); },
            .progress = [this](const std::string& line) { shown.push_back(line); }};
  }
};

Task gemm_of(std::int64_t n, DataType dtype = DataType::Bf16) {
  return Gemm{.m = 16, .n = n, .k = 16, .dtype = dtype};
}

std::filesystem::path fresh_file(const std::string& name) {
  const std::filesystem::path file = testing::TempDir() + "trainyard_run_tasks_" + name;
  std::filesystem::remove(file);
  std::filesystem::remove(partial_name(file));
  return file;
}

const nlohmann::ordered_json pretended_origin = {{"gpu", "pretended"}, {"driver", "580"}};

// Are unsupported and wrong kernels reported and not written?
TEST(RunTasks, WhatCannotBeDoneOrIsWrongIsSaidAndNotWritten) {
  const auto out = fresh_file("said.json");
  PretendedGpu gpu;
  MeasuredProfile profile{.provenance = pretended_origin, .rows = {}};
  const std::vector<Task> tasks = {gemm_of(1), gemm_of(2, DataType::Fp8), gemm_of(3), gemm_of(4)};
  const Outcome outcome = run_tasks(profile, tasks, out, gpu.measuring());
  EXPECT_EQ(outcome.measured, 2U);
  EXPECT_EQ(outcome.left_out, 1U);
  EXPECT_EQ(outcome.wrong, 1U);
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_THAT(gpu.said, ElementsAre(HasSubstr("left out: gemm m16 n2 k16 fp8 forward: no fp8"),
                                    HasSubstr("wrong result: gemm m16 n3 k16 bf16 forward: ")));
  ASSERT_EQ(gpu.shown.size(), 5U);
  EXPECT_THAT(gpu.shown[0], HasSubstr("1/4 gemm m16 n1 k16 bf16 forward, about "));
  EXPECT_EQ(gpu.shown.back(), "");
  EXPECT_EQ(read_profile(partial_name(out)).rows, profile.rows);
}

// Does an interrupted run continue where it stopped? The rows before the interruption are on disk,
// the next run with the same file continues after them, and the final file is that of one
// uninterrupted run.
TEST(RunTasks, AnInterruptedRunGoesOnWhereItWas) {
  const auto out = fresh_file("resumed.json");
  std::vector<Task> tasks;
  for (std::int64_t n = 10; n < 16; ++n) tasks.push_back(gemm_of(n));
  PretendedGpu gpu;
  gpu.interrupted_after = 2;
  MeasuredProfile first = resume_profile(out, pretended_origin);
  EXPECT_TRUE(run_tasks(first, tasks, out, gpu.measuring()).interrupted);
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_EQ(read_profile(partial_name(out)).rows.size(), 2U);

  MeasuredProfile second = resume_profile(out, pretended_origin);
  EXPECT_LT(time_left(second, tasks).value(), time_left({}, tasks).value());
  gpu.interrupted_after = 1000;
  const Outcome outcome = run_tasks(second, tasks, out, gpu.measuring());
  EXPECT_EQ(outcome.kept, 2U);
  EXPECT_EQ(outcome.measured, 4U);
  EXPECT_EQ(gpu.asked.size(), 6U);
  finish_profile(second, out);
  EXPECT_FALSE(std::filesystem::exists(partial_name(out)));
  PretendedGpu at_once;
  MeasuredProfile whole{.provenance = pretended_origin, .rows = {}};
  (void)run_tasks(whole, tasks, fresh_file("whole.json"), at_once.measuring());
  EXPECT_EQ(read_profile(out).rows, whole.rows);
}

}  // namespace
}  // namespace trainyard::bench
