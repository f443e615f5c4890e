// The SimGrid platform of one run: a route for every flow that may share links with others, and one
// link for every set of links that flows share. A flow's own rate cap is one more link of its
// route, which is not shared.
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
  double capacity = 0.0;  // payload units per second
  bool shared = true;     // false: it limits each flow alone
};

struct FlowRoute {
  std::uint32_t number = kNone;  // index in Platform::routed; kNone: a timer prices the flow
  std::uint64_t payload_units = 0;
  std::uint32_t cap_link = kNone;  // index in Platform::links; only this flow crosses it
  double seconds_alone = 0.0;      // where a timer prices the flow
};

// The cap of a flow that computation slows: its bandwidth changes with the speed of the group.
// SimGrid 3.32 never lets a Comm exceed the bandwidth that its links had when it started, so the
// Comm has to start at full speed.
struct SlowableCap {
  std::uint32_t flow_class = 0;
  std::uint32_t group_class = 0;
  std::uint32_t link = 0;  // index in Platform::links
  double capacity = 0.0;   // at full speed, in payload units per second
  double speed = 1.0;      // present speed of the group
};

// A shared link of a route (index in Platform::links), and how often the route lists it.
struct ListedLink {
  std::uint32_t link = 0;
  std::uint32_t count = 0;
};

struct Platform {
  std::vector<FlowRoute> routes;      // indexed by flow class
  CsrLists<ListedLink> listed;        // indexed by flow class
  std::vector<std::uint32_t> routed;  // flow classes with a route, by its number
  std::vector<SlowableCap> caps;      // ascending by flow class
  std::vector<PricedLink> links;      // one for each set, in the order of sets, then the caps
  std::uint64_t rounded_weights = 0;
};

// `communication_loss`: by group class; empty: there is none.
[[nodiscard]] Platform build_platform(const Partition& partition, const LinkSets& sets,
                                      std::span<const double> communication_loss);

// Adds the platform to a fresh solver. Links and routes get the numbers that they have here.
void tell(FluidSolver& solver, const Platform& platform);

// Weights as whole numbers, because a SimGrid route can only list a link once, twice, ... n times.
//
// Flow i puts weight w_i on a link, in its payloads. With a unit u and whole numbers n_i = w_i / u,
// a link of capacity C / u listed n_i times in the route of flow i shares exactly as the weighted
// link does:
//
//    sum of w_i x_i <= C    <=>    sum of n_i x_i <= C / u
//
// Worked: weights 1 and 3/4 on 100 GB/s: u = 1/4, listed 4 and 3 times, capacity 400 GB/s. Some
// weights have no common unit that keeps the lists short. Each of these is rounded up to a multiple
// of 1/32 of the flow's payload per flow (decision D4), and counted. The error is at most 1/32 of
// the most loaded link. tests/sim/engine/weights_test.cpp checks it.
struct WholeWeights {
  double unit = 1.0;
  std::vector<std::uint32_t> counts;  // by user, in the order given; 1..1024
  std::uint32_t rounded = 0;          // users whose weight is not exactly count * unit
};

// REQUIRES: at least one user; positive weights.
[[nodiscard]] WholeWeights whole_weights(std::span<const LinkSet::User> users);

}  // namespace trainyard
