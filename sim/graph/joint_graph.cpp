#include "sim/graph/joint_graph.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/graph/call_sequences.hpp"
#include "sim/graph/link_bundles.hpp"

namespace trainyard {

namespace {

// Calls a program makes through each slot, ascending and distinct.
using SlotCalls = std::vector<std::vector<std::uint32_t>>;

SlotCalls slot_calls(const Program& program, std::size_t slots) {
  SlotCalls calls(slots);
  for (const Operation& op : program.operations) {
    if (!communicates(op.kind)) continue;
    std::vector<std::uint32_t>& made = calls.at(op.slot);
    // Calls come in the same few turns, microbatch by microbatch.
    const std::size_t recent = made.size() - std::min<std::size_t>(made.size(), 4);
    const auto known =
        std::find(made.begin() + static_cast<std::ptrdiff_t>(recent), made.end(), op.payload);
    if (known == made.end()) made.push_back(op.payload);
  }
  for (std::vector<std::uint32_t>& made : calls) {
    std::ranges::sort(made);
    made.erase(std::unique(made.begin(), made.end()), made.end());
  }
  return calls;
}

class Joiner {
 public:
  // Without `bundles` every link is one of its own.
  Joiner(const Cluster& cluster, const Workload& workload, const Transport& transport, bool bundles)
      : cluster_(cluster), workload_(workload), transport_(transport), bundles_(bundles) {
    std::vector<LinkId> bundle_of = cluster.bundle_of();
    if (!bundles) std::iota(bundle_of.begin(), bundle_of.end(), 0U);
    joint_.bundle_size.assign(bundle_of.size(), 0);
    for (const LinkId lowest : bundle_of) ++joint_.bundle_size[lowest];
    joint_.bundle_of = std::move(bundle_of);
    met_.resize(joint_.bundle_size.size());
  }

  // Nothing where a chain loads the links of a bundle unequally.
  std::optional<JointGraph> joined() {
    collect_memberships();
    joint_.shape_offsets = {0};
    joint_.traffic.resize(workload_.groups.size());
    for (GroupId group = 0; group < workload_.groups.size() && bundles_hold_; ++group)
      shape_group(group);
    if (!bundles_hold_) return std::nullopt;
    collect_links();
    return std::move(joint_);
  }

 private:
  void collect_memberships() {
    std::size_t slots = workload_.slots.size();
    for (const Rank& rank : workload_.ranks) slots = std::max(slots, rank.slots.size());
    std::vector<SlotCalls> calls;
    for (const Program& program : workload_.programs) calls.push_back(slot_calls(program, slots));
    calls_of_.resize(workload_.groups.size());
    joint_.slot_of.resize(workload_.ranks.size());
    for (RankId rank = 0; rank < workload_.ranks.size(); ++rank) {
      join_groups(rank, calls[workload_.ranks[rank].program]);
    }
    for (std::vector<std::uint32_t>& made : calls_of_) {
      std::ranges::sort(made);
      made.erase(std::unique(made.begin(), made.end()), made.end());
    }
    for (Membership& membership : joint_.memberships) {
      if (!sends(membership.group)) membership.role = 0;
    }
  }

  void join_groups(RankId id, const SlotCalls& calls) {
    const Rank& rank = workload_.ranks[id];
    const std::size_t first = joint_.memberships.size();
    joint_.slot_of[id].assign(rank.slots.size(), kNone);
    for (std::uint16_t slot = 0; slot < rank.slots.size(); ++slot) {
      const auto [group, role] = rank.slots[slot];
      if (group == kNone || calls[slot].empty()) continue;
      std::vector<std::uint32_t>& made = calls_of_.at(group);
      // Members make the same calls, so most of these are there already.
      if (!std::ranges::includes(made, calls[slot])) {
        made.insert(made.end(), calls[slot].begin(), calls[slot].end());
        std::ranges::sort(made);
      }
      const auto known = std::find_if(
          joint_.memberships.begin() + static_cast<std::ptrdiff_t>(first), joint_.memberships.end(),
          [&](const Membership& membership) { return membership.group == group; });
      joint_.slot_of[id][slot] = known == joint_.memberships.end() ? slot : known->slot;
      if (known == joint_.memberships.end()) {
        joint_.memberships.push_back({.rank = id, .group = group, .slot = slot, .role = role});
      }
    }
  }

  [[nodiscard]] bool sends(GroupId group) const {
    return std::ranges::any_of(calls_of_[group], [&](std::uint32_t call) {
      return workload_.calls[call].op == CollectiveOp::SendRecv;
    });
  }

  void shape_group(GroupId group) {
    std::vector<std::uint32_t> gpus;
    for (const RankId rank : workload_.groups[group].members) {
      gpus.push_back(workload_.ranks[rank].gpu);
    }
    shapes_here_.clear();
    for (const std::uint32_t call : calls_of_[group]) {
      GroupCall made{.call = call, .phases = {}};
      for (const Phase& phase : transport_.phases(workload_.calls[call], gpus)) {
        made.phases.push_back(shaped(phase, group));
      }
      joint_.traffic[group].push_back(std::move(made));
    }
  }

  ShapedPhase shaped(const Phase& phase, GroupId group) {
    ShapedPhase result{.latency_s = phase.latency.value(), .chains = {}};
    for (const Chain& chain : phase.chains) {
      double payload = 0.0;
      for (const LinkLoad& load : chain.loads) payload = std::max(payload, load.bytes);
      if (payload <= 0.0) continue;  // Nothing to move takes no time.
      const ShapedChain made{.shape = shape_of(chain, payload, group),
                             .count = 1,
                             .payload_bytes = payload,
                             .rate_cap_bytes_per_s = chain.rate_cap_bytes_per_s};
      const auto equal = std::ranges::find_if(result.chains, [&](const ShapedChain& other) {
        return other.shape == made.shape &&
               rounded_key(other.payload_bytes) == rounded_key(payload) &&
               rounded_key(other.rate_cap_bytes_per_s) == rounded_key(made.rate_cap_bytes_per_s);
      });
      if (equal == result.chains.end()) {
        result.chains.push_back(made);
      } else {
        ++equal->count;
      }
    }
    return result;
  }

  // What the chain puts on the lowest link of each bundle. A bundle must be loaded in all its links
  // alike, or it is none.
  std::vector<ShapeLoad> loads_of(std::span<const LinkLoad> loads, double payload) {
    std::vector<ShapeLoad> shape;
    bundled_.clear();
    for (const LinkLoad& load : loads) {
      if (load.bytes <= 0.0) continue;
      TY_CHECK(load.link < cluster_.links().size(), load.link, cluster_.links().size());
      const LinkId lowest = joint_.bundle_of[load.link];
      const bool alone = joint_.bundle_size[lowest] == 1;
      if (alone || meet(lowest, load)) shape.push_back({lowest, load_index(load.bytes / payload)});
    }
    for (const LinkId lowest : bundled_) {
      if (met_[lowest].links != joint_.bundle_size[lowest]) bundles_hold_ = false;
      met_[lowest] = {};
    }
    if (!std::ranges::is_sorted(shape, {}, &ShapeLoad::link))
      std::ranges::sort(shape, {}, &ShapeLoad::link);
    return shape;
  }

  // Whether the chain at hand has not met the bundle before.
  bool meet(LinkId lowest, const LinkLoad& load) {
    constexpr double kAlike = 0x1p-40;  // of sums in another order
    BundleLoad& met = met_[lowest];
    const bool first = met.links == 0;
    met.links += load.alike;
    if (first) {
      met.bytes = load.bytes;
      bundled_.push_back(lowest);
    } else if (std::abs(load.bytes - met.bytes) > kAlike * met.bytes) {
      bundles_hold_ = false;
    }
    return first;
  }

  // The shape of the chain among those of its group; a new one if it has no like.
  std::uint32_t shape_of(const Chain& chain, double payload, GroupId group) {
    const std::vector<ShapeLoad> shape = bundles_
                                             ? loads_of(chain.loads, payload)
                                             : loads_of(every_link(cluster_, chain.loads), payload);
    std::uint64_t hash = shape.size();
    for (const ShapeLoad& load : shape) {
      hash = (hash ^ ((std::uint64_t{load.link} << 32U) | load.load)) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 29U;
    }
    const auto [begin, end] = shapes_here_.equal_range(hash);
    for (auto candidate = begin; candidate != end; ++candidate) {
      if (std::ranges::equal(joint_.shape(candidate->second), shape,
                             [](const ShapeLoad& a, const ShapeLoad& b) {
                               return a.link == b.link && a.load == b.load;
                             })) {
        return candidate->second;
      }
    }
    const auto index = static_cast<std::uint32_t>(joint_.group_of_shape.size());
    joint_.group_of_shape.push_back(group);
    joint_.shape_loads.insert(joint_.shape_loads.end(), shape.begin(), shape.end());
    joint_.shape_offsets.push_back(joint_.shape_loads.size());
    shapes_here_.emplace(hash, index);
    return index;
  }

  std::uint32_t load_index(double load) {
    const auto [entry, fresh] = load_indices_.try_emplace(
        rounded_key(load), static_cast<std::uint32_t>(joint_.loads.size()));
    if (fresh) joint_.loads.push_back(load);
    return entry->second;
  }

  void collect_links() {
    std::vector<bool> used(cluster_.links().size(), false);
    for (const ShapeLoad& load : joint_.shape_loads) used[load.link] = true;
    for (LinkId link = 0; link < used.size(); ++link) {
      if (used[link]) joint_.links.push_back(link);
    }
  }

  // What a chain puts on a bundle.
  struct BundleLoad {
    std::uint32_t links = 0;
    double bytes = 0.0;  // on each
  };

  const Cluster& cluster_;
  const Workload& workload_;
  const Transport& transport_;
  bool bundles_;
  JointGraph joint_;
  bool bundles_hold_ = true;
  std::vector<BundleLoad> met_;  // by lowest link, of the chain at hand; zero in between
  std::vector<LinkId> bundled_;  // those that are not zero
  std::vector<std::vector<std::uint32_t>> calls_of_;  // [group]
  std::unordered_multimap<std::uint64_t, std::uint32_t> shapes_here_;
  std::unordered_map<std::uint64_t, std::uint32_t> load_indices_;
};

}  // namespace

// Where a transport loads switches by name, links are no longer alike.
JointGraph join(const Cluster& cluster, const Workload& workload, const Transport& transport) {
  std::optional<JointGraph> joint = Joiner(cluster, workload, transport, true).joined();
  return joint ? std::move(*joint) : join_unbundled(cluster, workload, transport);
}

JointGraph join_unbundled(const Cluster& cluster, const Workload& workload,
                          const Transport& transport) {
  return Joiner(cluster, workload, transport, false).joined().value();
}

std::size_t KeyHash::operator()(const std::vector<std::uint64_t>& key) const {
  std::uint64_t hash = key.size();
  for (const std::uint64_t word : key) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29U;
  }
  return hash;
}

std::uint64_t rounded_key(double value) {
  constexpr std::uint64_t kDropped = 12;  // of the 52 bits of the mantissa
  const auto bits = std::bit_cast<std::uint64_t>(value == 0.0 ? 0.0 : value);
  return (bits + (std::uint64_t{1} << (kDropped - 1))) >> kDropped;
}

}  // namespace trainyard
