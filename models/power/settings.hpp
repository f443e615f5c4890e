// The block `power` of a scenario: caps, prices, and the building around the cluster.
#pragma once

#include <cstdint>
#include <optional>

namespace trainyard {

// Absent: no cap, or a price that is not given. Prices are in any one currency.
struct PowerSettings {
  std::optional<double> gpu_cap_w = {};
  std::optional<double> node_cap_w = {};  // at the wall
  double pue = 1.0;                       // power of the building over that of its computers
  std::int64_t nodes_per_rack = 4;
  std::optional<double> price_per_kwh = {};
  std::optional<double> kg_co2_per_kwh = {};
  std::optional<double> price_per_gpu_hour = {};
  std::optional<double> capital_per_gpu = {};  // to buy a GPU with its part of node and network
  std::optional<double> capital_years = {};    // over which the capital is spread
  bool operator==(const PowerSettings&) const = default;
};

}  // namespace trainyard
