#include "sim/render/page/charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "sim/render/page/blocks.hpp"
#include "sim/render/page/elements.hpp"
#include "sim/render/page/plots.hpp"
#include "sim/render/svg.hpp"

namespace trainyard {

namespace {

constexpr double kRow = 22.0;

// The colours by TimeShare. BlockStyle uses the same colours for the same causes.
constexpr std::array<std::string_view, kTimeShares> kShareColours{
    "#0072B2", "#CC79A7", "#E69F00", "#009E73", "#D55E00", "#7A3E9D", "#8B6D00",
    "#56B4E9", "#5F5F5F", "#B8860B", "#C4C4C4", "#8F8F8F", "#DADADA"};

// The shares by TimeShare as the pages call them.
constexpr std::array<std::string_view, kTimeShares> kShareTitles{
    "compute",    "optimizer",      "exposed TP",    "exposed PP", "exposed DP", "exposed EP",
    "exposed CP", "exposed copies", "other exposed", "waiting",    "bubble",     "host",
    "idle"};

// Where the step lies across a picture: as percent of an element of a page, or as pixels.
struct StepSpan {
  double left = 0.0;
  double width = 100.0;
  std::string_view unit = "%";
  double label_right = -8.0;  // where labels end, in pixels

  // A place of a bar, of a text, or a length across, as an attribute.
  [[nodiscard]] std::string place(double share) const {
    return fmt::format("{:.2f}{}", left + width * share, unit);
  }
  [[nodiscard]] std::string text_place(double share) const {
    return fmt::format("{:.1f}{}", left + width * share, unit);
  }
  [[nodiscard]] std::string length(double share) const {
    return fmt::format("{:.2f}{}", width * share, unit);
  }
  // The class of a text for which a narrow page has no room. A picture is never narrow.
  [[nodiscard]] std::string_view minor(bool small) const {
    return small && unit == "%" ? " class=\"minor\"" : "";
  }
};

std::string label(const StepSpan& span, double y, std::string_view text) {
  return fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                     span.label_right, y, svg_escaped(text));
}

std::string time_axis(const StepSpan& span, double y, double step_s) {
  std::string body;
  for (int i = 0; i <= 4; ++i) {
    body +=
        fmt::format("<text{} x=\"{}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                    span.minor(i % 2 == 1), span.text_place(i / 4.0), y, i == 4 ? "end" : "middle",
                    i == 0 ? "0 s" : to_text(Seconds{step_s * i / 4.0}));
  }
  return body;
}

// A chart of a page: as wide as its box, with space for the labels of its rows.
std::string row_chart(std::string_view title, double height, std::size_t letters,
                      const std::string& body, std::string_view attributes = "") {
  const double left = 7.0 * static_cast<double>(letters) + 14.0;
  return fmt::format(
      "<div class=\"scroll\"><div style=\"min-width:{0:.0f}px\">\n<svg class=\"chart\" "
      "role=\"img\" height=\"{1:.0f}\" style=\"--left:{2:.0f}px;--right:16px\" "
      "data-chart{3}>\n<title>{4}</title>\n{5}</svg>\n</div></div>\n",
      left + 220.0, height, left, attributes, svg_escaped(title), body);
}

std::string block_row(const StepSpan& span, const std::vector<Bar>& blocks, double step_s,
                      double y) {
  // Shares of the step: of bars too narrow to be seen, and of those with room for a number, in a
  // wide picture (810 pixels for the step) and in a narrow one.
  constexpr double kSeen = 0.05 / 810.0, kNumber = 16.0 / 810.0, kNarrowNumber = 0.06;
  std::string body;
  for (const Bar& block : blocks) {
    const double share = (block.end_s - block.start_s) / step_s;
    if (share < kSeen) continue;
    const BlockStyle& style = block_styles()[static_cast<std::size_t>(block.kind)];
    const double start = block.start_s / step_s;
    body += fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"18\" fill=\"{}\"/>",
                        span.place(start), y, span.length(share), style.colour);
    if (share > kNumber && block.microbatch >= 0) {
      body += fmt::format(
          "<text{} x=\"{}\" y=\"{:.1f}\" fill=\"{}\" font-size=\"10\" "
          "text-anchor=\"middle\">{}</text>",
          span.minor(share <= kNarrowNumber), span.text_place(start + share / 2.0), y + 13.0,
          text_colour_on(style.colour), block.microbatch);
    }
    body += '\n';
  }
  return body;
}

// ---- pipeline

struct PipelineRows {
  std::string body;  // the stages and the axis below them; empty for a step of length zero
  double height = 0.0;
  std::set<BlockKind> used;
};

PipelineRows pipeline_rows(const RunView& view, const StepSpan& span) {
  constexpr std::size_t kMostLanes = 32;
  const double step_s = view.timeline.makespan_s;
  PipelineRows rows;
  if (step_s <= 0.0) return rows;
  for (const std::uint32_t lane : chosen_lanes(view, kMostLanes)) {
    const std::vector<Bar> blocks = bars_of(view, lane, Detail::Microbatch, std::uint8_t{0});
    for (const Bar& block : blocks) rows.used.insert(block.kind);
    const RankClass& ranks = view.partition.ranks[lane];
    rows.body += label(span, rows.height + 14.0,
                       fmt::format("stage {}", view.workload.programs[ranks.program].stage));
    rows.body += block_row(span, blocks, step_s, rows.height);
    rows.height += kRow;
  }
  rows.body += time_axis(span, rows.height + 14.0, step_s);
  rows.height += 18.0;
  return rows;
}

// ---- links

constexpr std::size_t kColumns = 100;
using LinkKey = std::pair<LinkKind, double>;  // kind, capacity in bytes/s
using Row = std::array<double, kColumns>;

// Returns the mean use (0 to 1) of one link of each class in each hundredth of the step. A flow
// counts with its mean rate over its duration.
std::vector<Row> use_of_classes(const RunView& view) {
  std::vector<Row> use(view.partition.links.size(), Row{});
  const double column_s = view.timeline.makespan_s / static_cast<double>(kColumns);
  for (const FlowSpan& span : view.timeline.flows) {
    if (span.end_s <= span.start_s) continue;
    const FlowClass& flow = view.partition.flows.at(span.flow_class);
    const auto first = static_cast<std::size_t>(span.start_s / column_s);
    for (const FlowClass::Weight& weight : flow.weights) {
      const Link& link = view.cluster.link(view.partition.links[weight.link_class].representative);
      const double rate = weight.weight * flow.payload_bytes / (span.end_s - span.start_s);
      for (std::size_t column = first; column < kColumns; ++column) {
        const double from = std::max(span.start_s, column_s * static_cast<double>(column));
        const double to = std::min(span.end_s, column_s * static_cast<double>(column + 1));
        if (to <= from) break;
        use[weight.link_class][column] += rate * (to - from) / (column_s * link.capacity.value());
      }
    }
  }
  return use;
}

// For each kind and capacity of links, the highest use of any class in each hundredth of the step.
std::map<LinkKey, Row> busiest_by_kind(const RunView& view) {
  const std::vector<Row> use = use_of_classes(view);
  std::map<LinkKey, Row> rows;
  for (std::size_t one = 0; one < use.size(); ++one) {
    const Link& link = view.cluster.link(view.partition.links[one].representative);
    Row& row = rows.try_emplace({link.kind, link.capacity.value()}, Row{}).first->second;
    for (std::size_t column = 0; column < kColumns; ++column)
      row[column] = std::max(row[column], use[one][column]);
  }
  return rows;
}

std::string heat_row(std::string_view name, const Row& row, double step_s, double y) {
  std::string body;
  const double width = 100.0 / static_cast<double>(kColumns);
  for (std::size_t column = 0; column < kColumns; ++column) {
    // A flow counts with its mean rate, so the sum may exceed the capacity.
    const double use = std::min(row[column], 1.0);
    if (use < 0.005) continue;
    const double at_s = step_s * static_cast<double>(column) / static_cast<double>(kColumns);
    body += fmt::format(
        "<rect x=\"{0:.2f}%\" y=\"{1:.1f}\" width=\"{2:.2f}%\" height=\"18\" "
        "fill=\"#D55E00\" fill-opacity=\"{3:.2f}\" data-tip=\"{4}\nat {5}: {6:.0f} % "
        "used\"/>\n",
        width * static_cast<double>(column), y, width, use, svg_escaped(name),
        to_text(Seconds{at_s}), 100.0 * use);
  }
  return body;
}

// ---- topology

struct Tier {
  DeviceKind kind;
  std::string_view name;
};
constexpr std::array<Tier, kDeviceKinds> kTiers{{{DeviceKind::CoreSwitch, "core switches"},
                                                 {DeviceKind::SpineSwitch, "spine switches"},
                                                 {DeviceKind::LeafSwitch, "leaf switches"},
                                                 {DeviceKind::Nic, "NICs"},
                                                 {DeviceKind::Cpu, "CPUs"},
                                                 {DeviceKind::PcieSwitch, "PCIe switches"},
                                                 {DeviceKind::NvSwitch, "NVSwitches"},
                                                 {DeviceKind::Gpu, "GPUs"}}};

// Links from one kind of device to another that have the same kind and capacity.
using ParallelSet = std::tuple<DeviceKind, DeviceKind, LinkKind, double>;

// Counts the links from a lower to a higher kind of device, so that the two directions of a link
// count once. Links between devices of one kind count in both directions.
std::map<ParallelSet, std::uint64_t> parallel_links_of(const Cluster& cluster) {
  std::map<ParallelSet, std::uint64_t> parallel_links;
  for (const Link& link : cluster.links()) {
    const DeviceKind from = cluster.device(link.from).kind;
    const DeviceKind to = cluster.device(link.to).kind;
    if (from <= to) ++parallel_links[{from, to, link.kind, link.capacity.value()}];
  }
  return parallel_links;
}

std::string_view tier_name(DeviceKind kind) {
  for (const Tier& tier : kTiers)
    if (tier.kind == kind) return tier.name;
  return "";
}

std::string tier_row(const Tier& tier, std::uint64_t count, double y) {
  return fmt::format(
      "<rect x=\"1\" y=\"{:.0f}\" width=\"160\" height=\"26\" rx=\"5\" fill=\"none\" "
      "stroke=\"currentColor\"/>\n<text x=\"81\" y=\"{:.0f}\" text-anchor=\"middle\">{} "
      "{}</text>\n",
      y, y + 17.0, count, tier.name);
}

// Draws a line at the side from tier to tier, with its number and, for read-outs, its text.
std::string parallel_line(double from_y, double to_y, std::size_t number, std::string_view text) {
  const double x = 161.0 + 26.0 * static_cast<double>(number);
  return fmt::format(
      "<path d=\"M161 {0:.0f}H{2:.0f}V{1:.0f}H161\" fill=\"none\" stroke=\"#0072B2\"/>\n"
      "<circle cx=\"{2:.0f}\" cy=\"{3:.0f}\" r=\"9\" fill=\"#0072B2\" "
      "data-tip=\"{6}\"/>\n<text x=\"{2:.0f}\" y=\"{4:.0f}\" text-anchor=\"middle\" "
      "font-size=\"10\" fill=\"#fff\">{5}</text>\n",
      from_y, to_y, x, (from_y + to_y) / 2.0, (from_y + to_y) / 2.0 + 3.5, number,
      svg_escaped(text));
}

// ---- memory

constexpr double kMemoryWidth = 1000.0;  // stretched to the width of the page
constexpr double kMemoryHeight = 220.0;
constexpr double kBytesOfGib = 1073741824.0;

struct MemoryScale {
  double step_s = 1.0;
  double most_bytes = 1.0;
  [[nodiscard]] double x(double time_s) const { return time_s / step_s * kMemoryWidth; }
  [[nodiscard]] double y(double bytes) const { return kMemoryHeight * (1.0 - bytes / most_bytes); }
};

// Draws the sum of the categories up to `category` as one filled outline. Callers draw the last
// category first, so that each outline covers the larger ones before it.
std::string area(const std::vector<MemoryPoint>& curve, std::size_t category,
                 const MemoryScale& scale) {
  std::string path = fmt::format("M0,{:.1f}", kMemoryHeight);
  double last_y = kMemoryHeight;
  for (const MemoryPoint& point : curve) {
    const auto end = point.by_category.begin() + static_cast<std::ptrdiff_t>(category) + 1;
    const auto bytes = std::accumulate(point.by_category.begin(), end, std::int64_t{0});
    const double x = scale.x(point.time_s);
    const double y = scale.y(static_cast<double>(bytes));
    // A point that changes no height adds nothing to the outline.
    if (y == last_y) continue;
    path += fmt::format("L{:.1f},{:.1f}L{:.1f},{:.1f}", x, last_y, x, y);
    last_y = y;
  }
  path += fmt::format("L{:.1f},{:.1f}L{:.1f},{:.1f}Z", kMemoryWidth, last_y, kMemoryWidth,
                      kMemoryHeight);
  return fmt::format("<path d=\"{}\" fill=\"{}\"/>\n", path, memory_colour(category));
}

// All stages share one scale, which includes the largest capacity.
std::int64_t memory_scale(const std::vector<StageMemory>& stages) {
  std::int64_t most = 1;
  for (const StageMemory& stage : stages)
    most = std::max({most, stage.peak.bytes, stage.capacity_bytes});
  return most;
}

std::size_t share_named(std::string_view name) {
  std::size_t share = 0;
  while (share < kTimeShares && to_string(static_cast<TimeShare>(share)) != name) ++share;
  return share;
}

std::string block_keys(const std::set<BlockKind>& used) {
  std::vector<PageKey> keys;
  for (const BlockKind kind : used) {
    const BlockStyle& style = block_styles()[static_cast<std::size_t>(kind)];
    keys.push_back({std::string(style.name), std::string(style.colour)});
  }
  return html_keys(keys);
}

}  // namespace

BarPart share_part(std::string_view name, double seconds, double step_s) {
  const std::size_t share = share_named(name);
  const bool known = share < kTimeShares;
  return {.name = std::string(known ? kShareTitles[share] : name),
          .colour = std::string(known ? kShareColours[share] : "#BBBBBB"),
          .value = seconds,
          .text = step_s > 0.0 ? fmt::format("{:.1f} %", 100.0 * seconds / step_s)
                               : to_text(Seconds{seconds})};
}

std::string breakdown_chart(const RunView& view) {
  const double step_s = view.step_s();
  if (step_s <= 0.0) return "";
  std::vector<BarRow> rows;
  for (const StageBreakdown& stage : stage_breakdown(view)) {
    BarRow& row = rows.emplace_back(BarRow{.label = fmt::format("stage {}", stage.stage)});
    for (std::size_t share = 0; share < kTimeShares; ++share)
      if (stage.mean.seconds[share] > 0.0)
        row.parts.push_back(share_part(to_string(static_cast<TimeShare>(share)),
                                       stage.mean.seconds[share], step_s));
  }
  return bar_chart("Where the time of each stage goes", rows, step_s);
}

std::string pipeline_chart(const RunView& view) {
  const PipelineRows rows = pipeline_rows(view, {});
  if (rows.body.empty()) return "";
  return block_keys(rows.used) +
         row_chart("The pipeline: what each stage computes when", rows.height, 9, rows.body);
}

std::string pipeline_picture(const RunView& view) {
  constexpr double kTitle = 44.0, kLegend = 26.0, kMargin = 12.0;
  constexpr double kKey = 150.0;  // distance from one legend entry to the next
  constexpr double kLabels = 150.0, kSpan = 810.0;
  const PipelineRows rows = pipeline_rows(
      view, {.left = kLabels, .width = kSpan, .unit = "", .label_right = kLabels - 8.0});
  std::string body = fmt::format("<g transform=\"translate(0 {})\">\n{}</g>\n", kTitle, rows.body);
  double x = kLabels;
  const double y = kTitle + rows.height + kLegend / 2.0;
  for (const BlockKind kind : rows.used) {
    const BlockStyle& style = block_styles()[static_cast<std::size_t>(kind)];
    body += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n"
        "<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
        x, y, style.colour, x + 18.0, y + 10.0, svg_escaped(style.name));
    x += kKey;
  }
  return svg_page({.title = view.facts.title,
                   .width = kLabels + kSpan + kMargin,
                   .height = kTitle + rows.height + kLegend + kMargin,
                   .body = body});
}

std::string link_heat_map(const RunView& view) {
  if (view.timeline.flows.empty() || view.timeline.makespan_s <= 0.0) return "";
  const double step_s = view.timeline.makespan_s;
  std::string body;
  std::size_t letters = 0;
  double y = 0.0;
  for (const auto& [key, row] : busiest_by_kind(view)) {
    const std::string name =
        fmt::format("{} {}", to_string(key.first), to_text(BytesPerSecond{key.second}));
    body += label({}, y + 14.0, name);
    body += fmt::format(
        "<rect class=\"frame\" x=\"0\" y=\"{:.1f}\" width=\"100%\" height=\"18\"/>\n", y);
    body += heat_row(name, row, step_s, y);
    letters = std::max(letters, name.size());
    y += kRow;
  }
  return row_chart("Use of the busiest link of each kind over the step", y + 18.0, letters,
                   body + time_axis({}, y + 14.0, step_s));
}

std::string topology_chart(const Cluster& cluster) {
  std::map<DeviceKind, std::uint64_t> counts;
  for (DeviceId id = 0; id < cluster.device_count(); ++id) ++counts[cluster.device(id).kind];
  std::string body;
  std::map<DeviceKind, double> middle;
  double y = 4.0;
  for (const Tier& tier : kTiers) {
    if (!counts.contains(tier.kind)) continue;
    body += tier_row(tier, counts[tier.kind], y);
    middle[tier.kind] = y + 13.0;
    y += 44.0;
  }
  TextTable table({"line", "from", "to", "link", "links", "each way"});
  std::size_t number = 0;
  for (const auto& [set, links] : parallel_links_of(cluster)) {
    const auto& [from, to, kind, capacity] = set;
    const std::string rate = to_text(BytesPerSecond{capacity});
    body += parallel_line(middle[from] - 4.0, middle[to] + 4.0, ++number,
                          fmt::format("{} x {}, {} each way", links, to_string(kind), rate));
    table.row({fmt::format("{}", number), std::string(tier_name(from)), std::string(tier_name(to)),
               std::string(to_string(kind)), fmt::format("{}", links), rate});
  }
  const double width = 161.0 + 26.0 * static_cast<double>(number) + 14.0;
  return fmt::format(
             "<div class=\"scroll\"><svg class=\"chart\" role=\"img\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" style=\"width:{0:.0f}px\" data-chart>\n<title>The cluster: how "
             "many of each device, and what joins them</title>\n{2}</svg></div>\n",
             width, y, body) +
         html_table(table);
}

std::string memory_chart(const RunView& view, const std::vector<StageMemory>& stages,
                         std::size_t number) {
  const StageMemory& stage = stages[number];
  const double step_s = std::max(view.timeline.makespan_s, 1e-12);
  const ChartScale axis =
      linear_scale("GiB", static_cast<double>(memory_scale(stages)) / kBytesOfGib);
  const MemoryScale scale{.step_s = step_s, .most_bytes = axis.most * kBytesOfGib};
  const auto curve = view.memory_curve_of(stage.rank_class);
  std::string areas, body;
  for (std::size_t category = view.workload.categories.size(); category-- > 0;)
    areas += area(curve, category, scale);
  for (const ChartTick& tick : axis.ticks) {
    const double y = scale.y(tick.value * kBytesOfGib);
    body += label({}, y + 4.0, tick.text + " GiB");
    body += fmt::format("<line class=\"grid\" x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>\n", y);
  }
  // The nested SVG scales the outlines to the width of the page. Texts and grid lines are outside
  // of it, so that they keep their form.
  body += fmt::format(
      "<svg width=\"100%\" height=\"{0:.0f}\" viewBox=\"0 0 {1:.0f} {0:.0f}\" "
      "preserveAspectRatio=\"none\">\n{2}</svg>\n",
      kMemoryHeight, kMemoryWidth, areas);
  if (stage.capacity_bytes > 0) {
    const double y = scale.y(static_cast<double>(stage.capacity_bytes));
    body += fmt::format(
        "<line x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\" stroke=\"currentColor\" "
        "stroke-dasharray=\"6 4\"/>\n<text class=\"halo\" x=\"100%\" dx=\"-4\" y=\"{1:.1f}\" "
        "text-anchor=\"end\">capacity {2:.1f} GiB</text>\n",
        y, y + 14.0, static_cast<double>(stage.capacity_bytes) / kBytesOfGib);
  }
  return row_chart(fmt::format("Memory of stage {} over the step; at most {:.2f} GiB", stage.stage,
                               static_cast<double>(stage.peak.bytes) / kBytesOfGib),
                   kMemoryHeight + 20.0, 7,
                   body + "<line class=\"cursor\" y2=\"100%\" visibility=\"hidden\"/>\n" +
                       time_axis({}, kMemoryHeight + 16.0, view.timeline.makespan_s),
                   fmt::format(" data-memory=\"{}\"", number));
}

// Skips the black of svg_colour(), which a dark page hides.
std::string_view memory_colour(std::size_t category) {
  return svg_colour(category < 6 ? category : category + 1);
}

std::string memory_keys(const std::vector<std::string>& categories) {
  std::vector<PageKey> keys;
  for (std::size_t category = 0; category < categories.size(); ++category)
    keys.push_back({categories[category], std::string(memory_colour(category))});
  return html_keys(keys);
}

std::string memory_parts_chart(const RunView& view, const std::vector<StageMemory>& stages) {
  std::vector<BarRow> rows;
  for (const StageMemory& stage : stages) {
    BarRow& row = rows.emplace_back(BarRow{
        .label = fmt::format("stage {}", stage.stage),
        .total = fmt::format("{:.1f} GiB", static_cast<double>(stage.peak.bytes) / kBytesOfGib)});
    for (std::size_t category = 0; category < stage.peak.by_category.size(); ++category) {
      const double gib = static_cast<double>(stage.peak.by_category[category]) / kBytesOfGib;
      if (gib > 0.0)
        row.parts.push_back({.name = view.workload.categories[category],
                             .colour = std::string(memory_colour(category)),
                             .value = gib,
                             .text = fmt::format("{:.1f} GiB", gib)});
    }
  }
  return bar_chart("What fills the memory of each stage at its peak", rows,
                   static_cast<double>(memory_scale(stages)) / kBytesOfGib);
}

}  // namespace trainyard
