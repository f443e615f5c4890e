#include "scenarios/batch/batch.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "kernels/gpu.hpp"
#include "scenarios/batch/flatten.hpp"
#include "scenarios/run/run.hpp"
#include "sim/base/error.hpp"
#include "sim/base/processes.hpp"
#include "sim/engine/simgrid/solver_module.hpp"
#include "sim/report/result_json.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

Json heading(const Variant& variant) {
  Json set = Json::object();
  for (const Override& change : variant.changes) set[change.path] = change.value;
  return {{"key", variant_key(variant)}, {"scenario", variant.file}, {"set", std::move(set)}};
}

Json without_result(const Variant& variant, std::string_view status, const std::string& message) {
  Json row = heading(variant);
  row["status"] = status;
  row["message"] = message;
  row["inputs"] = nullptr;
  row["result"] = nullptr;
  return row;
}

bool fits(const Json& result) {
  for (const Json& stage : result.at("memory"))
    if (stage.contains("fits") && stage["fits"] == false) return false;
  return true;
}

std::string_view status_of(Answer::Kind kind) {
  switch (kind) {
    case Answer::Kind::Fine:
      return "fits";
    case Answer::Kind::InputError:
      return "refused";
    case Answer::Kind::RunError:
      return "deadlock";
    case Answer::Kind::Crash:
      return "crashed";
  }
  return "crashed";
}

// What most variants of a batch share is read before workers are forked, which then have it.
void read_ahead(const Variant& variant) {
  try {
    const Scenario scenario = load_scenario(variant.file, variant.changes);
    (void)load_gpu_sheet(scenario.cluster.node.gpu);
    (void)load_cost_model(scenario.cluster.node.gpu);
  } catch (const InputError&) {  // told of each variant that it concerns
  }
}

}  // namespace

std::string variant_key(const Variant& variant) {
  std::string key = variant.file;
  for (const Override& change : variant.changes)
    key += fmt::format(" {}={}", change.path, change.value);
  return key;
}

Json variant_row(const Variant& variant) {
  try {
    const Scenario scenario = load_scenario(variant.file, variant.changes);
    const Run run = run_scenario(scenario, {});
    Json result = result_json(run.view());
    result.erase("scenario");
    Json row = heading(variant);
    row["status"] = fits(result) ? "fits" : "does_not_fit";
    row["message"] = nullptr;
    row["inputs"] = flattened(resolved(scenario));
    row["result"] = flattened(result);
    return row;
  } catch (const InputError& error) {
    return without_result(variant, "refused", error.what());
  } catch (const RunError& error) {
    return without_result(variant, "deadlock", error.what());
  }
}

void run_batch(const std::vector<Variant>& variants, const BatchOptions& options) {
  std::vector<const Variant*> open;
  std::set<std::string> seen;
  for (const Variant& variant : variants) {
    const std::string key = variant_key(variant);
    if (seen.insert(key).second && !options.journal.has(key)) open.push_back(&variant);
  }
  std::size_t done = seen.size() - open.size();
  const auto keep = [&](std::size_t number, const Answer& answer) {
    options.journal.append(
        answer.kind == Answer::Kind::Fine
            ? Json::parse(answer.text)
            : without_result(*open[number], status_of(answer.kind), answer.text));
    if (options.progress) options.progress(++done, seen.size());
  };
  load_fluid_solver();
  if (open.size() > 1) read_ahead(*open.front());
  run_in_processes(open.size(),
                   {.work = [&](std::size_t i) { return variant_row(*open[i]).dump(); },
                    .done = keep,
                    .processes = options.processes,
                    .stop = options.stop});
}

}  // namespace trainyard
