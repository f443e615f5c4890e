#include "sim/contention/group_shapes.hpp"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/concurrency.hpp"

namespace trainyard {

// From calls to the joint graph in three steps: the communication model is queried for one group of
// each pattern (GroupAnswers), the links of its flows become spots of its placement
// (locate_patterns), and every other group of the pattern has the links that lie at these spots of
// its own placement (fill). Example: 1 024 tensor groups that each fill a node of one kind are one
// pattern. It takes one query, and 1 023 times as many look-ups as a group has loads.
GroupAnswers::GroupAnswers(const Cluster& cluster, const Workload& workload,
                           const CommunicationModel& communication, const PlacementInputs& ground,
                           GroupTraffic& traffic)
    : workload_(workload),
      communication_(communication),
      calls_(*ground.calls),
      flows_(cluster, *ground.parallel, ground.places == nullptr),
      traffic_(traffic) {}

void GroupAnswers::query_ahead(GroupId group) { ahead_.emplace(group, phases_of(group)); }

// Queries in the order of the patterns' first groups, because loads are numbered when they first
// occur.
void GroupAnswers::query_all(const GroupPlacements& placed) {
  for (const auto& [first, groups] : placed.patterns)
    patterns_.push_back({.first = first, .groups = groups});
  traffic_.of_group = placed.pattern_of;
  traffic_.calls.resize(patterns_.size());
  std::vector<std::uint32_t> order(patterns_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::uint32_t pattern) { return patterns_[pattern].first; });
  if (ahead_) {
    const std::uint32_t pattern = traffic_.of_group[ahead_->first];
    patterns_[pattern].end = flows_.table().count();  // its shapes are the first ones
    traffic_.calls[pattern] = std::move(ahead_->second);
  }
  for (const std::uint32_t pattern : order) {
    // The caller then builds the graph with every link by itself.
    if (!hold()) return;
    if (!ahead_ || patterns_[pattern].first != ahead_->first) query(pattern);
  }
}

void GroupAnswers::query_alone(GroupId group) {
  --patterns_[traffic_.of_group[group]].groups;
  traffic_.of_group[group] = static_cast<std::uint32_t>(patterns_.size());
  patterns_.push_back({.first = group});
  traffic_.calls.emplace_back();
  query(traffic_.of_group[group]);
}

// Queries for the first group of a pattern.
void GroupAnswers::query(std::uint32_t pattern) {
  patterns_[pattern].begin = flows_.table().count();
  traffic_.calls[pattern] = phases_of(patterns_[pattern].first);
  patterns_[pattern].end = flows_.table().count();
}

std::vector<GroupCall> GroupAnswers::phases_of(GroupId group) {
  std::vector<std::uint32_t> gpus;
  gpus.reserve(workload_.groups[group].members.size());
  for (const RankId rank : workload_.groups[group].members)
    gpus.push_back(workload_.ranks[rank].gpu);
  flows_.begin();
  std::vector<GroupCall> calls;
  for (const std::uint32_t call : calls_.list(calls_.of_group(group))) {
    GroupCall made{.call = call, .phases = {}};
    try {
      for (const Phase& phase : communication_.phases(workload_.calls[call], gpus))
        made.phases.push_back(flows_.shaped(phase));
    } catch (const RunError& refusal) {
      // Adds the field of the scenario that chose the algorithm.
      throw RefusedCall(refusal, workload_, group, call);
    }
    calls.push_back(std::move(made));
  }
  return calls;
}

std::shared_ptr<const GroupShapes> GroupAnswers::shapes() const {
  return std::make_shared<const GroupShapes>(
      GroupShapes{patterns_, traffic_.of_group, flows_.table()});
}

namespace {

// Writes the joint graph from one shape list per pattern. The links of each further group are
// looked up by position, so that a group costs its loads alone: no routes, no communication model.
class LayoutWriter {
 public:
  LayoutWriter(const Cluster& cluster, const Workload& workload,
               std::shared_ptr<const GroupPlacements> placed, const GroupShapes& shapes)
      : cluster_(cluster), workload_(workload), placed_(*placed), shapes_(shapes) {
    joint_.placed = std::move(placed);
  }

  GraphLayout written() {
    locate_patterns();
    place_shapes();
    GraphLayout layout{.graph = {}, .mismatched = filled()};
    if (!layout.mismatched.empty()) return layout;
    joint_.loads = shapes_.table.loads;
    collect_links();
    layout.graph = std::make_shared<const JointGraph>(std::move(joint_));
    return layout;
  }

 private:
  // A load on a link, named by its position in the placement.
  struct PlacedLoad {
    IsomorphicPlacements::Spot spot;
    std::uint32_t load = 0;  // index into JointGraph::loads
  };
  // A pattern with its links as positions in its placement: the loads of its shapes, one shape
  // after the other.
  struct Told {
    bool holds = true;  // whether all its links belong to its placement
    std::vector<PlacedLoad> loads = {};
  };

  void locate_patterns();
  [[nodiscard]] Told told(const GroupShapes::Pattern& pattern) const;
  [[nodiscard]] bool is_in_shapes(const RouteHop& hop) const;
  void place_shapes();
  [[nodiscard]] std::vector<GroupId> filled();
  [[nodiscard]] bool fill(GroupId group);
  void collect_links();

  const Cluster& cluster_;
  const Workload& workload_;
  const GroupPlacements& placed_;
  const GroupShapes& shapes_;
  std::vector<Told> told_;  // by pattern; empty for a pattern of one group
  JointGraph joint_;
};

// Finding spots needs the placement of the pattern's first group to be the present one, which is
// state of `places`: the lock keeps other threads from changing it.
void LayoutWriter::locate_patterns() {
  told_.resize(shapes_.patterns.size());
  if (!placed_.places) return;
  const std::scoped_lock lock(placed_.places->mutex());
  for (std::size_t i = 0; i < told_.size(); ++i)
    if (shapes_.patterns[i].groups > 1) told_[i] = told(shapes_.patterns[i]);
}

// Makes the placement of the pattern's first group the present one. It is the same kind of
// placement that the group got before (group_placements.cpp): one of GPUs, or else one of a
// message. A pattern with a link that its placement does not determine does not hold, and its other
// groups are queried one by one.
LayoutWriter::Told LayoutWriter::told(const GroupShapes::Pattern& pattern) const {
  std::vector<std::uint32_t> gpus;
  for (const RankId rank : workload_.groups[pattern.first].members)
    gpus.push_back(workload_.ranks[rank].gpu);
  IsomorphicPlacements& places = *placed_.places;
  if (!places.of_group(gpus))
    TY_CHECK(places.of_message(gpus[0], gpus[1]).has_value(), pattern.first);
  Told result;
  for (std::uint32_t shape = pattern.begin; shape < pattern.end; ++shape) {
    for (const auto& [link, load] : shapes_.table.shape(shape)) {
      const std::optional<IsomorphicPlacements::Spot> spot = places.spot_of(link);
      result.holds = spot && is_in_shapes(places.hop_at(*spot, places.base()));
      if (!result.holds) return result;
      result.loads.push_back({*spot, load});
    }
  }
  return result;
}

// Whether the hop covers its whole set of parallel links, and names it by the lowest.
bool LayoutWriter::is_in_shapes(const RouteHop& hop) const {
  return placed_.parallel->lowest[hop.link] == hop.link &&
         placed_.parallel->count[hop.link] == hop.parallel_count;
}

// Computes where the shapes of every group begin, so that groups can be written in any order and by
// two threads.
void LayoutWriter::place_shapes() {
  std::size_t shapes = 0;
  for (const GroupShapes::Pattern& pattern : shapes_.patterns)
    shapes += std::size_t{pattern.groups} * (pattern.end - pattern.begin);
  joint_.shape_offsets.assign(1, 0);
  joint_.first_shape.reserve(shapes_.pattern_of.size() + 1);
  joint_.group_of_shape.reserve(shapes);
  joint_.shape_offsets.reserve(shapes + 1);
  std::size_t end = 0;
  for (GroupId group = 0; group < shapes_.pattern_of.size(); ++group) {
    const GroupShapes::Pattern& pattern = shapes_.patterns[shapes_.pattern_of[group]];
    joint_.first_shape.push_back(static_cast<std::uint32_t>(joint_.group_of_shape.size()));
    for (std::uint32_t shape = pattern.begin; shape < pattern.end; ++shape) {
      end += shapes_.table.shape(shape).size();
      joint_.group_of_shape.push_back(group);
      joint_.shape_offsets.push_back(end);
    }
  }
  joint_.first_shape.push_back(static_cast<std::uint32_t>(joint_.group_of_shape.size()));
  joint_.shape_loads.resize(end);
}

// Writes the loads of all groups. Returns the groups that do not match their pattern.
std::vector<GroupId> LayoutWriter::filled() {
  constexpr std::size_t kTaken = 4096;  // groups per piece of work
  const std::size_t groups = shapes_.pattern_of.size();
  const std::size_t turns = (groups + kTaken - 1) / kTaken;
  std::vector<std::vector<GroupId>> mismatched(turns);
  parallel_for(is_large(cluster_), turns, [&](std::size_t turn) {
    const std::size_t end = std::min(groups, (turn + 1) * kTaken);
    for (std::size_t i = turn * kTaken; i < end; ++i) {
      const auto group = static_cast<GroupId>(i);
      if (!fill(group)) mismatched[turn].push_back(group);
    }
  });
  std::vector<GroupId> all;
  for (const std::vector<GroupId>& some : mismatched)
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

// Writes the loads of a group. Returns false where its parallel links do not match those of the
// pattern.
bool LayoutWriter::fill(GroupId group) {
  const std::uint32_t number = shapes_.pattern_of[group];
  const GroupShapes::Pattern& pattern = shapes_.patterns[number];
  const std::uint32_t first = joint_.first_shape[group];
  const std::uint32_t shapes = pattern.end - pattern.begin;
  const auto holder_of = [&](std::uint32_t shape) {
    return joint_.shape_loads.begin() +
           static_cast<std::ptrdiff_t>(joint_.shape_offsets[first + shape]);
  };
  if (group == pattern.first) {
    for (std::uint32_t shape = 0; shape < shapes; ++shape)
      std::ranges::copy(shapes_.table.shape(pattern.begin + shape), holder_of(shape));
    return true;
  }
  if (!told_[number].holds) return false;
  const auto base = std::span<const std::uint32_t>(placed_.bases).subspan(placed_.base_of[group]);
  // Spots are in the order of the first group's links. Corresponding links may be numbered in
  // another order, so each shape is sorted again.
  auto place = holder_of(0);
  for (const PlacedLoad& load : told_[number].loads) {
    const RouteHop hop = placed_.places->hop_at(load.spot, base);
    if (!is_in_shapes(hop)) return false;
    *place++ = {hop.link, load.load};
  }
  for (std::uint32_t shape = 0; shape < shapes; ++shape)
    if (!std::ranges::is_sorted(holder_of(shape), holder_of(shape + 1), {}, &ShapeLoad::link))
      std::ranges::sort(holder_of(shape), holder_of(shape + 1), {}, &ShapeLoad::link);
  return true;
}

void LayoutWriter::collect_links() {
  std::vector<bool> used(placed_.parallel->lowest.size(), false);
  for (const ShapeLoad& load : joint_.shape_loads) used[load.link] = true;
  for (LinkId link = 0; link < used.size(); ++link)
    if (used[link]) joint_.links.push_back(link);
}

}  // namespace

GraphLayout lay_out(const Cluster& cluster, const Workload& workload,
                    std::shared_ptr<const GroupPlacements> placed, const GroupShapes& shapes) {
  return LayoutWriter(cluster, workload, std::move(placed), shapes).written();
}

std::size_t footprint(const GraphLayout& layout) {
  if (!layout.graph) return layout.mismatched.size() * sizeof(GroupId);
  const JointGraph& joint = *layout.graph;
  return joint.shape_loads.size() * sizeof(ShapeLoad) +
         joint.shape_offsets.size() * sizeof(std::size_t) +
         (joint.first_shape.size() + joint.group_of_shape.size() + joint.links.size()) *
             sizeof(std::uint32_t);
}

}  // namespace trainyard
