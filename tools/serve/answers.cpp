#include "tools/serve/answers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "scenarios/import/hf_config.hpp"
#include "scenarios/jobs/simulate_jobs.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/render/page/blocks.hpp"
#include "sim/render/page/charts.hpp"
#include "sim/render/page/page.hpp"
#include "sim/render/traces/chrome_trace.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"
#include "sim/report/stage_summary.hpp"
#include "tools/serve/neighbours.hpp"
#include "tools/studies/jobs/report.hpp"
#include "tools/studies/search/search.hpp"
#include "tools/studies/start/catalogue.hpp"
#include "tools/studies/start/first_scenario.hpp"

namespace trainyard::serve {

namespace {

using Json = nlohmann::ordered_json;

// The name of the page's scenario in messages.
constexpr const char* kName = "scenario.json";

[[noreturn]] void refuse(std::string pointer, std::string problem, std::string hint) {
  throw InputError(Problem{.file = "request",
                           .pointer = std::move(pointer),
                           .problem = std::move(problem),
                           .hint = std::move(hint)});
}

// What a member of this type must be. Any JSON is a value of the type Json.
template <class Value>
constexpr const char* kWanted = "a value";
template <>
constexpr const char* kWanted<std::string> = "a text";
template <>
constexpr const char* kWanted<double> = "a number";
template <>
constexpr const char* kWanted<std::int64_t> = "a whole number";

// A member of the request. Throws InputError if it is missing or of another type. JSON's reader
// would cut a fraction off where a whole number is wanted.
template <class Value>
Value member(const Json& request, const std::string& key) {
  const auto found = request.find(key);
  const std::string wanted = fmt::format("send {}", kWanted<Value>);
  if (found == request.end()) refuse("/" + key, "is missing", wanted);
  try {
    if (!std::is_same_v<Value, std::int64_t> || found->is_number_integer())
      return found->get<Value>();
  } catch (const nlohmann::json::exception&) {
    // Refused below.
  }
  refuse("/" + key, fmt::format("{} is not {}", found->dump(), kWanted<Value>), wanted);
}

// The same for a member that may be missing.
template <class Value>
Value member_or(const Json& request, const std::string& key, Value otherwise) {
  return request.contains(key) ? member<Value>(request, key) : otherwise;
}

const Json& document_of(const Json& request) {
  const auto found = request.find("scenario");
  if (found == request.end() || !found->is_object())
    refuse("/scenario", "is no object", "send the scenario as JSON");
  return *found;
}

// A page that asks for a million GPUs by a slip must not hold the server.
void refuse_large(std::uint64_t gpus, const Hooks& hooks) {
  if (gpus <= hooks.most_gpus) return;
  throw InputError(
      Problem{.file = kName,
              .pointer = "/cluster/nodes",
              .problem = fmt::format("{} GPUs are more than the {} that this page simulates", gpus,
                                     hooks.most_gpus),
              .hint = "start `trainyard serve` with a larger --most-gpus, or use `trainyard run`"});
}

// The GPUs of a number of nodes, before anything else is read: the reader builds the cluster. What
// is no number of nodes is left to the reader.
std::uint64_t gpus_of(const Json& document) {
  const Json cluster = document.value("cluster", Json::object());
  if (!cluster.is_object() || !cluster.contains("nodes") || !cluster["nodes"].is_number_unsigned())
    return 0;
  const auto nodes = cluster["nodes"].get<std::uint64_t>();
  const bool named = cluster.contains("node") && cluster["node"].is_string();
  const std::vector<std::string> names = node_names();
  if (!named || std::ranges::find(names, cluster["node"].get<std::string>()) == names.end())
    return nodes;  // of one GPU at least
  // So that the product does not overflow for nodes of up to 1024 GPUs.
  constexpr std::uint64_t kMost = UINT64_MAX / 1024;
  return std::min(nodes, kMost) * load_node(cluster["node"].get<std::string>()).gpus;
}

Scenario scenario_of(const Json& request, const Hooks& hooks) {
  const Json& document = document_of(request);
  refuse_large(gpus_of(document), hooks);
  Scenario scenario = read_scenario_document(kName, document);
  refuse_large(gpu_count(scenario.cluster), hooks);
  return scenario;
}

Result simulated(const Scenario& scenario, Memo& memo, const Hooks& hooks) {
  return simulate(scenario, {.progress = hooks.progress, .stop = hooks.stop}, memo);
}

// ---- one run

Json setup_json(const RunView& view) {
  Json lines = Json::array();
  for (const SetupLine& line : setup_and_faults(view))
    lines.push_back({{"name", line.name}, {"text", line.text}});
  return lines;
}

// The shares of the step of each stage, mean over its ranks, in seconds.
Json stages_json(const RunView& view) {
  Json rows = Json::array();
  for (const StageBreakdown& stage : stage_breakdown(view)) {
    Json shares = Json::object();
    for (std::size_t share = 0; share < kTimeShares; ++share) {
      if (stage.mean.seconds[share] > 0.0)
        shares[std::string(to_string(static_cast<TimeShare>(share)))] = stage.mean.seconds[share];
    }
    rows.push_back({{"stage", stage.stage}, {"ranks", stage.ranks}, {"shares", std::move(shares)}});
  }
  return rows;
}

// Drops bars that are too short to be seen where there are more than `most`. The bars of a stream
// do not overlap, so at most that many are left.
std::vector<Bar> visible(std::vector<Bar> bars, double step_s, std::size_t most) {
  if (bars.size() <= most) return bars;
  const double shortest_s = step_s / static_cast<double>(most);
  std::erase_if(bars, [&](const Bar& bar) { return bar.end_s - bar.start_s < shortest_s; });
  return bars;
}

// Bars without keys, with times in nanoseconds, since there are thousands of them.
Json bars_json(const std::vector<Bar>& bars) {
  Json rows = Json::array();
  for (const Bar& bar : bars) {
    rows.push_back({std::llround(bar.start_s * 1e9), std::llround((bar.end_s - bar.start_s) * 1e9),
                    static_cast<int>(bar.kind), bar.microbatch, bar.layer, bar.operations});
  }
  return rows;
}

// The compute stream of one rank of each stage. A page that draws more bars answers late.
Json pipeline_json(const RunView& view) {
  // The first lane is sent in any case, and the others as long as all bars together are few enough.
  constexpr std::size_t kMostLanes = 16;
  constexpr std::size_t kMostBars = 12'000;
  Json lanes = Json::array();
  std::size_t bars = 0;
  for (const std::uint32_t rank_class : chosen_lanes(view, kMostLanes)) {
    const RankClass& ranks = view.partition.ranks[rank_class];
    Json row = bars_json(visible(bars_of(view, rank_class, Detail::Microbatch, std::uint8_t{0}),
                                 view.timeline.makespan_s, kMostBars));
    bars += row.size();
    if (bars > kMostBars && !lanes.empty()) break;
    lanes.push_back({{"stage", view.workload.programs[ranks.program].stage},
                     {"rank", ranks.representative},
                     {"ranks", ranks.members},
                     {"bars", std::move(row)}});
  }
  return {{"step_s", view.timeline.makespan_s}, {"lanes", std::move(lanes)}};
}

Json run_json(const Json& request, Memo& memo, const Hooks& hooks) {
  const Scenario scenario = scenario_of(request, hooks);
  const Result run = simulated(scenario, memo, hooks);
  const RunView view = run.view();
  return {{"title", view.facts.title},
          {"setup", setup_json(view)},
          {"limit", limit_sentence(view)},
          {"verdict", verdict_line(view)},
          {"fits", everything_fits(view)},
          {"gpus", view.workload.ranks.size()},
          {"tokens_per_step", view.facts.tokens_per_step},
          {"stages", stages_json(view)},
          {"pipeline", pipeline_json(view)},
          {"result", result_json(view)}};
}

// ---- neighbours

Json brief_json(const Result& run) {
  const RunView view = run.view();
  const std::vector<StageMemory> stages = stage_memory(view);
  const StageMemory* const worst = worst_stage(stages);
  return {{"step_time_s", view.step_s()},
          {"fits", everything_fits(view)},
          {"peak_bytes", worst == nullptr ? Json() : Json(worst->peak.bytes)}};
}

// Simulates the neighbours in their order until the time is over, and hands each row on as soon as
// it is known. A neighbour that the reader or the run refuses has no row.
Json neighbours_json(const Json& request, Memo& memo, const Hooks& hooks) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = std::clamp(member_or(request, "seconds", 2.0), 0.0, 60.0);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  const auto document = std::make_shared<const Json>(document_of(request));
  const Scenario scenario = scenario_of(request, hooks);
  const std::vector<Neighbour> all = neighbours(scenario, document, hooks.stop);
  std::size_t tried = 0;
  for (const Neighbour& one : all) {
    if (Clock::now() > end) break;
    if (hooks.stop.stop_requested()) throw Cancelled("cancelled");
    ++tried;
    try {
      const Scenario changed = read_scenario_document(kName, *document, one.changes);
      Json row = {{"name", one.name}, {"scenario", with_changes(*document, one.changes)}};
      row.update(brief_json(simulate(changed, {.stop = hooks.stop}, memo)));
      hooks.row(std::move(row));
    } catch (const Cancelled&) {
      throw;
    } catch (const InputError&) {
      continue;  // the rules of the search are weaker than those of the reader
    } catch (const RunError&) {
      continue;
    }
  }
  return {{"neighbours", all.size()}, {"tried", tried}};
}

// ---- search

Json search_answer(const Json& request, const Hooks& hooks) {
  const Scenario scenario = scenario_of(request, hooks);
  const auto document = std::make_shared<const Json>(document_of(request));
  Journal journal = open_journal("");
  const SearchResult found =
      search({.space = {.scenario = {.file = kName, .document = document}},
              .journal = journal,
              .top = 10,
              .front = false,
              // The workers themselves are the parallel processes of the server.
              .processes = 1,
              .end = [&] { return hooks.stop.stop_requested(); },
              .progress = [&](const std::string&, double fraction) { hooks.progress(fraction); }});
  Json rows = Json::array();
  for (const FoundLayout& one : found.best)
    rows.push_back({{"name", layout_name(one.layout)},
                    {"scenario", with_changes(*document, one.layout.variant.changes)},
                    {"step_time_s", one.figures.step_time_s},
                    {"fits", true},
                    {"peak_bytes", one.figures.peak_bytes}});
  return {{"best", std::move(rows)},
          {"checked", found.counts.checked_layouts},
          {"legal", found.counts.legal},
          {"simulated", found.counts.simulated}};
}

// ---- the others

Json layout_json(const Json& request, const Hooks& hooks) {
  refuse_large(gpus_of({{"cluster", request}}), hooks);
  FirstQuestion question{.name = kName,
                         .model = known_model(member<std::string>(request, "model")),
                         .node = member<Json>(request, "node"),
                         .nodes = member<std::int64_t>(request, "nodes")};
  question.sequence = member_or(request, "sequence", std::int64_t{0});
  question.batch = member_or(request, "batch", std::int64_t{0});
  return {{"scenario", first_scenario(std::move(question)).document}};
}

Json model_json(const Json& request) {
  const auto text = member<std::string>(request, "text");
  const HfShape made = shape_of_hf_config(parse_json("config.json", text), "config.json");
  return {{"model", made.shape}, {"notes", made.notes}};
}

Json write_page(const Json& request, Memo& memo, const Hooks& hooks) {
  const Result run = simulated(scenario_of(request, hooks), memo, hooks);
  write_file(member<std::string>(request, "file"), report_page({.view = run.view()}));
  return Json::object();
}

Json write_trace(const Json& request, Memo& memo, const Hooks& hooks) {
  const Result run = simulated(scenario_of(request, hooks), memo, hooks);
  write_chrome_trace(run.view(), member<std::string>(request, "file"), {});
  return Json::object();
}

// Several jobs on one cluster: the report as JSON, and as a page in the file. A job's own cluster
// says how many GPUs it needs, and is read as well.
Json write_jobs(const Json& request, Memo& memo, const Hooks& hooks) {
  const Json document = member<Json>(request, "jobs");
  if (!document.is_object()) refuse("/jobs", "is no object", "send a file of `trainyard jobs`");
  refuse_large(gpus_of(document), hooks);
  const Json jobs_of_file = document.value("jobs", Json());
  if (jobs_of_file.is_array())
    for (const Json& job : jobs_of_file)
      if (job.is_object() && job.value("scenario", Json()).is_object())
        refuse_large(gpus_of(job["scenario"]), hooks);
  const Jobs jobs = read_jobs_document("jobs.json", document);
  refuse_large(gpu_count(jobs.cluster), hooks);
  const JobsOptions options{.progress = hooks.progress, .stop = hooks.stop};
  const JobsResult result = simulate_jobs(jobs, options, memo);
  write_file(member<std::string>(request, "file"), jobs_page(jobs, result));
  Json answer = jobs_json(jobs, result);
  answer["sentence"] = steps_sentence(result);
  return answer;
}

struct Kind {
  std::string_view name;
  Json (*answer)(const Json&, Memo&, const Hooks&);
};
constexpr std::array<Kind, 8> kKinds{{
    {"run", run_json},
    {"neighbours", neighbours_json},
    {"layout",
     [](const Json& request, Memo&, const Hooks& hooks) { return layout_json(request, hooks); }},
    {"search",
     [](const Json& request, Memo&, const Hooks& hooks) { return search_answer(request, hooks); }},
    {"model", [](const Json& request, Memo&, const Hooks&) { return model_json(request); }},
    {"jobs", write_jobs},
    {"page", write_page},
    {"trace", write_trace},
}};

// ---- what the page shows before the first run

Json catalogue_json() {
  Json lists = Json::object();
  for (const CatalogueKind& kind : catalogue()) {
    Json rows = Json::array();
    for (const CatalogueRow& row : kind.rows())
      rows.push_back({{"name", row.name}, {"summary", row.summary}});
    lists[std::string(kind.name)] = std::move(rows);
  }
  return lists;
}

Json nodes_json() {
  Json nodes = Json::object();
  for (const std::string& name : node_names()) {
    const NodeSpec node = load_node(name);
    nodes[name] = {{"gpu", node.gpu},
                   {"gpus", node.gpus},
                   {"nics", node.nics},
                   {"nic_bytes_per_s", node.nic.value()},
                   {"nic_nominal_bytes_per_s", node.nic_nominal.value()}};
  }
  return nodes;
}

Json models_json() {
  Json models = Json::object();
  for (const std::string& name : architecture_names()) {
    const Architecture model = load_architecture(name);
    models[name] = {{"layers", model.layers},
                    {"experts", model.experts},
                    {"max_positions", model.max_positions}};
  }
  return models;
}

Json colours_json() {
  Json shares = Json::object();
  for (std::size_t share = 0; share < kTimeShares; ++share) {
    const std::string_view name = to_string(static_cast<TimeShare>(share));
    const BarPart part = share_part(name, 0.0, 0.0);
    shares[std::string(name)] = {{"title", part.name}, {"colour", part.colour}};
  }
  Json kinds = Json::array();
  for (const BlockStyle& style : block_styles())
    kinds.push_back({{"name", style.name}, {"colour", style.colour}});
  Json categories = Json::array();
  for (std::size_t number = 0; number < 10; ++number) categories.push_back(memory_colour(number));
  return {
      {"shares", std::move(shares)}, {"bars", std::move(kinds)}, {"memory", std::move(categories)}};
}

}  // namespace

Json answer_to(const Json& request, Memo& memo, const Hooks& hooks) {
  if (!request.is_object()) refuse("", "is no object", "send an object of JSON");
  const auto wanted = member<std::string>(request, "kind");
  for (const Kind& kind : kKinds)
    if (kind.name == wanted) return kind.answer(request, memo, hooks);
  refuse("/kind", fmt::format("\"{}\" is no kind of request", wanted), "send for example \"run\"");
}

Json start_lists() {
  return {{"version", TRAINYARD_VERSION}, {"lists", catalogue_json()},
          {"nodes", nodes_json()},        {"models", models_json()},
          {"colours", colours_json()},    {"schema", scenario_schema()}};
}

}  // namespace trainyard::serve
