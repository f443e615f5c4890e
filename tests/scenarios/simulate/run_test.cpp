// Runs of a scenario: the same result folded or unfolded, stepwise or fluid, through a workload
// file, and repeated.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runs.hpp"
#include "scenarios/simulate/interference.hpp"
#include "scenarios/simulate/workload_files.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/workload/workload_json.hpp"

namespace trainyard {
namespace {

const std::string kTwoGpus =
    std::string(TRAINYARD_SOURCE_DIRECTORY) + "/scenarios/first/two_gpus.json";

// One run for each part of the lowering: tensor groups, messages, rings of stages, replicas.
const std::vector<SmallShape> kShapes = {
    {.data = 8, .zero_stage = 1},
    {.tensor = 8, .sequence_parallel = true},
    {.tensor = 2, .pipeline = 2, .data = 2},
    {.tensor = 2, .sequence_parallel = true, .pipeline = 4, .data = 2, .zero_stage = 1},
    {.pipeline = 4, .interleave = 2, .data = 4, .tied = true},
    {.tensor = 4,
     .sequence_parallel = true,
     .pipeline = 2,
     .interleave = 2,
     .data = 4,
     .zero_stage = 1,
     .tied = true},
    {.tensor = 2, .sequence_parallel = true, .data = 2, .context = 4, .chunked = true},
    {.pipeline = 2, .data = 1, .zero_stage = 1, .context = 8, .exchange = "all_gather"},
    {.data = 2, .context = 8, .exchange = "a2a+p2p", .traders = 4}};

// Are the runs of small scenarios sound?
TEST(Run, SmallScenariosAreSound) {
  for (const SmallShape& shape : kShapes) expect_sound(simulate(small_scenario(shape), {}));
}

// Are the memory peaks of a run those of its timeline, including the resident memory and the
// software?
TEST(Run, KeepsTheMemoryPeaksOfItsClasses) {
  for (const SmallShape& shape : kShapes) {
    const ScenarioRun run = simulate(small_scenario(shape), {});
    ASSERT_EQ(run.memory_peaks.size(), run.partition->ranks.size());
    for (std::size_t index = 0; index < run.memory_peaks.size(); ++index) {
      MemoryPeak fresh = memory_peak(*run.workload, *run.partition, run.timeline, index);
      const auto& held = run.software_memory.at(run.partition->ranks[index].program);
      for (std::size_t category = 0; category < held.size(); ++category) {
        fresh.by_category[category] += held[category];
        fresh.bytes += held[category];
      }
      EXPECT_EQ(run.memory_peaks[index].bytes, fresh.bytes);
      EXPECT_EQ(run.memory_peaks[index].at_s, fresh.at_s);
      EXPECT_EQ(run.memory_peaks[index].operation, fresh.operation);
      EXPECT_EQ(run.memory_peaks[index].by_category, fresh.by_category);
      EXPECT_GT(fresh.by_category.at(static_cast<std::size_t>(Category::Communication)), 0);
    }
  }
}

// Do narrow GEMMs have their own peak? An H100's data sheet states 989.4 TFLOP/s in bf16 and twice
// that in fp8, a GB200's 4 times in fp4.
TEST(Run, NarrowProductsHaveAPeakOfTheirOwn) {
  struct Case {
    const char* node;
    const char* recipe;
    std::string precision;
    double ratio;
  };
  for (const Case& one :
       {Case{"dgx_h100", "fp8", "fp8", 2.0}, Case{"dgx_h100", "standard", "", 0.0},
        Case{"gb200_nvl72", "nvfp4", "fp4", 4.0}}) {
    auto document = small_document({.data = 4});
    document["cluster"] = {
        {"node", one.node}, {"nodes", 1}, {"fabric", {{"kind", "single_switch"}}}};
    document["parallelism"]["data"] = one.precision == "fp4" ? 72 : 8;
    document["training"]["global_batch_size"] = 72;
    document["training"]["recipe"] = one.recipe;
    const std::vector<PeakRate> peaks = simulate(load(document), {}).facts.peaks;
    ASSERT_EQ(peaks.size(), one.precision.empty() ? 1U : 2U);
    EXPECT_EQ(peaks[0].precision, "bf16");
    if (one.precision.empty()) continue;
    EXPECT_EQ(peaks[1].precision, one.precision);
    EXPECT_NEAR(peaks[1].rate / peaks[0].rate, one.ratio, 0.01);
  }
}

// Does a document as long as the sequence change no FLOPs? MTP layers, the projection before them
// and their passes through the head count with and without it.
TEST(Run, ADocumentAsLongAsTheSequenceChangesNoFlops) {
  auto document = small_document({.data = 8});
  document["training"]["mtp_layers"] = 2;
  for (const char* recompute : {"none", "selective", "full"}) {
    document["training"]["recompute"] = recompute;
    document.erase("documents");
    const RunFacts without = simulate(load(document), {}).facts;
    document["documents"] = {{"kind", "list"}, {"lengths", {512}}};
    const RunFacts packed = simulate(load(document), {}).facts;
    EXPECT_DOUBLE_EQ(packed.model_flops.value(), without.model_flops.value());
    EXPECT_DOUBLE_EQ(packed.hardware_flops.value(), without.hardware_flops.value()) << recompute;
  }
}

// Are the breakdowns of a run those of its timeline? They are computed concurrently with the memory
// peaks.
TEST(Run, KeepsTheSharesOfTimeOfItsClasses) {
  for (const SmallShape& shape : kShapes) {
    const ScenarioRun run = simulate(small_scenario(shape), {});
    ASSERT_EQ(run.breakdowns.size(), run.partition->ranks.size());
    for (std::size_t index = 0; index < run.breakdowns.size(); ++index) {
      EXPECT_EQ(run.breakdowns[index].seconds,
                breakdown(*run.workload, *run.partition, run.timeline, index).seconds);
      EXPECT_EQ(run.view().breakdown_of(index).seconds, run.breakdowns[index].seconds);
    }
    EXPECT_TRUE(simulate(small_scenario(shape), {.figures = false}).breakdowns.empty());
  }
}

// Do folded and unfolded runs agree in every span?
TEST(Run, FoldedEqualsUnfoldedInEverySpan) {
  for (const SmallShape& shape : kShapes) {
    const Scenario scenario = small_scenario(shape);
    const ScenarioRun folded = simulate(scenario, {});
    const ScenarioRun unfolded =
        simulate(scenario, {.fold = false, .timing = false, .progress = {}});
    EXPECT_LT(folded.partition->ranks.size(), unfolded.partition->ranks.size());
    ASSERT_EQ(unfolded.partition->ranks.size(), folded.workload->ranks.size());
    std::size_t differing = 0;
    for (RankId rank = 0; rank < folded.workload->ranks.size(); ++rank) {
      const OpTimes& a = folded.timeline.classes[folded.partition->class_of_rank[rank]];
      const OpTimes& b = unfolded.timeline.classes[unfolded.partition->class_of_rank[rank]];
      ASSERT_EQ(a.start_s.size(), b.start_s.size());
      for (std::size_t op = 0; op < a.start_s.size(); ++op) {
        if (!agree(a.start_s[op], b.start_s[op]) || !agree(a.end_s[op], b.end_s[op])) ++differing;
      }
    }
    EXPECT_EQ(differing, 0U);
    EXPECT_TRUE(agree(folded.timeline.makespan_s, unfolded.timeline.makespan_s));
  }
}

// Do the stepwise and the fluid model agree on two GPUs? Rings of two use a separate link, so
// single steps take the time of the fluid model.
TEST(Run, StepwiseEqualsFluidOnTwoGpus) {
  const ScenarioRun fluid = simulate(load_scenario(kTwoGpus, {}), {});
  const ScenarioRun stepwise =
      simulate(load_scenario(kTwoGpus, {{.path = "collective_model", .value = "stepwise"}}), {});
  expect_sound(fluid);
  EXPECT_GT(stepwise.workload->programs.front().operations.size(),
            fluid.workload->programs.front().operations.size());
  EXPECT_NEAR(stepwise.timeline.makespan_s, fluid.timeline.makespan_s,
              kAgreement * fluid.timeline.makespan_s);
}

// Does a workload file follow the scenario's collective_model? Its run is that of the scenario.
TEST(Run, AWorkloadFileFollowsTheCollectiveModel) {
  const Scenario fluid = load_scenario(kTwoGpus, {});
  const TemporaryFolder folder;
  const std::string file =
      folder.write("step.json", to_json(scenario_workload(fluid, build_cluster(fluid.cluster))));
  const Scenario stepwise =
      load_scenario(kTwoGpus, {{.path = "collective_model", .value = "stepwise"}});
  const WorkloadRun question = read_workload_question(file, stepwise);
  const ScenarioRun direct = simulate(stepwise, {});
  EXPECT_EQ(question.workload.programs.front().operations.size(),
            direct.workload->programs.front().operations.size());
  EXPECT_TRUE(agree(simulate(question, {}).timeline.makespan_s, direct.timeline.makespan_s));
}

// A workload of an all_reduce of 40 MiB on two GPUs, with these categories.
ScenarioRun with_categories(const std::vector<std::string>& categories) {
  nlohmann::ordered_json document = parse_unchecked_json(R"({
    "streams": ["compute", "network"], "slots": ["data"],
    "programs": [{"name": "replica", "stage": 0, "operations": [
      {"kind": "collective", "name": "reduce", "stream": "network", "slot": "data",
       "call": {"op": "all_reduce", "bytes": "40 MiB", "algorithm": "ring"}}]}],
    "groups": [{"kind": "data", "members": [0, 1]}],
    "ranks": [{"program": 0, "gpu": 0, "label": "dp0", "slots": {"data": 0}},
              {"program": 0, "gpu": 1, "label": "dp1", "slots": {"data": 0}}]})");
  if (!categories.empty()) {
    document["memory_categories"] = categories;
    document["programs"][0]["operations"][0]["memory"] = {
        {{"category", categories.front()}, {"bytes", "40 MiB"}, {"when", "start"}}};
  }
  const Scenario scenario = load_scenario(kTwoGpus, {});
  return simulate(WorkloadRun{.title = "own categories",
                              .workload = parse_workload("own", document.dump()),
                              .cluster = scenario.cluster,
                              .software = scenario});
}

// Does the memory of the software have categories of its own in a workload that names others, or
// none? Two channels to two peers hold 9.2 MiB each; a twentieth of 40 MiB is never used.
TEST(Run, MemoryOfTheSoftwareHasItsCategoriesInAnyWorkload) {
  using Names = std::vector<std::string>;
  for (const Names& given :
       {Names{}, Names{"gradients"}, Names{"a", "b", "c", "d", "e", "f", "g", "h", "i"},
        Names{"fragmentation", "communication"}}) {
    const ScenarioRun run = with_categories(given);
    const Names& names = run.workload->categories;
    const auto held = [&](const char* name) {
      const auto place = std::ranges::find(names, name) - names.begin();
      return run.memory_peaks.front().by_category.at(static_cast<std::size_t>(place));
    };
    const std::int64_t own = given.empty() ? 0 : 40 << 20;
    const bool is_own = !given.empty() && given.front() == "fragmentation";
    EXPECT_NEAR(static_cast<double>(held("communication")), 36.8 * (1 << 20), 4.0);
    EXPECT_EQ(held("fragmentation"), own / 20 + (is_own ? own : 0));
    EXPECT_EQ(names.size(), is_own ? 2U : given.size() + 2U);
    EXPECT_EQ(run.memory_peaks.front().bytes, own + own / 20 + held("communication"));
  }
}

// Does a workload file give the same timeline to the bit?
TEST(Run, AWorkloadFileGivesTheSameTimelineToTheBit) {
  for (const SmallShape& shape : kShapes) {
    nlohmann::ordered_json document = small_document(shape);
    document["defaults"] = "ideal";  // a workload contains nothing about its software
    const Scenario scenario = load(document);
    const std::string text = to_json(scenario_workload(scenario, build_cluster(scenario.cluster)));
    EXPECT_EQ(to_json(parse_workload("again", text)), text);
    const std::string direct = in_a_child([&] { return bits(simulate(scenario, {}).timeline); });
    const std::string again = in_a_child([&] {
      WorkloadRun question;
      question.workload = parse_workload("again", text);
      question.cluster = scenario.cluster;
      return bits(simulate(std::move(question), {}).timeline);
    });
    EXPECT_GT(direct.size(), 1000U);
    EXPECT_TRUE(direct == again) << direct.substr(0, 40) << again.substr(0, 40);
  }
}

// Is a run deterministic?
TEST(Run, IsDeterministic) {
  std::vector<Scenario> scenarios = {load_scenario(kTwoGpus, {})};
  for (const SmallShape& shape : kShapes) scenarios.push_back(small_scenario(shape));
  for (const Scenario& scenario : scenarios) {
    const auto text = [&] { return to_text(result_json(simulate(scenario, {}).view())); };
    const std::string once = in_a_child(text);
    EXPECT_GT(once.size(), 1000U);
    EXPECT_EQ(once, in_a_child(text));
  }
}

// Is the ideal engine a lower bound? Without contention the solver has nothing to do; contention
// only adds time. (If messages slow kernels down, a late message may spare the kernels of the
// critical path.)
TEST(Run, TheIdealEngineIsALowerBound) {
  for (const SmallShape& shape : kShapes) {
    auto document = small_document(shape);
    document["interference"] = false;
    const double simgrid = simulate(load(document), {}).timeline.makespan_s;
    document["engine"] = "ideal";
    const double ideal = simulate(load(document), {}).timeline.makespan_s;
    EXPECT_LE(ideal, simgrid * (1.0 + kAgreement));
    EXPECT_GT(ideal, 0.5 * simgrid);
  }
}

double step_time(nlohmann::ordered_json document, const std::string& key, bool value) {
  document["parallelism"][key] = value;
  const ScenarioRun run = simulate(load(document), {});
  expect_sound(run);
  return run.timeline.makespan_s;
}

// Does overlap reduce the step? Hidden communication costs nothing, and exposed communication is
// added.
TEST(Run, OverlapIsWorthItsName) {
  const auto replicas = small_document({.data = 8, .zero_stage = 1});
  EXPECT_LT(step_time(replicas, "overlap_grad_reduce", true),
            step_time(replicas, "overlap_grad_reduce", false));
  EXPECT_LE(step_time(replicas, "overlap_param_gather", true),
            step_time(replicas, "overlap_param_gather", false) * (1.0 + kAgreement));
  const auto tensor = small_document({.tensor = 8, .sequence_parallel = true});
  EXPECT_LT(step_time(tensor, "overlap_tensor", true), step_time(tensor, "overlap_tensor", false));
  for (const int interleave : {1, 2}) {
    const auto stages =
        small_document({.pipeline = 4, .interleave = interleave, .data = 2, .microbatches = 8});
    EXPECT_LT(step_time(stages, "overlap_p2p", true), step_time(stages, "overlap_p2p", false));
  }
}

// An A100's profile in which computation loses `compute_loss` for each share of the SMs held, and
// communication `slowed` of its rate while computation runs.
std::string profile_with(double compute_loss, double slowed) {
  auto profile = parse_unchecked_json(read_file(data_file("kernels/profiles", "a100_80gb")));
  profile["communication_sms"]["compute_loss"] = compute_loss;
  profile["communication_sms"]["slowed"] = slowed;
  const std::string file =
      fmt::format("{}trainyard_losses_{}_{}.json", testing::TempDir(), compute_loss, slowed);
  write_file(file, profile.dump(1));
  return file;
}

// Does the step pay the interference of the profile, in both engines? Nothing of it remains if the
// scenario switches interference off.
TEST(Run, TheProfileSaysWhatInterferenceCosts) {
  for (const char* engine : {"ideal", "simgrid"}) {
    auto document = small_document({.data = 8, .zero_stage = 1});
    document["engine"] = engine;
    const auto step = [&](double compute_loss, double slowed) {
      Scenario scenario = load(document);
      scenario.cluster.node.gpu = profile_with(compute_loss, slowed);
      const ScenarioRun run = simulate(scenario, {});
      expect_sound(run);
      return run.timeline.makespan_s;
    };
    const double free = step(0.0, 0.0);
    const double held = step(1.0, 0.0);
    EXPECT_LT(free, held) << engine;
    EXPECT_LT(held, step(3.0, 0.0)) << engine;
    EXPECT_LT(free, step(0.0, 0.5)) << engine;
    document["interference"] = false;
    EXPECT_NEAR(step(3.0, 0.5), free, kAgreement * free) << engine;
  }
}

// Do losses grow with the factor of the profile? The loss of each call is the factor times the
// share of the SMs that it holds.
TEST(Run, LossesGrowWithTheProfilesFactor) {
  const ScenarioRun run = simulate(small_scenario({.data = 8, .zero_stage = 1}), {});
  GpuSheet sheet = load_gpu_sheet("a100_80gb");
  const auto plain =
      compute_losses(*run.cluster, *run.workload, *run.partition, *run.selected_algorithms, sheet);
  sheet.communication_sms.compute_loss = 0.25;
  const auto quarter =
      compute_losses(*run.cluster, *run.workload, *run.partition, *run.selected_algorithms, sheet);
  double most = 0.0;
  for (std::size_t group = 0; group < plain.size(); ++group)
    for (std::size_t call = 0; call < plain[group].size(); ++call) {
      EXPECT_NEAR(quarter[group][call], 0.25 * plain[group][call], 1e-15);
      most = std::max(most, plain[group][call]);
    }
  EXPECT_GT(most, 0.0);
  EXPECT_TRUE(communication_losses(*run.partition, sheet).empty());
  sheet.communication_sms.slowed = 0.3;
  EXPECT_FALSE(communication_losses(*run.partition, sheet).empty());
  for (const double loss : communication_losses(*run.partition, sheet)) EXPECT_EQ(loss, 0.3);
}

}  // namespace
}  // namespace trainyard
