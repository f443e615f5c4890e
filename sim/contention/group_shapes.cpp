#include "sim/contention/group_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/concurrency.hpp"
#include "sim/base/mixed.hpp"
#include "sim/cluster/link_bundles.hpp"

namespace trainyard {

GroupCalls::GroupCalls(const Workload& workload, const ProgramAnalysis& analysis) {
  (void)number({});  // kNoCalls
  for (std::uint32_t program = 0; program < workload.programs.size(); ++program) {
    std::vector<std::uint32_t>& lists = of_slot_.emplace_back();
    for (const std::vector<std::uint32_t>& calls : analysis.calls(program).distinct_calls())
      lists.push_back(number(calls));
  }
  of_group_.assign(workload.groups.size(), kNoCalls);
  for (const Rank& rank : workload.ranks) {
    for (std::size_t slot = 0; slot < rank.slots.size(); ++slot) {
      if (rank.slots[slot].group == kNone || !uses(rank.program, slot)) continue;
      std::uint32_t& all = of_group_.at(rank.slots[slot].group);
      all = either(all, of_slot_[rank.program][slot]);
      ++bound_slots_;
    }
  }
}

std::uint32_t GroupCalls::number(std::vector<std::uint32_t> calls) {
  const auto next = static_cast<std::uint32_t>(lists_.size());
  const auto [entry, fresh] = numbers_.try_emplace(std::move(calls), next);
  if (fresh) lists_.push_back(&entry->first);
  return entry->second;
}

std::uint32_t GroupCalls::either(std::uint32_t a, std::uint32_t b) {
  if (a == b || b == kNoCalls) return a;
  if (a == kNoCalls) return b;
  std::vector<std::uint32_t> calls;
  std::ranges::set_union(list(a), list(b), std::back_inserter(calls));
  return number(std::move(calls));
}

namespace {

bool are_alike(double a, double b) {
  constexpr double kAlike = 0x1p-40;  // of sums in another order
  return std::abs(a - b) <= kAlike * a;
}

}  // namespace

ChainShapes::ChainShapes(const Cluster& cluster, const JointGraph& joint, bool every_link)
    : cluster_(cluster), joint_(joint), every_link_(every_link) {}

void ChainShapes::begin() {
  first_ = count();
  shapes_here_.clear();
}

ShapedPhase ChainShapes::shaped(const Phase& phase) {
  ShapedPhase result{.latency_s = phase.latency.value(), .chains = {}};
  // By shape, payload and cap, where in the result such a chain is.
  std::unordered_map<std::vector<std::uint64_t>, std::size_t, KeyHash> place_of;
  for (const Chain& chain : phase.chains) {
    double payload = 0.0;
    for (const LinkLoad& load : chain.loads) payload = std::max(payload, load.bytes);
    if (payload <= 0.0) continue;  // Nothing to move takes no time.
    const std::uint32_t shape = shape_of(chain, payload);
    const auto [place, fresh] =
        place_of.try_emplace({shape, rounded_key(payload), rounded_key(chain.rate_cap_bytes_per_s)},
                             result.chains.size());
    if (!fresh) {
      ++result.chains[place->second].count;
      continue;
    }
    result.chains.push_back({.shape = shape,
                             .count = 1,
                             .payload_bytes = payload,
                             .rate_cap_bytes_per_s = chain.rate_cap_bytes_per_s});
  }
  return result;
}

// Finds what the chain puts on the lowest of parallel links, all of which it must load alike.
std::vector<ShapeLoad> ChainShapes::loads_of(std::span<const LinkLoad> loads, double payload) {
  std::vector<ShapeLoad> shape;
  for (const LinkLoad& load : loads) {
    TY_CHECK(load.link < joint_.parallel_of.size(), load.link, joint_.parallel_of.size());
    if (load.bytes <= 0.0) continue;
    const LinkId lowest = joint_.parallel_of[load.link];
    if (joint_.parallel_links[lowest] == 1 || meet(lowest, load))
      shape.push_back({lowest, load_index(load.bytes / payload)});
  }
  for (const auto& [lowest, met] : met_)
    if (met.links != joint_.parallel_links[lowest]) hold_ = false;
  met_.clear();
  if (!std::ranges::is_sorted(shape, {}, &ShapeLoad::link))
    std::ranges::sort(shape, {}, &ShapeLoad::link);
  return shape;
}

// Whether the chain at hand has met none of the links parallel to that before.
bool ChainShapes::meet(LinkId lowest, const LinkLoad& load) {
  const auto [entry, first] = met_.try_emplace(lowest, ParallelLoad{.bytes = load.bytes});
  ParallelLoad& met = entry->second;
  met.links += load.alike;
  if (!are_alike(met.bytes, load.bytes)) hold_ = false;
  return first;
}

// The shape of the chain among those of its group; a new one if it has no like.
std::uint32_t ChainShapes::shape_of(const Chain& chain, double payload) {
  const std::vector<ShapeLoad> shape = every_link_
                                           ? loads_of(every_link(cluster_, chain.loads), payload)
                                           : loads_of(chain.loads, payload);
  std::uint64_t hash = shape.size();
  for (const ShapeLoad& load : shape)
    hash = hash_with(hash, std::uint64_t{load.link} << 32U | load.load);
  const auto [begin, end] = shapes_here_.equal_range(hash);
  for (auto candidate = begin; candidate != end; ++candidate) {
    if (std::ranges::equal(this->shape(first_ + candidate->second), shape,
                           [](const ShapeLoad& a, const ShapeLoad& b) {
                             return a.link == b.link && a.load == b.load;
                           })) {
      return candidate->second;
    }
  }
  const std::uint32_t index = count() - first_;
  shape_loads_.insert(shape_loads_.end(), shape.begin(), shape.end());
  offsets_.push_back(shape_loads_.size());
  shapes_here_.emplace(hash, index);
  return index;
}

std::uint32_t ChainShapes::load_index(double load) {
  const std::uint64_t key = rounded_key(load);
  if (last_load_ && last_load_->first == key) return last_load_->second;
  const auto [entry, fresh] =
      load_indices_.try_emplace(key, static_cast<std::uint32_t>(loads_.size()));
  if (fresh) loads_.push_back(load);
  last_load_ = *entry;
  return entry->second;
}

GroupShapes::GroupShapes(const Given& given, JointGraph& joint)
    : given_(given), joint_(joint), shapes_(given.cluster, joint, given.places == nullptr) {}

bool GroupShapes::write(const std::function<void()>& meanwhile) {
  const std::optional<GroupId> large = group_without_like();
  Asked of_large;
  run_concurrently(
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

// Groups in places alike have the same phases (communication_model.hpp) where their calls name no
// switches and a tree of switches joins their GPUs, or they are a sender and a receiver.
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
      for (const Phase& phase : given_.communication.phases(given_.workload.calls[call], gpus))
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
  parallel_for(is_large(given_.cluster), turns, [&](std::size_t turn) {
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
