#include "sim/render/page/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/render/page/blocks.hpp"
#include "sim/render/page/charts.hpp"
#include "sim/render/svg.hpp"
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

std::string section(std::string_view id, std::string_view title, const std::string& body) {
  if (body.empty()) return "";
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, svg_escaped(title),
                     body);
}

std::string text_block(const std::string& text) {
  return text.empty() ? "" : "<pre>" + html_escaped(text) + "</pre>\n";
}

// Returns a picture with its figures as text below, for readers who need exact values or cannot see
// the picture.
std::string with_figures(const std::string& picture, const std::string& text) {
  if (text.empty()) return picture;
  return picture + "<details><summary>The same in figures</summary>\n" + text_block(text) +
         "</details>\n";
}

std::string verdict(const RunView& view) {
  const std::vector<StageMemory> stages = stage_memory(view);
  const StageMemory* worst = worst_stage(stages);
  const bool fits = worst == nullptr || worst->fits;
  return fmt::format("<p class=\"verdict {}\">{}</p>\n", fits ? "fits" : "fails",
                     svg_escaped(verdict_line(view)));
}

std::string card(std::string_view name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", svg_escaped(name), svg_escaped(value));
}

// Returns the key figures as large cards. A bare workload has fewer of them.
std::string cards(const RunView& view) {
  const Figures key = figures(view);
  std::string html =
      "<dl class=\"cards\">\n" + card("step time", to_text(Seconds{key.step_time_s}));
  for (const Utilisation& row : key.utilisation) {
    if (row.attention != view.facts.flops_convention) continue;
    const bool alone = view.facts.peaks.size() == 1;
    html += card(alone ? "MFU" : fmt::format("MFU ({} peak)", row.peak.precision),
                 fmt::format("{:.1f} %", 100.0 * row.mfu));
  }
  if (key.model_tflops_per_gpu)
    html += card("TFLOP/s per GPU", fmt::format("{:.1f}", *key.model_tflops_per_gpu));
  if (key.tokens_per_s_per_gpu)
    html += card("tokens/s per GPU", fmt::format("{:.4g}", *key.tokens_per_s_per_gpu));
  const std::vector<StageMemory> stages = stage_memory(view);
  if (const StageMemory* worst = worst_stage(stages); worst != nullptr)
    html += card("peak memory", to_text(Bytes{static_cast<double>(worst->peak.bytes)}));
  html += card("GPUs", fmt::format("{}", view.workload.ranks.size()));
  return html + "</dl>\n";
}

// Shows at most kMostCharts stages, evenly spaced.
std::string memory(const RunView& view) {
  constexpr std::size_t kMostCharts = 8;
  const std::vector<StageMemory> stages = stage_memory(view);
  if (stages.empty()) return "";
  std::string html = memory_legend(view.workload.categories);
  html += "<div id=\"memory-live\" hidden></div>\n<div id=\"memory-still\">\n";
  const std::size_t step = (stages.size() + kMostCharts - 1) / kMostCharts;
  for (std::size_t i = 0; i < stages.size(); i += step) {
    html += fmt::format("<h3>Stage {}: {} at {}</h3>\n", stages[i].stage,
                        to_text(Bytes{static_cast<double>(stages[i].peak.bytes)}),
                        to_text(Seconds{stages[i].peak.at_s}));
    html += memory_chart(view, stages[i], memory_scale(stages));
  }
  return with_figures(html + "</div>\n", memory_section(view));
}

std::string timeline() {
  return "<p id=\"timeline-note\">The timeline needs a script to be drawn; the pipeline above is "
         "its still form.</p>\n"
         "<div class=\"tools\" hidden><button data-zoom=\"in\">zoom in</button> <button "
         "data-zoom=\"out\">zoom out</button> <button data-zoom=\"left\">&larr;</button> <button "
         "data-zoom=\"right\">&rarr;</button> <button data-zoom=\"all\">whole step</button></div>\n"
         "<p id=\"timeline-keys\"></p>\n"
         "<canvas id=\"timeline-canvas\" role=\"img\" aria-label=\"Timeline of one rank of each "
         "stage; the same figures are in the tables of this page\" tabindex=\"0\"></canvas>\n"
         "<p id=\"timeline-here\" aria-live=\"polite\">&nbsp;</p>\n";
}

// Returns a table of what each what-if would save, with bars.
std::string gain_bars(std::span<const PageGain> rows) {
  if (rows.empty()) return "";
  double most = 1e-12;
  for (const PageGain& row : rows) most = std::max(most, row.saving);
  std::string html = "<table>\n<tr><th>if</th><th>step</th><th>saves</th><th></th></tr>\n";
  for (const PageGain& row : rows) {
    html += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{:.1f} %</td><td class=\"bar\"><i "
        "style=\"width:{:.1f}%\"></i></td></tr>\n",
        svg_escaped(row.name), to_text(Seconds{row.step_time_s}), 100.0 * row.saving,
        100.0 * std::max(row.saving, 0.0) / most);
  }
  return html + "</table>\n";
}

std::string scenario(const RunView& view) {
  if (view.facts.scenario.is_null()) return "";
  return "<details><summary>The scenario, with every default</summary>\n" +
         text_block(view.facts.scenario.dump(2)) + "</details>\n";
}

std::string sections(const PageRequest& request) {
  const RunView& view = request.view;
  return section("figures", "Key figures", cards(view) + text_block(figures_section(view))) +
         section("breakdown", "Where the time goes",
                 with_figures(breakdown_chart(view), breakdown_section(view))) +
         section("pipeline", "Pipeline", pipeline_chart(view)) +
         section("timeline", "Timeline", timeline()) +
         section("memory", "Memory over time", memory(view)) +
         section("links", "Links", with_figures(link_heat_map(view), links_section(view))) +
         section("communication", "Communication",
                 text_block(collectives_section(view)) + text_block(placement_section(view))) +
         section("topology", "Cluster", topology_chart(view.cluster)) +
         section("path", "Critical path", text_block(path_section(view))) +
         section("sensitivities", "What would make it shorter", gain_bars(request.gains)) +
         section("costs", "How well the durations are known", text_block(costs_section(view))) +
         section("notes", "Assumptions and approximations", text_block(notes_section(view))) +
         section("scenario", "Scenario", scenario(view));
}

// Prints JSON for a script element. The text may contain no "<", which could end the element or
// begin a comment in which the end tag would not count ("<!--<script>"; HTML, restrictions on the
// contents of script elements).
std::string script_json(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace

Json page_data(const RunView& view) {
  // Bars of single operations are the first choice, then bars per microbatch. If these are too many
  // as well, lanes in the middle are dropped, so that the first and the last stage remain.
  std::vector<Lane> lanes = lanes_in(view, Detail::Operation);
  const bool joined = count(lanes) > kMostBlocks;
  if (joined) lanes = lanes_in(view, Detail::Microbatch);
  while (lanes.size() > 2 && count(lanes) > kMostBlocks)
    lanes.erase(lanes.begin() + static_cast<std::ptrdiff_t>(lanes.size() / 2));
  Json data{{"step_s", view.timeline.makespan_s},
            {"joined", joined},
            {"names", view.workload.names},
            {"kinds", Json::array()},
            {"lanes", Json::array()},
            {"memory", Json::array()},
            {"categories", Json::array()}};
  for (const BlockStyle& style : block_styles())
    data["kinds"].push_back({{"name", style.name}, {"colour", style.colour}});
  for (const Lane& lane : lanes) data["lanes"].push_back(lane_json(view, lane));
  for (std::size_t category = 0; category < view.workload.categories.size(); ++category) {
    data["categories"].push_back(
        {{"name", view.workload.categories[category]}, {"colour", svg_colour(category)}});
  }
  for (const StageMemory& stage : stage_memory(view))
    data["memory"].push_back(curve_json(view, stage));
  return data;
}

std::string report_page(const PageRequest& request) {
  const std::string title = svg_escaped(
      request.view.facts.title.empty() ? "One training step" : request.view.facts.title);
  std::string html =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      title + "</title>\n<style>\n";
  html += page_style();
  html += chart_library_style();
  html += "</style>\n</head>\n<body>\n<main>\n<h1>" + title + "</h1>\n" + verdict(request.view);
  html += sections(request) + "</main>\n<script type=\"application/json\" id=\"page-data\">";
  html += script_json(page_data(request.view));
  html += "</script>\n<script>\n";
  html += chart_library_script();
  html += "\n</script>\n<script>\n";
  html += page_script();
  return html + "</script>\n</body>\n</html>\n";
}

}  // namespace trainyard
