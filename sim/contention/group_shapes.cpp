#include "sim/contention/group_shapes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/beside.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

GroupShapes::GroupShapes(const Given& given, JointGraph& joint)
    : given_(given), joint_(joint), shapes_(given.cluster, joint, given.places == nullptr) {}

bool GroupShapes::write(const std::function<void()>& meanwhile) {
  const std::optional<GroupId> large = group_without_like();
  Asked of_large;
  beside(
      large.has_value(),
      [&] {
        if (large) of_large = asked_for(*large);
      },
      [&] {
        meanwhile();
        find_patterns(large);
      });
  find_ways();
  if (large) take(pattern_of_[*large], std::move(of_large));
  ask_for_patterns(large);
  while (shapes_.hold()) {
    lay_out();
    const std::vector<GroupId> strayed = filled();
    joint_.loads = shapes_.loads();
    if (strayed.empty()) return true;
    for (const GroupId group : strayed) {
      place_alone(group);
      take(pattern_of_[group], asked_for(group));
    }
  }
  return false;
}

// Groups of fewer GPUs are asked for in no time.
std::optional<GroupId> GroupShapes::group_without_like() const {
  if (!is_large(given_.cluster) || given_.workload.groups.empty()) return std::nullopt;
  const auto largest = std::ranges::max_element(
      given_.workload.groups, {}, [](const Group& group) { return group.members.size(); });
  if (2 * largest->members.size() <= given_.cluster.gpus().size()) return std::nullopt;
  return static_cast<GroupId>(largest - given_.workload.groups.begin());
}

std::vector<std::uint32_t> GroupShapes::gpus_of(GroupId group) const {
  std::vector<std::uint32_t> gpus;
  gpus.reserve(given_.workload.groups[group].members.size());
  for (const RankId rank : given_.workload.groups[group].members)
    gpus.push_back(given_.workload.ranks[rank].gpu);
  return gpus;
}

// Groups in places alike have the same phases (transport.hpp) where their calls name no switches
// and a tree of switches joins their GPUs, or they are a sender and a receiver.
void GroupShapes::find_patterns(std::optional<GroupId> without_like) {
  const std::size_t groups = given_.workload.groups.size();
  pattern_of_.assign(groups, kNone);
  base_of_.assign(groups, 0);
  std::vector<std::uint32_t> gpus;
  for (GroupId group = 0; group < groups; ++group) {
    const CallKinds& kinds = kinds_of(given_.calls.of_group(group));
    const std::vector<RankId>& members = given_.workload.groups[group].members;
    if (given_.places == nullptr || group == without_like || kinds.names_switches ||
        members.empty()) {
      place_alone(group);
      continue;
    }
    gpus.resize(members.size());
    std::ranges::transform(members, gpus.begin(),
                           [&](RankId rank) { return given_.workload.ranks[rank].gpu; });
    if (const auto found = given_.places->of_group(gpus)) {
      place(group, *found);
    } else if (gpus.size() == 2 && kinds.only_messages) {
      messages_.push_back(group);
    } else {
      place_alone(group);
    }
  }
}

void GroupShapes::find_ways() {
  for (const GroupId group : messages_) {
    const std::vector<std::uint32_t> gpus = gpus_of(group);
    if (const auto found = given_.places->of_message(gpus[0], gpus[1])) {
      place(group, *found);
    } else {
      place_alone(group);
    }
  }
}

// The place is the one at hand.
void GroupShapes::place(GroupId group, std::uint32_t place) {
  const auto next = static_cast<std::uint32_t>(patterns_.size());
  const std::uint64_t key = std::uint64_t{given_.calls.of_group(group)} << 32U | place;
  const auto [known, fresh] = pattern_at_.try_emplace(key, next);
  pattern_of_[group] = known->second;
  if (fresh) {
    patterns_.push_back({.first = group});
  } else {
    ++patterns_[known->second].groups;
  }
  base_of_[group] = static_cast<std::uint32_t>(bases_.size());
  const std::span<const std::uint32_t> base = given_.places->base();
  bases_.insert(bases_.end(), base.begin(), base.end());
}

void GroupShapes::place_alone(GroupId group) {
  if (pattern_of_[group] != kNone) --patterns_[pattern_of_[group]].groups;
  pattern_of_[group] = static_cast<std::uint32_t>(patterns_.size());
  patterns_.push_back({.first = group});
}

const GroupShapes::CallKinds& GroupShapes::kinds_of(std::uint32_t list) {
  if (list >= call_kinds_.size()) call_kinds_.resize(list + std::size_t{1});
  CallKinds& kinds = call_kinds_[list];
  if (kinds.known) return kinds;
  kinds.known = true;
  for (const std::uint32_t index : given_.calls.list(list)) {
    const Call& call = given_.workload.calls[index];
    kinds.names_switches = kinds.names_switches || std::holds_alternative<RelayCall>(call);
    kinds.only_messages = kinds.only_messages && op_of(call) == CollectiveOp::SendRecv;
  }
  return kinds;
}

GroupShapes::Asked GroupShapes::asked_for(GroupId group) {
  const std::vector<std::uint32_t> gpus = gpus_of(group);
  shapes_.begin();
  Asked asked{.begin = shapes_.count()};
  for (const std::uint32_t call : given_.calls.list(given_.calls.of_group(group))) {
    GroupCall made{.call = call, .phases = {}};
    try {
      for (const Phase& phase : given_.transport.phases(given_.workload.calls[call], gpus))
        made.phases.push_back(shapes_.shaped(phase));
    } catch (const RunError& refusal) {
      throw RefusedCall(refusal, given_.workload, group, call);
    }
    asked.calls.push_back(std::move(made));
  }
  asked.end = shapes_.count();
  return asked;
}

void GroupShapes::take(std::uint32_t pattern, Asked asked) {
  patterns_[pattern].begin = asked.begin;
  patterns_[pattern].end = asked.end;
  if (joint_.traffic.size() <= pattern) joint_.traffic.resize(patterns_.size());
  joint_.traffic[pattern] = std::move(asked.calls);
}

// In the order of their first groups, as loads are numbered when they are first met.
void GroupShapes::ask_for_patterns(std::optional<GroupId> asked) {
  std::vector<std::uint32_t> order(patterns_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::uint32_t pattern) { return patterns_[pattern].first; });
  for (const std::uint32_t pattern : order) {
    if (!shapes_.hold()) return;
    if (patterns_[pattern].first != asked) take(pattern, asked_for(patterns_[pattern].first));
    if (patterns_[pattern].groups > 1) tell(patterns_[pattern]);
  }
}

// What the first group of the pattern loads, by the links of its place, which becomes the one at
// hand.
void GroupShapes::tell(Pattern& pattern) {
  const std::vector<std::uint32_t> gpus = gpus_of(pattern.first);
  if (!given_.places->of_group(gpus))
    TY_CHECK(given_.places->of_message(gpus[0], gpus[1]).has_value(), pattern.first);
  for (std::uint32_t shape = pattern.begin; shape < pattern.end; ++shape) {
    for (const auto& [link, load] : shapes_.shape(shape)) {
      const std::optional<AlikePlaces::Spot> spot = given_.places->spot_of(link);
      pattern.holds = spot && is_in_shapes(given_.places->hop_at(*spot, given_.places->base()));
      if (!pattern.holds) return;
      pattern.loads.push_back({*spot, load});
    }
  }
}

// Does the hop cross all of the links parallel to it, told by the lowest?
bool GroupShapes::is_in_shapes(const RouteHop& hop) const {
  return joint_.parallel_of[hop.link] == hop.link && joint_.parallel_links[hop.link] == hop.alike;
}

void GroupShapes::lay_out() {
  std::size_t shapes = 0;
  for (const Pattern& pattern : patterns_)
    shapes += std::size_t{pattern.groups} * (pattern.end - pattern.begin);
  joint_.first_shape.clear();
  joint_.traffic_of = pattern_of_;
  joint_.group_of_shape.clear();
  joint_.shape_offsets.assign(1, 0);
  joint_.first_shape.reserve(pattern_of_.size() + 1);
  joint_.group_of_shape.reserve(shapes);
  joint_.shape_offsets.reserve(shapes + 1);
  std::size_t end = 0;
  for (GroupId group = 0; group < pattern_of_.size(); ++group) {
    const Pattern& pattern = patterns_[pattern_of_[group]];
    joint_.first_shape.push_back(static_cast<std::uint32_t>(joint_.group_of_shape.size()));
    for (std::uint32_t shape = pattern.begin; shape < pattern.end; ++shape) {
      end += shapes_.shape(shape).size();
      joint_.group_of_shape.push_back(group);
      joint_.shape_offsets.push_back(end);
    }
  }
  joint_.first_shape.push_back(static_cast<std::uint32_t>(joint_.group_of_shape.size()));
  joint_.shape_loads.resize(end);
}

// Writes what all groups load; returns those that do not load what their pattern tells.
std::vector<GroupId> GroupShapes::filled() {
  constexpr std::size_t kTaken = 4096;  // groups at a time
  const std::size_t groups = pattern_of_.size();
  const std::size_t turns = (groups + kTaken - 1) / kTaken;
  std::vector<std::vector<GroupId>> strayed(turns);
  share_out(is_large(given_.cluster), turns, [&](std::size_t turn) {
    const std::size_t end = std::min(groups, (turn + 1) * kTaken);
    for (std::size_t i = turn * kTaken; i < end; ++i) {
      const auto group = static_cast<GroupId>(i);
      if (!fill(group)) strayed[turn].push_back(group);
    }
  });
  std::vector<GroupId> all;
  for (const std::vector<GroupId>& some : strayed) all.insert(all.end(), some.begin(), some.end());
  return all;
}

// False where parallel links do not match those of the pattern.
bool GroupShapes::fill(GroupId group) {
  const Pattern& pattern = patterns_[pattern_of_[group]];
  const std::uint32_t first = joint_.first_shape[group];
  const std::uint32_t shapes = pattern.end - pattern.begin;
  const auto place_of = [&](std::uint32_t shape) {
    return joint_.shape_loads.begin() +
           static_cast<std::ptrdiff_t>(joint_.shape_offsets[first + shape]);
  };
  if (group == pattern.first) {
    for (std::uint32_t shape = 0; shape < shapes; ++shape)
      std::ranges::copy(shapes_.shape(pattern.begin + shape), place_of(shape));
    return true;
  }
  if (!pattern.holds) return false;
  const auto base = std::span<const std::uint32_t>(bases_).subspan(base_of_[group]);
  auto place = place_of(0);
  for (const PlacedLoad& load : pattern.loads) {
    const RouteHop hop = given_.places->hop_at(load.spot, base);
    if (!is_in_shapes(hop)) return false;
    *place++ = {hop.link, load.load};
  }
  for (std::uint32_t shape = 0; shape < shapes; ++shape)
    if (!std::ranges::is_sorted(place_of(shape), place_of(shape + 1), {}, &ShapeLoad::link))
      std::ranges::sort(place_of(shape), place_of(shape + 1), {}, &ShapeLoad::link);
  return true;
}

}  // namespace trainyard
