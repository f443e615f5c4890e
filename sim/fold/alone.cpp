#include "sim/fold/alone.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace trainyard {

double chain_seconds_alone(const Cluster& cluster, const Partition& partition,
                           const FlowClass& flow) {
  double rate = flow.rate_alone.value_or(flow.rate_cap_bytes_per_s);
  for (const FlowClass::Weight& weight : flow.weights) {
    if (!weight.contended) continue;  // is in the cap, or cannot limit
    const Link& link = cluster.link(partition.links[weight.link_class].representative);
    rate = std::min(rate, link.capacity.value() / weight.chain_load);
  }
  TY_CHECK(rate > 0.0, rate);
  return flow.payload_bytes / rate;
}

double call_seconds_alone(const Cluster& cluster, const Partition& partition,
                          std::uint32_t group_class, std::uint32_t call) {
  const auto& calls = partition.phases.at(group_class);
  if (call >= calls.size()) return 0.0;
  double seconds = 0.0;
  for (const FoldedPhase& phase : calls[call]) {
    double longest = 0.0;
    for (const std::uint32_t flow : phase.flows) {
      if (partition.flows[flow].payload_bytes <= 0.0) continue;
      longest = std::max(longest, chain_seconds_alone(cluster, partition, partition.flows[flow]));
    }
    seconds += phase.latency_s + longest;
  }
  return seconds;
}

}  // namespace trainyard
