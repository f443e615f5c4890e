#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/render/page/document.hpp"
#include "sim/render/page/elements.hpp"
#include "sim/render/page/plots.hpp"
#include "tools/studies/jobs/report.hpp"

namespace trainyard {

namespace {

// Colours of the Okabe-Ito palette (Okabe and Ito 2008, "Color universal design").
constexpr const char *kBlue = "#56B4E9", *kOrange = "#D55E00", *kGrey = "#B3B3B3";

std::string time_text(double seconds) { return to_text(Seconds{seconds}); }

std::string lead_of(const Jobs& jobs, const JobsResult& result) {
  std::vector<PageFact> facts{{"jobs", jobs.description},
                              {"cluster", result.run.cluster->facts().name}};
  if (!jobs.source.empty()) facts.push_back({"source", jobs.source});
  std::vector<PageCard> cards;
  for (const JobResult& job : result.jobs)
    cards.push_back({.name = job.name,
                     .value = fmt::format("{:.3f} x", job.slowdown()),
                     .notes = {fmt::format("{} a step, {} alone", time_text(job.together_s),
                                           time_text(job.alone_s))}});
  return html_facts(facts) + html_cards(cards);
}

// The step of each job alone, and what the others add to it.
std::string slowdown_chart(const JobsResult& result) {
  std::vector<BarRow> rows;
  for (const JobResult& job : result.jobs) {
    BarRow& row =
        rows.emplace_back(BarRow{.label = job.name,
                                 .parts = {{"alone", kBlue, job.alone_s, time_text(job.alone_s)}},
                                 .total = time_text(job.together_s)});
    if (const double added_s = job.together_s - job.alone_s; added_s > 0.0)
      row.parts.push_back({"added by the other jobs", kOrange, added_s, time_text(added_s)});
  }
  return bar_chart("Step time of each job, alone and together", rows);
}

BarPart part_of(const LinkStateSpan& span) {
  static constexpr std::array<const char*, 3> kNames{"no flow", "flows of this job alone",
                                                     "flows beside another job"};
  static constexpr std::array<const char*, 3> kColours{kGrey, kBlue, kOrange};
  const auto use = static_cast<std::size_t>(span.state);
  const double seconds = span.end_s - span.start_s;
  return {
      .name = kNames[use], .colour = kColours[use], .value = seconds, .text = time_text(seconds)};
}

// Spans that are too short to be seen become part of the one before them. A step may have thousands
// of flows, and the page would hold a rectangle for each.
std::vector<LinkStateSpan> visible(const std::vector<LinkStateSpan>& spans, double shortest_s) {
  std::vector<LinkStateSpan> all;
  for (const LinkStateSpan& span : spans) {
    const bool joined =
        !all.empty() && (span.end_s - span.start_s < shortest_s || span.state == all.back().state);
    if (joined)
      all.back().end_s = span.end_s;
    else
      all.push_back(span);
  }
  return all;
}

// The jobs' use of the link that they share for the longest time, over some steps.
std::string use_chart(const JobsResult& result) {
  if (result.sharing.empty()) return html_paragraph("No two jobs use the same link.");
  constexpr double kSteps = 4.0, kColumns = 1000.0;
  double longest_s = 0.0;
  for (const JobResult& job : result.jobs) longest_s = std::max(longest_s, job.longest_s);
  const double until_s = std::min(result.end_s, result.begin_s + kSteps * longest_s);
  // Links that limit flows are the ones to look at.
  const auto limits = std::ranges::find(result.sharing, true, &LinkSharing::contended);
  const LinkSharing& shown = limits == result.sharing.end() ? result.sharing.front() : *limits;
  const auto spans = link_states(result.parts, *result.run.partition, result.run.timeline,
                                 shown.link_class, result.begin_s, until_s);
  std::vector<BarRow> rows;
  for (const std::uint32_t job : shown.jobs) {
    BarRow& row = rows.emplace_back(BarRow{.label = result.jobs[job].name});
    for (const LinkStateSpan& span : visible(spans[job], (until_s - result.begin_s) / kColumns))
      row.parts.push_back(part_of(span));
  }
  const Link link =
      result.run.cluster->link(result.run.partition->links[shown.link_class].representative);
  return html_paragraph(fmt::format(
             "The {} link {} -> {}, from {} to {}. Flows of two jobs at a time share its rate.",
             to_string(link.kind), result.run.cluster->name(link.from),
             result.run.cluster->name(link.to), time_text(result.begin_s), time_text(until_s))) +
         bar_chart("Flows of each job on the link that they share for the longest time", rows);
}

// The mean power of the cluster in each two-hundredth of the time.
std::string power_chart(const JobsResult& result) {
  if (!result.power) return "";
  constexpr int kPoints = 200;
  const double width_s = (result.end_s - result.begin_s) / kPoints;
  XyChart chart{.title = "Power of the cluster",
                .x = linear_scale("time (s)", result.end_s, result.begin_s),
                .y = linear_scale("kW", result.power->peaks.cluster_w / 1e3)};
  ChartSeries& series = chart.series.emplace_back(ChartSeries{.name = "cluster"});
  for (int i = 0; i < kPoints; ++i) {
    const double from_s = result.begin_s + i * width_s;
    const double kw =
        result.power->watts.between(from_s, from_s + width_s).joules() / width_s / 1e3;
    series.points.push_back({.x = from_s + width_s / 2.0,
                             .y = kw,
                             .tip = fmt::format("{}: {:.4g} kW", time_text(from_s), kw)});
  }
  return xy_chart(chart);
}

std::string memory_and_power(const Jobs& jobs, const JobsResult& result) {
  const std::string sentence = power_sentence(jobs, result);
  return html_table(memory_table(jobs, result)) +
         (sentence.empty() ? "" : html_paragraph(sentence)) + power_chart(result);
}

std::string basis(const Jobs& jobs, const JobsResult& result) {
  std::vector<std::string> entries = jobs.assumptions;
  for (const Approximation& one : result.run.facts.approximations) entries.push_back(one.sentence);
  return html_paragraph(steps_sentence(result)) + (entries.empty() ? "" : html_list(entries));
}

}  // namespace

std::string jobs_page(const Jobs& jobs, const JobsResult& result) {
  return page_document(
      {.title = fmt::format("{} jobs on one cluster", jobs.all.size()),
       .lead = lead_of(jobs, result),
       .parts = {{.id = "slowdown",
                  .title = "How much do they slow each other?",
                  .html = slowdown_chart(result) + html_table(jobs_table(jobs, result))},
                 {.id = "use", .title = "When do they meet?", .html = use_chart(result)},
                 {.id = "links",
                  .title = "Which links do they share?",
                  .html = html_table(shared_links_table(result))},
                 {.id = "power",
                  .title = "What memory and power do they take?",
                  .html = memory_and_power(jobs, result)},
                 {.id = "basis", .title = "What does it rest on?", .html = basis(jobs, result)}}});
}

}  // namespace trainyard
