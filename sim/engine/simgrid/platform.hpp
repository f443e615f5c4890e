// The SimGrid platform of one run: for every flow that may meet others, a pair of virtual hosts and
// the route between them; for every set of links that flows share, one SimGrid link.
//
// Links that are private to a flow (solitude.hpp) cannot be shared at any moment: they only bound
// the flow's rate, and become, with the flow's own cap, a single unshared link of its route.
//
// Bytes are counted in units of 2^-20 byte, because the payload of a Comm is a whole number.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/link_sets.hpp"
#include "sim/engine/simgrid/shim.hpp"
#include "sim/graph/fold.hpp"

namespace trainyard {

inline constexpr double kUnitsPerByte = 1048576.0;

// A SimGrid link and what its fill says about the utilisation of sets.
struct PricedLink {
  const simgrid_shim::s4u::Link* link = nullptr;
  double capacity = 0.0;              // as SimGrid counts it
  std::vector<LinkSets::Share> sets;  // utilisation of the set = weight * fill / capacity
};

struct FlowRoute {
  simgrid_shim::s4u::Host* from = nullptr;  // nullptr: priced by a timer
  simgrid_shim::s4u::Host* to = nullptr;
  std::uint64_t payload_units = 0;
  std::uint32_t cap_link = kNone;  // in Platform::links: what only this flow crosses
  // The shared links of the route, in Platform::links, and how often each is listed.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> listed = {};
  double seconds_alone = 0.0;  // when priced by a timer
};

// The cap of a flow that computation beside it slows: its bandwidth follows. SimGrid 3.32 never
// lets a Comm exceed what its links had when it started, so that it has to start at full speed.
struct SlowableCap {
  std::uint32_t flow_class = 0;
  std::uint32_t group_class = 0;
  simgrid_shim::s4u::Link* link = nullptr;
  double capacity = 0.0;  // at full speed
  double speed = 1.0;     // of the group now
};

struct Platform {
  std::vector<FlowRoute> routes;  // by flow class
  std::vector<SlowableCap> caps;  // by flow class, ascending
  std::vector<PricedLink> links;
  std::vector<std::uint32_t> link_of_set;  // in `links`, by set; kNone: of the caps of its flows
  std::uint64_t rounded_weights = 0;
};

struct PlatformOptions {
  bool timers_for_solitary_flows = true;
  std::span<const double> communication_loss = {};  // by group class; empty: none
};

// REQUIRES: a fresh engine. `is_private` is by set.
[[nodiscard]] Platform build_platform(simgrid_shim::s4u::Engine& engine, const Partition& partition,
                                      const LinkSets& sets, const std::vector<bool>& is_private,
                                      const PlatformOptions& options);

}  // namespace trainyard
