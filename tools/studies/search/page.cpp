#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "sim/base/units.hpp"
#include "sim/render/page/document.hpp"
#include "sim/render/page/elements.hpp"
#include "sim/render/page/plots.hpp"
#include "tools/studies/search/report.hpp"

namespace trainyard {

namespace {

constexpr double kBytesOfGib = 1073741824.0;

std::string layout_tip(const FoundLayout& found) {
  return fmt::format("{}\nstep time: {}\npeak memory: {}", layout_name(found.layout),
                     to_text(Seconds{found.figures.step_time_s}),
                     to_text(Bytes{found.figures.peak_bytes}));
}

ChartSeries points(std::string name, const std::vector<FoundLayout>& layouts, bool joined) {
  ChartSeries series{.name = std::move(name), .joined = joined};
  for (const FoundLayout& found : layouts)
    series.points.push_back(
        {found.figures.step_time_s, found.figures.peak_bytes / kBytesOfGib, layout_tip(found)});
  return series;
}

// Step time against memory. Lower left is better.
std::string pareto_chart(const SearchResult& result) {
  double least_s = result.fitting.front().figures.step_time_s, most_s = 0.0, most_bytes = 0.0;
  for (const FoundLayout& found : result.fitting) {
    least_s = std::min(least_s, found.figures.step_time_s);
    most_s = std::max(most_s, found.figures.step_time_s);
    // The axis goes up to the capacity, so that the chart shows how much memory is left.
    most_bytes = std::max({most_bytes, found.figures.peak_bytes, found.figures.capacity_bytes});
  }
  return xy_chart({.title = "Step time against peak memory of every simulated layout that fits",
                   .x = linear_scale("step time (s)", most_s, least_s),
                   .y = linear_scale("peak memory (GiB)", most_bytes / kBytesOfGib),
                   .series = {points("simulated layouts", result.fitting, false),
                              points("Pareto front", result.front, true)}});
}

// A size or setting of a layout, for an axis of its own.
struct LayoutField {
  const char* name;
  std::function<std::string(const TrainingPlan&)> value;
};

std::string recompute_name(const TrainingPlan& plan) {
  return plan.training.recompute == Recompute::None        ? "none"
         : plan.training.recompute == Recompute::Selective ? "selective"
                                                           : "full";
}

std::vector<LayoutField> layout_fields() {
  using P = TrainingPlan;
  const auto number = [](std::int64_t value) { return fmt::format("{}", value); };
  return {{"TP", [=](const P& p) { return number(p.parallelism.tensor); }},
          {"PP", [=](const P& p) { return number(p.parallelism.pipeline); }},
          {"chunks", [=](const P& p) { return number(p.parallelism.interleave); }},
          {"schedule", [](const P& p) { return p.parallelism.schedule; }},
          {"CP", [=](const P& p) { return number(p.parallelism.context); }},
          {"EP", [=](const P& p) { return number(p.parallelism.expert); }},
          {"DP", [=](const P& p) { return number(p.parallelism.data); }},
          {"mbs", [=](const P& p) { return number(p.training.micro_batch_size); }},
          {"recompute", recompute_name},
          {"ZeRO", [=](const P& p) { return number(p.parallelism.zero_stage); }}};
}

// The values of a field in some layouts, sorted: numbers by size, words by letters.
std::vector<std::string> values_of(const LayoutField& field,
                                   const std::vector<FoundLayout>& layouts) {
  const auto less = [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  };
  std::set<std::string, decltype(less)> values(less);
  for (const FoundLayout& found : layouts) values.insert(field.value(found.layout.plan));
  return {values.begin(), values.end()};
}

// The quickest layouts as lines across their sizes, step time and memory.
std::string sizes_chart(const SearchResult& result) {
  constexpr std::size_t kMost = 200;
  std::vector<FoundLayout> layouts = result.fitting;
  if (layouts.size() > kMost) layouts.resize(kMost);
  std::vector<ChartScale> axes;
  std::vector<ParallelLine> lines(layouts.size());
  for (const LayoutField& field : layout_fields()) {
    const std::vector<std::string> values = values_of(field, layouts);
    // A field that is the same in all layouts gets no axis.
    if (values.size() < 2) continue;
    axes.push_back(listed_scale(field.name, values));
    for (std::size_t i = 0; i < layouts.size(); ++i)
      lines[i].values.push_back(static_cast<double>(
          std::ranges::find(values, field.value(layouts[i].layout.plan)) - values.begin()));
  }
  if (axes.empty()) return "";
  double most_bytes = 0.0;
  for (const FoundLayout& found : layouts)
    most_bytes = std::max(most_bytes, found.figures.peak_bytes);
  axes.push_back(linear_scale("memory (GiB)", most_bytes / kBytesOfGib));
  axes.push_back(linear_scale("step (s)", layouts.back().figures.step_time_s,
                              layouts.front().figures.step_time_s));
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    lines[i].values.push_back(layouts[i].figures.peak_bytes / kBytesOfGib);
    lines[i].values.push_back(layouts[i].figures.step_time_s);
    lines[i].tip = layout_tip(layouts[i]);
    lines[i].best = i == 0;
  }
  return html_paragraph(fmt::format(
             "A line is a layout that fits, one of the {} quickest; the thick one is the quickest.",
             layouts.size())) +
         parallel_chart("The sizes of the layouts, their memory and step time", axes, lines);
}

// Says how many layouts were legal, pruned, refused and simulated.
std::string counts(const SearchResult& result) {
  const SearchCounts& counts = result.counts;
  std::vector<std::string> lines{
      fmt::format("{} combinations of sizes were looked at; {} of them are legal layouts.",
                  counts.checked_layouts, counts.legal),
      fmt::format("{} need more memory than a GPU has, as their least memory proves; they were not "
                  "simulated.",
                  counts.too_large),
      fmt::format("{} cannot be among the best, as their least time proves; they were not "
                  "simulated.",
                  counts.too_slow),
      fmt::format("{} were simulated; {} of these do not fit.", counts.simulated,
                  counts.do_not_fit)};
  if (result.unbounded)
    lines.push_back(fmt::format("No bound is known with {}, so none was cut.", *result.unbounded));
  if (counts.refused > 0)
    lines.push_back(fmt::format("{} were refused by the model or the reader.", counts.refused));
  if (counts.not_reached > 0)
    lines.push_back(
        fmt::format("{} were not reached before the search ended; a better one may be "
                    "among them.",
                    counts.not_reached));
  if (counts.combinations_not_read > 0)
    lines.push_back(fmt::format("Of {} combinations of values of further fields, {} were not read.",
                                counts.further, counts.combinations_not_read));
  return html_list(lines);
}

std::string answer(const SearchResult& result, const SearchPrice& price) {
  if (result.best.empty()) return html_verdict("No layout that fits was found.", false);
  const FoundLayout& first = result.best.front();
  const RowFigures& figures = first.figures;
  std::vector<PageCard> cards{{"step time", to_text(Seconds{figures.step_time_s})}};
  if (figures.mfu) cards.push_back({"MFU", percent(*figures.mfu)});
  cards.push_back({"peak memory", to_text(Bytes{figures.peak_bytes})});
  if (figures.capacity_bytes > 0.0)
    cards.back().notes.push_back("of " + to_text(Bytes{figures.capacity_bytes}));
  if (is_tight(figures))
    cards.back().notes.emplace_back("less than 3 % is free, within the error of predicted peaks");
  if (price.per_gpu_hour)
    cards.push_back(
        {"cost per million tokens",
         fmt::format("{:.4f}", cost_per_million_tokens(*price.per_gpu_hour, result, first))});
  return html_verdict(fmt::format("{} that fits: {}", best_layouts(result.objective, false),
                                  layout_name(first.layout)),
                      true) +
         html_cards(cards) +
         html_details("The command that runs it", html_command(layout_command(first)));
}

std::string refined(const SearchResult& result) {
  if (!result.refined || result.refined->best.empty()) return "";
  return html_table(refined_table(*result.refined)) +
         html_details("The command that runs the first",
                      html_command(layout_command(result.refined->best.front())));
}

}  // namespace

std::string search_page(const SearchResult& result, const SearchPrice& price,
                        const std::string& scenario) {
  std::vector<PagePart> parts;
  if (!result.best.empty()) {
    parts = {{"best",
              "Which layouts are the best?",
              html_table(best_table(result, price)) +
                  html_paragraph("kernels, TP, PP and DP are percent of the step; * marks layouts "
                                 "that leave less than 3 % of the memory free."),
              {{"why", "Why does the first win?", html_list(why_first(result))},
               {"refined", "Other placements and algorithms", refined(result)}}},
             {"pareto", "What does less memory cost?",
              pareto_chart(result) + html_table(front_table(result))},
             {"sizes", "Which sizes are good?", sizes_chart(result)}};
  }
  std::string refusal;
  if (result.refused_first)
    refusal = html_paragraph(fmt::format("The first refused, {}: {}",
                                         layout_name(result.refused_first->layout),
                                         result.refused_first->message));
  parts.push_back({"counts", "What did the search leave out?", counts(result) + refusal});
  std::vector<const nlohmann::ordered_json*> rows;
  for (const FoundLayout& found : result.fitting) rows.push_back(&found.row);
  std::vector<PageFact> facts{{"scenario", scenario}};
  for (const auto& [name, text] : shared_setup(rows)) facts.push_back({name, text});
  facts.push_back({"GPUs", fmt::format("{:.0f}", result.gpus)});
  return page_document({.title = "Layouts for " + std::filesystem::path(scenario).stem().string(),
                        .lead = html_facts(facts) + answer(result, price),
                        .parts = std::move(parts)});
}

}  // namespace trainyard
