// Is a measured step comparable with a predicted one, class by class?
#include "tools/studies/validate/step_profile.hpp"

#include <gtest/gtest.h>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/render/traces/chrome_trace.hpp"

namespace trainyard {
namespace {

std::filesystem::path written(const std::string& name, const std::string& text) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / name;
  write_file(file, text);
  return file;
}

// Do kernels have the class of their name?
TEST(StepProfile, KernelsHaveTheClassOfTheirName) {
  const std::map<std::string, std::string> known{
      {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_gather"},
      {"ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)", "all_reduce"},
      {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "reduce_scatter"},
      {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv"},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", "gemm"},
      {"nvjet_tst_192x192_64x4_1x2_h_bz_coopB_TNT", "gemm"},
      {"ampere_fp16_s16816gemm_fp16_128x256_ldg8_f2f_stages_64x3_tn", "gemm"},
      {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", "attention"},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", "attention"},
      {"void cuApplyLayerNorm<float, c10::Half>(...)", "norm"},
      {"void at::native::vectorized_elementwise_kernel<4, ...>", "elementwise"},
      {"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>", "optimizer"}};
  for (const auto& [name, kind] : known) EXPECT_EQ(kernel_class(name), kind) << name;
}

// Do overlapping spans cover their union?
TEST(StepProfile, OverlappingSpansCoverTheirUnion) {
  EXPECT_DOUBLE_EQ(covered({{1.0, 3.0}, {0.0, 2.0}, {5.0, 6.0}, {5.2, 5.4}}), 4.0);
  EXPECT_DOUBLE_EQ(covered({}), 0.0);
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
  const StepProfile profile = read_step_profile(written("two_steps.json.gz", two_steps()));
  EXPECT_EQ(profile.steps, 2U);
  EXPECT_NEAR(profile.step_s, 1e-3, 1e-12);
  EXPECT_NEAR(profile.seconds.at("gemm"), 600e-6, 1e-12);
  EXPECT_NEAR(profile.seconds.at("all_reduce"), 300e-6, 1e-12);
  EXPECT_NEAR(profile.seconds.at("copy"), 50e-6, 1e-12);
  EXPECT_EQ(profile.seconds.size(), 3U);
  EXPECT_NEAR(profile.exposed_s, 100e-6, 1e-12);
  EXPECT_NEAR(profile.idle_s, 250e-6, 1e-12);
}

// May step times be a list?
TEST(StepProfile, StepTimesMayBeAList) {
  EXPECT_DOUBLE_EQ(read_step_profile(written("steps.txt", "# s\n1.5\n1.2\n9.0\n")).step_s, 1.5);
  EXPECT_DOUBLE_EQ(read_step_profile(written("steps.json", "[1.0, 2.0]")).step_s, 1.5);
  for (const char* text : {"1.5\nfast\n", "[]", "{\"traceEvents\": []}", "-1\n", ""}) {
    EXPECT_THROW(static_cast<void>(read_step_profile(written("bad.txt", text))), InputError)
        << text;
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
  EXPECT_GT(profile.seconds.at("gemm"), 0.0);
  EXPECT_GT(profile.seconds.at("attention"), 0.0);
  double computing = 0.0;
  for (const auto& [kind, seconds] : profile.seconds)
    if (!is_communication(kind)) computing += seconds;
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
  const StepProfile read = read_step_profile(file);
  const StepProfile made = step_profile(run, 3);
  EXPECT_NEAR(read.step_s, made.step_s, 1e-8);
  EXPECT_FALSE(made.seconds.empty());
  ASSERT_EQ(read.seconds.size(), made.seconds.size());
  for (const auto& [kind, seconds] : made.seconds)
    EXPECT_NEAR(read.seconds.at(kind), seconds, 1e-5 * made.step_s) << kind;
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
      static_cast<void>(read_step_profile(written("time.json", trace)));
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
  EXPECT_THROW(static_cast<void>(read_step_profile(file)), InputError);
}

// Does a comparison name the change that would close the gap?
TEST(StepProfile, AComparisonNamesWhatWouldCloseTheGap) {
  const StepProfile measured{.step_s = 1.0, .seconds = {{"gemm", 0.8}}, .idle_s = 0.2};
  const StepProfile predicted{.step_s = 0.8, .seconds = {{"gemm", 0.64}}, .idle_s = 0.16};
  const std::string text = comparison_text(predicted, measured, "h100");
  EXPECT_NE(text.find("kernels/profiles/h100.json#/gemm/sustained_time/value x 1.250"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("-20.0 %"), std::string::npos) << text;
}

}  // namespace
}  // namespace trainyard
