#include "tools/studies/explain/sensitivity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/processes.hpp"
#include "sim/engine/simgrid/solver_module.hpp"
#include "sim/render/text_table.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// The kinds of groups that communicate in the run.
std::vector<GroupKind> kinds_of(const Result& run) {
  std::set<GroupKind> kinds;
  for (std::size_t group = 0; group < run.partition->groups.size(); ++group) {
    const auto& calls = run.partition->phases[group];
    const bool calls_any =
        std::any_of(calls.begin(), calls.end(), [](const auto& phases) { return !phases.empty(); });
    if (calls_any)
      kinds.insert(run.workload->groups[run.partition->groups[group].representative].kind);
  }
  return {kinds.begin(), kinds.end()};
}

template <class KernelKind>
bool has_kernel(const Result& run) {
  return std::any_of(run.workload->kernels.begin(), run.workload->kernels.end(),
                     [](const Kernel& k) { return std::holds_alternative<KernelKind>(k); });
}

double simulated(const Scenario& scenario, const Sensitivity& row, Memo& memo) {
  Scenario changed = scenario;
  if (row.without_faults) changed.cluster.faults.clear();
  if (row.balance) changed.plan.documents.balance = *row.balance;
  return simulate(changed, {.figures = false, .what_if = row.what_if}, memo).view().step_s();
}

}  // namespace

std::vector<Sensitivity> what_ifs(const Scenario& scenario, const Result& run) {
  std::vector<Sensitivity> rows;
  const auto add = [&](std::string name, WhatIf what_if) {
    rows.push_back({.name = std::move(name), .what_if = std::move(what_if)});
  };
  if (has_kernel<Gemm>(run) || has_kernel<GroupedGemm>(run))
    add("GEMMs twice as fast", {.gemm = 0.5});
  if (has_kernel<Attention>(run)) add("attention kernels twice as fast", {.attention = 0.5});
  if (has_kernel<MemoryBound>(run))
    add("memory-bound kernels twice as fast (HBM)", {.memory_bound = 0.5});
  const Documents& documents = scenario.plan.documents;
  if (documents.drawn() && documents.balance == DocumentBalance::None) {
    rows.push_back({.name = "packed sequences balanced over replicas and microbatches",
                    .balance = DocumentBalance::Sequences});
    rows.push_back({.name = "documents balanced over replicas and microbatches",
                    .balance = DocumentBalance::Documents});
  }
  const std::vector<GroupKind> kinds = kinds_of(run);
  if (kinds.empty()) return rows;
  if (run.cluster->facts().nodes > 1) add("network twice as fast (NICs, fabric)", {.network = 2.0});
  add("NVLink twice as fast", {.nvlink = 2.0});
  add("no latency of communication", {.latency = 0.0});
  if (run.facts.engine != "ideal")
    add("no transfer waits for links others use", {.contention = false});
  if (scenario.interference)
    add("communication takes no SMs from computation", {.interference = false});
  // The what-ifs above change one resource. The ones below remove the communication of one kind of
  // group, or of all groups: the most that perfect overlap can gain.
  for (const GroupKind kind : kinds)
    add(fmt::format("{} communication free (perfect overlap)", to_string(kind)), {.free = {kind}});
  if (kinds.size() > 1) add("all communication free (perfect overlap)", {.free = kinds});
  if (!scenario.cluster.faults.empty())
    rows.push_back({.name = "no faults in the cluster", .without_faults = true});
  return rows;
}

std::vector<Sensitivity> sensitivities(const Scenario& scenario, const Result& run,
                                       const SensitivityOptions& options) {
  std::vector<Sensitivity> rows = what_ifs(scenario, run);
  std::size_t done = 0;
  Memo memo;
  load_fluid_solver();
  run_in_processes(
      rows.size(),
      // Workers are forked and answer in text. {} prints a double so that it reads back unchanged.
      {.work = [&](std::size_t i) { return fmt::format("{}", simulated(scenario, rows[i], memo)); },
       .done =
           [&](std::size_t i, const Answer& answer) {
             if (answer.kind != Answer::Kind::Fine)
               throw RunError(fmt::format("supposing \"{}\": {}", rows[i].name, answer.text));
             rows[i].step_time_s = std::stod(answer.text);
             rows[i].base_s = run.view().step_s();
             if (options.progress) options.progress(++done, rows.size());
           },
       .processes = options.processes,
       .end = options.end});
  // Times that are equal to a nanosecond keep their order: later digits depend on SimGrid's clock,
  // which goes on from run to run of a process.
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::llround(a.step_time_s * 1e9) < std::llround(b.step_time_s * 1e9);
  });
  return rows;
}

std::string sensitivities_text(const std::vector<Sensitivity>& rows) {
  if (rows.empty()) return "";
  TextTable table({"what if (simulated)", "step time", "saves", ""});
  for (const Sensitivity& row : rows) {
    table.row({row.name, to_text(Seconds{row.step_time_s}), percent(row.saving()),
               fmt::format("{:<50}", bar(row.saving()))});
  }
  return table.text();
}

Json sensitivities_json(const std::vector<Sensitivity>& rows) {
  Json json = Json::array();
  for (const Sensitivity& row : rows)
    json.push_back(
        {{"what", row.name}, {"step_time_s", row.step_time_s}, {"saving", row.saving()}});
  return json;
}

}  // namespace trainyard
