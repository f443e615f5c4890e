#include "sim/graph/joint_graph.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "sim/base/beside.hpp"
#include "sim/base/check.hpp"
#include "sim/graph/alike_places.hpp"
#include "sim/graph/call_lists.hpp"
#include "sim/graph/link_bundles.hpp"

namespace trainyard {

namespace {

// A load on a link of a place (AlikePlaces).
struct PlacedLoad {
  AlikePlaces::Spot spot;
  std::uint32_t load = 0;  // index into JointGraph::loads
};

// What a group does that others do in places alike.
struct Pattern {
  GroupId first = kNone;                       // the group that was asked for
  bool told = false;                           // whether `loads` are known, from the second on
  bool holds = true;                           // whether all its phases' links are of its place
  std::vector<std::vector<PlacedLoad>> loads;  // by shape of the group
};

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
    beside(
        is_large(cluster_), [&] { places_.emplace(cluster_); }, [&] { collect_memberships(); });
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
    take_gpus_of(group);
    joint_.first_shape.push_back(shape_count());
    const std::optional<std::uint32_t> place = place_of(group);
    if (!place) return ask_for(group);
    const auto [known, fresh] =
        patterns_.try_emplace(std::uint64_t{call_list_of_[group]} << 32U | *place);
    Pattern& pattern = known->second;
    if (fresh) {
      pattern.first = group;
    } else {
      if (!pattern.told) tell(pattern, group);
      if (pattern.holds && move_to(pattern, group)) return;
    }
    ask_for(group);
  }

  void take_gpus_of(GroupId group) {
    gpus_.clear();
    for (const RankId rank : workload_.groups[group].members)
      gpus_.push_back(workload_.ranks[rank].gpu);
  }

  // Where groups in places alike have the same phases (transport.hpp): calls that name no switches,
  // of GPUs that a tree of switches joins or of a sender and a receiver. Becomes the place at hand.
  std::optional<std::uint32_t> place_of(GroupId group) {
    if (!bundles_ || gpus_.empty()) return std::nullopt;
    const CallKinds kinds = kinds_of(call_list_of_[group]);
    if (kinds.names_switches) return std::nullopt;
    if (const auto place = places_->of_group(gpus_)) return place;
    if (gpus_.size() != 2 || !kinds.only_messages) return std::nullopt;
    return places_->of_message(gpus_[0], gpus_[1]);
  }

  // What matters of a list of calls to where a group can stand.
  struct CallKinds {
    bool known = false;
    bool names_switches = false;
    bool only_messages = true;
  };
  const CallKinds& kinds_of(std::uint32_t list) {
    if (list >= call_kinds_.size()) call_kinds_.resize(list + std::size_t{1});
    CallKinds& kinds = call_kinds_[list];
    if (kinds.known) return kinds;
    kinds.known = true;
    for (const std::uint32_t index : call_lists_.list(list)) {
      const Call& call = workload_.calls[index];
      kinds.names_switches = kinds.names_switches || !call.relay.empty();
      kinds.only_messages = kinds.only_messages && call.op == CollectiveOp::SendRecv;
    }
    return kinds;
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

  // The phases of the first group of the pattern by the links of its place, when a second has come:
  // most large groups have none like them. The place at hand is that of `group` again.
  void tell(Pattern& pattern, GroupId group) {
    pattern.told = true;
    take_gpus_of(pattern.first);
    TY_CHECK(place_of(pattern.first).has_value(), pattern.first);
    const std::uint32_t end = joint_.first_shape[pattern.first + 1];
    for (std::uint32_t shape = joint_.first_shape[pattern.first]; shape < end; ++shape) {
      std::vector<PlacedLoad>& loads = pattern.loads.emplace_back();
      for (const auto& [link, load] : joint_.shape(shape)) {
        const std::optional<AlikePlaces::Spot> spot = places_->spot_of(link);
        if (!spot || !is_bundle(places_->hop_at(*spot))) {
          pattern.holds = false;
          break;
        }
        loads.push_back({*spot, load});
      }
    }
    take_gpus_of(group);
    TY_CHECK(place_of(group).has_value(), group);
  }

  // Does the hop cross all of a bundle, told by its lowest link?
  [[nodiscard]] bool is_bundle(const RouteHop& hop) const {
    return joint_.bundle_of[hop.link] == hop.link && joint_.bundle_size[hop.link] == hop.alike;
  }

  // Gives the group the pattern's phases on the links of the place at hand; nothing is done where
  // bundles do not match.
  bool move_to(const Pattern& pattern, GroupId group) {
    const std::size_t first_load = joint_.shape_loads.size();
    const std::uint32_t first_shape = shape_count();
    for (const std::vector<PlacedLoad>& loads : pattern.loads) {
      const auto first = static_cast<std::ptrdiff_t>(joint_.shape_loads.size());
      for (const PlacedLoad& load : loads) {
        const RouteHop hop = places_->hop_at(load.spot);
        if (!is_bundle(hop)) {
          joint_.shape_loads.resize(first_load);
          joint_.group_of_shape.resize(first_shape);
          joint_.shape_offsets.resize(first_shape + std::size_t{1});
          return false;
        }
        joint_.shape_loads.push_back({hop.link, load.load});
      }
      const auto begin = joint_.shape_loads.begin() + first;
      if (!std::ranges::is_sorted(begin, joint_.shape_loads.end(), {}, &ShapeLoad::link))
        std::ranges::sort(begin, joint_.shape_loads.end(), {}, &ShapeLoad::link);
      joint_.group_of_shape.push_back(group);
      joint_.shape_offsets.push_back(joint_.shape_loads.size());
    }
    joint_.traffic_of.push_back(joint_.traffic_of[pattern.first]);
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
    const std::uint64_t key = rounded_key(load);
    if (last_load_ && last_load_->first == key) return last_load_->second;
    const auto [entry, fresh] =
        load_indices_.try_emplace(key, static_cast<std::uint32_t>(joint_.loads.size()));
    if (fresh) joint_.loads.push_back(load);
    last_load_ = *entry;
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
  std::vector<CallKinds> call_kinds_;        // by number in call_lists_, as they are asked for
  std::optional<AlikePlaces> places_;
  std::unordered_map<std::uint64_t, Pattern> patterns_;  // by list of calls and place
  std::vector<std::uint32_t> gpus_;                      // of the group at hand
  std::unordered_multimap<std::uint64_t, std::uint32_t> shapes_here_;
  std::unordered_map<std::uint64_t, std::uint32_t> load_indices_;
  // The one last asked for: in a chain equal loads come in a row.
  std::optional<std::pair<std::uint64_t, std::uint32_t>> last_load_;
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

bool is_large(const Cluster& cluster) {
  constexpr std::size_t kManyLinks = 100'000;
  return cluster.links().size() >= kManyLinks;
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
