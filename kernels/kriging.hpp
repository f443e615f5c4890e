// Reading between scattered measurements that come in families: simple kriging from the nearest.
//
//   std::vector<Observation> seen = {{{11.0, 5.0}, 0, 8.0, 0.12}, ...};
//   kriged(seen, {.place = {11.5, 5.0}, .family = 0, .along = 9.0});
//
// A value is taken as mean + smooth(place) + own(family, along): two independent random fields, of
// which values at distance d have correlation exp(-d / length) (Matheron 1963, Economic Geology 58;
// Rasmussen and Williams 2006, equations 2.23 and 4.18). The first says that like shapes behave
// alike, the second that one family keeps its own offset (a library that chose a slow kernel for
// it). The best linear prediction from the nearest observations y is
//   mean + c' (C + noise I)^-1 (y - mean)
// with C their covariances and c those with the query. One worked number: a single observation of
// value 0.3 at distance 0 of the same family, mean 0: 2 / 2.005 * 0.3 = 0.29925.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

namespace trainyard {

inline constexpr std::size_t kriging_dimensions = 7;

struct Spot {
  std::array<double, kriging_dimensions> place{};  // logarithms to base 2
  std::size_t family = 0;
  double along = 0.0;  // where in its family
};

struct Observation {
  Spot spot;
  double value = 0.0;
};

struct KrigingRule {
  double place_length = 8.0;     // octaves over which like shapes stay alike
  double family_length = 10.0;   // octaves over which an offset of a family lasts
  double family_variance = 1.0;  // of the families' offsets, relative to the smooth field
  double noise = 0.005;          // variance of one measurement, relative to the smooth field
  std::size_t nearest = 160;     // observations that are asked
  std::optional<double> mean{};  // nothing: the median of those that are asked
};

// The prediction. No observation: 0.
[[nodiscard]] double kriged(std::span<const Observation> observations, const Spot& query,
                            const KrigingRule& rule = {});

}  // namespace trainyard
