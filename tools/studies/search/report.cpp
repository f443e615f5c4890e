#include "tools/studies/search/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "sim/base/csv.hpp"
#include "sim/base/units.hpp"
#include "sim/render/text_table.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// The breakdown of a layout's step, in shares of the step.
struct Shares {
  double compute = 0.0;  // kernels, including the optimizer's
  double tensor = 0.0;
  double pipeline = 0.0;  // bubble, waiting, messages, idle at the end
  double data = 0.0;
  double other = 0.0;
};

Shares shares_of(const FoundLayout& found) {
  Shares shares;
  for (const auto& [name, seconds] : mean_breakdown(found.row)) {
    const double share = seconds / found.figures.step_time_s;
    if (name == "compute" || name == "optimizer") {
      shares.compute += share;
    } else if (name == "exposed_tensor") {
      shares.tensor += share;
    } else if (name == "exposed_pipeline" || name == "bubble" || name == "waiting" ||
               name == "idle") {
      shares.pipeline += share;
    } else if (name == "exposed_data") {
      shares.data += share;
    } else {
      shares.other += share;
    }
  }
  return shares;
}

constexpr const char* kTightMark = " *";

std::string peak_text(const RowFigures& figures) {
  return to_text(Bytes{figures.peak_bytes}) + (is_tight(figures) ? kTightMark : "");
}

std::string tight_text(const SearchResult& result) {
  const auto tight = [](const FoundLayout& found) { return is_tight(found.figures); };
  if (std::ranges::none_of(result.best, tight) && std::ranges::none_of(result.front, tight))
    return "";
  return wrapped(
      "  * fits with less than 3 % of the GPU's memory to spare, which predicted peaks may be off "
      "(`--headroom 3` leaves these out)",
      4);
}

// The probability that a measurement finds the first layout quicker than another one; nothing for
// the first, and without intervals.
std::optional<double> first_is_quicker(const SearchResult& result, const FoundLayout& found) {
  const FoundLayout& first = result.best.front();
  const bool is_first = variant_key(found.layout.variant) == variant_key(first.layout.variant);
  if (is_first || !first.figures.interval || !found.figures.interval) return std::nullopt;
  const auto of_a_token = [](const FoundLayout& one) {
    StepInterval interval = *one.figures.interval;
    interval.step_s /= tokens_of(one.layout);
    return interval;
  };
  return ratio_of(of_a_token(first), of_a_token(found)).below_one;
}

}  // namespace

TextTable best_table(const SearchResult& result, const SearchPrice& price) {
  const bool has_energy = std::ranges::any_of(
      result.best, [](const FoundLayout& found) { return found.figures.energy_kwh.has_value(); });
  const bool has_cost = std::ranges::any_of(
      result.best, [](const FoundLayout& found) { return found.figures.cost.has_value(); });
  const bool has_interval = !result.best.empty() && result.best.front().figures.interval;
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.4g}", *value) : "";
  };
  TextTable table({"layout", "step", "tok/s/GPU", "MFU", "peak", "kernels", "TP", "PP", "DP",
                   price.per_gpu_hour ? "cost/Mtok" : "", has_energy ? "kWh/step" : "",
                   has_cost ? "cost/step" : "", has_interval ? "first is quicker" : ""});
  for (const FoundLayout& found : result.best) {
    const Shares shares = shares_of(found);
    const auto share = [](double value) { return fmt::format("{:.1f}", 100.0 * value); };
    const std::optional<double> sure = first_is_quicker(result, found);
    table.row(
        {layout_name(found.layout), fmt::format("{:.4g} s", found.figures.step_time_s),
         fmt::format("{:.0f}", found.figures.tokens_per_s_per_gpu.value_or(0.0)),
         percent(found.figures.mfu.value_or(0.0)), peak_text(found.figures), share(shares.compute),
         share(shares.tensor), share(shares.pipeline), share(shares.data),
         price.per_gpu_hour
             ? fmt::format("{:.4f}", cost_per_million_tokens(*price.per_gpu_hour, result, found))
             : "",
         number(found.figures.energy_kwh), number(found.figures.cost), sure ? percent(*sure) : ""});
  }
  return table;
}

namespace {

// Compares the first layout with another, part by part in seconds: the parts that it saves and the
// parts that take longer.
std::string against(const FoundLayout& first, const FoundLayout& other) {
  std::map<std::string, double> gains;
  for (const auto& [name, seconds] : mean_breakdown(other.row)) gains[name] += seconds;
  for (const auto& [name, seconds] : mean_breakdown(first.row)) gains[name] -= seconds;
  std::vector<std::pair<std::string, double>> parts(gains.begin(), gains.end());
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  const double step_s = first.figures.step_time_s;
  std::string saves, pays;
  // Parts that differ by less than a thousandth of the step are left out.
  for (const auto& [name, seconds] : parts) {
    if (seconds > 1e-3 * step_s)
      saves += fmt::format("{}{} {}", saves.empty() ? "" : ", ", to_text(Seconds{seconds}), name);
    if (seconds < -1e-3 * step_s)
      pays += fmt::format("{}{} {}", pays.empty() ? "" : ", ", to_text(Seconds{-seconds}), name);
  }
  std::string text = saves.empty() ? "saves nothing that can be named" : "saves " + saves;
  if (!pays.empty()) text += "; pays " + pays;
  return text;
}

}  // namespace

std::vector<std::string> why_first(const SearchResult& result) {
  if (result.best.size() < 2) return {};
  const FoundLayout& first = result.best.front();
  std::vector<std::string> lines;
  std::vector<std::string> said;
  const auto compare = [&](const char* what, auto size) {
    // The best layouts are sorted, so this is the best one with another value.
    const auto other = std::find_if(
        result.best.begin() + 1, result.best.end(),
        [&](const auto& found) { return size(found.layout.plan) != size(first.layout.plan); });
    if (other == result.best.end()) return;
    const std::string name = layout_name(other->layout);
    // One layout may differ in several sizes, but it is compared once.
    if (std::find(said.begin(), said.end(), name) != said.end()) return;
    said.push_back(name);
    lines.push_back(fmt::format("against {} ({}): {}", name, what, against(first, *other)));
  };
  using P = TrainingPlan;
  compare("other TP", [](const P& plan) { return plan.parallelism.tensor; });
  compare("other PP", [](const P& plan) { return plan.parallelism.pipeline; });
  compare("other CP", [](const P& plan) { return plan.parallelism.context; });
  compare("other EP", [](const P& plan) {
    return std::pair(plan.parallelism.expert, plan.parallelism.expert_tensor_size());
  });
  compare("other schedule", [](const P& plan) { return plan.parallelism.schedule; });
  compare("other interleaving", [](const P& plan) { return plan.parallelism.interleave; });
  compare("other microbatch", [](const P& plan) { return plan.training.micro_batch_size; });
  compare("other recomputation", [](const P& plan) { return plan.training.recompute; });
  compare("other ZeRO", [](const P& plan) { return plan.parallelism.zero_stage; });
  return lines;
}

TextTable front_table(const SearchResult& result) {
  TextTable table({"quickest for its memory", "step", "peak"});
  for (const FoundLayout& found : result.front)
    table.row({layout_name(found.layout), fmt::format("{:.4g} s", found.figures.step_time_s),
               peak_text(found.figures)});
  return table;
}

namespace {

std::string why_text(const SearchResult& result) {
  std::string text;
  for (const std::string& line : why_first(result)) text += wrapped("  " + line, 4);
  return text.empty() ? text : "\nWhy the first wins (mean rank)\n" + text;
}

// The number of combinations of `--over` values that were not read before the search was ended.
std::string more_text(const SearchCounts& counts) {
  if (counts.combinations_not_read == 0) return "";
  return fmt::format("; of {} combinations of values of further fields it did not read {}",
                     counts.further, counts.combinations_not_read);
}

std::string counts_text(const SearchResult& result) {
  const SearchCounts& counts = result.counts;
  return wrapped(
      fmt::format(
          "{} combinations, {} legal layouts: {} refused, {} out by least memory, {} out by "
          "least time, {} simulated ({} of them do not fit)",
          counts.checked_layouts, counts.legal, counts.refused, counts.too_large, counts.too_slow,
          counts.simulated, counts.do_not_fit) +
          (counts.not_reached > 0
               ? fmt::format("; the search was ended before it reached {}, and a better one may be "
                             "among them",
                             counts.not_reached)
               : "") +
          more_text(counts) +
          (result.unbounded
               ? fmt::format("; no bound is known with {}, so none was cut", *result.unbounded)
               : ""),
      2);
}

// The text as one word of a POSIX shell: quoted if it has characters that a shell reads. A quote
// within it ends the quoted part, follows escaped, and opens the next part: '\''.
std::string shell_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_./:=,+-@%").find(c) != std::string_view::npos;
  };
  if (std::ranges::all_of(text, is_plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// Whether a collective runs with a named algorithm instead of NCCL's choice.
bool leaves_nccl(const FoundLayout& found) {
  return std::ranges::any_of(found.layout.variant.changes, [](const Override& change) {
    return change.path.starts_with("collectives.") && change.value != "nccl";
  });
}

}  // namespace

TextTable refined_table(const RefinedLayouts& refined) {
  TextTable table({"quicker than as they were", "step", "MFU", "peak"});
  for (const FoundLayout& found : refined.best)
    table.row({layout_name(found.layout), fmt::format("{:.4g} s", found.figures.step_time_s),
               percent(found.figures.mfu.value_or(0.0)), peak_text(found.figures)});
  return table;
}

std::string layout_command(const FoundLayout& found) {
  std::string command = "trainyard run " + shell_word(found.layout.variant.file);
  for (const Override& change : found.layout.variant.changes)
    command += " --set " + shell_word(change.path + "=" + change.value);
  return command;
}

namespace {

// The text of the second stage. It states that this stage does not try every combination.
std::string refined_text(const SearchResult& result) {
  if (!result.refined) return "";
  const RefinedLayouts& refined = *result.refined;
  if (refined.simulated == 0 && refined.not_reached > 0) return "";
  std::string text = "\nThe same layouts with other placements and collective algorithms\n";
  if (!refined.best.empty()) {
    text += refined_table(refined).text();
    if (std::ranges::any_of(refined.best, leaves_nccl))
      text += wrapped(
          "an algorithm counts where it also beats the plain one by name (a ring, or pairwise): "
          "these "
          "move at the links' full rates, \"nccl\" at the pace measured of it, so the step it "
          "seems "
          "to reach is no promise",
          2);
  }
  return text +
         wrapped(
             fmt::format("{}{} changes, one at a time and then the best of each kind together (not "
                         "every combination): {} refused, {} out by least time, {} simulated",
                         refined.best.empty() ? "none is quicker: " : "", refined.changes,
                         refined.refused, refined.cannot_gain, refined.simulated) +
                 (refined.not_reached > 0 ? fmt::format(", {} not reached", refined.not_reached)
                                          : ""),
             2);
}

std::string command_text(const char* what, const FoundLayout& found) {
  return wrapped(fmt::format("{}: {}", what, layout_command(found)), 4);
}

// The reason why the first refused layout, which the search takes for legal, is refused.
std::string refusal_text(const SearchResult& result) {
  if (!result.refused_first) return "";
  return wrapped("The first refused, " + layout_name(result.refused_first->layout) + ": " +
                     result.refused_first->message,
                 2);
}

Json layout_json(const FoundLayout& found, const SearchResult& result, const SearchPrice& price) {
  Json set = Json::object();
  for (const Override& change : found.layout.variant.changes) set[change.path] = change.value;
  Json breakdown = Json::object();
  for (const auto& [name, seconds] : mean_breakdown(found.row)) breakdown[name] = seconds;
  const RowFigures& figures = found.figures;
  Json json = {
      {"layout", layout_name(found.layout)},
      {"set", std::move(set)},
      {"step_time_s", figures.step_time_s},
      {"tokens_per_s_per_gpu",
       figures.tokens_per_s_per_gpu ? Json(*figures.tokens_per_s_per_gpu) : Json()},
      {"mfu", figures.mfu ? Json(*figures.mfu) : Json()},
      {"peak_bytes", figures.peak_bytes},
      {"tight", is_tight(figures)},
      {"least_step_time_s", found.bound.step_time_s},
      {"least_peak_bytes", found.bound.peak_bytes},
      {"cost_per_million_tokens",
       price.per_gpu_hour ? Json(cost_per_million_tokens(*price.per_gpu_hour, result, found))
                          : Json()},
      {"breakdown_s", std::move(breakdown)}};
  if (figures.energy_kwh) json["energy_kwh"] = *figures.energy_kwh;
  if (figures.cost) json["cost"] = *figures.cost;
  if (figures.interval)
    json["interval_s"] = {figures.interval->low_s(), figures.interval->high_s()};
  if (const auto sure = first_is_quicker(result, found)) json["first_is_quicker"] = *sure;
  return json;
}

Json refined_json(const SearchResult& result, const SearchPrice& price) {
  if (!result.refined) return nullptr;
  Json best = Json::array();
  for (const FoundLayout& found : result.refined->best)
    best.push_back(layout_json(found, result, price));
  return {{"best", std::move(best)},
          {"changes", result.refined->changes},
          {"refused", result.refined->refused},
          {"out_by_time", result.refined->cannot_gain},
          {"simulated", result.refined->simulated}};
}

}  // namespace

double cost_per_million_tokens(double price_per_gpu_hour, const SearchResult& result,
                               const FoundLayout& found) {
  constexpr double kSecondsOfHour = 3600.0, kMillion = 1e6;
  return price_per_gpu_hour * result.gpus * found.figures.step_time_s / kSecondsOfHour /
         tokens_of(found.layout) * kMillion;
}

std::string best_layouts(SearchObjective objective, bool several) {
  const std::string_view layouts = several ? "layouts" : "layout";
  if (objective == SearchObjective::Time) return fmt::format("The quickest {}", layouts);
  return fmt::format("The {} of least {}", layouts, word_for(kSearchObjectives, objective));
}

std::string search_text(const SearchResult& result, const SearchPrice& price) {
  const std::string counts = counts_text(result) + refusal_text(result);
  if (result.best.empty()) {
    const bool ended = result.counts.not_reached + result.counts.combinations_not_read > 0;
    // A search that was ended early can only say that it has found none so far.
    const bool none = !ended && result.counts.refused == result.counts.legal;
    return (none    ? "Every layout is refused.\n"
            : ended ? "No layout that fits was found so far.\n"
                    : "No layout fits.\n") +
           counts;
  }
  std::string text = fmt::format("{} that fit (kernels, TP, PP, DP: % of the step)\n",
                                 best_layouts(result.objective, true)) +
                     best_table(result, price).text() + tight_text(result) + why_text(result);
  text += "\nPareto front: nothing is quicker with less memory\n" + front_table(result).text();
  text += refined_text(result) + "\n";
  text += command_text("The first again", result.best.front());
  if (result.refined && !result.refined->best.empty() &&
      result.refined->best.front().figures.step_time_s < result.best.front().figures.step_time_s)
    text += command_text("The quickest with its changes", result.refined->best.front());
  return text + counts;
}

Json search_json(const SearchResult& result, const SearchPrice& price) {
  Json best = Json::array();
  for (const FoundLayout& found : result.best) best.push_back(layout_json(found, result, price));
  Json front = Json::array();
  for (const FoundLayout& found : result.front) front.push_back(layout_json(found, result, price));
  const SearchCounts& counts = result.counts;
  return {{"objective", word_for(kSearchObjectives, result.objective)},
          {"unbounded", result.unbounded ? Json(*result.unbounded) : Json()},
          {"best", std::move(best)},
          {"front", std::move(front)},
          {"refined", refined_json(result, price)},
          {"counts",
           {{"combinations", counts.checked_layouts},
            {"legal", counts.legal},
            {"refused", counts.refused},
            {"out_by_memory", counts.too_large},
            {"out_by_time", counts.too_slow},
            {"simulated", counts.simulated},
            {"do_not_fit", counts.do_not_fit},
            {"not_reached", counts.not_reached},
            {"further_values", counts.further},
            {"further_values_not_reached", counts.combinations_not_read}}},
          {"refused_first", result.refused_first
                                ? Json{{"layout", layout_name(result.refused_first->layout)},
                                       {"message", result.refused_first->message}}
                                : Json()}};
}

std::string search_csv(const SearchResult& result, const SearchPrice& price) {
  std::string text =
      "list,place,layout,step_time_s,tokens_per_s_per_gpu,mfu,peak_bytes,least_step_time_s,"
      "least_peak_bytes,cost_per_million_tokens\n";
  const auto add = [&](const char* list, const std::vector<FoundLayout>& layouts) {
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      const FoundLayout& found = layouts[i];
      const RowFigures& figures = found.figures;
      const std::string cost =
          price.per_gpu_hour
              ? fmt::format("{}", cost_per_million_tokens(*price.per_gpu_hour, result, found))
              : "";
      text +=
          fmt::format("{},{},{},{},{},{},{},{},{},{}\n", list, i + 1,
                      csv_field(layout_name(found.layout)), figures.step_time_s,
                      figures.tokens_per_s_per_gpu.value_or(0.0), figures.mfu.value_or(0.0),
                      figures.peak_bytes, found.bound.step_time_s, found.bound.peak_bytes, cost);
    }
  };
  add("best", result.best);
  add("front", result.front);
  if (result.refined) add("refined", result.refined->best);
  return text;
}

}  // namespace trainyard
