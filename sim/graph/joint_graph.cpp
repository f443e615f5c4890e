#include "sim/graph/joint_graph.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/graph/alike_places.hpp"
#include "sim/graph/call_lists.hpp"
#include "sim/graph/link_bundles.hpp"

namespace trainyard {

namespace {

// A load on a link of a place (AlikePlaces), by its position there.
struct PlacedLoad {
  std::uint32_t place = 0;
  std::uint32_t load = 0;  // index into JointGraph::loads
};

// What a group does that others do in places alike.
struct Pattern {
  std::uint32_t traffic = 0;                   // index into JointGraph::traffic
  std::vector<std::vector<PlacedLoad>> loads;  // by shape of the group
};

class Joiner {
 public:
  // Without `bundles` every link is one of its own.
  Joiner(const Cluster& cluster, const Workload& workload, const Transport& transport, bool bundles)
      : cluster_(cluster),
        workload_(workload),
        transport_(transport),
        bundles_(bundles),
        places_(cluster) {
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
    for (GroupId group = 0; group < workload_.groups.size() && bundles_hold_; ++group)
      shape_group(group);
    if (!bundles_hold_) return std::nullopt;
    joint_.first_shape.push_back(shape_count());
    collect_links();
    return std::move(joint_);
  }

 private:
  using SlotLists = std::vector<std::uint32_t>;  // by slot, numbers in call_lists_

  void collect_memberships() {
    std::size_t slots = workload_.slots.size();
    for (const Rank& rank : workload_.ranks) slots = std::max(slots, rank.slots.size());
    std::vector<SlotLists> calls;
    for (const Program& program : workload_.programs) {
      SlotLists& lists = calls.emplace_back();
      for (std::vector<std::uint32_t>& made : slot_calls(program, slots))
        lists.push_back(call_lists_.number(std::move(made)));
    }
    call_list_of_.assign(workload_.groups.size(), no_calls_);
    joint_.slot_of.resize(workload_.ranks.size());
    for (RankId rank = 0; rank < workload_.ranks.size(); ++rank) {
      join_groups(rank, calls[workload_.ranks[rank].program]);
    }
    for (Membership& membership : joint_.memberships) {
      if (!sends(membership.group)) membership.role = 0;
    }
  }

  void join_groups(RankId id, const SlotLists& calls) {
    const Rank& rank = workload_.ranks[id];
    const std::size_t first = joint_.memberships.size();
    joint_.slot_of[id].assign(rank.slots.size(), kNone);
    for (std::uint16_t slot = 0; slot < rank.slots.size(); ++slot) {
      const auto [group, role] = rank.slots[slot];
      if (group == kNone || calls[slot] == no_calls_) continue;
      call_list_of_.at(group) = call_lists_.both(call_list_of_.at(group), calls[slot]);
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
    const std::vector<std::uint32_t>& calls = call_lists_.list(call_list_of_[group]);
    return std::ranges::any_of(calls, [&](std::uint32_t call) {
      return workload_.calls[call].op == CollectiveOp::SendRecv;
    });
  }

  void shape_group(GroupId group) {
    gpus_.clear();
    for (const RankId rank : workload_.groups[group].members)
      gpus_.push_back(workload_.ranks[rank].gpu);
    joint_.first_shape.push_back(shape_count());
    const std::optional<AlikePlaces::Place> place = place_of(group);
    if (!place) return ask_for(group);
    const auto [known, fresh] = patterns_.try_emplace(
        std::uint64_t{call_list_of_[group]} << 32U | place->number, std::nullopt);
    if (fresh) {
      ask_for(group);
      known->second = pattern_of(group, place->links);
    } else if (!known->second || !move_to(place->links, *known->second, group)) {
      ask_for(group);
    }
  }

  // Where groups in places alike have the same phases (transport.hpp): calls that name no switches,
  // of node mates or of a sender and a receiver.
  std::optional<AlikePlaces::Place> place_of(GroupId group) {
    if (!bundles_ || gpus_.empty()) return std::nullopt;
    const std::vector<std::uint32_t>& calls = call_lists_.list(call_list_of_[group]);
    const auto is_message = [&](std::uint32_t call) {
      return workload_.calls[call].op == CollectiveOp::SendRecv;
    };
    const auto names_switches = [&](std::uint32_t call) {
      return !workload_.calls[call].relay.empty();
    };
    if (std::ranges::any_of(calls, names_switches)) return std::nullopt;
    if (const auto mates = places_.of_node_mates(gpus_)) return mates;
    if (gpus_.size() != 2 || !std::ranges::all_of(calls, is_message)) return std::nullopt;
    return places_.of_message(gpus_[0], gpus_[1]);
  }

  void ask_for(GroupId group) {
    shapes_here_.clear();
    std::vector<GroupCall> calls;
    for (const std::uint32_t call : call_lists_.list(call_list_of_[group])) {
      GroupCall made{.call = call, .phases = {}};
      for (const Phase& phase : transport_.phases(workload_.calls[call], gpus_))
        made.phases.push_back(shaped(phase, group));
      calls.push_back(std::move(made));
    }
    joint_.traffic_of.push_back(static_cast<std::uint32_t>(joint_.traffic.size()));
    joint_.traffic.push_back(std::move(calls));
  }

  // The last group's phases told by the links of its place; nothing where they lead elsewhere.
  std::optional<Pattern> pattern_of(GroupId group, std::span<const RouteHop> links) const {
    Pattern pattern{.traffic = joint_.traffic_of[group], .loads = {}};
    for (std::uint32_t shape = joint_.first_shape[group]; shape < shape_count(); ++shape) {
      std::vector<PlacedLoad>& loads = pattern.loads.emplace_back();
      for (const auto& [link, load] : joint_.shape(shape)) {
        const auto at = std::ranges::find(links, link, &RouteHop::link);
        if (at == links.end() || !is_bundle(*at)) return std::nullopt;
        loads.push_back({static_cast<std::uint32_t>(at - links.begin()), load});
      }
    }
    return pattern;
  }

  // Does the hop cross all of a bundle, told by its lowest link?
  [[nodiscard]] bool is_bundle(const RouteHop& hop) const {
    return joint_.bundle_of[hop.link] == hop.link && joint_.bundle_size[hop.link] == hop.alike;
  }

  // Gives the group the pattern's phases on other links; nothing is done where bundles do not
  // match.
  bool move_to(std::span<const RouteHop> links, const Pattern& pattern, GroupId group) {
    for (const std::vector<PlacedLoad>& loads : pattern.loads)
      for (const PlacedLoad& load : loads)
        if (!is_bundle(links[load.place])) return false;
    for (const std::vector<PlacedLoad>& loads : pattern.loads) {
      const auto first = static_cast<std::ptrdiff_t>(joint_.shape_loads.size());
      for (const PlacedLoad& load : loads)
        joint_.shape_loads.push_back({links[load.place].link, load.load});
      const auto begin = joint_.shape_loads.begin() + first;
      if (!std::ranges::is_sorted(begin, joint_.shape_loads.end(), {}, &ShapeLoad::link))
        std::ranges::sort(begin, joint_.shape_loads.end(), {}, &ShapeLoad::link);
      joint_.group_of_shape.push_back(group);
      joint_.shape_offsets.push_back(joint_.shape_loads.size());
    }
    joint_.traffic_of.push_back(pattern.traffic);
    return true;
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
    const std::uint32_t first = joint_.first_shape[group];
    for (auto candidate = begin; candidate != end; ++candidate) {
      if (std::ranges::equal(joint_.shape(first + candidate->second), shape,
                             [](const ShapeLoad& a, const ShapeLoad& b) {
                               return a.link == b.link && a.load == b.load;
                             })) {
        return candidate->second;
      }
    }
    const std::uint32_t index = shape_count() - first;
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

  [[nodiscard]] std::uint32_t shape_count() const {
    return static_cast<std::uint32_t>(joint_.group_of_shape.size());
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
  CallLists call_lists_;
  const std::uint32_t no_calls_ = call_lists_.number({});
  std::vector<std::uint32_t> call_list_of_;  // [group]: number in call_lists_
  AlikePlaces places_;
  // By list of calls and place; nothing where the phases lead to links elsewhere.
  std::unordered_map<std::uint64_t, std::optional<Pattern>> patterns_;
  std::vector<std::uint32_t> gpus_;  // of the group at hand
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
