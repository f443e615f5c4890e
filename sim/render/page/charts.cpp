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
#include "sim/render/svg.hpp"

namespace trainyard {

namespace {

constexpr double kWidth = 960.0;
constexpr double kLabels = 150.0;  // space for labels at the left of every chart
constexpr double kRow = 22.0;
constexpr double kSpan = kWidth - kLabels;

// The colours by TimeShare. BlockStyle uses the same colours for the same causes.
constexpr std::array<std::string_view, kTimeShares> kShareColours{
    "#0072B2", "#CC79A7", "#E69F00", "#009E73", "#D55E00", "#7A3E9D", "#8B6D00",
    "#56B4E9", "#5F5F5F", "#B8860B", "#DDDDDD", "#A0A0A0", "#EEEEEE"};

std::string picture(std::string_view title, double height, const std::string& body) {
  return fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" font-size=\"12\" "
      "fill=\"currentColor\">\n<title>{}</title>\n{}</svg>\n",
      kWidth, height, svg_escaped(title), body);
}

std::string label(double y, std::string_view text) {
  return fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                     kLabels - 8.0, y, svg_escaped(text));
}

std::string swatch(std::string_view colour, std::string_view name) {
  return fmt::format("<span class=\"key\"><i style=\"background:{}\"></i>{}</span>\n", colour,
                     svg_escaped(name));
}

std::string time_axis(double y, double step_s) {
  std::string body;
  for (int i = 0; i <= 4; ++i) {
    body += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                        kLabels + kSpan * i / 4.0, y, i == 4 ? "end" : "middle",
                        i == 0 ? "0 s" : to_text(Seconds{step_s * i / 4.0}));
  }
  return body;
}

std::string share_row(const StageBreakdown& stage, double step_s, double y) {
  std::string body = label(y + 15.0, fmt::format("stage {}", stage.stage));
  double x = kLabels;
  for (std::size_t share = 0; share < kTimeShares; ++share) {
    const double width = stage.mean.seconds[share] / step_s * kSpan;
    if (width <= 0.0) continue;
    body += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"18\" fill=\"{}\">"
        "<title>{}: {} ({:.1f} %)</title></rect>\n",
        x, y, width, kShareColours[share], to_string(static_cast<TimeShare>(share)),
        to_text(Seconds{stage.mean.seconds[share]}), 100.0 * stage.mean.seconds[share] / step_s);
    x += width;
  }
  return body;
}

std::string block_row(const std::vector<Bar>& blocks, double step_s, double y) {
  std::string body;
  for (const Bar& block : blocks) {
    const double x = kLabels + block.start_s / step_s * kSpan;
    const double width = (block.end_s - block.start_s) / step_s * kSpan;
    // A narrower bar is invisible.
    if (width < 0.05) continue;
    const BlockStyle& style = block_styles()[static_cast<std::size_t>(block.kind)];
    body +=
        fmt::format("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"18\" fill=\"{}\"/>",
                    x, y, width, style.colour);
    if (width > 16.0 && block.microbatch >= 0) {
      body += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"#fff\" font-size=\"10\" "
          "text-anchor=\"middle\">{}</text>",
          x + width / 2.0, y + 13.0, block.microbatch);
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

PipelineRows pipeline_rows(const RunView& view) {
  constexpr std::size_t kMostLanes = 32;
  const double step_s = view.timeline.makespan_s;
  PipelineRows rows;
  if (step_s <= 0.0) return rows;
  for (const std::uint32_t lane : chosen_lanes(view, kMostLanes)) {
    const std::vector<Bar> blocks = bars_of(view, lane, Detail::Microbatch, std::uint8_t{0});
    for (const Bar& block : blocks) rows.used.insert(block.kind);
    const RankClass& ranks = view.partition.ranks[lane];
    rows.body += label(rows.height + 14.0,
                       fmt::format("stage {}", view.workload.programs[ranks.program].stage));
    rows.body += block_row(blocks, step_s, rows.height);
    rows.height += kRow;
  }
  rows.body += time_axis(rows.height + 14.0, step_s);
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

std::string heat_row(const Row& row, double y) {
  std::string body;
  const double width = kSpan / static_cast<double>(kColumns);
  for (std::size_t column = 0; column < kColumns; ++column) {
    // A flow counts with its mean rate, so the sum may exceed the capacity.
    const double use = std::min(row[column], 1.0);
    if (use < 0.005) continue;
    body += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"18\" "
        "fill=\"#D55E00\" fill-opacity=\"{:.2f}\"><title>{:.0f} %</title></rect>\n",
        kLabels + width * static_cast<double>(column), y, width, use, 100.0 * use);
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

// Counts the links from a lower to a higher kind of device, one per cable. Links between devices of
// one kind count in both directions.
std::map<ParallelSet, std::uint64_t> parallel_links_of(const Cluster& cluster) {
  std::map<ParallelSet, std::uint64_t> parallel_links;
  for (const Link& link : cluster.links()) {
    const DeviceKind from = cluster.device(link.from).kind;
    const DeviceKind to = cluster.device(link.to).kind;
    if (from <= to) ++parallel_links[{from, to, link.kind, link.capacity.value()}];
  }
  return parallel_links;
}

std::string tier_row(const Tier& tier, std::uint64_t count, double y) {
  return fmt::format(
      "<rect x=\"300\" y=\"{:.0f}\" width=\"200\" height=\"26\" rx=\"5\" fill=\"none\" "
      "stroke=\"currentColor\"/>\n<text x=\"400\" y=\"{:.0f}\" text-anchor=\"middle\">{} "
      "{}</text>\n",
      y, y + 17.0, count, tier.name);
}

// Draws a line at the side from tier to tier, with its number and text.
std::string parallel_line(double from_y, double to_y, std::size_t number, const std::string& text) {
  const double x = 500.0 + 26.0 * static_cast<double>(number + 1);
  return fmt::format(
      "<path d=\"M500 {0:.0f}H{2:.0f}V{1:.0f}H500\" fill=\"none\" stroke=\"#0072B2\"/>\n"
      "<circle cx=\"{2:.0f}\" cy=\"{3:.0f}\" r=\"8\" fill=\"#0072B2\"/>\n<text x=\"{2:.0f}\" "
      "y=\"{4:.0f}\" text-anchor=\"middle\" font-size=\"10\" fill=\"#fff\">{5}</text>\n"
      "<text x=\"20\" y=\"{6:.0f}\">{5}: {7}</text>\n",
      from_y, to_y, x, (from_y + to_y) / 2.0, (from_y + to_y) / 2.0 + 3.5, number + 1,
      30.0 + 18.0 * static_cast<double>(number), svg_escaped(text));
}

// ---- memory

constexpr double kMemoryWidth = 900.0;
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
  return fmt::format("<path d=\"{}\" fill=\"{}\"/>\n", path, svg_colour(category));
}

}  // namespace

std::string_view share_colour(std::string_view name) {
  for (std::size_t share = 0; share < kTimeShares; ++share)
    if (to_string(static_cast<TimeShare>(share)) == name) return kShareColours[share];
  return "#BBBBBB";
}

std::string breakdown_chart(const RunView& view) {
  const std::vector<StageBreakdown> stages = stage_breakdown(view);
  const double step_s = view.step_s();
  if (stages.empty() || step_s <= 0.0) return "";
  std::string body;
  std::set<std::size_t> used;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    body += share_row(stages[i], step_s, kRow * static_cast<double>(i));
    for (std::size_t share = 0; share < kTimeShares; ++share)
      if (stages[i].mean.seconds[share] > 0.0) used.insert(share);
  }
  std::string keys = "<p>";
  for (const std::size_t share : used)
    keys += swatch(kShareColours[share], to_string(static_cast<TimeShare>(share)));
  return keys + "</p>\n" +
         picture("Where the time of each stage goes", kRow * static_cast<double>(stages.size()),
                 body);
}

std::string pipeline_chart(const RunView& view) {
  const PipelineRows rows = pipeline_rows(view);
  if (rows.body.empty()) return "";
  std::string keys = "<p>";
  for (const BlockKind kind : rows.used) {
    const BlockStyle& style = block_styles()[static_cast<std::size_t>(kind)];
    keys += swatch(style.colour, style.name);
  }
  return keys + "</p>\n" +
         picture("The pipeline: what each stage computes when", rows.height, rows.body);
}

std::string pipeline_picture(const RunView& view) {
  constexpr double kTitle = 44.0;
  constexpr double kLegend = 26.0;
  constexpr double kKey = 150.0;  // distance from one legend entry to the next
  constexpr double kMargin = 12.0;
  const PipelineRows rows = pipeline_rows(view);
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
                   .width = kWidth + kMargin,
                   .height = kTitle + rows.height + kLegend + kMargin,
                   .body = body});
}

std::string link_heat_map(const RunView& view) {
  if (view.timeline.flows.empty() || view.timeline.makespan_s <= 0.0) return "";
  std::string body;
  double y = 0.0;
  for (const auto& [key, row] : busiest_by_kind(view)) {
    body += label(y + 14.0,
                  fmt::format("{} {}", to_string(key.first), to_text(BytesPerSecond{key.second})));
    body += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"18\" "
        "fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.2\"/>\n",
        kLabels, y, kSpan);
    body += heat_row(row, y);
    y += kRow;
  }
  return picture("Use of the busiest link of each kind over the step", y + 18.0,
                 body + time_axis(y + 14.0, view.timeline.makespan_s));
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
  std::size_t number = 0;
  for (const auto& [set, links] : parallel_links_of(cluster)) {
    const auto& [from, to, kind, capacity] = set;
    const std::string text = fmt::format("{} x {}, {} each way", links, to_string(kind),
                                         to_text(BytesPerSecond{capacity}));
    body += parallel_line(middle[from] - 4.0, middle[to] + 4.0, number++, text);
  }
  const double height = std::max(y, 30.0 + 18.0 * static_cast<double>(number));
  return picture("The cluster: how many of each device, and what joins them", height, body);
}

// All stages share one scale, which includes the largest capacity.
std::int64_t memory_scale(const std::vector<StageMemory>& stages) {
  std::int64_t most = 1;
  for (const StageMemory& stage : stages)
    most = std::max({most, stage.peak.bytes, stage.capacity_bytes});
  return most;
}

std::string memory_chart(const RunView& view, const StageMemory& stage, std::int64_t most_bytes) {
  const MemoryScale scale{.step_s = std::max(view.timeline.makespan_s, 1e-12),
                          .most_bytes = static_cast<double>(most_bytes)};
  const auto curve = view.memory_curve_of(stage.rank_class);
  std::string svg = fmt::format(
      "<svg viewBox=\"0 -12 {:.0f} {:.0f}\" role=\"img\" fill=\"currentColor\">\n"
      "<title>Memory of stage {} over the step; at most {:.2f} GiB</title>\n",
      kMemoryWidth, kMemoryHeight + 14.0, stage.stage,
      static_cast<double>(stage.peak.bytes) / kBytesOfGib);
  for (std::size_t category = view.workload.categories.size(); category-- > 0;)
    svg += area(curve, category, scale);
  if (stage.capacity_bytes > 0) {
    const double y = scale.y(static_cast<double>(stage.capacity_bytes));
    svg += fmt::format(
        "<line x1=\"0\" x2=\"{:.0f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"currentColor\" "
        "stroke-dasharray=\"6 4\"/>\n<text x=\"4\" y=\"{:.1f}\" font-size=\"11\">{:.1f} "
        "GiB</text>\n",
        kMemoryWidth, y, y, y - 3.0, static_cast<double>(stage.capacity_bytes) / kBytesOfGib);
  }
  return svg + "</svg>\n";
}

std::string memory_legend(const std::vector<std::string>& categories) {
  std::string html = "<p>";
  for (std::size_t category = 0; category < categories.size(); ++category) {
    html += fmt::format("<span style=\"color:{}\">&#9632;</span> {} &nbsp; ", svg_colour(category),
                        svg_escaped(categories[category]));
  }
  return html + "</p>\n";
}

}  // namespace trainyard
