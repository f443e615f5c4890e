// Published prices of a GPU for an hour (models/power/prices.json), each with its date and source.
//
//    price_of_gpu_hour({.price_presets = {"aws_p5_on_demand"}}, "h100");   // 12.29 US dollars
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/power/settings.hpp"

namespace trainyard {

struct PublishedPrice {
  std::string name = {};
  std::string gpu = {};   // a name of kernels/profiles
  std::string kind = {};  // "on_demand", "reserved" or "spot"
  double per_gpu_hour = 0.0;
  std::string currency = {};
  std::string date = {};     // since when it applied, such as "2023-07"
  std::string quality = {};  // "read", or "recalled" from memory
  std::string source = {};

  // "12.29 USD for a GPU-hour, on_demand, 2023-07, recalled: Amazon EC2 ..."
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] std::vector<PublishedPrice> published_prices();
// The presets of the scenario, which are of different GPUs.
[[nodiscard]] std::vector<PublishedPrice> price_presets(const PowerSettings& power);

// Returns the price of an hour of this GPU: the scenario's own, which is that of every GPU, or else
// that of the preset of this one; nothing where it has neither.
[[nodiscard]] std::optional<double> price_of_gpu_hour(const PowerSettings& power,
                                                      const std::string& gpu);

}  // namespace trainyard
