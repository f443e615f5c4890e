#include "sim/render/page/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/render/page/blocks.hpp"
#include "sim/render/page/charts.hpp"
#include "sim/render/page/document.hpp"
#include "sim/render/page/elements.hpp"
#include "sim/render/svg.hpp"
#include "sim/report/energy_figures.hpp"
#include "sim/report/figures.hpp"
#include "sim/report/path_summary.hpp"
#include "sim/report/report.hpp"
#include "sim/report/stage_summary.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::json;

// Limits that keep a page at a size that a browser handles.
constexpr std::size_t kMostBlocks = 60'000;
constexpr std::size_t kMostLanes = 16;
constexpr std::size_t kMostPoints = 1'000;
constexpr double kGib = 1073741824.0;

struct Lane {
  std::uint32_t rank_class = 0;
  std::vector<Bar> blocks;
};

// One lane per pipeline stage shown.
std::vector<Lane> lanes_in(const RunView& view, Detail detail) {
  std::vector<Lane> lanes;
  for (const std::uint32_t one : chosen_lanes(view, kMostLanes))
    lanes.push_back({.rank_class = one, .blocks = bars_of(view, one, detail)});
  return lanes;
}

std::size_t count(const std::vector<Lane>& lanes) {
  return std::accumulate(
      lanes.begin(), lanes.end(), std::size_t{0},
      [](std::size_t sum, const Lane& lane) { return sum + lane.blocks.size(); });
}

// Blocks are arrays without keys, with times in nanoseconds, because a page has up to kMostBlocks
// of them.
Json lane_json(const RunView& view, const Lane& lane) {
  const RankClass& ranks = view.partition.ranks[lane.rank_class];
  Json streams = Json::array();
  for (const std::string& name : view.workload.streams) streams.push_back(name);
  Json blocks = Json::array();
  for (const Bar& block : lane.blocks) {
    blocks.push_back({std::llround(block.start_s * 1e9),
                      std::llround((block.end_s - block.start_s) * 1e9),
                      static_cast<int>(block.kind), block.stream, block.microbatch, block.layer,
                      block.name, block.operations});
  }
  return {{"title", fmt::format("stage {} (rank {}, like {} ranks)",
                                view.workload.programs[ranks.program].stage, ranks.representative,
                                ranks.members)},
          {"streams", std::move(streams)},
          {"blocks", std::move(blocks)}};
}

// Divides the curve into parts and keeps the point with most memory of each, so that no peak is
// lost.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& curve) {
  if (curve.size() <= kMostPoints) return curve;
  const auto total = [](const MemoryPoint& point) {
    return std::accumulate(point.by_category.begin(), point.by_category.end(), std::int64_t{0});
  };
  std::vector<MemoryPoint> few;
  for (std::size_t part = 0; part < kMostPoints; ++part) {
    const auto begin =
        curve.begin() + static_cast<std::ptrdiff_t>(part * curve.size() / kMostPoints);
    const auto end =
        curve.begin() + static_cast<std::ptrdiff_t>((part + 1) * curve.size() / kMostPoints);
    few.push_back(*std::max_element(begin, end, [&](const MemoryPoint& a, const MemoryPoint& b) {
      return total(a) < total(b);
    }));
  }
  return few;
}

Json curve_json(const RunView& view, const StageMemory& stage) {
  const std::vector<MemoryPoint> curve = thinned(view.memory_curve_of(stage.rank_class));
  Json times = Json::array();
  std::vector<Json> values(view.workload.categories.size(), Json::array());
  for (const MemoryPoint& point : curve) {
    times.push_back(point.time_s);
    for (std::size_t category = 0; category < values.size(); ++category) {
      const double gib = static_cast<double>(point.by_category[category]) / kGib;
      values[category].push_back(std::round(gib * 1e4) / 1e4);
    }
  }
  return {{"title", fmt::format("stage {}", stage.stage)},
          {"capacity_gib", static_cast<double>(stage.capacity_bytes) / kGib},
          {"time_s", std::move(times)},
          {"gib", values}};
}

std::string gib(std::int64_t bytes) { return to_text(Bytes{static_cast<double>(bytes)}); }

// ---- what was simulated, and the answer in short

std::string setup(const RunView& view) {
  std::vector<PageFact> facts;
  if (view.facts.setup.empty())
    facts.push_back({"GPUs", fmt::format("{}", view.workload.ranks.size())});
  for (const SetupLine& line : heading_lines(view)) facts.push_back({line.name, line.text});
  return html_facts(facts);
}

std::string verdict(const RunView& view) {
  const std::vector<StageMemory> stages = stage_memory(view);
  const StageMemory* worst = worst_stage(stages);
  const std::optional<HostMemory> host = host_memory(view);
  if (worst == nullptr || worst->capacity_bytes == 0)
    return html_verdict("It is not known whether it fits: the GPUs' memory is not given.", true);
  if (!worst->fits)
    return html_verdict(
        fmt::format("It does not fit: stage {} needs more than its GPU has.", worst->stage), false);
  if (host && !host->fits)
    return html_verdict(
        fmt::format("It does not fit: node {} needs more host memory than it has.", host->node),
        false);
  return html_verdict("It fits the memory of its GPUs.", true);
}

PageCard memory_card(const StageMemory& worst) {
  PageCard card{.name = "peak memory", .value = gib(worst.peak.bytes)};
  if (worst.capacity_bytes > 0)
    card.notes.push_back(
        fmt::format("of {} on the fullest stage ({})", gib(worst.capacity_bytes), worst.stage));
  return card;
}

// A figure with the published one, if there is one.
PageCard figure_card(const FigureLine& line, std::string name) {
  PageCard card{.name = std::move(name), .value = line.predicted};
  if (!line.published.empty())
    card.notes.push_back(
        fmt::format("published: {} (predicted {})", line.published, line.difference));
  return card;
}

bool is_in_cards(const FigureLine& line) {
  return line.figure == "step_time_s" || line.figure == "mfu";
}

// Returns the cards that answer first: step time, MFU, memory. The section on speed has the other
// figures.
std::string cards(const RunView& view) {
  std::vector<PageCard> cards;
  for (const FigureLine& line : figure_lines(view)) {
    if (!is_in_cards(line)) continue;
    const bool is_step = line.figure == "step_time_s";
    PageCard card = figure_card(line, is_step ? "step time" : "MFU");
    if (!is_step) card.notes.push_back(line.title);
    if (is_step && view.facts.steps > 1.0)
      card.notes.push_back(fmt::format("the mean of {} steps", view.facts.steps));
    if (is_step && view.facts.interval)
      card.notes.push_back(interval_text(*view.facts.interval) + " in nine of ten runs");
    cards.push_back(std::move(card));
  }
  const std::vector<StageMemory> stages = stage_memory(view);
  if (const StageMemory* worst = worst_stage(stages); worst != nullptr)
    cards.push_back(memory_card(*worst));
  if (const std::optional<TrainingTotal> total = training_total(view)) {
    cards.push_back({"training time",
                     fmt::format("{:.4g} days", total->days),
                     {"for " + short_count(total->tokens) + " tokens",
                      grouped(total->gpu_hours) + " GPU-hours"}});
    if (total->cost) cards.back().notes.push_back("cost " + grouped(*total->cost));
  }
  return html_cards(cards);
}

// ---- does it fit?

std::string stages_memory(const RunView& view) {
  const std::vector<StageMemory> stages = stage_memory(view);
  if (stages.empty()) return "";
  std::string html = memory_parts_chart(view, stages) + html_table(memory_table(view));
  if (const std::optional<HostMemory> host = host_memory(view))
    html += html_paragraph(fmt::format(
        "The host of node {} holds {}{}.", host->node, gib(host->bytes),
        host->capacity_bytes > 0 ? " of its " + gib(host->capacity_bytes) : std::string()));
  return html;
}

// Shows the fullest stage and, on demand, at most kMostCharts others, evenly spaced. The colours
// are those of the chart above.
std::string memory_over_time(const RunView& view) {
  constexpr std::size_t kMostCharts = 8;
  const std::vector<StageMemory> stages = stage_memory(view);
  if (stages.empty()) return "";
  const auto chart = [&](std::size_t i) {
    return fmt::format("<h4>Stage {}</h4>\n", stages[i].stage) + memory_chart(view, stages, i);
  };
  const auto worst = static_cast<std::size_t>(worst_stage(stages) - stages.data());
  const std::size_t step = (stages.size() + kMostCharts - 1) / kMostCharts;
  std::string others;
  for (std::size_t i = 0; i < stages.size(); i += step)
    if (i != worst) others += chart(i);
  return chart(worst) + html_details("Other stages", others);
}

// ---- how fast is it?

std::string speed(const RunView& view) {
  std::vector<FigureLine> lines = figure_lines(view);
  std::erase_if(lines, is_in_cards);
  const RunFacts& facts = view.facts;
  const bool compared =
      std::ranges::any_of(lines, [](const FigureLine& line) { return !line.published.empty(); });
  std::string html = html_table(figures_table(lines, compared));
  if (!facts.published.empty()) {
    if (!facts.published_source.empty())
      html += html_paragraph("Published: " + facts.published_source);
    if (!facts.published_note.empty()) html += html_paragraph("Note: " + facts.published_note);
  }
  return html;
}

// ---- what limits it?

std::string critical_path_part(const RunView& view) {
  const PathSummary path = path_summary(view);
  if (path.causes.empty()) return "";
  return html_paragraph(path_stages_sentence(path)) + html_table(causes_table(path)) +
         html_details("How much later could operations end?", html_table(slack_table(path)));
}

// ---- what would help?

// Returns a table of what each what-if would save, with bars.
std::string gain_bars(std::span<const PageGain> rows) {
  constexpr double kLeast = 5e-4;  // would read as 0.0 %
  double most = 1e-12;
  for (const PageGain& row : rows) most = std::max(most, row.saving);
  TextTable table({"if", "step", "saves", ""});
  std::string useless;
  for (const PageGain& row : rows) {
    if (std::abs(row.saving) < kLeast)
      useless += (useless.empty() ? "" : ", ") + row.name;
    else
      table.row({row.name, to_text(Seconds{row.step_time_s}),
                 fmt::format("{:.1f} %", 100.0 * row.saving), bar(row.saving / most)});
  }
  return html_table(table) +
         html_paragraph(useless.empty() ? useless : "No effect: " + useless + ".");
}

std::string energy(const RunView& view) {
  if (!has_energy(view)) return "";
  const EnergyFigures figures = energy_figures(view);
  return html_table(energy_table(figures)) + html_list(energy_lines(view, figures));
}

// ---- show me

std::string timeline() {
  return "<p id=\"timeline-note\">A script draws the timeline; without one the pipeline above is "
         "its still form.</p>\n"
         "<div class=\"tools\" hidden><button data-zoom=\"in\">Zoom in</button> <button "
         "data-zoom=\"out\">Zoom out</button> <button data-zoom=\"left\" aria-label=\"Move "
         "left\">&larr;</button> <button data-zoom=\"right\" aria-label=\"Move "
         "right\">&rarr;</button> <button data-zoom=\"all\">Whole step</button></div>\n"
         "<p id=\"timeline-keys\" class=\"keys\"></p>\n"
         "<canvas id=\"timeline-canvas\" role=\"img\" aria-label=\"Timeline of one rank of each "
         "stage; the tables of this page have its figures\" tabindex=\"0\"></canvas>\n";
}

PagePart show_me(const RunView& view) {
  return {.id = "show",
          .title = "Show me",
          .parts = {{"pipeline", "Pipeline", pipeline_chart(view)},
                    {"timeline", "Timeline", timeline()},
                    {"links", "Links", link_heat_map(view) + html_table(links_table(view))},
                    {"communication", "Calls of collectives", html_table(collectives_table(view))},
                    {"placement", "Placement of groups", html_table(placement_table(view))},
                    {"topology", "Cluster", topology_chart(view.cluster)}}};
}

// ---- how sure is it?

std::string costs(const RunView& view) {
  const CostSummary summary = cost_summary(view);
  if (summary.busy_s <= 0.0) return "";
  // From the best source to the least.
  constexpr std::array<std::string_view, provenances> kColours{"#009E73", "#56B4E9", "#E69F00",
                                                               "#D55E00"};
  BarRow row{.label = "kernel time"};
  for (std::size_t i = 0; i < provenances; ++i) {
    if (summary.share[i] <= 0.0) continue;
    row.parts.push_back({.name = std::string(to_string(static_cast<Provenance>(i))),
                         .colour = std::string(kColours[i]),
                         .value = summary.share[i],
                         .text = percent(summary.share[i])});
  }
  TextTable table({"kernel that is worth measuring", "share", "known from"});
  for (const KernelUse& use : summary.worth_measuring)
    table.row({to_text(view.workload.kernels.at(use.kernel)), percent(use.share),
               std::string(to_string(use.provenance))});
  return bar_chart("Where the durations of kernels come from", {row}, 1.0) + html_table(table);
}

std::string approximations(const RunView& view) {
  std::vector<std::string> lines;
  for (const Approximation& one : view.facts.approximations)
    lines.push_back(fmt::format("{} x {}: {}", one.count, one.name, one.sentence));
  return html_list(lines);
}

std::string own_files(const RunView& view) {
  std::vector<std::string> lines;
  for (const OwnDataFile& own : view.facts.own_files)
    lines.push_back(fmt::format("{} {}: {}{}", own.kind, own.name, own.file,
                                own.replaces ? " (replaces the shipped one)" : ""));
  return html_list(lines);
}

PagePart how_sure(const RunView& view) {
  const RunFacts& facts = view.facts;
  const std::string scenario =
      facts.scenario.is_null()
          ? ""
          : html_details("The scenario, with every default",
                         "<pre>" + html_escaped(facts.scenario.dump(2)) + "</pre>\n");
  return {.id = "notes",
          .title = "What does it rest on?",
          .parts = {{"costs", "Durations of kernels", costs(view)},
                    {"files", "Data files that were not shipped", own_files(view)},
                    {"assumptions", "Assumptions of the scenario", html_list(facts.assumptions)},
                    {"defaults", "Defaults of the framework", html_list(facts.defaults)},
                    {"approximations", "Approximations", approximations(view)},
                    {"scenario", "Scenario", scenario}}};
}

std::vector<PagePart> parts(const PageRequest& request) {
  const RunView& view = request.view;
  return {{"sensitivities", "What would make it shorter?", gain_bars(request.gains)},
          memory_part(view),
          {"figures", "How fast is it?", speed(view)},
          {"energy", "What energy does it take?", energy(view)},
          {"limits",
           "What limits it?",
           "",
           {{"breakdown", "Where the time goes",
             breakdown_chart(view) + html_details("The same in figures, % of the step",
                                                  html_table(breakdown_table(view)))},
            {"path", "Critical path", critical_path_part(view)}}},
          show_me(view),
          how_sure(view)};
}

}  // namespace

std::string run_lead(const RunView& view) { return setup(view) + verdict(view) + cards(view); }

PagePart memory_part(const RunView& view) {
  return {"fits",
          "Does it fit?",
          stages_memory(view),
          {{"memory", "Memory over time", memory_over_time(view)}}};
}

Json memory_data(const RunView& view) {
  Json data{{"step_s", view.timeline.makespan_s},
            {"memory", Json::array()},
            {"categories", Json::array()}};
  for (std::size_t category = 0; category < view.workload.categories.size(); ++category) {
    data["categories"].push_back(
        {{"name", view.workload.categories[category]}, {"colour", memory_colour(category)}});
  }
  for (const StageMemory& stage : stage_memory(view))
    data["memory"].push_back(curve_json(view, stage));
  return data;
}

Json page_data(const RunView& view) {
  // Bars of single operations are the first choice, then bars per microbatch. If these are too many
  // as well, lanes in the middle are dropped, so that the first and the last stage remain.
  std::vector<Lane> lanes = lanes_in(view, Detail::Operation);
  const bool joined = count(lanes) > kMostBlocks;
  if (joined) lanes = lanes_in(view, Detail::Microbatch);
  while (lanes.size() > 2 && count(lanes) > kMostBlocks)
    lanes.erase(lanes.begin() + static_cast<std::ptrdiff_t>(lanes.size() / 2));
  Json data = memory_data(view);
  data["joined"] = joined;
  data["names"] = view.workload.names;
  data["kinds"] = Json::array();
  data["lanes"] = Json::array();
  for (const BlockStyle& style : block_styles())
    data["kinds"].push_back(
        {{"name", style.name}, {"colour", style.colour}, {"text", text_colour_on(style.colour)}});
  for (const Lane& lane : lanes) data["lanes"].push_back(lane_json(view, lane));
  return data;
}

std::string report_page(const PageRequest& request) {
  const RunView& view = request.view;
  return page_document({.title = view.facts.title.empty() ? "One training step" : view.facts.title,
                        .lead = run_lead(view),
                        .parts = parts(request),
                        .data = page_data(view)});
}

}  // namespace trainyard
