// Links in closed form: of a leaf to its 64 spines the first link, the first spine, and how far it
// is from each to the next.
//
//   wiring.for_each_series([&](const LinkSeries& series) { use(series.from[0], series.to[0]); });
#pragma once

#include <cstdint>

#include "sim/base/series.hpp"
#include "sim/cluster/wire.hpp"

namespace trainyard {

// What the links of a series have in common at their other ends.
struct Far {
  std::uint32_t wire = 0;
  DeviceKind kind = DeviceKind::Gpu;
  bool operator==(const Far&) const = default;
};

// Links of which numbers and ends are each one behind the other; their numbers ascend.
struct LinkSeries {
  Series links = {};  // the count of this one is that of all
  Series from = {};
  Series to = {};
  DeviceKind from_kind = DeviceKind::Gpu;
  DeviceKind to_kind = DeviceKind::Gpu;
  std::uint32_t wire = 0;
};

}  // namespace trainyard
