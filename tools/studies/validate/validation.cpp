#include "tools/studies/validate/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "kernels/gpu.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/processes.hpp"
#include "sim/engine/simgrid/solver_module.hpp"
#include "sim/report/result_json.hpp"
#include "tools/studies/batch/fingerprint.hpp"
#include "tools/studies/batch/journal.hpp"
#include "tools/studies/validate/row_scenario.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

// A row becomes a scenario, and the scenario a key (tools/studies/batch/fingerprint.hpp). Keys that
// the cache has are not simulated; the others are, each in a child process, since SimGrid has one
// engine per process and a run that crashes must not end the validation. All answers, cached and
// new, are then read from the journal in the order of the rows.

namespace {

// A row with its scenario, or with the reason why there is none.
struct Task {
  Json scenario = nullptr;
  std::string reason = {};
  std::string key = {};  // of its answer in the journal
};

// The text of an error without file and position, which refer to the generated scenario and not to
// the row. Equal problems are told once.
std::string reason_of(const InputError& error) {
  std::string text;
  std::set<std::string> reported;
  for (const Problem& problem : error.problems()) {
    const std::string part = problem.pointer + ' ' + problem.problem;
    if (reported.insert(part).second) text += (text.empty() ? "" : "; ") + part;
  }
  return text;
}

// Rows without a measurement, or without a legal scenario, get a reason instead of a scenario.
std::vector<Task> tasks_of(const std::vector<MeasuredRow>& rows, const std::string& state) {
  const RowTables tables = load_row_tables();
  std::vector<Task> tasks;
  for (const MeasuredRow& row : rows) {
    Task& task = tasks.emplace_back();
    if (!(row.step_time_s > 0.0) && !row.peak_memory_gib) {
      task.reason =
          "no step time was measured (a number above 0 in /measured/iter_time_s, or in "
          "/measured/tokens_per_s_per_gpu)";
      continue;
    }
    try {
      task.scenario = row_scenario(tables, row);
      // Labels do not change the result, so the key does not contain them.
      Json asked = task.scenario;
      for (const char* label : {"description", "source", "published", "assumptions"}) {
        asked.erase(label);
      }
      task.key = document_fingerprint(state, asked, {});
    } catch (const InputError& error) {
      task.reason = reason_of(error);
    }
  }
  return tasks;
}

void write_scenarios(const std::filesystem::path& folder, const std::vector<MeasuredRow>& rows,
                     const std::vector<Task>& tasks) {
  if (folder.empty()) return;
  for (std::size_t index = 0; index < rows.size(); ++index) {
    if (tasks[index].scenario.is_null()) continue;
    write_file(folder / (rows[index].id + ".json"), tasks[index].scenario.dump(2) + "\n");
  }
}

// Simulates the scenario in a child process, so that it may change the environment.
std::string answer_in_child(const Task& task, const std::string& name,
                            const std::filesystem::path& data) {
  if (!data.empty()) {
    const char* const chosen = std::getenv("TRAINYARD_DATA");
    const std::string folders = chosen == nullptr ? "" : fmt::format(":{}", chosen);
    setenv("TRAINYARD_DATA", (data.string() + folders).c_str(), 1);
  }
  try {
    return to_line(Json{{"answer", simulate_document(name, task.scenario)}});
  } catch (const InputError& error) {
    return to_line(Json{{"reason", reason_of(error)}});
  } catch (const RunError& error) {
    return to_line(Json{{"reason", std::string("the run says no: ") + error.what()}});
  }
}

// Simulates the scenarios that the journal does not have, and equal scenarios once. A refused
// scenario is an answer too, and is kept. Failures of the machine (a crash, no memory) are returned
// but not stored in the journal, so the next run tries them again.
std::map<std::string, Json> simulate(const std::vector<MeasuredRow>& rows,
                                     const std::vector<Task>& tasks, const ValidateOptions& options,
                                     Journal& journal) {
  std::map<std::string, Json> failed;
  std::vector<std::size_t> open;
  std::set<std::string> seen;
  for (std::size_t index = 0; index < tasks.size(); ++index) {
    const std::string& key = tasks[index].key;
    if (!key.empty() && !journal.has(key) && seen.insert(key).second) open.push_back(index);
  }
  std::size_t done = 0;
  const auto keep = [&](std::size_t number, const Answer& answer) {
    const std::string& key = tasks[open[number]].key;
    if (answer.kind == Answer::Kind::Fine) {
      Json entry = {{"key", key}};
      entry.update(parse_unchecked_json(answer.text));
      journal.append(entry);
    } else {
      failed[key] = {{"reason", "the simulation failed: " + answer.text}};
    }
    if (options.progress) {
      options.progress(static_cast<double>(++done) / static_cast<double>(open.size()));
    }
  };
  // The child processes inherit everything that is loaded before they are forked. Loading all cost
  // models is worthwhile only for more runs than GPUs; with overlaid data they would be wrong.
  load_fluid_solver();
  if (options.data.empty() && open.size() > gpu_names().size())
    for (const std::string& gpu : gpu_names()) (void)load_cost_model(gpu);
  run_in_processes(open.size(), {.work =
                                     [&](std::size_t number) {
                                       return answer_in_child(tasks[open[number]],
                                                              rows[open[number]].id, options.data);
                                     },
                                 .done = keep,
                                 .processes = options.processes});
  return failed;
}

}  // namespace

std::vector<Outcome> validate(const std::vector<MeasuredRow>& rows,
                              const ValidateOptions& options) {
  std::vector<std::filesystem::path> roots = data_roots();
  if (!options.data.empty()) roots.insert(roots.begin(), options.data);
  // Overlaid data is part of the state, so an answer with other constants has another key.
  const std::string state = state_fingerprint(roots);
  const std::vector<Task> tasks = tasks_of(rows, state);
  write_scenarios(options.scenarios, rows, tasks);
  Journal journal(options.cache);
  const std::map<std::string, Json> failed = simulate(rows, tasks, options, journal);
  // Every key has an answer, from an earlier run, from this one, or as a failure.
  std::map<std::string, const Json*> answers;
  for (const auto& [key, entry] : failed) answers[key] = &entry;
  for (const Json& entry : journal.rows()) answers[entry.at("key").get<std::string>()] = &entry;
  std::vector<Outcome> outcomes;
  for (std::size_t index = 0; index < rows.size(); ++index) {
    const Task& task = tasks[index];
    const Json* entry = task.key.empty() ? nullptr : answers.at(task.key);
    if (entry != nullptr && entry->contains("answer")) {
      outcomes.push_back(outcome_of(rows[index], entry->at("answer")));
    } else {
      const std::string reason =
          entry == nullptr ? task.reason : entry->at("reason").get<std::string>();
      outcomes.push_back({.row = rows[index], .reason = reason});
    }
    outcomes.back().scenario = task.scenario;
  }
  return outcomes;
}

namespace {

constexpr const char* kLeftOutFolder = "tools/studies/validate/data";

bool applies_to(const LeftOut& entry, const MeasuredRow& row, Feature feature) {
  if (feature == Feature::Source)
    return std::ranges::find(entry.sources, row.source) != entry.sources.end();
  return std::ranges::any_of(entry.gpus, [&](const std::string& begin) {
    return feature_of(row, Feature::Gpu).starts_with(begin);
  });
}

// The indices of the entries that apply to a row.
std::vector<std::size_t> entries_of(const std::vector<LeftOut>& all, const MeasuredRow& row,
                                    Feature feature) {
  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < all.size(); ++place)
    if (applies_to(all[place], row, feature)) places.push_back(place);
  return places;
}

// Several entries as one.
LeftOut joined(const std::vector<LeftOut>& all, const std::vector<std::size_t>& places) {
  LeftOut sum;
  for (const std::size_t place : places) {
    const LeftOut& entry = all[place];
    sum.settings.insert(sum.settings.end(), entry.settings.begin(), entry.settings.end());
    sum.priced_as.insert(sum.priced_as.end(), entry.priced_as.begin(), entry.priced_as.end());
    sum.new_framework = sum.new_framework || entry.new_framework;
  }
  return sum;
}

}  // namespace

// Reads the constants as they are without the rows of some sources (data/left_out.json).
std::vector<LeftOut> load_left_out() {
  JsonFile file = JsonFile::read(data_file(kLeftOutFolder, "left_out"));
  JsonObject root = file.root();
  root.ignore("source");
  std::vector<LeftOut> all;
  for (JsonObject& entry : root.objects("left_out")) {
    static_cast<void>(entry.text("source"));
    LeftOut& made =
        all.emplace_back(LeftOut{.sources = entry.texts("sources", std::vector<std::string>{}),
                                 .gpus = entry.texts("gpus", std::vector<std::string>{}),
                                 .settings = {},
                                 .priced_as = {},
                                 .new_framework = entry.boolean("new_framework", false)});
    if (entry.has("constants")) {
      JsonObject constants = entry.object("constants");
      for (const std::string& name : constants.keys())
        made.settings.push_back(
            {.constant = read_constant(name), .value = constants.number(name, {.least = 0.0})});
    }
    if (entry.has("priced_as")) {
      JsonObject gpus = entry.object("priced_as");
      for (const std::string& gpu : gpus.keys())
        made.priced_as.push_back({.gpu = gpu, .other = gpus.text(gpu)});
    }
  }
  file.finish();
  return all;
}

std::vector<Outcome> validate_left_out(const std::vector<MeasuredRow>& rows,
                                       const ValidateOptions& options, Feature feature) {
  const std::vector<LeftOut> all = load_left_out();
  // From sets of entries to rows. Rows with the same set share one overlay and one validation.
  std::map<std::vector<std::size_t>, std::vector<std::size_t>> rows_of;
  for (std::size_t index = 0; index < rows.size(); ++index)
    rows_of[entries_of(all, rows[index], feature)].push_back(index);
  std::vector<Outcome> outcomes(rows.size());
  for (const auto& [entries, members] : rows_of) {
    const LeftOut entry = joined(all, entries);
    std::optional<DataOverlay> data;
    ValidateOptions chosen = options;
    chosen.scenarios.clear();
    if (!entries.empty()) chosen.data = data.emplace(entry.settings, entry.priced_as).folder();
    std::vector<MeasuredRow> own;
    for (const std::size_t index : members) own.push_back(rows[index]);
    const std::vector<Outcome> found = validate(own, chosen);
    for (std::size_t place = 0; place < members.size(); ++place)
      outcomes[members[place]] = found[place];
    if (!entry.new_framework) continue;
    for (const std::size_t index : members)
      outcomes[index].uncertain[static_cast<std::size_t>(Uncertain::NewFramework)] = 1.0;
  }
  return outcomes;
}

}  // namespace trainyard
