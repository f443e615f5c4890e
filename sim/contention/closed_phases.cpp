#include "sim/contention/closed_phases.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "sim/contention/max_min.hpp"
#include "sim/contention/never_concurrent.hpp"  // IWYU pragma: keep (members)

namespace trainyard {

namespace {

// Numbers of the links of a phase, given in the order in which its flows load them.
using LinkNumbers = std::vector<std::uint32_t>;
constexpr std::uint32_t kNoNumber = std::numeric_limits<std::uint32_t>::max();

// Prices one phase. `numbers` has kNoNumber for every link, before and after, so that one table
// over all links serves all phases. Equal flows load links together and end together, so they are
// one flow here: it has the rate of one of them and takes the capacity of all.
void price(const Cluster& cluster, const JointGraph& joint, const LinkLimits& limits, GroupId group,
           LinkNumbers& numbers, ShapedPhase& phase) {
  const auto shape_of = [&](const ShapedFlow& link_flow) {
    return joint.shape(joint.first_shape[group] + link_flow.shape);
  };
  MaxMinFlows flows;
  std::vector<LinkId> numbered;
  for (const ShapedFlow& link_flow : phase.flows) {
    MaxMinFlow flow{.payload = link_flow.payload_bytes, .cap = link_flow.rate_cap_bytes_per_s};
    for (const auto& [link, load] : shape_of(link_flow)) {
      if (limits.redundant[link]) continue;
      if (numbers[link] == kNoNumber) {
        const double capacity = cluster.wiring().wire(link).capacity.value();
        numbers[link] = static_cast<std::uint32_t>(flows.add_link(capacity));
        numbered.push_back(link);
      }
      flow.loads.emplace_back(numbers[link], joint.loads[load] * link_flow.count);
    }
    flows.add(std::move(flow));
  }
  for (const LinkId link : numbered) numbers[link] = kNoNumber;
  while (flows.share()) flows.advance(flows.until_next_end());
  for (std::size_t i = 0; i < phase.flows.size(); ++i) {
    ShapedFlow& link_flow = phase.flows[i];
    // The cap from here on is the mean rate over the life of the flow, with which it ends at the
    // same moment. Its former cap is the rate that it has alone.
    link_flow.rate_alone = link_flow.rate_cap_bytes_per_s;
    link_flow.rate_cap_bytes_per_s = link_flow.payload_bytes / flows.end_s(i);
  }
}

}  // namespace

void close_phases(const Cluster& cluster, const JointGraph& joint, const LinkLimits& limits,
                  GroupTraffic& traffic) {
  const std::vector<bool>& closed = limits.concurrency->closed;
  LinkNumbers numbers(cluster.links().size(), kNoNumber);
  for (GroupId group = 0; group < closed.size(); ++group) {
    if (!closed[group]) continue;
    std::vector<GroupCall> calls = traffic.of(group);
    for (GroupCall& made : calls)
      for (ShapedPhase& phase : made.phases) price(cluster, joint, limits, group, numbers, phase);
    // Groups that shared their calls may get different caps, so each closed group has its own.
    traffic.of_group[group] = static_cast<std::uint32_t>(traffic.calls.size());
    traffic.calls.push_back(std::move(calls));
  }
}

}  // namespace trainyard
