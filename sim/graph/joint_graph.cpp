#include "sim/graph/joint_graph.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>
#include <utility>

#include "sim/base/beside.hpp"
#include "sim/base/check.hpp"
#include "sim/base/mixed.hpp"
#include "sim/graph/alike_places.hpp"
#include "sim/graph/call_lists.hpp"
#include "sim/graph/chain_shapes.hpp"
#include "sim/graph/link_rows.hpp"

namespace trainyard {

namespace {

// What stands for others in shapes (JointGraph): of bundles and of rows one link, of bundles alone,
// or none.
enum class Standing : std::uint8_t { BundlesAndRows, Bundles, None };

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
  Joiner(const Cluster& cluster, const Workload& workload, const Transport& transport,
         Standing standing)
      : cluster_(cluster),
        workload_(workload),
        transport_(transport),
        standing_(standing),
        bundles_(standing != Standing::None) {}

  // Nothing where a chain loads the links of a bundle or of a row unequally.
  std::optional<JointGraph> joined() {
    beside(
        is_large(cluster_), [&] { places_.emplace(cluster_); },
        [&] {
          take_bundles_and_rows();
          collect_memberships();
        });
    joint_.shape_offsets = {0};
    for (GroupId group = 0; group < workload_.groups.size() && shapes_->hold(); ++group)
      shape_group(group);
    if (!shapes_->hold()) return std::nullopt;
    joint_.first_shape.push_back(shape_count());
    collect_links();
    return std::move(joint_);
  }

 private:
  using SlotLists = std::vector<std::uint32_t>;  // by slot, numbers in call_lists_

  void take_bundles_and_rows() {
    joint_.bundle_of = bundles_ ? cluster_.bundle_of() : each_link(cluster_);
    joint_.bundle_size.assign(joint_.bundle_of.size(), 0);
    for (const LinkId lowest : joint_.bundle_of) ++joint_.bundle_size[lowest];
    const bool rows = standing_ == Standing::BundlesAndRows;
    joint_.row_of = rows ? link_rows(cluster_) : each_link(cluster_);
    shapes_.emplace(cluster_, joint_, !bundles_);
  }

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
    shapes_->begin(group);
    std::vector<GroupCall> calls;
    for (const std::uint32_t call : call_lists_.list(call_list_of_[group])) {
      GroupCall made{.call = call, .phases = {}};
      for (const Phase& phase : transport_.phases(workload_.calls[call], gpus_))
        made.phases.push_back(shapes_->shaped(phase));
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
        if (!spot || !is_in_shapes(places_->hop_at(*spot))) {
          pattern.holds = false;
          break;
        }
        loads.push_back({*spot, load});
      }
    }
    take_gpus_of(group);
    TY_CHECK(place_of(group).has_value(), group);
  }

  // Does the hop cross all of a bundle, told by its lowest link, or a link that stands for its row?
  [[nodiscard]] bool is_in_shapes(const RouteHop& hop) const {
    return joint_.bundle_of[hop.link] == hop.link && joint_.bundle_size[hop.link] == hop.alike &&
           joint_.row_of[hop.link] == hop.link;
  }

  // Gives the group the pattern's phases on the links of the place at hand; nothing is done where
  // bundles do not match. (Rows do: they lie within nodes alike, ports included.)
  bool move_to(const Pattern& pattern, GroupId group) {
    const std::size_t first_load = joint_.shape_loads.size();
    const std::uint32_t first_shape = shape_count();
    for (const std::vector<PlacedLoad>& loads : pattern.loads) {
      const auto first = static_cast<std::ptrdiff_t>(joint_.shape_loads.size());
      for (const PlacedLoad& load : loads) {
        const RouteHop hop = places_->hop_at(load.spot);
        if (!is_in_shapes(hop)) {
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

  void collect_links() {
    std::vector<bool> used(cluster_.links().size(), false);
    for (const ShapeLoad& load : joint_.shape_loads) used[load.link] = true;
    for (LinkId link = 0; link < used.size(); ++link) {
      if (used[joint_.row_of[link]]) joint_.links.push_back(link);
    }
  }

  [[nodiscard]] std::uint32_t shape_count() const {
    return static_cast<std::uint32_t>(joint_.group_of_shape.size());
  }

  const Cluster& cluster_;
  const Workload& workload_;
  const Transport& transport_;
  Standing standing_;
  bool bundles_;
  JointGraph joint_;
  std::optional<ChainShapes> shapes_;  // of joint_
  CallLists call_lists_;
  const std::uint32_t no_calls_ = call_lists_.number({});
  std::vector<std::uint32_t> call_list_of_;  // [group]: number in call_lists_
  std::vector<CallKinds> call_kinds_;        // by number in call_lists_, as they are asked for
  std::optional<AlikePlaces> places_;
  std::unordered_map<std::uint64_t, Pattern> patterns_;  // by list of calls and place
  std::vector<std::uint32_t> gpus_;                      // of the group at hand
};

}  // namespace

// Where a transport loads switches by name, or begins at a NIC, links are no longer alike.
JointGraph join(const Cluster& cluster, const Workload& workload, const Transport& transport) {
  for (const Standing standing : {Standing::BundlesAndRows, Standing::Bundles})
    if (auto joint = Joiner(cluster, workload, transport, standing).joined())
      return std::move(*joint);
  return join_unbundled(cluster, workload, transport);
}

JointGraph join_unbundled(const Cluster& cluster, const Workload& workload,
                          const Transport& transport) {
  return Joiner(cluster, workload, transport, Standing::None).joined().value();
}

bool is_large(const Cluster& cluster) {
  constexpr std::size_t kManyLinks = 100'000;
  return cluster.links().size() >= kManyLinks;
}

std::size_t KeyHash::operator()(const std::vector<std::uint64_t>& key) const {
  std::uint64_t hash = key.size();
  for (const std::uint64_t word : key) hash = hash_with(hash, word);
  return hash;
}

std::uint64_t rounded_key(double value) {
  constexpr std::uint64_t kDropped = 12;  // of the 52 bits of the mantissa
  const auto bits = std::bit_cast<std::uint64_t>(value == 0.0 ? 0.0 : value);
  return (bits + (std::uint64_t{1} << (kDropped - 1))) >> kDropped;
}

}  // namespace trainyard
