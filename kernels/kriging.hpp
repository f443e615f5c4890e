// Interpolation between scattered measurements that belong to families: simple kriging from the
// nearest observations.
//
//    const std::vector<Observation> seen = {
//        {.spot = {.place = {11.0, 5.0}, .family = 0, .along = 8.0}, .value = 0.12}};
//    kriged(seen, {.place = {11.5, 5.0}, .family = 0, .along = 9.0});   // 0.12
//
// A value is modelled as mean + smooth(place) + own(family, along): two independent random fields,
// in which values at distance d have correlation exp(-d / length) (Matheron 1963, Economic Geology
// 58; Rasmussen and Williams 2006, equations 2.23 and 4.18). The first field models that similar
// shapes behave similarly. The second models the offset of a family, such as a library that chose a
// slow kernel for it. The best linear prediction from the nearest observations y is
//
//    mean + c' (C + noise I)^-1 (y - mean)
//
// with C their covariances and c those with the query. Example: a single observation of value 0.3
// at distance 0 in the same family, with mean 0, gives 2 / 2.005 * 0.3 = 0.29925.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

namespace trainyard {

inline constexpr std::size_t kriging_dimensions = 7;

struct Spot {
  std::array<double, kriging_dimensions> place{};  // coordinates, as logarithms to base 2
  std::size_t family = 0;
  double along = 0.0;  // coordinate within its family
};

struct Observation {
  Spot spot;
  double value = 0.0;
};

struct KrigingRule {
  double place_length = 8.0;     // correlation length of the smooth field, in octaves
  double family_length = 10.0;   // correlation length of the offset of a family, in octaves
  double family_variance = 1.0;  // variance of the families' offsets, relative to the smooth field
  double noise = 0.005;          // variance of one measurement, relative to the smooth field
  std::size_t nearest = 160;     // number of observations that are used
  std::optional<double> mean{};  // empty: the median of the observations that are used
};

// The prediction; 0 without observations.
[[nodiscard]] double kriged(std::span<const Observation> observations, const Spot& query,
                            const KrigingRule& rule = {});

}  // namespace trainyard
