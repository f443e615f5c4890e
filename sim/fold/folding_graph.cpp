#include "sim/fold/folding_graph.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>

#include "sim/base/mixed.hpp"
#include "sim/contention/never_concurrent.hpp"  // IWYU pragma: keep (members)

namespace trainyard {

namespace {

std::uint32_t vertices_of(const auto& container) {
  return static_cast<std::uint32_t>(container.size());
}

using Key = std::vector<std::uint64_t>;

// Numbers the keys of vertices as colours: equal keys get equal colours.
class Colours {
 public:
  std::uint32_t number(const Key& key) {
    if (last_ != nullptr && *last_ == key) return last_number_;  // most are equal to the last one
    const auto [name, fresh] = names_.try_emplace(key, vertices_of(names_));
    last_ = &name->first;
    last_number_ = name->second;
    return last_number_;
  }
  void add(const Key& key) { colours_.push_back(number(key)); }
  void add(std::uint32_t colour) { colours_.push_back(colour); }
  [[nodiscard]] std::vector<std::uint32_t> all() && { return std::move(colours_); }

 private:
  std::unordered_map<Key, std::uint32_t, ListHash> names_;
  const Key* last_ = nullptr;  // a key of names_, which does not move its keys
  std::uint32_t last_number_ = 0;
  std::vector<std::uint32_t> colours_;
};

enum VertexKind : std::uint64_t { kRank, kGroup, kShape, kLink, kTraffic };

// A part whose rate changes is like no other, except for those that change alike.
void add_rates(Key& key, const std::vector<RateStep>& steps) {
  if (steps.empty()) return;
  key.push_back(std::numeric_limits<std::uint64_t>::max());  // is in no other part of a key
  for (const RateStep& step : steps)
    key.insert(key.end(), {std::bit_cast<std::uint64_t>(step.from_s),
                           std::bit_cast<std::uint64_t>(step.rate)});
}

// The colour of a rank is its program, and for each slot the lowest slot that names the same group.
// Two ranks whose slots coincide in different ways communicate with different numbers of groups.
void add_rank_colours(Colours& colours, const Cluster& cluster, const Workload& workload,
                      const JointGraph& joint) {
  Key key;
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    key = {kRank, workload.ranks[rank].program};
    const std::vector<std::uint32_t>& slots = joint.placed->slot_of[rank];
    key.insert(key.end(), slots.begin(), slots.end());
    // A slot that the program does not use must not distinguish ranks.
    while (key.size() > 2 && key.back() == kNone) key.pop_back();
    add_rates(key, rates_of_gpu(cluster.facts(), workload.ranks[rank].gpu));
    colours.add(key);
  }
}

// Adds a flow to the keys of the shapes of its group.
void add_use(std::vector<Key>& keys, const ShapedFlow& flow, std::uint32_t call,
             std::size_t phase) {
  if (flow.shape >= keys.size()) keys.resize(flow.shape + std::size_t{1}, {kShape});
  keys[flow.shape].insert(keys[flow.shape].end(),
                          {call, phase, rounded_key(flow.payload_bytes),
                           rounded_key(flow.rate_cap_bytes_per_s), alone_key(flow), flow.count});
}

// Colours of shapes by [index into GroupTraffic::calls][shape of the group]. The key of a shape is
// the list of flows that have it.
std::vector<std::vector<std::uint32_t>> shape_colours(Colours& colours,
                                                      const GroupTraffic& traffic) {
  std::vector<std::vector<std::uint32_t>> known(traffic.calls.size());
  for (std::size_t i = 0; i < traffic.calls.size(); ++i) {
    std::vector<Key> keys;
    for (const GroupCall& made : traffic.calls[i]) {
      for (std::size_t phase = 0; phase < made.phases.size(); ++phase)
        for (const ShapedFlow& flow : made.phases[phase].flows)
          add_use(keys, flow, made.call, phase);
    }
    for (const Key& key : keys) known[i].push_back(colours.number(key));
  }
  return known;
}

std::vector<std::uint32_t> traffic_colours(Colours& colours, const GroupTraffic& traffic) {
  std::vector<std::uint32_t> result;
  Key key;
  for (const std::vector<GroupCall>& calls : traffic.calls) {
    key.assign(1, kTraffic);
    for (const GroupCall& made : calls) {
      key.insert(key.end(), {made.call, made.phases.size()});
      for (const ShapedPhase& phase : made.phases) key.push_back(rounded_key(phase.latency_s));
    }
    result.push_back(colours.number(key));
  }
  return result;
}

// Adds the colours of groups, then those of shapes with their own vertices. The colour of a group
// includes its only shape where that has no vertex. The colour of its traffic holds calls, phases
// and latencies; bytes and rates are in the colours of shapes, and links are neighbours.
void add_group_colours(Colours& colours, const Workload& workload, const Contention& found,
                       const FoldingGraph& base) {
  const JointGraph& joint = *found.graph;
  const std::vector<std::vector<std::uint32_t>> shapes = shape_colours(colours, found.traffic);
  const std::vector<std::uint32_t> traffic = traffic_colours(colours, found.traffic);
  const auto has_vertex = [&](std::uint32_t shape) {
    return base.vertex_of_shape[shape] >= base.shapes;
  };
  Key key;
  for (GroupId group = 0; group < workload.groups.size(); ++group) {
    const std::uint32_t made = found.traffic.of_group[group];
    const bool alone = joint.shapes_of(group) > 0 && !has_vertex(joint.first_shape[group]);
    key = {kGroup, static_cast<std::uint64_t>(workload.groups[group].kind),
           workload.groups[group].members.size(), traffic[made],
           alone ? shapes[made].front() : kNone};
    colours.add(key);
  }
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape) {
    const GroupId group = joint.group_of_shape[shape];
    if (has_vertex(shape))
      colours.add(shapes[found.traffic.of_group[group]][shape - joint.first_shape[group]]);
  }
}

// Colours of the links in use. A cluster has few different wires, and most links have no parallel
// ones, so their colours are cached by wire.
std::vector<std::uint32_t> link_colours(Colours& colours, const Cluster& cluster,
                                        const JointGraph& joint) {
  const Wiring& wiring = cluster.wiring();
  std::vector<std::uint32_t> result;
  result.reserve(joint.links.size());
  std::vector<std::uint32_t> alone(wiring.wires().size(), kNone);
  const bool timed = has_timed_links(cluster.facts());
  std::vector<RateStep> rates;
  Key key;
  for (const LinkId id : joint.links) {
    const Wire& wire = wiring.wire(id);
    std::uint32_t& known = alone[static_cast<std::size_t>(&wire - wiring.wires().data())];
    const std::uint32_t size = joint.placed->parallel->count[id];
    if (timed) rates = rates_of_links(cluster, id);
    // The cache holds the colours of links without parallel links and timed faults.
    const bool is_usual = size == 1 && rates.empty();
    if (is_usual && known != kNone) {
      result.push_back(known);
      continue;
    }
    key = {kLink, static_cast<std::uint64_t>(wire.kind), rounded_key(wire.capacity.value()),
           rounded_key(wire.nominal.value()), size};
    add_rates(key, rates);
    result.push_back(colours.number(key));
    if (is_usual) known = result.back();
  }
  return result;
}

// The edges between ranks and groups, then groups and shapes, then shapes and links in the order of
// links.
std::vector<LabelledEdge> joint_edges(const Contention& found, const FoldingGraph& base) {
  const JointGraph& joint = *found.graph;
  const std::vector<Membership>& memberships = joint.placed->memberships;
  const std::vector<std::uint8_t>& contended = found.limits.concurrency->contended;
  const auto all_rendezvous = static_cast<std::size_t>(std::ranges::count(contended, 1));
  std::vector<LabelledEdge> edges;
  edges.reserve(memberships.size() + (base.links - base.shapes) + all_rendezvous);
  for (const Membership& member : memberships)
    edges.push_back({member.rank, base.groups + member.group, FoldingGraph::label(member)});
  for (std::uint32_t shape = 0; shape < joint.group_of_shape.size(); ++shape) {
    const std::uint32_t here = base.vertex_of_shape[shape];
    if (here >= base.shapes) edges.push_back({base.groups + joint.group_of_shape[shape], here, 0});
  }
  for (std::uint32_t i = 0; i < base.contended.size(); ++i) {
    const LinkId link = joint.links[base.contended[i]];
    std::uint32_t number = found.limits.users->first(link);
    for (const auto& [shape, load] : found.limits.users->of(link))
      if (contended[number++] != 0)
        edges.push_back({base.vertex_of_shape[shape], base.links + i, load});
  }
  return edges;
}

}  // namespace

std::uint64_t alone_key(const ShapedFlow& flow) {
  return rounded_key(flow.rate_alone.value_or(flow.rate_cap_bytes_per_s));
}

FoldingGraph::FoldingGraph(const Cluster& cluster, const Workload& workload,
                           const Contention& found, Flows flows)
    : groups(vertices_of(workload.ranks)),
      shapes(groups + vertices_of(workload.groups)),
      links(place_shapes(*found.graph, flows)),
      contended(found.limits.concurrency->links),
      end(links + vertices_of(contended)) {
  // Colours are added in the order of the vertices.
  Colours numbers;
  add_rank_colours(numbers, cluster, workload, *found.graph);
  add_group_colours(numbers, workload, found, *this);
  colour_of_link = link_colours(numbers, cluster, *found.graph);
  for (const std::uint32_t position : contended) numbers.add(colour_of_link[position]);
  colours = std::move(numbers).all();
}

LabelledGraph FoldingGraph::graph(const Contention& found) const {
  return {end, joint_edges(found, *this)};
}

// Gives shapes their vertices. Returns the vertex after the last.
std::uint32_t FoldingGraph::place_shapes(const JointGraph& joint, Flows flows) {
  std::uint32_t next = shapes;
  vertex_of_shape.reserve(joint.group_of_shape.size());
  for (const GroupId group : joint.group_of_shape) {
    const bool alone = flows == Flows::InGroups && joint.shapes_of(group) == 1;
    vertex_of_shape.push_back(alone ? groups + group : next++);
  }
  return next;
}

}  // namespace trainyard
