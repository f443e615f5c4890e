// The block `power` of a scenario: caps, clocks, prices, and the building around the cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard {

// The lowest and the full clock, in percent. The constants of power are fitted to cap curves that
// reach 48 % (100 W on a V100 of 250 W takes 3583 instead of 1733 s; row zeus-v100-bert).
inline constexpr std::int64_t kLeastClock = 50;

inline constexpr std::int64_t kFullClock = 100;
inline constexpr const char* kNoPreset = "none";

// Absent: no cap, or a price that is not given. Prices are in any one currency.
struct PowerSettings {
  std::optional<double> gpu_cap_w = {};
  std::optional<double> node_cap_w = {};  // at the wall
  // The clock of each pipeline stage in percent of the full one. Empty: the full one everywhere.
  std::vector<std::int64_t> stage_clocks = {};
  // Searches the lowest clocks at which the step grows by at most this share
  // (scenarios/simulate/stage_clocks.hpp).
  std::optional<double> clock_tolerance = {};
  double pue = 1.0;  // power of the building over that of its computers
  std::int64_t nodes_per_rack = 4;
  std::optional<double> price_per_kwh = {};
  std::optional<double> kg_co2_per_kwh = {};
  std::optional<double> price_per_gpu_hour = {};
  std::vector<std::string> price_presets = {};  // names of models/power/prices.json, one for a GPU
  std::optional<double> capital_per_gpu = {};   // to buy a GPU with its part of node and network
  std::optional<double> capital_years = {};     // over which the capital is spread
  bool operator==(const PowerSettings&) const = default;
};

}  // namespace trainyard
