#include "sim/graph/closed_phases.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace trainyard {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kTogether = 1e-12;  // relative; ends nearer than this are one
// Chains of a phase beyond which the engine had better price it.
constexpr std::size_t kMostChains = 16;

// Chains that start together on links of their own: when does each end?
class LocalFlows {
 public:
  void add_link(LinkId link, double capacity) { capacity_.try_emplace(link, capacity); }

  // `count` equal chains with one fate.
  void add_chains(const ShapedChain& chain, std::vector<std::pair<LinkId, double>> loads) {
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
    std::vector<std::pair<LinkId, double>> loads = {};  // of all together, per payload of one
    double rate = 0.0;
    double end = 0.0;
    bool frozen = false;
  };

  // Max-min fair rates of what is left, by progressive filling; false when nothing is.
  bool share() {
    std::map<LinkId, double> room = capacity_;
    bool any = false;
    for (Flow& flow : flows_) {
      flow.frozen = flow.left <= 0.0;
      any = any || !flow.frozen;
    }
    while (freeze_slowest(room)) {
    }
    return any;
  }

  // Raises all rates until a link is full or a cap is reached, and freezes who is there.
  bool freeze_slowest(std::map<LinkId, double>& room) {
    std::map<LinkId, double> demand;
    double level = kNever;
    bool any = false;
    for (const Flow& flow : flows_) {
      if (flow.frozen) continue;
      any = true;
      level = std::min(level, flow.cap);
      for (const auto& [link, load] : flow.loads) demand[link] += load;
    }
    if (!any) return false;
    for (const auto& [link, load] : demand) level = std::min(level, room[link] / load);
    std::vector<Flow*> held;
    for (Flow& flow : flows_) {
      if (flow.frozen) continue;
      const bool full = std::ranges::any_of(flow.loads, [&](const auto& load) {
        return room[load.first] <= level * demand[load.first] * (1.0 + kTogether);
      });
      if (full || flow.cap <= level * (1.0 + kTogether)) held.push_back(&flow);
    }
    for (Flow* flow : held) {
      flow->rate = level;
      flow->frozen = true;
      for (const auto& [link, load] : flow->loads) room[link] -= load * level;
    }
    return true;
  }

  std::map<LinkId, double> capacity_;
  std::vector<Flow> flows_;
};

// By group: whether all that its chains meet is each other, in phases of few chains.
std::vector<bool> closed_groups(const JointGraph& joint, const Contention& contention) {
  std::vector<bool> closed(joint.traffic.size(), false);
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
  for (std::size_t group = 0; group < closed.size(); ++group) {
    for (const GroupCall& made : joint.traffic[group]) {
      for (const ShapedPhase& phase : made.phases) {
        if (phase.chains.size() > kMostChains) closed[group] = false;
      }
    }
  }
  return closed;
}

double rate_alone(const Cluster& cluster, const JointGraph& joint, const Contention& contention,
                  const ShapedChain& chain) {
  double rate = chain.rate_cap_bytes_per_s;
  for (const auto& [link, load] : joint.shape(chain.shape)) {
    if (contention.slack[link]) continue;
    rate = std::min(rate, cluster.link(link).capacity.value() / joint.loads[load]);
  }
  return rate;
}

void price(const Cluster& cluster, const JointGraph& joint, const Contention& contention,
           ShapedPhase& phase) {
  LocalFlows flows;
  for (const ShapedChain& chain : phase.chains) {
    std::vector<std::pair<LinkId, double>> loads;
    for (const auto& [link, load] : joint.shape(chain.shape)) {
      if (contention.slack[link]) continue;
      flows.add_link(link, cluster.link(link).capacity.value());
      loads.emplace_back(link, joint.loads[load]);
    }
    flows.add_chains(chain, std::move(loads));
  }
  const std::vector<double> ends = flows.ends();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    ShapedChain& chain = phase.chains[i];
    chain.rate_without_company = rate_alone(cluster, joint, contention, chain);
    chain.rate_cap_bytes_per_s = chain.payload_bytes / ends[i];
  }
}

}  // namespace

ClosedPhases close_phases(const Cluster& cluster, JointGraph joint, Contention contention) {
  const std::vector<bool> closed = closed_groups(joint, contention);
  for (std::size_t group = 0; group < closed.size(); ++group) {
    if (!closed[group]) continue;
    for (GroupCall& made : joint.traffic[group]) {
      for (ShapedPhase& phase : made.phases) price(cluster, joint, contention, phase);
    }
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
