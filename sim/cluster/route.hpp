// The links that a message crosses, and how much of it crosses each.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cluster/wire.hpp"

namespace trainyard {

// A flow of one byte from a to b puts `fraction` bytes on the link (1/16 on each of 16 spines).
struct RouteHop {
  LinkId link = 0;
  double fraction = 1.0;
  // So many links in all have that load: the whole bundle of which `link` is the lowest
  // (link_bundles.hpp), where a route is told by bundles.
  std::uint32_t alike = 1;
};
using Route = std::vector<RouteHop>;

// Whether a route names every link, or of a bundle that it loads alike only the lowest.
enum class RouteDetail : std::uint8_t { EveryLink, Bundles };

}  // namespace trainyard
