#include "sim/fold/closed_phases.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "sim/fold/max_min.hpp"

namespace trainyard {

namespace {

// Chains of a phase beyond which the engine had better price it.
constexpr std::size_t kMostChains = 16;

// By group: whether all that its chains meet is each other, in phases of few chains.
std::vector<bool> closed_groups(const JointGraph& joint, const Contention& contention) {
  std::vector<bool> closed(joint.traffic_of.size(), false);
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape) {
    if (contention.meets[shape]) closed[joint.group_of_shape[shape]] = true;
  }
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape) {
    if (contention.meets_others[shape]) closed[joint.group_of_shape[shape]] = false;
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

double rate_alone(const Cluster& cluster, const JointGraph& joint, const Contention& contention,
                  std::span<const ShapeLoad> shape, double rate) {
  for (const auto& [link, load] : shape) {
    if (contention.slack[link]) continue;
    rate = std::min(rate, cluster.wiring().wire(link).capacity.value() / joint.loads[load]);
  }
  return rate;
}

// Numbers of links in a phase, given in the order they are met.
using LinkNumbers = std::vector<std::uint32_t>;
constexpr std::uint32_t kNoNumber = std::numeric_limits<std::uint32_t>::max();

// `numbers` has kNoNumber for every link, before and after. Equal chains have one fate: they load
// links together.
void price(const Cluster& cluster, const JointGraph& joint, const Contention& contention,
           GroupId group, LinkNumbers& numbers, ShapedPhase& phase) {
  const auto shape_of = [&](const ShapedChain& chain) {
    return joint.shape(joint.first_shape[group] + chain.shape);
  };
  MaxMinFlows flows;
  std::vector<LinkId> numbered;
  for (const ShapedChain& chain : phase.chains) {
    MaxMinFlow flow{.payload = chain.payload_bytes, .cap = chain.rate_cap_bytes_per_s};
    for (const auto& [link, load] : shape_of(chain)) {
      if (contention.slack[link]) continue;
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
    chain.rate_without_company =
        rate_alone(cluster, joint, contention, shape_of(chain), chain.rate_cap_bytes_per_s);
    chain.rate_cap_bytes_per_s = chain.payload_bytes / flows.end_s(i);
  }
}

}  // namespace

ClosedPhases close_phases(const Cluster& cluster, JointGraph joint, Contention contention) {
  const std::vector<bool> closed = closed_groups(joint, contention);
  LinkNumbers numbers(cluster.links().size(), kNoNumber);
  for (GroupId group = 0; group < closed.size(); ++group) {
    if (!closed[group]) continue;
    std::vector<GroupCall> calls = joint.calls_of(group);
    for (GroupCall& made : calls)
      for (ShapedPhase& phase : made.phases)
        price(cluster, joint, contention, group, numbers, phase);
    joint.traffic_of[group] = static_cast<std::uint32_t>(joint.traffic.size());
    joint.traffic.push_back(std::move(calls));
  }
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape) {
    if (!closed[joint.group_of_shape[shape]]) continue;
    for (const ShapeLoad& load : joint.shape(shape))
      if (!contention.slack[load.link]) contention.crossings.at(load.link, shape).contended = 0;
    contention.meets[shape] = false;
  }
  return {std::move(joint), std::move(contention)};
}

}  // namespace trainyard
