#include "sim/contention/isomorphic_placements.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <ranges>
#include <utility>

#include "sim/base/mixed.hpp"

namespace trainyard {

namespace {

// The key of a placement names no particular node or switch: these are numbered in the order of
// first use (Met). Equal keys therefore mean isomorphic placements. The base of a placement lists
// its nodes and switches in that order (for a message, the links of its route). A spot is an index
// in the base and an offset there, so it leads from one placement to the corresponding link of
// another.
//
// Example: GPUs 8 to 15 fill node 1, and GPUs 24 to 31 fill node 3 of the same kind. Both have the
// key {kGroup, 8 members, node 0 GPU 0, kind, node 0 GPU 1, ..., node 0 GPU 7, sorted}, with the
// bases {1} and {3}. Link 5 of node 1 has the spot {index 0, offset 5}, which is link 5 of node 3
// in the other placement.
//
// The first word of a key:
constexpr std::uint64_t kGroup = 0;
constexpr std::uint64_t kMessage = 1;

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

std::uint64_t both(std::uint64_t high, std::uint32_t low) { return high << 32U | low; }

// Calls use(node, first, count) for all devices, ascending. Consecutive devices of a node are one
// call where the wiring records them as such.
void for_each_row(const Cluster& cluster, const auto& use) {
  const NodeRuns& runs = cluster.wiring().runs();
  DeviceId next = 0;
  if (const std::uint32_t nodes = cluster.facts().nodes; runs.are_nodes(nodes)) {
    for (std::uint32_t node = 0; node < nodes; ++node) {
      const std::uint32_t count = runs.devices_of(node);
      use(static_cast<std::int32_t>(node), next, count);
      next += count;
    }
  }
  for (; next < cluster.device_count(); ++next) use(cluster.device(next).node, next, 1);
}

}  // namespace

void IsomorphicPlacements::Met::forget() {
  for (const std::uint32_t thing : things) number[thing] = kNone;
  things.clear();
}

std::pair<std::uint32_t, bool> IsomorphicPlacements::Met::meet(std::uint32_t thing) {
  if (number[thing] != kNone) return {number[thing], true};
  number[thing] = static_cast<std::uint32_t>(things.size());
  things.push_back(thing);
  return {number[thing], false};
}

IsomorphicPlacements::IsomorphicPlacements(Cluster cluster)
    : cluster_(std::move(cluster)),
      tree_(cluster_),
      nodes_{.number = std::vector<std::uint32_t>(cluster_.facts().nodes, kNone), .things = {}},
      locals_{.number = std::vector<std::uint32_t>(cluster_.facts().gpus_per_node, kNone),
              .things = {}},
      switches_{.number = std::vector<std::uint32_t>(tree_.size(), kNone), .things = {}} {
  collect_node_links();
  number_nodes();
}

// Lists the links of each node. Links that start in a node are found through its devices. Links
// that end in it and start elsewhere come from the wiring. It is a counting sort: one pass counts
// the links of each node, a second one stores them.
void IsomorphicPlacements::collect_node_links() {
  const std::uint32_t nodes = cluster_.facts().nodes;
  const Wiring& wiring = cluster_.wiring();
  first_link_.assign(nodes + std::size_t{1}, 0);
  devices_.resize(nodes);
  place_of_device_.reserve(cluster_.device_count());
  for_each_row(cluster_, [&](std::int32_t node, DeviceId first, std::uint32_t count) {
    if (node < 0) {
      place_of_device_.insert(place_of_device_.end(), count, kNone);
      return;
    }
    Devices& devices = devices_[static_cast<std::size_t>(node)];
    for (DeviceId id = first; id < first + count; ++id) place_of_device_.push_back(devices.add(id));
    first_link_[static_cast<std::size_t>(node) + 1] +=
        wiring.first_link_from(first + count) - wiring.first_link_from(first);
  });
  for_each_arriving([&](std::size_t node, LinkId) { ++first_link_[node + 1]; });
  std::partial_sum(first_link_.begin(), first_link_.end(), first_link_.begin());
  links_.resize(first_link_.back());
  std::vector<std::size_t> next(first_link_.begin(), first_link_.end() - 1);
  for_each_row(cluster_, [&](std::int32_t node, DeviceId first, std::uint32_t count) {
    if (node < 0) return;
    std::size_t& place = next[static_cast<std::size_t>(node)];
    const LinkId end = wiring.first_link_from(first + count);
    for (LinkId link = wiring.first_link_from(first); link < end; ++link) links_[place++] = link;
  });
  for_each_arriving([&](std::size_t node, LinkId link) { links_[next[node]++] = link; });
  for (std::uint32_t node = 0; node < nodes; ++node) {
    const std::span<LinkId> links =
        std::span(links_).subspan(first_link_[node], first_link_[node + 1] - first_link_[node]);
    if (!std::ranges::is_sorted(links)) std::ranges::sort(links);
  }
}

// Calls `use` with the node and the link, for each link that ends in a node and starts elsewhere.
void IsomorphicPlacements::for_each_arriving(const auto& use) const {
  cluster_.wiring().for_each_range([&](const StridedLinks& series) {
    // A series that leads to one switch of the fabric ends in no node.
    if (series.to.step == 0 && cluster_.device(DeviceId{series.to.first}).node < 0) return;
    for (std::uint32_t i = 0; i < series.links.count; ++i) {
      const std::int32_t to = cluster_.device(DeviceId{series.to[i]}).node;
      if (to < 0) continue;
      if (to != cluster_.device(DeviceId{series.from[i]}).node)
        use(static_cast<std::size_t>(to), LinkId{series.links[i]});
    }
  });
}

std::span<const LinkId> IsomorphicPlacements::links_of(std::uint32_t node) const {
  return std::span(links_).subspan(first_link_[node], first_link_[node + 1] - first_link_[node]);
}

// A kind of node: the first node of a set of isomorphic nodes.
struct IsomorphicPlacements::Kind {
  std::uint32_t node = 0;
  // By link of the node: the number of its wire in the cluster's table.
  std::vector<std::uint32_t> wires;
  // By device, and the end: the offset of its first link among the links of the node.
  std::vector<std::uint32_t> offsets;
  // The links of the node that start or end elsewhere, as indices.
  std::vector<std::uint32_t> outside;
};

// Finds for each node the lowest isomorphic one. Nodes with equal hashes of their wires are
// compared link by link.
void IsomorphicPlacements::number_nodes() {
  std::unordered_map<std::uint64_t, std::vector<Kind>> kinds;
  for (std::uint32_t node = 0; node < cluster_.facts().nodes; ++node) {
    const std::vector<std::uint32_t> wires = wires_of(node);
    std::vector<Kind>& candidates =
        kinds[std::accumulate(wires.begin(), wires.end(), wires.size(), hash_with)];
    const auto like = std::ranges::find_if(candidates, [&](const Kind& kind) {
      return kind.wires == wires && same_gpu_positions(kind.node, node) &&
             is_joined_like(kind, node);
    });
    kind_of_node_.push_back(like == candidates.end() ? node : like->node);
    if (like == candidates.end()) candidates.push_back(kind_of(node, wires));
  }
}

std::vector<std::uint32_t> IsomorphicPlacements::wires_of(std::uint32_t node) const {
  const Wiring& wiring = cluster_.wiring();
  std::vector<std::uint32_t> wires;
  wires.reserve(links_of(node).size());
  for (const LinkId id : links_of(node)) wires.push_back(wiring.strand(id).wire);
  return wires;
}

IsomorphicPlacements::Kind IsomorphicPlacements::kind_of(std::uint32_t node,
                                                         std::vector<std::uint32_t> wires) const {
  Kind kind{.node = node, .wires = std::move(wires), .offsets = offsets_of(node), .outside = {}};
  const std::span<const LinkId> links = links_of(node);
  for (std::uint32_t place = 0; place < links.size(); ++place) {
    const LinkEnds strand = cluster_.wiring().strand(links[place]);
    const auto is_elsewhere = [&](DeviceId id) {
      return cluster_.device(id).node != static_cast<std::int32_t>(node);
    };
    if (is_elsewhere(strand.from) || is_elsewhere(strand.to)) kind.outside.push_back(place);
  }
  return kind;
}

// Returns an empty list where the node's devices do not have consecutive numbers.
std::vector<std::uint32_t> IsomorphicPlacements::offsets_of(std::uint32_t node) const {
  const auto& [first, count, in_a_row] = devices_[node];
  std::vector<std::uint32_t> offsets;
  if (!in_a_row) return offsets;
  const LinkId first_link = cluster_.wiring().first_link_from(first);
  for (std::uint32_t place = 0; place <= count; ++place)
    offsets.push_back(cluster_.wiring().first_link_from(first + place) - first_link);
  return offsets;
}

// Whether the links of the node join the same devices as those of the kind, index by index. For two
// nodes of one wiring pattern, it is enough to compare the links that leave or enter the node.
bool IsomorphicPlacements::is_joined_like(const Kind& kind, std::uint32_t node) const {
  const std::span<const LinkId> here = links_of(kind.node);
  const std::span<const LinkId> there = links_of(node);
  const auto joins_alike = [&](std::uint32_t place) {
    const LinkEnds x = cluster_.wiring().strand(here[place]);
    const LinkEnds y = cluster_.wiring().strand(there[place]);
    return end_of(x.from, kind.node) == end_of(y.from, node) &&
           end_of(x.to, kind.node) == end_of(y.to, node);
  };
  const auto pattern = cluster_.wiring().pattern_of(node);
  if (pattern && pattern == cluster_.wiring().pattern_of(kind.node) && !kind.offsets.empty() &&
      kind.offsets == offsets_of(node))
    return std::ranges::all_of(kind.outside, joins_alike);
  const auto places = std::views::iota(0U, static_cast<std::uint32_t>(here.size()));
  return std::ranges::all_of(places, joins_alike);
}

// Whether GPUs and their NICs have the same indices in both nodes.
bool IsomorphicPlacements::same_gpu_positions(std::uint32_t a, std::uint32_t b) const {
  const std::uint32_t gpus = cluster_.facts().gpus_per_node;
  for (std::uint32_t i = 0; i < gpus; ++i) {
    const std::uint32_t here = a * gpus + i;
    const std::uint32_t there = b * gpus + i;
    const auto place = [&](DeviceId id) { return place_of_device_[id]; };
    if (place(cluster_.gpus()[here]) != place(cluster_.gpus()[there])) return false;
    if (cluster_.has_mixed_gpus() && cluster_.gpu_kind(here) != cluster_.gpu_kind(there))
      return false;
    const std::vector<DeviceId>& nics = cluster_.nic_of_gpu();
    if (!nics.empty() && place(nics[here]) != place(nics[there])) return false;
  }
  return true;
}

// The endpoint of a link as the node sees it: the index of a device of the node, or kNone for one
// outside, with its kind.
std::pair<std::uint32_t, DeviceKind> IsomorphicPlacements::end_of(DeviceId id,
                                                                  std::uint32_t node) const {
  const Device& device = cluster_.device(id);
  return {device.node == static_cast<std::int32_t>(node) ? place_of_device_[id] : kNone,
          device.kind};
}

void IsomorphicPlacements::add_gpu_to_key(std::uint32_t gpu) {
  key_.push_back(both(kind_of_node_[cluster_.node_of(gpu)], cluster_.local_index(gpu)));
}

// The number of the key; equal keys get equal numbers.
std::uint32_t IsomorphicPlacements::named() {
  const auto next = static_cast<std::uint32_t>(numbers_.size());
  auto known = numbers_.find(key_);
  if (known == numbers_.end()) known = numbers_.emplace(key_, next).first;
  return known->second;
}

std::optional<std::uint32_t> IsomorphicPlacements::of_group(std::span<const std::uint32_t> gpus) {
  way_.clear();
  key_.assign({kGroup, gpus.size()});
  put_members(gpus);
  if (nodes_.things.size() > 1 && !put_tree()) return std::nullopt;
  lay_base();
  return named();
}

// Adds to the key the node and the local index of each member, by group rank. Nodes are numbered in
// the order of first use, so the key does not depend on which nodes they are.
void IsomorphicPlacements::put_members(std::span<const std::uint32_t> gpus) {
  nodes_.forget();
  locals_.forget();
  switches_.forget();
  for (const std::uint32_t gpu : gpus) {
    const std::uint32_t local = cluster_.local_index(gpu);
    const auto [number, known] = nodes_.meet(cluster_.node_of(gpu));
    key_.push_back(both(number, local));
    if (!known) key_.push_back(kind_of_node_[nodes_.things.back()]);
    locals_.meet(local);
  }
  put_order(nodes_);
}

// Adds to the key the tree above all NICs that messages between members can use: their own NICs,
// and those at the other members' local indices, because a message takes the receiver's rail in the
// sender's node. Returns false where no single tree joins them.
bool IsomorphicPlacements::put_tree() {
  // Routes in a torus depend on where its nodes are.
  if (!cluster_.facts().torus.empty()) return false;
  tops_ = 0;
  for (const std::uint32_t node : nodes_.things) {
    for (const std::uint32_t local : locals_.things) {
      const std::uint32_t at = tree_.switch_of(node * cluster_.facts().gpus_per_node + local);
      if (at == kNone) return false;
      put_way_up(at);
    }
  }
  put_order(switches_);
  return tops_ == 1;
}

// Adds the nodes from a switch to the top, until one that is known: from there on the way is in the
// key already. NICs below leaves A and B of one pod add: 0, the wiring of A, 1, the wiring of the
// spines, 2, the wiring of B, and 1 for the spines once more.
void IsomorphicPlacements::put_way_up(std::uint32_t at) {
  for (; at != kNone; at = tree_.node(at).above) {
    const auto [number, known] = switches_.meet(at);
    key_.push_back(number);
    if (known) return;
    key_.push_back(tree_.node(at).wiring);
    if (tree_.node(at).above == kNone) ++tops_;
  }
}

// Adds to the key the order of these objects in the cluster: a communication model uses that order
// where it has no other.
void IsomorphicPlacements::put_order(const Met& met) {
  const bool sorted = std::ranges::is_sorted(met.things);
  key_.push_back(sorted ? 0 : 1);
  if (sorted) return;
  const std::size_t first = key_.size();
  for (std::uint32_t i = 0; i < met.things.size(); ++i) key_.push_back(i);
  std::ranges::sort(key_.begin() + static_cast<std::ptrdiff_t>(first), key_.end(), {},
                    [&](std::uint64_t number) { return met.things[number]; });
}

std::optional<std::uint32_t> IsomorphicPlacements::of_message(std::uint32_t from_gpu,
                                                              std::uint32_t to_gpu) {
  if (cluster_.node_of(from_gpu) == cluster_.node_of(to_gpu)) return std::nullopt;
  way_ = cluster_.router().route_rail_aligned(from_gpu, to_gpu, RouteDetail::ParallelLinks);
  key_.assign(1, kMessage);
  add_gpu_to_key(from_gpu);
  add_gpu_to_key(to_gpu);
  key_.push_back(bits(cluster_.latency().extra_rail_aligned(from_gpu, to_gpu).value()));
  for (auto hop = way_.begin(); hop != way_.end(); ++hop) {
    const auto same = [&](const RouteHop& other) { return other.link == hop->link; };
    // spot_of() finds a hop by its link, so each link may occur once.
    if (std::any_of(way_.begin(), hop, same)) return std::nullopt;
    const Link& link = cluster_.link(hop->link);
    key_.insert(key_.end(),
                {both(hop->parallel_count, link.cables), static_cast<std::uint64_t>(link.kind),
                 bits(hop->fraction), bits(link.capacity.value()), bits(link.nominal.value()),
                 bits(link.latency.value())});
  }
  lay_base();
  return named();
}

void IsomorphicPlacements::lay_base() {
  base_.clear();
  for (const RouteHop& hop : way_) base_.insert(base_.end(), {hop.link, hop.parallel_count});
  if (!way_.empty()) return;
  base_.insert(base_.end(), nodes_.things.begin(), nodes_.things.end());
  base_.insert(base_.end(), switches_.things.begin(), switches_.things.end());
}

std::optional<IsomorphicPlacements::Spot> IsomorphicPlacements::spot_of(LinkId id) const {
  if (!way_.empty()) {
    const auto at = std::ranges::find(way_, id, &RouteHop::link);
    if (at == way_.end()) return std::nullopt;
    return Spot{Spot::Part::Way, 2 * static_cast<std::uint32_t>(at - way_.begin()), 0};
  }
  const Link& link = cluster_.link(id);
  const bool inside = cluster_.device(link.from).node == cluster_.device(link.to).node;
  const bool in_fabric = cluster_.device(link.from).node < 0 && inside;
  if (in_fabric) return spot_of_set(link);
  // A link that leaves the only node of a placement leads to a device that the placement does not
  // determine.
  return inside || nodes_.things.size() > 1 ? spot_in_node(link) : std::nullopt;
}

// A link that joins two nodes of the placement counts as one of the node that it leads to.
std::optional<IsomorphicPlacements::Spot> IsomorphicPlacements::spot_in_node(
    const Link& link) const {
  std::optional<Spot> spot;
  for (const DeviceId end : {link.from, link.to}) {
    const std::int32_t of = cluster_.device(end).node;
    if (of < 0 || nodes_.number[static_cast<std::size_t>(of)] == kNone) continue;
    const auto node = static_cast<std::uint32_t>(of);
    const auto at = std::ranges::lower_bound(links_of(node), link.id);
    spot = Spot{Spot::Part::Node, nodes_.number[node],
                static_cast<std::uint32_t>(at - links_of(node).begin())};
  }
  return spot;
}

std::optional<IsomorphicPlacements::Spot> IsomorphicPlacements::spot_of_set(
    const Link& link) const {
  for (const Spot::Part part : {Spot::Part::Up, Spot::Part::Down}) {
    const std::uint32_t at = tree_.node_of(part == Spot::Part::Up ? link.from : link.to);
    if (at == kNone || switches_.number[at] == kNone) continue;
    const FabricTree::Node& node = tree_.node(at);
    if ((part == Spot::Part::Up ? node.up : node.down).link != link.id) continue;
    const auto nodes = static_cast<std::uint32_t>(nodes_.things.size());
    return Spot{part, nodes + switches_.number[at], 0};
  }
  return std::nullopt;
}

RouteHop IsomorphicPlacements::hop_at(const Spot& spot, std::span<const std::uint32_t> base) const {
  const std::uint32_t at = base[spot.which];
  switch (spot.part) {
    // The base of a message has two entries per hop: the link and the size of its set.
    case Spot::Part::Way:
      return {.link = LinkId{at}, .parallel_count = base[spot.which + 1]};
    case Spot::Part::Node:
      return {.link = links_[first_link_[at] + spot.offset]};
    case Spot::Part::Up:
      return tree_.node(at).up;
    case Spot::Part::Down:
      return tree_.node(at).down;
  }
  return {};
}

}  // namespace trainyard
