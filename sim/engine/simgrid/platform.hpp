// The platform of one run, as SimGrid is told of it: a route for every flow that may meet others,
// one link for every set of links that flows share. A flow's own cap is one more link of its route,
// which is not shared.
//
// Bytes are counted in units of 2^-20 byte, because the payload of a Comm is a whole number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/link_sets.hpp"
#include "sim/engine/simgrid/fluid_solver.hpp"
#include "sim/fold/fold.hpp"

namespace trainyard {

inline constexpr double kUnitsPerByte = 1048576.0;

struct PricedLink {
  double capacity = 0.0;  // in the units of payloads, a second
  bool shared = true;     // false: bounds each flow alone
};

struct FlowRoute {
  std::uint32_t number = kNone;  // in Platform::routed; kNone: priced by a timer
  std::uint64_t payload_units = 0;
  std::uint32_t cap_link = kNone;  // in Platform::links: what only this flow crosses
  double seconds_alone = 0.0;      // when priced by a timer
};

// The cap of a flow that computation beside it slows: its bandwidth follows. SimGrid 3.32 never
// lets a Comm exceed what its links had when it started, so that it has to start at full speed.
struct SlowableCap {
  std::uint32_t flow_class = 0;
  std::uint32_t group_class = 0;
  std::uint32_t link = 0;  // in Platform::links
  double capacity = 0.0;   // at full speed
  double speed = 1.0;      // of the group now
};

// A shared link of a route, in Platform::links, and how often it is listed.
struct ListedLink {
  std::uint32_t link = 0;
  std::uint32_t count = 0;
};

struct Platform {
  std::vector<FlowRoute> routes;      // by flow class
  CsrLists<ListedLink> listed;        // by flow class
  std::vector<std::uint32_t> routed;  // flow classes that have a route, by its number
  std::vector<SlowableCap> caps;      // by flow class, ascending
  std::vector<PricedLink> links;      // one for each set, by its number, then the caps
  std::uint64_t rounded_weights = 0;
};

// `communication_loss`: by group class; empty: there is none.
[[nodiscard]] Platform build_platform(const Partition& partition, const LinkSets& sets,
                                      std::span<const double> communication_loss);

// Tells a fresh solver of it: its links and routes have the numbers they have here.
void tell(FluidSolver& solver, const Platform& platform);

// Weights as whole numbers, because a SimGrid route can only list a link once, twice, ... n times.
//
// Flow i puts weight w_i on a link, in its payloads. With a unit u and whole numbers n_i = w_i / u,
// a link of capacity C / u listed n_i times in the route of flow i shares exactly as the weighted
// link does:
//
//     sum of w_i x_i <= C    <=>    sum of n_i x_i <= C / u
//
// Worked: weights 1 and 3/4 on 100 GB/s: u = 1/4, listed 4 and 3 times, capacity 400 GB/s.
// Where the weights have no common unit that keeps the lists short, each is rounded up to a
// multiple of 1/32 of the flow's payload per flow, as design D4 lays down, and counted: at most
// 1/32 of the most loaded link too much. Held by tests/sim/engine/weights_test.cpp.
struct WholeWeights {
  double unit = 1.0;
  std::vector<std::uint32_t> counts;  // by user, in the order given; 1..1024
  std::uint32_t rounded = 0;          // users whose weight is not exactly count * unit
};

// REQUIRES: at least one user; positive weights.
[[nodiscard]] WholeWeights whole_weights(std::span<const LinkSet::User> users);

}  // namespace trainyard
