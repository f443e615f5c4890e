#include "tools/python/studies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "kernels/gpu.hpp"
#include "models/architecture/architecture.hpp"
#include "models/host.hpp"
#include "models/schedules/schedule.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/nearest.hpp"
#include "sim/engine/engine.hpp"
#include "sim/report/path_summary.hpp"
#include "sim/report/result_json.hpp"
#include "sim/report/stage_summary.hpp"
#include "tools/studies/collective/page.hpp"
#include "tools/studies/collective/plot.hpp"
#include "tools/studies/collective/report.hpp"
#include "tools/studies/collective/study.hpp"
#include "tools/studies/compare/comparison.hpp"
#include "tools/studies/explain/sensitivity.hpp"
#include "tools/studies/jobs/report.hpp"
#include "tools/studies/jobs/study.hpp"
#include "tools/studies/memory/memory_report.hpp"
#include "tools/studies/search/report.hpp"
#include "tools/studies/search/search.hpp"
#include "tools/studies/validate/step_diff.hpp"
#include "topologies/topology.hpp"

namespace trainyard::python {

namespace {

using Json = nlohmann::ordered_json;

// For studies that count their work.
auto counted(Call& call) {
  return [&call](std::size_t done, std::size_t all) {
    call.tell(static_cast<double>(done), static_cast<double>(all));
  };
}

auto ended(Call& call) {
  return [&call] { return call.end(); };
}

// Refuses a value that the option of the command with this name does not take.
void check_range(const char* name, double value, double least, double most) {
  if (value >= least && value <= most) return;
  throw InputError(
      Problem{.file = name,
              .pointer = {},
              .problem = fmt::format("{} is not a number from {} to {}", value, least, most),
              .hint = "help() of the function says what it takes"});
}

void check_price(const std::optional<double>& price) {
  if (price) check_range("price_per_gpu_hour", *price, 0.0, 1e12);
}

}  // namespace

Run run(const Scenario& scenario, const SimulateOptions& options, Memo& memo) {
  return {.scenario = scenario, .result = simulate(scenario, options, memo)};
}

Answer explain(const Run& run, std::size_t processes, Call& call) {
  const std::vector<Sensitivity> rows =
      sensitivities(run.scenario, run.result,
                    {.processes = processes, .progress = counted(call), .end = ended(call)});
  const RunView view = run.result.view();
  return {.json = to_line(
              {{"critical_path", path_json(view)}, {"sensitivities", sensitivities_json(rows)}}),
          .text = path_section(view) + "\n" + sensitivities_text(rows)};
}

Answer memory(const Run& run, const Variant& variant, bool search, std::size_t processes,
              Call& call) {
  MemoryReport report{.scenario = run.scenario, .run = run.result, .search = {}};
  if (search && !everything_fits(run.result.view())) {
    report.search = ways_to_fit({.scenario = variant,
                                 .processes = processes,
                                 .progress = [&](double fraction) { call.tell(fraction, 1.0); },
                                 .end = ended(call)},
                                run.scenario, fit_figures(run.scenario, run.result));
  }
  return {.json = to_line(memory_json(report)),
          .text = memory_text(report),
          .html = memory_page(report)};
}

Answer compare(const std::vector<Variant>& variants, std::size_t processes, Call& call) {
  const Comparison comparison = trainyard::compare(
      variants, {.processes = processes, .progress = counted(call), .end = ended(call)});
  return {.json = to_line(comparison_json(comparison)),
          .text = comparison_text(comparison),
          .html = comparison_page(comparison)};
}

Answer goodput(GoodputQuestion question, Call& call) {
  check_range("days", question.days, 0.0, 36'500.0);
  if (question.runs != 0) check_range("runs", static_cast<double>(question.runs), 4.0, 1'000'000.0);
  check_price(question.price_per_gpu_hour);
  question.progress = [&call](double fraction) { call.tell(fraction, 1.0); };
  question.end = ended(call);
  const GoodputStudy study = goodput_study(question);
  const GoodputReport report = study.report();
  return {.json = to_line(goodput_json(report)),
          .text = goodput_text(report),
          .html = goodput_page(report, study.events())};
}

Answer jobs(const Variant& jobs, std::uint32_t shift, double priorities, Call& call) {
  if (shift != 0) check_range("shift", shift, 2.0, 1000.0);
  if (priorities != 0.0) check_range("priorities", priorities, 1.0, 16.0);
  const SimulateOptions options = call.options({});
  const JobsStudy study = jobs_study(
      {.jobs = jobs.document ? read_jobs_document(jobs.file, *jobs.document, jobs.changes)
                             : load_jobs(jobs.file, jobs.changes),
       .shift = shift,
       .priorities = priorities,
       .options = {.progress = options.progress, .stop = options.stop}});
  return {
      .json = to_line(study.json), .text = study.text, .html = jobs_page(study.jobs, study.result)};
}

Answer search(const SearchChoice& choice, Call& call) {
  check_range("top", static_cast<double>(choice.top), 1.0, 1000.0);
  check_range("seconds", choice.seconds, 0.0, 1e6);
  check_range("headroom", choice.headroom, 0.0, 0.9);
  check_price(choice.price_per_gpu_hour);
  SearchSpace space{.scenario = choice.scenario};
  if (choice.price_per_gpu_hour) set_price(*choice.price_per_gpu_hour, space.scenario);
  space.over = axes_of(choice.over, {}, {});
  Journal journal = open_journal(choice.journal);
  const SearchResult result = trainyard::search(
      {.space = std::move(space),
       .journal = journal,
       .top = choice.top,
       .exhaustive = choice.exhaustive,
       .refine = choice.refine,
       .processes = choice.processes,
       .headroom = choice.headroom,
       .seconds = choice.seconds,
       .end = ended(call),
       .progress = [&](const std::string&, double fraction) { call.tell(fraction, 1.0); }});
  const SearchPrice price{.per_gpu_hour = choice.price_per_gpu_hour};
  return {.json = to_line(search_json(result, price)),
          .text = search_text(result, price),
          .html = search_page(result, price, choice.scenario.file)};
}

// The journal may hold rows of other sweeps, and in another order. Each variant gets its own row.
std::vector<std::string> sweep(const std::vector<Variant>& variants, const std::string& file,
                               std::size_t processes, Call& call) {
  Journal journal = open_journal(file);
  run_batch(
      variants,
      {.journal = journal, .processes = processes, .progress = counted(call), .end = ended(call)});
  std::map<std::string, std::string> lines;
  for (const Json& row : journal.rows()) lines[row["key"].get<std::string>()] = to_line(row);
  std::vector<std::string> rows;
  for (const Variant& variant : variants) rows.push_back(lines.at(variant_key(variant)));
  return rows;
}

namespace {

Answer one_group(const StudyOptions& choice, const Cluster& cluster,
                 const CollectiveProfile* profile) {
  const std::optional<MeasuredTimes> log = chosen_measured(choice);
  const MeasuredTimes* const measured = log ? &*log : nullptr;
  const CollectiveStudy study =
      study_collective(cluster, chosen_question(choice, cluster, profile, measured));
  const std::string& place = cluster.facts().name;
  return {.json = to_line(study_json(study, measured)),
          .text = collective_text(study, place, measured),
          .html = collective_page(study, place, measured),
          .svg = svg_plot({.title = fmt::format("{} over {} ranks of {}", to_string(study.op),
                                                study.ranks, place),
                           .series = series_of(study, measured)})};
}

Answer groups_at_once(const StudyOptions& choice, const Cluster& cluster,
                      const CollectiveProfile* profile) {
  InterferenceStudy study;
  for (const InterferenceQuestion& question : chosen_groups(choice, cluster, profile))
    for (GroupRow& row : study_interference(cluster, question).rows)
      study.rows.push_back(std::move(row));
  const std::string& place = cluster.facts().name;
  return {.json = to_line(interference_json(study)),
          .text = interference_text(study, place),
          .html = interference_page(study, place),
          .svg = svg_plot({.title = "Groups at once on " + place, .series = series_of(study)})};
}

// The names of a registry's entries.
std::vector<std::string> entry_names(const auto& registry) {
  std::vector<std::string> names;
  for (const auto& entry : registry) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Schedule* schedule : schedules()) names.emplace_back(schedule->name());
  return names;
}

}  // namespace

Answer collective(const StudyOptions& choice) {
  const std::shared_ptr<const Cluster> cluster = shared_cluster(chosen_cluster(choice));
  const std::unique_ptr<CollectiveProfile> profile = chosen_profile(choice);
  const bool groups = !choice.groups.empty() || !choice.splits.empty();
  return (groups ? groups_at_once : one_group)(choice, *cluster, profile.get());
}

std::vector<std::string> names(const std::string& kind) {
  using Names = std::vector<std::string> (*)();
  const std::map<std::string, Names> kinds = {
      {"models", [] { return architecture_names(); }},
      {"nodes", [] { return node_names(); }},
      {"fabrics", [] { return entry_names(fabrics()); }},
      {"gpus", [] { return gpu_names(); }},
      {"frameworks", [] { return data_names("models/frameworks"); }},
      {"hosts", [] { return host_names(); }},
      {"schedules", [] { return schedule_names(); }},
      {"engines", [] { return entry_names(engines()); }}};
  if (const auto found = kinds.find(kind); found != kinds.end()) return found->second();
  std::vector<std::string> known;
  for (const auto& [name, list] : kinds) known.push_back(name);
  throw InputError(Problem{.file = "names",
                           .pointer = {},
                           .problem = fmt::format("there is no kind \"{}\"", kind),
                           .hint = suggestion(kind, known)});
}

Answer against(const Run& run, const std::vector<std::string>& traces,
               const std::vector<std::uint32_t>& ranks, const std::string& step_range) {
  const std::vector<StepDiff> diffs = step_diffs(
      run.result, measured_steps({.files = traces, .ranks = ranks, .step_range = step_range}));
  return {.json = to_line(diff_json(diffs)),
          .text = diff_text(diffs, run.result.cluster->facts().gpu)};
}

}  // namespace trainyard::python
