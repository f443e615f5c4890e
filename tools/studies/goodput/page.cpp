#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/csv.hpp"
#include "sim/render/page/document.hpp"
#include "sim/render/page/elements.hpp"
#include "sim/render/page/plots.hpp"
#include "tools/studies/goodput/report.hpp"
#include "tools/studies/goodput/tables.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Colours of the Okabe-Ito palette (Okabe and Ito 2008, "Color universal design"), by phase.
constexpr std::array<const char*, kPhases> kColours{
    "#009E73", "#66C2A4", "#56B4E9", "#8DA0CB", "#D55E00", "#F0E442",
    "#B3B3B3", "#999999", "#E69F00", "#FDB863", "#CC79A7", "#C2A5CF",
    "#0072B2", "#4393C3", "#92C5DE", "#D1E5F0", "#A6761D"};

BarPart part_of(RunPhase phase, double seconds) {
  const auto index = static_cast<std::size_t>(phase);
  return {.name = std::string(kPhaseNames[index]),
          .colour = kColours[index],
          .value = seconds,
          .text = time_text(seconds)};
}

std::string answer(const GoodputReport& report) {
  const Goodput& all = report.result;
  const std::vector<PageCard> cards{
      {.name = "goodput",
       .value = fmt::format("{:.1f} %", 100.0 * all.goodput.mean),
       .notes = {fmt::format("+- {:.2f} (95 %)", 100.0 * all.goodput.half_width),
                 fmt::format("P10 {:.1f} %, P90 {:.1f} %", 100.0 * all.goodput.p10,
                             100.0 * all.goodput.p90)}},
      {.name = "wall time",
       .value = time_text(all.wall_s.mean),
       .notes = {fmt::format("P10 {}, P90 {}", time_text(all.wall_s.p10),
                             time_text(all.wall_s.p90))}},
      {.name = "interruptions", .value = fmt::format("{:.4g}", all.interruptions.mean)},
      {.name = "tokens", .value = fmt::format("{:.4g}", all.tokens.mean)},
      {.name = "MFU over the calendar", .value = fmt::format("{:.1f} %", 100.0 * all.mfu.mean)}};
  const std::string range = range_sentence(report);
  return html_cards(cards) + (range.empty() ? "" : html_paragraph(range));
}

std::string phases(const GoodputReport& report) {
  BarRow row{.label = "mean", .total = time_text(report.result.wall_s.mean)};
  for (std::size_t i = 0; i < kPhases; ++i)
    if (report.result.phases_s[i] > 0.0)
      row.parts.push_back(part_of(static_cast<RunPhase>(i), report.result.phases_s[i]));
  return bar_chart("where the time goes", {row}) + html_table(phase_table(report));
}

std::string interval_curve(const GoodputReport& report) {
  const std::vector<IntervalPoint>& points = report.result.intervals;
  if (points.size() < 2) return "";
  const auto [least, most] = std::ranges::minmax_element(points, {}, &IntervalPoint::goodput);
  // Goodputs of good intervals differ by a few percent, so the axis does not begin at zero.
  XyChart chart{.title = "goodput over the interval between checkpoints",
                .x = log_scale("interval", points.front().interval_s, points.back().interval_s, 2.0,
                               [](double value) { return to_text(Seconds{value}); }),
                .y = linear_scale("goodput", most->goodput, std::max(0.0, least->goodput - 0.02))};
  ChartSeries& series = chart.series.emplace_back(ChartSeries{.name = "sampled"});
  for (const IntervalPoint& point : points)
    series.points.push_back({.x = point.interval_s,
                             .y = point.goodput,
                             .tip = fmt::format("{} {}: {:.4f}", to_text(Seconds{point.interval_s}),
                                                point.mark, point.goodput)});
  return xy_chart(chart) + html_table(interval_table(report));
}

std::string tornado(const GoodputReport& report) {
  std::vector<BarRow> rows;
  for (const HalvedQuantity& one : report.result.halved) {
    if (one.gain <= 0.0) continue;
    const std::string text = fmt::format("{:+.2f} %", 100.0 * one.gain);
    rows.push_back(
        {.label = one.name,
         .parts = {{.name = "gain", .colour = "#0072B2", .value = one.gain, .text = text}},
         .total = text});
  }
  return (rows.empty() ? "" : bar_chart("gain in goodput if halved", rows)) +
         html_table(halved_table(report));
}

// A row for each part of the calendar: a day, or more where there would be too many rows.
std::string calendar(const std::vector<RunEvent>& events) {
  if (events.empty()) return "";
  constexpr double kMostRows = 60.0;
  const double end_s = events.back().begin_s + events.back().duration_s;
  const double days = std::max(1.0, std::ceil(end_s / kSecondsPerDay / kMostRows));
  const double row_s = days * kSecondsPerDay;
  std::vector<BarRow> rows;
  for (const RunEvent& event : events) {
    for (double at = event.begin_s; at < event.begin_s + event.duration_s;) {
      const auto row = static_cast<std::size_t>(at / row_s);
      while (rows.size() <= row)
        rows.push_back(
            {.label = fmt::format("day {:.0f}", static_cast<double>(rows.size()) * days)});
      const double until =
          std::min(event.begin_s + event.duration_s, static_cast<double>(row + 1) * row_s);
      BarPart part = part_of(event.phase, until - at);
      if (!event.cause.empty()) part.text += fmt::format(" ({})", event.cause);
      rows[row].parts.push_back(std::move(part));
      // Rounding of at / row_s could give the same row again, so the next part begins one ulp
      // later.
      at = std::nextafter(until, until + 1.0);
    }
  }
  return html_paragraph(
             "One sampled run. Training contains the stalls of checkpoints and the work that a "
             "failure later destroys.") +
         bar_chart("calendar of a run", rows, row_s);
}

}  // namespace

std::string goodput_page(const GoodputReport& report, const std::vector<RunEvent>& events) {
  return page_document(
      {.title = "Weeks of training: " + report.title,
       .lead = answer(report),
       .parts = {
           {.id = "alternatives",
            .title = "Which alternative is best?",
            .html = report.alternatives.empty()
                        ? ""
                        : html_table(alternative_table(report.alternatives))},
           {.id = "phases", .title = "Where does the time go?", .html = phases(report)},
           {.id = "training-phases",
            .title = "How does each phase of training run?",
            .html = report.job.phases.empty() ? "" : html_table(training_phase_table(report))},
           {.id = "help", .title = "What would help?", .html = tornado(report)},
           {.id = "interval", .title = "How often to checkpoint?", .html = interval_curve(report)},
           {.id = "causes", .title = "What fails?", .html = html_table(cause_table(report))},
           {.id = "calendar", .title = "How does a run look?", .html = calendar(events)},
           {.id = "summary", .title = "All figures", .html = html_table(summary_table(report))}}});
}

std::string events_csv(const std::vector<RunEvent>& events) {
  std::string text = "begin_s,duration_s,phase,cause\n";
  for (const RunEvent& event : events)
    text += fmt::format("{},{},{},{}\n", event.begin_s, event.duration_s,
                        kPhaseNames[static_cast<std::size_t>(event.phase)], csv_field(event.cause));
  return text;
}

Json events_trace(const std::vector<RunEvent>& events) {
  constexpr double kMicrosecondsPerDay = 1e6;
  Json trace = Json::array();
  trace.push_back({{"name", "process_name"},
                   {"ph", "M"},
                   {"pid", 1},
                   {"args", {{"name", "one sampled run, a second is a day"}}}});
  for (const RunEvent& event : events)
    trace.push_back({{"name", kPhaseNames[static_cast<std::size_t>(event.phase)]},
                     {"cat", event.cause.empty() ? "training" : std::string(event.cause)},
                     {"ph", "X"},
                     {"pid", 1},
                     {"tid", 1},
                     {"ts", event.begin_s / kSecondsPerDay * kMicrosecondsPerDay},
                     {"dur", event.duration_s / kSecondsPerDay * kMicrosecondsPerDay},
                     {"args", {{"cause", event.cause}, {"duration_s", event.duration_s}}}});
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(trace)}};
}

}  // namespace trainyard
