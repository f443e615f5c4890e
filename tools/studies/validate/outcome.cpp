#include "tools/studies/validate/outcome.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/lower/step_shape.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/memory_overheads.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/report/stage_summary.hpp"
#include "sim/timeline/breakdown.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

std::string kernel_kind(const Kernel& kernel) {
  if (const auto* bound = std::get_if<MemoryBound>(&kernel))
    return std::string(to_string(bound->kind));
  if (std::holds_alternative<Gemm>(kernel)) return "gemm";
  if (std::holds_alternative<GroupedGemm>(kernel)) return "grouped gemm";
  if (std::holds_alternative<Attention>(kernel)) return "attention";
  return "copy";
}

// The seconds of each kind of kernel on one rank of the class.
std::map<std::string, double> kernel_seconds(const Result& run, std::size_t rank_class) {
  std::map<std::string, double> seconds;
  const RankClass& ranks = run.partition->ranks[rank_class];
  const Program& program = run.workload->programs[ranks.program];
  const OpTimes& times = run.timeline.classes[rank_class];
  for (OpIndex op = 0; op < program.operations.size(); ++op) {
    const Operation& operation = program.operations[op];
    if (operation.kind != OpKind::Compute) continue;
    seconds[kernel_kind(run.workload->kernels[program.kernel_of(operation)])] +=
        times.end_s[op] - times.start_s[op];
  }
  return seconds;
}

// Adds the step of one class to the parts: the shares of its breakdown, times its members. Kernels
// on several streams may overlap, so their own times can add up to more than the computation of the
// breakdown. Computation (including the optimizer's) is therefore divided in proportion to the time
// of its kernels.
void add_parts(const Result& run, std::size_t rank_class, std::map<std::string, double>& parts) {
  const double members = run.partition->ranks[rank_class].members;
  const Breakdown times = breakdown(*run.workload, *run.partition, run.timeline, rank_class);
  double computing = 0.0;
  for (std::size_t share = 0; share < kTimeShares; ++share) {
    const auto kind = static_cast<TimeShare>(share);
    if (kind == TimeShare::Compute || kind == TimeShare::Optimizer) {
      computing += times.seconds[share];
    } else {
      parts[std::string(to_string(kind))] += members * times.seconds[share];
    }
  }
  const std::map<std::string, double> kernels = kernel_seconds(run, rank_class);
  double busy = 0.0;
  for (const auto& [kind, seconds] : kernels) busy += seconds;
  for (const auto& [kind, seconds] : kernels) {
    if (busy > 0.0) parts["compute: " + kind] += members * computing * seconds / busy;
  }
}

// The parts of the step of the mean rank, in seconds.
Json parts_json(const Result& run) {
  std::map<std::string, double> parts;
  double ranks = 0.0;
  for (std::size_t index = 0; index < run.partition->ranks.size(); ++index) {
    add_parts(run, index, parts);
    ranks += run.partition->ranks[index].members;
  }
  Json json = Json::object();
  for (const auto& [name, seconds] : parts) {
    if (seconds > 0.0) json[name] = seconds / ranks;
  }
  return json;
}

Json interval_ends(const std::optional<StepInterval>& interval) {
  return interval ? Json{interval->low_s(), interval->high_s()} : Json(nullptr);
}

double category_bytes(const StageMemory& stage, Category category) {
  return static_cast<double>(stage.peak.by_category[static_cast<std::size_t>(category)]);
}

}  // namespace

std::optional<double> Outcome::memory_error() const {
  if (!predicted() || !row.peak_memory_gib || peak_memory_gib <= 0.0) return std::nullopt;
  return peak_memory_gib / *row.peak_memory_gib - 1.0;
}

std::optional<bool> Outcome::inside() const {
  if (!interval || !(row.step_time_s > 0.0)) return std::nullopt;
  return interval->low <= row.step_time_s && row.step_time_s <= interval->high;
}

Json simulate_document(const std::string& name, const Json& document) {
  const Scenario scenario = read_scenario_document(name, document);
  const Result run = simulate(scenario, {.timing = true, .progress = {}});
  const FrameworkMemory& framework = scenario.plan.framework;
  // memory that the allocator gave out, without the CUDA context and NCCL's buffers
  double peak = 0.0;
  double reserved = 0.0;  // the same plus fragmentation
  bool fits = true;
  const std::vector<StageMemory> stages = stage_memory(run.view());
  for (const StageMemory& stage : stages) {
    const auto all =
        static_cast<double>(stage.peak.bytes - framework.context_bytes -
                            communicator_bytes(run.view(), stage.rank_class, framework));
    reserved = std::max(reserved, all);
    peak = std::max(peak, all - category_bytes(stage, Category::Fragmentation));
    fits = fits && stage.fits;
  }
  const StageMemory& first = stages.front();
  const double state = category_bytes(first, Category::Weights) +
                       category_bytes(first, Category::Gradients) +
                       category_bytes(first, Category::OptimizerState);
  return {{"step_time_s", run.view().step_s()},
          {"interval_s", interval_ends(run.facts.interval)},
          {"parts", parts_json(run)},
          {"uncertain", uncertain_shares(scenario, run.view())},
          {"peak_memory_gib", peak / kGib},
          // outcome_of() reads these by position.
          {"memory_gib",
           {reserved / kGib, state / kGib, category_bytes(first, Category::Activations) / kGib}},
          {"fits", fits},
          {"wall_s", run.facts.wall_s.value_or(0.0)}};
}

Outcome outcome_of(const MeasuredRow& row, const Json& answer) {
  Outcome outcome{.row = row};
  outcome.predicted_s = answer.at("step_time_s").get<double>();
  outcome.peak_memory_gib = answer.at("peak_memory_gib").get<double>();
  const Json& memory = answer.at("memory_gib");
  outcome.memory = {.reserved = memory.at(0).get<double>(),
                    .first_state = memory.at(1).get<double>(),
                    .first_activations = memory.at(2).get<double>()};
  if (const Json& ends = answer.at("interval_s"); !ends.is_null())
    outcome.interval =
        PredictedInterval{.low = ends.at(0).get<double>(), .high = ends.at(1).get<double>()};
  outcome.uncertain = answer.at("uncertain").get<UncertainShares>();
  outcome.fits = answer.at("fits").get<bool>();
  outcome.wall_s = answer.at("wall_s").get<double>();
  for (const auto& [name, seconds] : answer.at("parts").items()) {
    outcome.parts.push_back({.name = name, .seconds = seconds.get<double>()});
  }
  std::stable_sort(outcome.parts.begin(), outcome.parts.end(),
                   [](const TimePart& a, const TimePart& b) { return a.seconds > b.seconds; });
  return outcome;
}

std::string parts_text(const Outcome& outcome, std::size_t most) {
  std::string text;
  for (std::size_t index = 0; index < std::min(most, outcome.parts.size()); ++index) {
    const TimePart& part = outcome.parts[index];
    text += fmt::format("{}{} {:.0f} %", index == 0 ? "" : ", ", part.name,
                        100.0 * part.seconds / outcome.predicted_s);
  }
  return text;
}

}  // namespace trainyard
