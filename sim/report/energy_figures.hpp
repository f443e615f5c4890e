// Energy, power and cost of a run, from its step functions of power and from prices.
//
//    const EnergyFigures e = energy_figures(view);   // REQUIRES: view.power
//    e.step.total();  e.mean_node_w;  e.cost(1.0).money();   // joules, watts, money of a step
//
// The cost of a rented GPU-hour includes its electricity; the cost of a bought GPU is capital,
// spread evenly over its years, and electricity:
//
//    rented:  GPU-hours * price
//    bought:  GPU-hours * capital / (years * 8 766 h) + kWh * price
//
// Worked: 64 GPUs for 36 s are 0.64 GPU-hours, at 2.5 a GPU-hour 1.6.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/render/text_table.hpp"
#include "sim/report/run_view.hpp"
#include "sim/timeline/energy.hpp"

namespace trainyard {

// Energy and cost of a number of steps. A cost is absent where its price is not given.
struct EnergyCost {
  double joules = 0.0;
  double kwh = 0.0;
  std::optional<double> kg_co2 = {};
  std::optional<double> electricity = {};
  std::optional<double> rent = {};     // GPU-hours, electricity included
  std::optional<double> capital = {};  // of bought GPUs
  // Rent, or else capital and electricity; absent where neither is known.
  [[nodiscard]] std::optional<double> money() const;
};

// Lengths of time within which changes of power are reported.
inline constexpr std::array<double, 3> kPowerWindows_s{0.01, 0.1, 1.0};

// The capital of a bought GPU for an hour; nothing where its price or its years are not given.
[[nodiscard]] std::optional<double> capital_per_gpu_hour(const EnergyPrices& prices);

struct EnergyFigures {
  Energy step;  // joules of the cluster, mean over steps as in RunView::step_s()
  double step_s = 0.0;
  double gpus = 0.0;
  double tokens_per_step = 0.0;  // 0: not known
  double mean_gpu_w = 0.0, mean_node_w = 0.0, mean_cluster_w = 0.0;
  EnergyPrices prices;
  std::optional<double> gpu_hour_price;

  // Returns the cost of a number of steps, which need not be whole.
  [[nodiscard]] EnergyCost cost(double steps) const;
  // Returns the cost of a number of tokens; nothing where the tokens of a step are not known.
  [[nodiscard]] std::optional<EnergyCost> cost_of_tokens(double tokens) const;
};

// REQUIRES: view.power.
[[nodiscard]] EnergyFigures energy_figures(const RunView& view);

// Figures that need the power of every node over time.
struct PowerPeaks {
  double gpu_w = 0.0, node_w = 0.0, cluster_w = 0.0;
  std::array<double, kPowerWindows_s.size()> rack_change_w{};  // of the rack where it is largest
};
[[nodiscard]] PowerPeaks power_peaks(const PowerTraces& traces);
// REQUIRES: view.power.
[[nodiscard]] PowerPeaks power_peaks(const RunView& view);

// Whether the run has power and takes time, so that the report has a section on energy.
[[nodiscard]] bool has_energy(const RunView& view);
// The energy of a step by kind, with shares.
[[nodiscard]] TextTable energy_table(const EnergyFigures& figures);
// One sentence each on power, its changes, and what a step, a million tokens and the training cost.
[[nodiscard]] std::vector<std::string> energy_lines(const RunView& view,
                                                    const EnergyFigures& figures);

}  // namespace trainyard
