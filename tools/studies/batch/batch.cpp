#include "tools/studies/batch/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "kernels/gpu.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/processes.hpp"
#include "sim/engine/simgrid/solver_module.hpp"
#include "sim/report/result_json.hpp"
#include "sim/report/stage_summary.hpp"
#include "tools/studies/batch/fingerprint.hpp"
#include "tools/studies/batch/row.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

Json heading(const Variant& variant, const std::string& fingerprint) {
  Json set = Json::object();
  for (const Override& change : variant.changes) set[change.path] = change.value;
  Json row = {{"key", variant_key(variant)}, {"scenario", variant.file}, {"set", std::move(set)}};
  if (!fingerprint.empty()) row["fingerprint"] = fingerprint;
  return row;
}

Json without_result(const Variant& variant, const std::string& fingerprint, RunStatus status,
                    const std::string& message) {
  Json row = heading(variant, fingerprint);
  row["status"] = word_for(kRunStatus, status);
  row["message"] = message;
  row["inputs"] = nullptr;
  row["result"] = nullptr;
  return row;
}

RunStatus status_of(Answer::Kind kind) {
  switch (kind) {
    case Answer::Kind::Fine:
      return RunStatus::Fits;
    case Answer::Kind::InputError:
      return RunStatus::Refused;
    case Answer::Kind::RunError:
      return RunStatus::Deadlock;
    case Answer::Kind::Crash:
      return RunStatus::Crashed;
  }
  return RunStatus::Crashed;
}

std::string loaded_fingerprint(const std::string& state, const Scenario& scenario) {
  return document_fingerprint(state, resolved(scenario),
                              std::filesystem::path(scenario.file).parent_path());
}

// The keys of rows without a fingerprint. Earlier versions wrote rows without one, and a worker
// that crashes leaves a row without one.
std::set<std::string> bare_keys(const Journal& journal) {
  std::set<std::string> keys;
  for (const Json& row : journal.rows())
    if (!row.contains("fingerprint")) keys.insert(row.at("key").get<std::string>());
  return keys;
}

// Loads the data that most variants of a batch share before the workers are forked, so that each
// worker inherits it through copy-on-write memory.
void read_ahead(const Variant& variant) {
  try {
    const Scenario scenario = load_variant(variant);
    (void)load_gpu_sheet(scenario.cluster.node.gpu);
    (void)load_cost_model(scenario.cluster.node.gpu);
  } catch (const std::exception&) {  // the row of each variant that it concerns reports it
  }
}

// The fingerprint of all inputs of a variant's row: the resolved scenario, the files that it names,
// and the state of program and data. A refused variant has the fingerprint of its error message.
std::string variant_fingerprint(const std::string& state, const Variant& variant) {
  try {
    return loaded_fingerprint(state, load_variant(variant));
  } catch (const std::exception& error) {  // also an internal error: the worker reports it
    return text_fingerprint(state + error.what());
  }
}

}  // namespace

std::string variant_key(const Variant& variant) {
  std::string key = variant.file;
  for (const Override& change : variant.changes)
    key += fmt::format(" {}={}", change.path, change.value);
  return key;
}

Scenario load_variant(const Variant& variant, const std::vector<Override>& more) {
  std::vector<Override> changes = variant.changes;
  changes.insert(changes.end(), more.begin(), more.end());
  return variant.document ? read_scenario_document(variant.file, *variant.document, changes)
                          : load_scenario(variant.file, changes);
}

Json variant_row(const Variant& variant, const std::string& state) {
  std::string fingerprint;
  try {
    const Scenario scenario = load_variant(variant);
    if (!state.empty()) fingerprint = loaded_fingerprint(state, scenario);
    const Result run = simulate(scenario, {});
    Json result = result_json(run.view());
    result.erase("scenario");
    Json row = heading(variant, fingerprint);
    row["status"] =
        word_for(kRunStatus, everything_fits(run.view()) ? RunStatus::Fits : RunStatus::DoesNotFit);
    row["message"] = nullptr;
    row["inputs"] = flattened(resolved(scenario));
    row["result"] = flattened(result);
    return row;
  } catch (const InputError& error) {
    if (!state.empty() && fingerprint.empty()) fingerprint = text_fingerprint(state + error.what());
    return without_result(variant, fingerprint, RunStatus::Refused, error.what());
  } catch (const RunError& error) {
    return without_result(variant, fingerprint, RunStatus::Deadlock, error.what());
  }
}

Json crashed_row(const Variant& variant, const std::string& message) {
  return without_result(variant, "", RunStatus::Crashed, message);
}

Journal open_journal(const std::filesystem::path& file) {
  return Journal(file, file.empty() ? "" : state_fingerprint(data_roots()));
}

std::size_t drop_outdated(Journal& journal, const std::vector<Variant>& variants) {
  if (journal.state().empty()) return 0;
  const std::set<std::string> bare = bare_keys(journal);
  std::map<std::string, std::string> fingerprints;
  for (const Variant& variant : variants) {
    const std::string key = variant_key(variant);
    if (!journal.is_unchecked(key) || fingerprints.contains(key)) continue;
    // A row without a fingerprint is computed once more in any case. Its scenario is not loaded
    // here: if it made a worker crash, loading it could end this process, too.
    fingerprints[key] =
        bare.contains(key) ? journal.state() : variant_fingerprint(journal.state(), variant);
  }
  return journal.drop_outdated_rows(fingerprints);
}

void run_batch(const std::vector<Variant>& variants, const BatchOptions& options) {
  const std::set<std::string> bare = bare_keys(options.journal);
  const std::size_t outdated = drop_outdated(options.journal, variants);
  if (outdated > 0 && options.redone) options.redone(outdated);
  const std::string& state = options.journal.state();
  std::vector<const Variant*> open;
  std::set<std::string> seen;
  for (const Variant& variant : variants) {
    const std::string key = variant_key(variant);
    if (seen.insert(key).second && !options.journal.has(key)) open.push_back(&variant);
  }
  std::size_t done = seen.size() - open.size();
  const auto keep = [&](std::size_t number, const Answer& answer) {
    const Variant& variant = *open[number];
    // A scenario that made a worker crash is not loaded here. Its row has no fingerprint, so the
    // next batch computes it once more.
    const bool loads = !state.empty() && answer.kind != Answer::Kind::Crash;
    options.journal.append(answer.kind == Answer::Kind::Fine
                               ? parse_unchecked_json(answer.text)
                               : without_result(variant,
                                                loads ? variant_fingerprint(state, variant) : "",
                                                status_of(answer.kind), answer.text));
    if (options.progress) options.progress(++done, seen.size());
  };
  load_fluid_solver();
  // The worker processes share data that this process has loaded before the fork. The variant that
  // is loaded here must not be one that crashed before.
  const auto sound = std::ranges::find_if(
      open, [&](const Variant* variant) { return !bare.contains(variant_key(*variant)); });
  if (open.size() > 1 && sound != open.end()) read_ahead(**sound);
  run_in_processes(open.size(),
                   {.work = [&](std::size_t i) { return to_line(variant_row(*open[i], state)); },
                    .done = keep,
                    .processes = options.processes,
                    .stop = options.stop,
                    .end = options.end});
}

}  // namespace trainyard
