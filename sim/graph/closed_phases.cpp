#include "sim/graph/closed_phases.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace trainyard {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kTogether = 1e-12;  // relative; ends nearer than this are one
// Chains of a phase beyond which the engine had better price it.
constexpr std::size_t kMostChains = 16;

// Chains that start together on links of their own: when does each end? Links have numbers of
// their own here, from 0 on: all is arrays, for a phase may load all links of a thousand GPUs.
class LocalFlows {
 public:
  using Loads = std::vector<std::pair<std::size_t, double>>;  // by the link's number

  std::size_t add_link(double capacity) {
    capacity_.push_back(capacity);
    demand_.push_back(0.0);
    return capacity_.size() - 1;
  }

  // `count` equal chains with one fate.
  void add_chains(const ShapedChain& chain, Loads loads) {
    for (auto& [link, load] : loads) load *= chain.count;
    flows_.push_back({.left = chain.payload_bytes,
                      .cap = chain.rate_cap_bytes_per_s,
                      .count = static_cast<double>(chain.count),
                      .loads = std::move(loads)});
  }

  // In the order of add_chains.
  std::vector<double> ends() {
    double now = 0.0;
    while (share()) {
      double step = kNever;
      for (const Flow& flow : flows_) {
        if (flow.left > 0.0) step = std::min(step, flow.left / flow.rate);
      }
      now += step;
      for (Flow& flow : flows_) {
        if (flow.left <= 0.0) continue;
        const bool ended = flow.left / flow.rate <= step * (1.0 + kTogether);
        flow.left = ended ? 0.0 : flow.left - flow.rate * step;
        if (ended) flow.end = now;
      }
    }
    std::vector<double> result;
    for (const Flow& flow : flows_) result.push_back(flow.end);
    return result;
  }

 private:
  struct Flow {
    double left = 0.0;  // bytes of payload
    double cap = kNever;
    double count = 1.0;
    Loads loads = {};  // of all together, per payload of one
    double rate = 0.0;
    double end = 0.0;
    bool frozen = false;
  };

  // Max-min fair rates of what is left, by progressive filling; false when nothing is.
  bool share() {
    room_ = capacity_;
    bool any = false;
    for (Flow& flow : flows_) {
      flow.frozen = flow.left <= 0.0;
      any = any || !flow.frozen;
    }
    while (freeze_slowest()) {
    }
    return any;
  }

  // Raises all rates until a link is full or a cap is reached, and freezes who is there.
  bool freeze_slowest() {
    std::ranges::fill(demand_, 0.0);
    double level = kNever;
    bool any = false;
    for (const Flow& flow : flows_) {
      if (flow.frozen) continue;
      any = true;
      level = std::min(level, flow.cap);
      for (const auto& [link, load] : flow.loads) demand_[link] += load;
    }
    if (!any) return false;
    for (std::size_t link = 0; link < demand_.size(); ++link)
      if (demand_[link] > 0.0) level = std::min(level, room_[link] / demand_[link]);
    std::vector<Flow*> held;
    for (Flow& flow : flows_) {
      if (flow.frozen) continue;
      const bool full = std::ranges::any_of(flow.loads, [&](const auto& load) {
        return room_[load.first] <= level * demand_[load.first] * (1.0 + kTogether);
      });
      if (full || flow.cap <= level * (1.0 + kTogether)) held.push_back(&flow);
    }
    for (Flow* flow : held) {
      flow->rate = level;
      flow->frozen = true;
      for (const auto& [link, load] : flow->loads) room_[link] -= load * level;
    }
    return true;
  }

  std::vector<double> capacity_;  // by the link's number, as are these two:
  std::vector<double> room_;      // what frozen flows leave of it
  std::vector<double> demand_;    // of the others, per payload
  std::vector<Flow> flows_;
};

// By group: whether all that its chains meet is each other, in phases of few chains.
std::vector<bool> closed_groups(const JointGraph& joint, const Contention& contention) {
  std::vector<bool> closed(joint.traffic_of.size(), false);
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape) {
    const auto loads = contention.contended.begin();
    const bool meets =
        std::find(loads + static_cast<std::ptrdiff_t>(joint.shape_offsets[shape]),
                  loads + static_cast<std::ptrdiff_t>(joint.shape_offsets[shape + 1]),
                  true) != loads + static_cast<std::ptrdiff_t>(joint.shape_offsets[shape + 1]);
    if (meets) closed[joint.group_of_shape[shape]] = true;
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
    rate = std::min(rate, cluster.link(link).capacity.value() / joint.loads[load]);
  }
  return rate;
}

// Numbers of links in a phase, given in the order they are met.
using LinkNumbers = std::vector<std::size_t>;
constexpr std::size_t kNoNumber = std::numeric_limits<std::size_t>::max();

// `numbers` has kNoNumber for every link, before and after.
void price(const Cluster& cluster, const JointGraph& joint, const Contention& contention,
           GroupId group, LinkNumbers& numbers, ShapedPhase& phase) {
  const auto shape_of = [&](const ShapedChain& chain) {
    return joint.shape(joint.first_shape[group] + chain.shape);
  };
  LocalFlows flows;
  std::vector<LinkId> numbered;
  for (const ShapedChain& chain : phase.chains) {
    LocalFlows::Loads loads;
    for (const auto& [link, load] : shape_of(chain)) {
      if (contention.slack[link]) continue;
      if (numbers[link] == kNoNumber) {
        numbers[link] = flows.add_link(cluster.link(link).capacity.value());
        numbered.push_back(link);
      }
      loads.emplace_back(numbers[link], joint.loads[load]);
    }
    flows.add_chains(chain, std::move(loads));
  }
  for (const LinkId link : numbered) numbers[link] = kNoNumber;
  const std::vector<double> ends = flows.ends();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    ShapedChain& chain = phase.chains[i];
    chain.rate_without_company =
        rate_alone(cluster, joint, contention, shape_of(chain), chain.rate_cap_bytes_per_s);
    chain.rate_cap_bytes_per_s = chain.payload_bytes / ends[i];
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
    for (std::size_t i = joint.shape_offsets[shape]; i < joint.shape_offsets[shape + 1]; ++i) {
      contention.contended[i] = false;
    }
  }
  return {std::move(joint), std::move(contention)};
}

}  // namespace trainyard
