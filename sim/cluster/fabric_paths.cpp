#include "sim/cluster/fabric_paths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/workload/workload.hpp"  // IWYU pragma: keep (kNone)

namespace trainyard {

namespace {

// The most entries of the distance table: 64 Mi of two bytes each. 65 536 endpoints of a
// three-level fat-tree need 10 Mi.
constexpr std::size_t kTableMost = std::size_t{1} << 26U;

[[noreturn]] void throw_disconnected(const Topology& topology, std::uint32_t a, std::uint32_t b) {
  throw InputError(
      Problem{"", "",
              fmt::format("{} and {} cannot reach each other over the fabric",
                          topology.name(topology.gpus()[a]), topology.name(topology.gpus()[b])),
              "add the links that join them, in both directions"});
}

bool all_reached(const std::vector<bool>& wanted, const Hops& hops) {
  for (std::size_t place = 0; place < wanted.size(); ++place)
    if (wanted[place] && hops[place] == kUnreachable) return false;
  return true;
}

// A GPU belongs to the first component whose first GPU it reaches and which reaches it. Cost: two
// searches per component, of which there are few.
FabricComponents components(const Topology& topology, const FabricPaths& paths) {
  const Net& net = paths.fabric().net();
  const FabricPorts& ports = paths.ports();
  const auto gpus = static_cast<std::uint32_t>(topology.gpus().size());
  const auto reached = [](const Hops& hops, const FabricPorts::Arcs& ends) {
    return std::ranges::any_of(ends,
                               [&](const Arc& end) { return hops[end.place] != kUnreachable; });
  };
  FabricComponents result;
  for (std::uint32_t first = 0; first < gpus; ++first) {
    if (!result.of_gpu.empty() && result.of_gpu[first] != kNone) continue;
    // Each component needs a GPU in every node (check_common). A component more than there are GPUs
    // per node leaves some pair apart, so the search can stop.
    if (result.count == topology.facts().gpus_per_node && result.count > 0)
      throw_disconnected(topology, 0, first);
    std::vector<std::uint32_t> starts;
    for (const Arc& arc : ports.up(first)) starts.push_back(arc.place);
    const Hops there = search(net, net.in, ports.targets()[ports.target(first)]);
    const Hops back = search(net, net.out, starts);
    ++result.count;
    // The usual case: one component. Two searches prove it, and of_gpu stays empty.
    if (first == 0 && all_reached(ports.has_nics(), there) && all_reached(ports.has_nics(), back))
      return result;
    result.of_gpu.resize(gpus, kNone);
    for (std::uint32_t gpu = first; gpu < gpus; ++gpu) {
      if (result.of_gpu[gpu] != kNone) continue;
      if (gpu == first || (reached(there, ports.up(gpu)) && reached(back, ports.down(gpu))))
        result.of_gpu[gpu] = result.count - 1;
    }
  }
  return result;
}

// GPUs of one node need a path to each other inside the node, unless the fabric joins all GPUs.
// Nodes of one shape are tested once.
void check_nodes(const Topology& topology, const NodePaths& nodes, bool one_component) {
  std::vector<bool> joined(nodes.shapes().all().size(), one_component);
  for (std::uint32_t node = 0; node < topology.facts().nodes; ++node) {
    const std::uint32_t shape = nodes.shapes().number(node);
    if (!joined[shape] && !nodes.joins_gpus(node)) {
      const DeviceId gpu = topology.gpus()[std::size_t{node} * topology.facts().gpus_per_node];
      throw InputError(
          Problem{"", "", fmt::format("not every GPU of its node can reach {}", topology.name(gpu)),
                  "join the GPUs of a node by nvlink or pcie links in both directions"});
    }
    joined[shape] = true;
  }
}

// Every two nodes must have a component in common. Inside them GPUs relay messages to it.
void check_common(const Topology& topology, const FabricComponents& components) {
  const std::uint32_t per_node = topology.facts().gpus_per_node;
  std::map<std::vector<bool>, std::uint32_t> kinds;  // sets of components of a node; its first GPU
  for (std::uint32_t gpu = 0; gpu < topology.gpus().size(); gpu += per_node) {
    std::vector<bool> parts(components.count, false);
    for (std::uint32_t i = gpu; i < gpu + per_node; ++i) parts[components.of_gpu[i]] = true;
    kinds.try_emplace(std::move(parts), gpu);
  }
  for (const auto& [a, gpu_a] : kinds) {
    for (const auto& [b, gpu_b] : kinds) {
      bool shared = false;
      for (std::size_t i = 0; i < components.count; ++i) shared = shared || (a[i] && b[i]);
      if (!shared) throw_disconnected(topology, std::min(gpu_a, gpu_b), std::max(gpu_a, gpu_b));
    }
  }
}

}  // namespace

FabricPaths::FabricPaths(const Topology& topology, const ParallelLinks& parallel_links)
    : parallel_links_(parallel_links),
      fabric_(topology, parallel_links),
      ports_(topology, fabric_) {
  if (ports_.targets().size() * fabric_.places() <= kTableMost) tabulate();
}

// Switches that are wired to the same others have equal distances to each of these, so one search
// serves all leaves of a pod. An exchange of two such switches maps the fabric to itself. The row
// of one therefore is the row of the other with their two entries swapped.
//
// Example: leaves 0 and 1 are joined to the same spines. In the row of leaf 0, leaf 0 has distance
// 0 and leaf 1 has 2. Read with the two swapped, it is the row of leaf 1.
void FabricPaths::tabulate() {
  row_of_target_.reserve(ports_.targets().size());
  std::map<std::vector<std::uint32_t>, Row> row_of_wiring;  // row of the first such switch
  for (const std::vector<std::uint32_t>& switches : ports_.targets()) {
    const auto next = static_cast<std::uint32_t>(rows_.size());
    Row row{.row = next, .target = switches.front(), .like = switches.front()};
    if (switches.size() == 1) {
      const Row first = row_of_wiring.try_emplace(wiring_at(row.target), row).first->second;
      row.row = first.row;
      row.like = first.target;
    }
    row_of_target_.push_back(row);
    if (row.row == next) rows_.push_back(search(fabric_.net(), fabric_.net().in, switches));
  }
}

// Returns all that a search depends on at a switch: its distinct neighbours in each direction, with
// the lengths of the links.
std::vector<std::uint32_t> FabricPaths::wiring_at(std::uint32_t place) const {
  const auto ends = [&](std::span<const Arc> arcs) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> result;
    for (const Arc& arc : arcs) result.emplace_back(arc.place, arc.length);
    std::ranges::sort(result);
    const auto doubled = std::ranges::unique(result);
    result.erase(doubled.begin(), doubled.end());
    return result;
  };
  std::vector<std::uint32_t> wiring;
  for (const Adjacency* side : {&fabric_.net().out, &fabric_.net().in}) {
    const auto others = ends(side->of(place));
    wiring.push_back(static_cast<std::uint32_t>(others.size()));
    for (const auto& [other, length] : others) wiring.insert(wiring.end(), {other, length});
  }
  return wiring;
}

Distances FabricPaths::distances(std::uint32_t target) const {
  if (!has_table()) return search(fabric_.net(), fabric_.net().in, ports_.targets()[target]);
  const Row& row = row_of_target_[target];
  return {rows_[row.row], row.target, row.like};
}

std::vector<Arc> FabricPaths::nearest_starts(std::uint32_t gpu, const Distances& hops) const {
  std::uint16_t nearest = kUnreachable;
  for (const Arc& arc : ports_.up(gpu)) nearest = std::min(nearest, hops[arc.place]);
  TY_CHECK(nearest != kUnreachable);
  std::vector<Arc> starts;
  for (const Arc& arc : ports_.up(gpu))
    if (hops[arc.place] == nearest) starts.push_back(arc);
  return starts;
}

// Under ideal routing switches with equivalent wiring forward equal loads. One walk over sets of
// parallel links therefore gives the load of each of their links: the set's share divided by its
// size.
Trunk FabricPaths::trunk(std::span<const Arc> starts, const Distances& hops,
                         std::uint32_t target) const {
  Spread paths = spread(fabric_.net(), starts, hops);
  Trunk result{.parallel_links = std::move(paths.route)};
  for (RouteHop& hop : result.parallel_links) {
    const std::size_t links = parallel_links_.links(hop.link).size();
    if (links == 0) continue;
    hop.fraction /= static_cast<double>(links);
    hop.parallel_count = static_cast<std::uint32_t>(links);
  }
  result.arriving.reserve(ports_.targets()[target].size());
  for (const std::uint32_t place : ports_.targets()[target])
    result.arriving.push_back(paths.share[place]);
  return result;
}

FabricComponents fabric_components(const Topology& topology, const NodePaths& nodes,
                                   const FabricPaths& fabric) {
  FabricComponents result;
  if (!fabric.ports().empty()) result = components(topology, fabric);
  check_nodes(topology, nodes, result.count == 1);
  if (result.count > 1) check_common(topology, result);
  return result;
}

}  // namespace trainyard
