#include "sim/report/energy_figures.hpp"

#include <algorithm>

namespace trainyard {

namespace {

constexpr double kJoulesPerKwh = 3.6e6;
constexpr double kSecondsPerHour = 3600.0;
constexpr double kHoursPerYear = 365.25 * 24.0;

}  // namespace

std::optional<double> EnergyCost::money() const {
  if (rent) return rent;
  if (!capital && !electricity) return {};
  return capital.value_or(0.0) + electricity.value_or(0.0);
}

std::optional<double> capital_per_gpu_hour(const EnergyPrices& prices) {
  if (!prices.capital_per_gpu || !prices.capital_years) return {};
  return *prices.capital_per_gpu / (*prices.capital_years * kHoursPerYear);
}

EnergyCost EnergyFigures::cost(double steps) const {
  EnergyCost cost{.joules = steps * step.total()};
  cost.kwh = cost.joules / kJoulesPerKwh;
  const double gpu_hours = steps * step_s * gpus / kSecondsPerHour;
  if (prices.kg_co2_per_kwh) cost.kg_co2 = cost.kwh * *prices.kg_co2_per_kwh;
  if (prices.per_kwh) cost.electricity = cost.kwh * *prices.per_kwh;
  if (gpu_hour_price) cost.rent = gpu_hours * *gpu_hour_price;
  if (const auto capital = capital_per_gpu_hour(prices)) cost.capital = gpu_hours * *capital;
  return cost;
}

std::optional<EnergyCost> EnergyFigures::cost_of_tokens(double tokens) const {
  if (tokens_per_step <= 0.0) return {};
  return cost(tokens / tokens_per_step);
}

EnergyFigures energy_figures(const RunView& view) {
  EnergyFigures figures{
      .step = run_energy(view.cluster, view.workload, view.partition, view.timeline, *view.power),
      .step_s = view.step_s(),
      .gpus = static_cast<double>(view.cluster.gpus().size()),
      .tokens_per_step = view.facts.tokens_per_step,
      .prices = view.facts.energy_prices,
      .gpu_hour_price = view.facts.gpu_hour_price};
  // Figures are means over the steps that the run plays. Where workers train apart, each step also
  // has its share of an exchange.
  for (double& joules : figures.step.joules) joules /= view.facts.steps;
  if (const auto& local = view.facts.local_steps)
    for (std::size_t kind = 0; kind < kPowerKinds; ++kind)
      figures.step.joules[kind] += local->exchange.joules[kind] / static_cast<double>(local->every);
  if (figures.step_s <= 0.0) return figures;
  // A node has its GPUs, host and NICs. Switches and cooling belong to the cluster only.
  const Energy& step = figures.step;
  const double gpus_w = (step.of(PowerKind::Compute) + step.of(PowerKind::MemoryBound) +
                         step.of(PowerKind::Communication) + step.of(PowerKind::Idle)) /
                        figures.step_s;
  const double inside_w =
      gpus_w + (step.of(PowerKind::Host) + step.of(PowerKind::Nic)) / figures.step_s;
  figures.mean_gpu_w = gpus_w / figures.gpus;
  figures.mean_node_w = inside_w / view.cluster.facts().nodes;
  figures.mean_cluster_w = step.total() / figures.step_s;
  return figures;
}

PowerPeaks power_peaks(const RunView& view) {
  return power_peaks(
      power_traces(view.cluster, view.workload, view.partition, view.timeline, *view.power));
}

PowerPeaks power_peaks(const PowerTraces& traces) {
  PowerPeaks peaks{.cluster_w = traces.cluster.peak_w()};
  for (const PowerSeries& gpu : traces.gpus) peaks.gpu_w = std::max(peaks.gpu_w, gpu.peak_w());
  for (const PowerSeries& node : traces.nodes) peaks.node_w = std::max(peaks.node_w, node.peak_w());
  for (const PowerSeries& rack : traces.racks)
    for (std::size_t i = 0; i < kPowerWindows_s.size(); ++i)
      peaks.rack_change_w[i] =
          std::max(peaks.rack_change_w[i], rack.largest_change_w(kPowerWindows_s[i]));
  return peaks;
}

}  // namespace trainyard
