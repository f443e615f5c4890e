// Is a measured step comparable with a simulated one, by kind of operation?
#include "tools/studies/validate/step_profile.hpp"

#include <gtest/gtest.h>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/render/traces/chrome_trace.hpp"
#include "tests/scenarios/import/trace_writer.hpp"
#include "tools/studies/validate/step_diff.hpp"

namespace trainyard {
namespace {

std::filesystem::path written(const std::string& name, const std::string& text) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / name;
  write_file(file, text);
  return file;
}

// Do overlapping spans cover their union?
TEST(StepProfile, OverlappingSpansCoverTheirUnion) {
  EXPECT_DOUBLE_EQ(covered({{1.0, 3.0}, {0.0, 2.0}, {5.0, 6.0}, {5.2, 5.4}}), 4.0);
  EXPECT_DOUBLE_EQ(covered({}), 0.0);
}

StepProfile read_one(const std::filesystem::path& file) {
  return read_step_profiles(file, {}).at(0);
}

constexpr const char* kEvent = R"({"ph":"X","cat":"CATEGORY","name":"NAME","ts":TS,"dur":DUR})";

std::string event(const std::string& category, const std::string& name, int start_us,
                  int length_us) {
  std::string text = kEvent;
  const auto put = [&text](const std::string& word, const std::string& value) {
    text.replace(text.find(word), word.size(), value);
  };
  put("CATEGORY", category);
  put("NAME", name);
  put("TS", std::to_string(start_us));
  put("DUR", std::to_string(length_us));
  return text;
}

// Two steps of 1 000 us. Each has a GEMM of 600 us; a reduction concurrent with its last 200 us,
// which continues for 100 us after it; and a copy of 50 us: 100 us of exposed communication, 250 us
// without a kernel.
std::string two_steps() {
  std::string all = event("cpu_op", "aten::mm", 0, 5);
  for (const int begin : {0, 1000}) {
    all += "," + event("user_annotation", "ProfilerStep#" + std::to_string(begin), begin, 1000);
    all += "," + event("kernel", "ampere_gemm", begin + 20, 600);
    all += "," + event("kernel", "ncclDevKernel_AllReduce_Sum_f32", begin + 420, 300);
    all += "," + event("gpu_memcpy", "Memcpy HtoD", begin + 800, 50);
  }
  return R"({"schemaVersion":1,"traceEvents":[)" + all + "]}";
}

// Is the profile of a trace that of one step?
TEST(StepProfile, OfATraceIsOfOneStep) {
  const StepProfile profile = read_one(written("two_steps.json.gz", two_steps()));
  EXPECT_EQ(profile.steps, 2U);
  EXPECT_NEAR(profile.step_s, 1e-3, 1e-12);
  EXPECT_NEAR(profile.kinds.at(OperationKind::Gemm).seconds, 600e-6, 1e-12);
  EXPECT_NEAR(profile.kinds.at(OperationKind::AllReduce).seconds, 300e-6, 1e-12);
  EXPECT_NEAR(profile.kinds.at(OperationKind::Copy).seconds, 50e-6, 1e-12);
  EXPECT_EQ(profile.kinds.size(), 3U);
  EXPECT_DOUBLE_EQ(profile.kinds.at(OperationKind::Gemm).kernels, 1.0);
  EXPECT_NEAR(profile.exposed_s, 100e-6, 1e-12);
  EXPECT_NEAR(profile.idle_s, 250e-6, 1e-12);
}

const std::string kTraces = TRAINYARD_SOURCE_DIRECTORY "/tests/scenarios/import/traces/";

// Is the median step that of the example? It is the third, 1100 us: 50 us of the all-gather before
// the first GEMM and 40 us of the reduce-scatter after the last are exposed, and kernels run from
// 50 to 905 us.
TEST(StepProfile, TheMedianStepOfAKinetoTrace) {
  const StepProfile profile = read_one(kTraces + "kineto.json");
  const std::map<OperationKind, std::pair<double, double>> expected{
      {OperationKind::Gemm, {630e-6, 3}},           {OperationKind::Attention, {100e-6, 1}},
      {OperationKind::NormElementwise, {30e-6, 2}}, {OperationKind::Copy, {5e-6, 1}},
      {OperationKind::AllGather, {150e-6, 1}},      {OperationKind::ReduceScatter, {70e-6, 1}}};
  EXPECT_EQ(profile.rank, 0U);
  EXPECT_EQ(profile.steps, 3U);
  EXPECT_NEAR(profile.step_s, 1100e-6, 1e-12);
  ASSERT_EQ(profile.kinds.size(), expected.size());
  for (const auto& [kind, time] : expected) {
    EXPECT_NEAR(profile.kinds.at(kind).seconds, time.first, 1e-12) << to_string(kind);
    EXPECT_DOUBLE_EQ(profile.kinds.at(kind).kernels, time.second) << to_string(kind);
  }
  EXPECT_NEAR(profile.exposed_s, 90e-6, 1e-12);
  EXPECT_NEAR(profile.idle_s, 245e-6, 1e-12);
}

// The same of an export of Nsight Systems: two GEMMs from 100 to 520 us, an all-reduce until 600,
// and a copy of 5 us.
TEST(StepProfile, TheMedianStepOfAnExportOfNsightSystems) {
  const std::filesystem::path file = test::database_of(
      read_file(kTraces + "nsys.sql"), std::filesystem::path(testing::TempDir()) / "steps.sqlite");
  const StepProfile profile = read_one(file);
  EXPECT_EQ(profile.steps, 3U);
  EXPECT_NEAR(profile.step_s, 1100e-6, 1e-12);
  EXPECT_NEAR(profile.kinds.at(OperationKind::Gemm).seconds, 420e-6, 1e-12);
  EXPECT_NEAR(profile.kinds.at(OperationKind::AllReduce).seconds, 100e-6, 1e-12);
  EXPECT_NEAR(profile.exposed_s, 80e-6, 1e-12);
  EXPECT_NEAR(profile.idle_s, 595e-6, 1e-12);
}

// Is a kernel at the end of a step cut there, and counted in the step in which it starts?
TEST(StepProfile, KernelsAreCutAtTheStep) {
  const std::vector<KindSpan> kernels{{OperationKind::Gemm, {-1.0, 1.0}},
                                      {OperationKind::AllReduce, {3.0, 6.0}}};
  const StepProfile profile = profile_of(kernels, {0.0, 4.0});
  EXPECT_DOUBLE_EQ(profile.kinds.at(OperationKind::Gemm).seconds, 1.0);
  EXPECT_DOUBLE_EQ(profile.kinds.at(OperationKind::Gemm).kernels, 0.0);
  EXPECT_DOUBLE_EQ(profile.kinds.at(OperationKind::AllReduce).seconds, 1.0);
  EXPECT_DOUBLE_EQ(profile.kinds.at(OperationKind::AllReduce).kernels, 1.0);
  EXPECT_DOUBLE_EQ(profile.exposed_s, 1.0);
  EXPECT_DOUBLE_EQ(profile.idle_s, 2.0);
}

// May step times be a list?
TEST(StepProfile, StepTimesMayBeAList) {
  EXPECT_DOUBLE_EQ(read_one(written("steps.txt", "# s\n1.5\n1.2\n9.0\n")).step_s, 1.5);
  EXPECT_DOUBLE_EQ(read_one(written("steps.json", "[1.0, 2.0]")).step_s, 1.5);
  for (const char* text : {"1.5\nfast\n", "[]", "{\"traceEvents\": []}", "-1\n", ""}) {
    EXPECT_THROW(static_cast<void>(read_one(written("bad.txt", text))), InputError) << text;
  }
}

// Does the profile of a run add up to its step? The step is the sum of computation, communication
// and time without either.
TEST(StepProfile, OfARunAddsUpToItsStep) {
  const Scenario scenario =
      load_scenario(TRAINYARD_SOURCE_DIRECTORY "/scenarios/first/two_gpus.json", {});
  const trainyard::Result run = simulate(scenario, {});
  const StepProfile profile = step_profile(run, 1);
  EXPECT_DOUBLE_EQ(profile.step_s, run.timeline.makespan_s);
  EXPECT_GT(profile.kinds.at(OperationKind::Gemm).seconds, 0.0);
  EXPECT_GT(profile.kinds.at(OperationKind::Attention).seconds, 0.0);
  double computing = 0.0;
  for (const auto& [kind, time] : profile.kinds)
    if (!is_communication(kind)) computing += time.seconds;
  EXPECT_NEAR(computing + profile.exposed_s + profile.idle_s, profile.step_s,
              1e-9 * profile.step_s);
}

// Expects that our own trace reads back: kernels have our names there, and waiting is drawn
// separately.
void expect_trace_reads_back(const std::string& scenario, const std::vector<Override>& overrides) {
  SCOPED_TRACE(scenario);
  const trainyard::Result run =
      simulate(load_scenario(TRAINYARD_SOURCE_DIRECTORY "/scenarios/" + scenario, overrides), {});
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "own.json";
  write_chrome_trace(run.view(), file, {.ranks = {3}});
  const StepProfile read = read_one(file);
  const StepProfile made = step_profile(run, 3);
  EXPECT_NEAR(read.step_s, made.step_s, 1e-8);
  EXPECT_FALSE(made.kinds.empty());
  ASSERT_EQ(read.kinds.size(), made.kinds.size());
  for (const auto& [kind, time] : made.kinds)
    EXPECT_NEAR(read.kinds.at(kind).seconds, time.seconds, 1e-5 * made.step_s) << to_string(kind);
  EXPECT_NEAR(read.exposed_s, made.exposed_s, 1e-5 * made.step_s);
  EXPECT_NEAR(read.idle_s, made.idle_s, 1e-5 * made.step_s);
}

// Is a kernel refused without a time, or with an end before its start?
TEST(StepProfile, RefusesAKernelWithoutATimeOrThatEndsBeforeItBegins) {
  for (const std::string time : {R"("ts": 1.0)", R"("ts": 1.0, "dur": "2")",
                                 R"("ts": null, "dur": 2.0)", R"("ts": 1.0, "dur": -2.0)"}) {
    const std::string trace =
        R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", )" + time + "}]}";
    try {
      static_cast<void>(read_one(written("time.json", trace)));
      ADD_FAILURE() << time << " was read";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("/traceEvents/0/"), std::string::npos)
          << error.what();
    }
  }
}

// Is the profile of a run's trace that of the run?
TEST(StepProfile, OfTheTraceOfARunIsThatOfTheRun) {
  expect_trace_reads_back("megatron/gpt_145p6b_1536xa100.json",
                          {{"training.global_batch_size", "384"}});
  expect_trace_reads_back("moe/qwen3_30b_a3b_16xh100.json", {{"training.global_batch_size", "32"}});
}

// Must a trace hold one rank alone?
TEST(StepProfile, OfOneRankAlone) {
  const trainyard::Result run =
      simulate(load_scenario(TRAINYARD_SOURCE_DIRECTORY "/scenarios/first/two_gpus.json", {}), {});
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "both.json";
  write_chrome_trace(run.view(), file, {.ranks = {0, 1}});
  EXPECT_THROW(static_cast<void>(read_one(file)), InputError);
}

// Does a comparison name the largest differences first, and the change that would close each?
TEST(StepDiff, NamesTheLargestDifferencesAndWhatWouldCloseThem) {
  const StepProfile measured{
      .source = "t.json",
      .step_s = 1.0,
      .kinds = {{OperationKind::Gemm, {0.8, 4}}, {OperationKind::AllGather, {0.1, 1}}},
      .idle_s = 0.2};
  const StepProfile simulated{
      .rank = 3,
      .step_s = 0.8,
      .kinds = {{OperationKind::Gemm, {0.64, 4}}, {OperationKind::Attention, {0.01, 1}}},
      .idle_s = 0.16};
  const StepDiff diff = step_diff(simulated, measured);
  ASSERT_EQ(diff.kinds.size(), 3U);
  EXPECT_EQ(diff.kinds[0].kind, OperationKind::Gemm);
  EXPECT_EQ(diff.kinds[1].kind, OperationKind::AllGather);
  const std::string text = diff_text({diff}, "h100");
  for (const char* part :
       {"Rank 3, t.json: step simulated 800.00 ms, measured 1000.00 ms, -20.0 %",
        "The simulated step is 200.00 ms (20.0 %) shorter than the measured one: gemm -160.00 ms, "
        "idle -40.00\nms, attention +10.00 ms.",
        "kernels/profiles/h100.json#/gemm/sustained_time/value x 1.250",
        "all_gather: nothing of the kind is simulated"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  const nlohmann::ordered_json json = diff_json({diff});
  EXPECT_EQ(json["schema"], "trainyard.step_diff");
  EXPECT_EQ(json["ranks"][0]["rank"], 3);
  EXPECT_EQ(json["ranks"][0]["kinds"][0]["kind"], "gemm");
  EXPECT_EQ(json["ranks"][0]["kinds"][0]["measured_kernels"], 4);
  EXPECT_NEAR(json["ranks"][0]["step"]["difference_s"].get<double>(), -0.2, 1e-12);
}

// Is all_to_all compared as messages where the trace cannot tell them apart?
TEST(StepDiff, AllToAllCountsAsMessagesWhereTheTraceDoesNotTell) {
  StepProfile measured{
      .step_s = 1.0, .kinds = {{OperationKind::SendRecv, {0.3, 2}}}, .tells_all_to_all = false};
  const StepProfile simulated{
      .step_s = 1.0,
      .kinds = {{OperationKind::AllToAll, {0.2, 1}}, {OperationKind::SendRecv, {0.1, 1}}}};
  const StepDiff merged = step_diff(simulated, measured);
  ASSERT_EQ(merged.kinds.size(), 1U);
  EXPECT_NEAR(merged.kinds[0].difference_s(), 0.0, 1e-12);
  measured.tells_all_to_all = true;
  EXPECT_EQ(step_diff(simulated, measured).kinds.size(), 2U);
}

}  // namespace
}  // namespace trainyard
