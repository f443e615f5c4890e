// Faults with dates: a GPU whose kernels run slower, or a link with less capacity, for a part of a
// run.
//
//    ClusterFacts facts{.timed_faults = {{.gpu = 3, .rate_left = 0.8, .from_s = 1.5}}};
//    rates_of_gpu(facts, 3);   // {{0 s, 1}, {1.5 s, 0.8}}
//    rates_of_gpu(facts, 4);   // {}: nothing changes
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/wire.hpp"

namespace trainyard {

struct TimedFault {
  std::string part = {};                  // "node 0 gpu 3", "node 3 nic 2 to leaf 2"
  std::optional<std::uint32_t> gpu = {};  // in rank order: its kernels are slower; none: a link is
  DeviceId from = 0;                      // the ends of the link, in both directions
  DeviceId to = 0;
  double rate_left = 1.0;  // share of the rate, > 0
  double from_s = 0.0;     // seconds since the run began
  double until_s = std::numeric_limits<double>::infinity();
  bool operator==(const TimedFault&) const = default;
};

// From this date until the next entry's, a part has this share of its rate.
struct RateStep {
  double from_s = 0.0;
  double rate = 1.0;
  bool operator==(const RateStep&) const = default;
};

struct ClusterFacts;
class Cluster;
// The rates of one GPU's kernels, from 0 on; empty where no fault hits it. Faults of one part
// multiply.
[[nodiscard]] std::vector<RateStep> rates_of_gpu(const ClusterFacts& facts, std::uint32_t gpu);
// The rates of the links of a set (parallel_links.hpp) with this lowest link, or of a single link.
// Parallel links carry equal loads, so that traffic over all of them waits for the slowest.
[[nodiscard]] std::vector<RateStep> rates_of_links(const Cluster& cluster, LinkId lowest);
[[nodiscard]] bool has_timed_links(const ClusterFacts& facts);

}  // namespace trainyard
