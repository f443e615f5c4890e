#include <fmt/format.h>

#include <algorithm>

#include "sim/report/energy_figures.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"
#include "sim/report/stage_summary.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMillion = 1e6;

std::string watts(double value) {
  if (value >= 1e6) return fmt::format("{:.4g} MW", value / 1e6);
  return value >= 1e4 ? fmt::format("{:.4g} kW", value / 1e3) : fmt::format("{:.4g} W", value);
}

std::string joules(double value) {
  if (value >= 1e9) return fmt::format("{:.4g} GJ", value / 1e9);
  return value >= 1e6 ? fmt::format("{:.4g} MJ", value / 1e6)
                      : fmt::format("{:.4g} kJ", value / 1e3);
}

// "4.15 kWh, 1.7 kg CO2, electricity 0.33, cost 12.5": what is known.
std::string cost_text(const EnergyCost& cost) {
  std::string text = fmt::format("{:.4g} kWh", cost.kwh);
  if (cost.kg_co2) text += fmt::format(", {:.4g} kg CO2", *cost.kg_co2);
  if (cost.electricity) text += fmt::format(", electricity for {:.4g}", *cost.electricity);
  if (cost.capital) text += fmt::format(", capital {:.4g}", *cost.capital);
  if (const auto money = cost.money()) text += fmt::format(", cost {:.4g}", *money);
  return text;
}

// "clocks of the stages 100, 2 x 83 %: the step takes 1.02 s instead of 1.01 s (+0.8 %) and ...".
std::string clocks_text(const ClockFacts& clocks, const EnergyFigures& figures) {
  const double energy_j = figures.step.total();
  return fmt::format(
      "clocks of the stages {} % (step at most {} longer): the step takes {} instead of {} at full "
      "clocks ({}), and {} instead of {} ({})",
      counted_text(clocks.percent), percent(clocks.tolerance), to_text(Seconds{figures.step_s}),
      to_text(Seconds{clocks.full_step_s}), signed_percent(figures.step_s / clocks.full_step_s - 1),
      joules(energy_j), joules(clocks.full_step_j),
      signed_percent(energy_j / clocks.full_step_j - 1));
}

void add_costs(const RunView& view, const EnergyFigures& figures, std::vector<std::string>& lines) {
  lines.push_back("a step: " + cost_text(figures.cost(1.0)));
  if (const auto tokens = figures.cost_of_tokens(kMillion))
    lines.push_back(fmt::format("a million tokens: {}, {:.4g} J a token", cost_text(*tokens),
                                tokens->joules / kMillion));
  if (view.facts.token_budget <= 0.0) return;
  if (const auto tokens = figures.cost_of_tokens(view.facts.token_budget))
    lines.push_back(
        fmt::format("{} tokens: {}", short_count(view.facts.token_budget), cost_text(*tokens)));
}

Json cost_json(const EnergyCost& cost) {
  return {{"energy_j", cost.joules},
          {"energy_kwh", cost.kwh},
          {"co2_kg", or_null(cost.kg_co2)},
          {"electricity_cost", or_null(cost.electricity)},
          {"capital_cost", or_null(cost.capital)},
          {"cost", or_null(cost.money())}};
}

Json cost_json(const std::optional<EnergyCost>& cost) {
  return cost ? cost_json(*cost) : Json(nullptr);
}

}  // namespace

TextTable energy_table(const EnergyFigures& figures) {
  TextTable table({"", "energy", "share"});
  for (std::size_t kind = 0; kind < kPowerKinds; ++kind) {
    const double part = figures.step.joules[kind];
    if (part > 0.0)
      table.row({std::string(to_string(static_cast<PowerKind>(kind))), joules(part),
                 percent(part / figures.step.total())});
  }
  return table;
}

std::vector<std::string> energy_lines(const RunView& view, const EnergyFigures& figures) {
  const PowerPeaks peaks = power_peaks(view);
  std::vector<std::string> lines{
      fmt::format("mean power: GPU {}, node {}, cluster {}", watts(figures.mean_gpu_w),
                  watts(figures.mean_node_w), watts(figures.mean_cluster_w)),
      fmt::format("peak power: GPU {}, node {}, cluster {}", watts(peaks.gpu_w),
                  watts(peaks.node_w), watts(peaks.cluster_w)),
      fmt::format("largest change of a rack of {} nodes: {} in 10 ms, {} in 100 ms, {} in 1 s",
                  std::min(view.power->nodes_per_rack, view.cluster.facts().nodes),
                  watts(peaks.rack_change_w[0]), watts(peaks.rack_change_w[1]),
                  watts(peaks.rack_change_w[2]))};
  if (view.facts.clocks) lines.push_back(clocks_text(*view.facts.clocks, figures));
  add_costs(view, figures, lines);
  if (!view.facts.gpu_hour_price_source.empty())
    lines.push_back("price preset: " + view.facts.gpu_hour_price_source);
  return lines;
}

bool has_energy(const RunView& view) {
  return view.power != nullptr && view.timeline.makespan_s > 0.0;
}

std::string energy_section(const RunView& view) {
  if (!has_energy(view)) return "";
  const EnergyFigures figures = energy_figures(view);
  std::string text = fmt::format("Energy of a step: {} (idle: bubbles and waiting too)\n{}",
                                 joules(figures.step.total()), energy_table(figures).text());
  for (const std::string& line : energy_lines(view, figures)) text += wrapped("  " + line, 4);
  return text;
}

Json energy_json(const RunView& view) {
  if (view.power == nullptr) return nullptr;
  const EnergyFigures figures = energy_figures(view);
  const PowerPeaks peaks = power_peaks(view);
  Json kinds = Json::object();
  for (std::size_t kind = 0; kind < kPowerKinds; ++kind)
    kinds[std::string(to_string(static_cast<PowerKind>(kind)))] = figures.step.joules[kind];
  const auto tokens = figures.cost_of_tokens(kMillion);
  const std::string& source = view.facts.gpu_hour_price_source;
  return {{"by_kind_j", std::move(kinds)},
          {"mean_w",
           {{"gpu", figures.mean_gpu_w},
            {"node", figures.mean_node_w},
            {"cluster", figures.mean_cluster_w}}},
          {"peak_w", {{"gpu", peaks.gpu_w}, {"node", peaks.node_w}, {"cluster", peaks.cluster_w}}},
          {"rack_change_w",
           {{"within_10_ms", peaks.rack_change_w[0]},
            {"within_100_ms", peaks.rack_change_w[1]},
            {"within_1_s", peaks.rack_change_w[2]}}},
          {"step", cost_json(figures.cost(1.0))},
          {"gpu_hour_price", or_null(view.facts.gpu_hour_price)},
          {"gpu_hour_price_source", source.empty() ? Json(nullptr) : Json(source)},
          {"joules_per_token", tokens ? Json(tokens->joules / kMillion) : Json(nullptr)},
          {"million_tokens", cost_json(tokens)},
          {"training", view.facts.token_budget > 0.0
                           ? cost_json(figures.cost_of_tokens(view.facts.token_budget))
                           : Json(nullptr)}};
}

// One row for each time of constant power of the cluster.
std::string energy_csv(const RunView& view) {
  std::string text = "start_s,end_s,cluster_w\n";
  if (view.power == nullptr) return text;
  const PowerSeries cluster =
      power_traces(view.cluster, view.workload, view.partition, view.timeline, *view.power).cluster;
  for (std::size_t i = 0; i < cluster.at_s.size(); ++i)
    text += fmt::format("{},{},{}\n", cluster.at_s[i],
                        i + 1 < cluster.at_s.size() ? cluster.at_s[i + 1] : cluster.end_s,
                        cluster.watts[i]);
  return text;
}

}  // namespace trainyard
