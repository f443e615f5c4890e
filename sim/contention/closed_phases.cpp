#include "sim/contention/closed_phases.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "sim/contention/max_min.hpp"

namespace trainyard {

namespace {

// Chains of a phase beyond which the engine had better price it.
constexpr std::size_t kMostChains = 16;

// By group: whether all that its chains meet is each other, in phases of few chains.
std::vector<bool> closed_groups(const JointGraph& joint, const LinkLimits& limits) {
  std::vector<bool> closed(joint.traffic_of.size(), false);
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape) {
    if (limits.meets[shape]) closed[joint.group_of_shape[shape]] = true;
  }
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape) {
    if (limits.meets_others[shape]) closed[joint.group_of_shape[shape]] = false;
  }
  const auto has_many_chains = [](const GroupCall& made) {
    return std::ranges::any_of(
        made.phases, [](const ShapedPhase& phase) { return phase.chains.size() > kMostChains; });
  };
  for (GroupId group = 0; group < closed.size(); ++group) {
    if (closed[group] && std::ranges::any_of(joint.calls_of(group), has_many_chains))
      closed[group] = false;
  }
  return closed;
}

double rate_alone(const Cluster& cluster, const JointGraph& joint, const LinkLimits& limits,
                  std::span<const ShapeLoad> shape, double rate) {
  for (const auto& [link, load] : shape) {
    if (limits.redundant[link]) continue;
    rate = std::min(rate, cluster.wiring().wire(link).capacity.value() / joint.loads[load]);
  }
  return rate;
}

// Numbers of links in a phase, given in the order they are met.
using LinkNumbers = std::vector<std::uint32_t>;
constexpr std::uint32_t kNoNumber = std::numeric_limits<std::uint32_t>::max();

// `numbers` has kNoNumber for every link, before and after. Equal chains have one fate: they load
// links together.
void price(const Cluster& cluster, const JointGraph& joint, const LinkLimits& limits, GroupId group,
           LinkNumbers& numbers, ShapedPhase& phase) {
  const auto shape_of = [&](const ShapedChain& chain) {
    return joint.shape(joint.first_shape[group] + chain.shape);
  };
  MaxMinFlows flows;
  std::vector<LinkId> numbered;
  for (const ShapedChain& chain : phase.chains) {
    MaxMinFlow flow{.payload = chain.payload_bytes, .cap = chain.rate_cap_bytes_per_s};
    for (const auto& [link, load] : shape_of(chain)) {
      if (limits.redundant[link]) continue;
      if (numbers[link] == kNoNumber) {
        const double capacity = cluster.wiring().wire(link).capacity.value();
        numbers[link] = static_cast<std::uint32_t>(flows.add_link(capacity));
        numbered.push_back(link);
      }
      flow.loads.emplace_back(numbers[link], joint.loads[load] * chain.count);
    }
    flows.add(std::move(flow));
  }
  for (const LinkId link : numbered) numbers[link] = kNoNumber;
  while (flows.share()) flows.advance(flows.until_next_end());
  for (std::size_t i = 0; i < phase.chains.size(); ++i) {
    ShapedChain& chain = phase.chains[i];
    chain.rate_alone =
        rate_alone(cluster, joint, limits, shape_of(chain), chain.rate_cap_bytes_per_s);
    chain.rate_cap_bytes_per_s = chain.payload_bytes / flows.end_s(i);
  }
}

}  // namespace

Contention close_phases(const Cluster& cluster, Contention open) {
  auto& [joint, limits] = open;
  const std::vector<bool> closed = closed_groups(joint, limits);
  LinkNumbers numbers(cluster.links().size(), kNoNumber);
  for (GroupId group = 0; group < closed.size(); ++group) {
    if (!closed[group]) continue;
    std::vector<GroupCall> calls = joint.calls_of(group);
    for (GroupCall& made : calls)
      for (ShapedPhase& phase : made.phases) price(cluster, joint, limits, group, numbers, phase);
    joint.traffic_of[group] = static_cast<std::uint32_t>(joint.traffic.size());
    joint.traffic.push_back(std::move(calls));
  }
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape) {
    if (!closed[joint.group_of_shape[shape]]) continue;
    for (const ShapeLoad& load : joint.shape(shape))
      if (!limits.redundant[load.link]) limits.users.at(load.link, shape).contended = 0;
    limits.meets[shape] = false;
  }
  return open;
}

}  // namespace trainyard
