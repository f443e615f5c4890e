#include "sim/cluster/fabric_components.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

namespace {

[[noreturn]] void refuse_apart(const Topology& topology, std::uint32_t a, std::uint32_t b) {
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

// A port belongs to the first component whose first port it reaches and is reached from.
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
    if (result.count == topology.facts().gpus_per_node && result.count > 0)
      refuse_apart(topology, 0, first);
    std::vector<std::uint32_t> starts;
    for (const Arc& arc : ports.up(first)) starts.push_back(arc.place);
    const Hops there = search(net, net.in, ports.targets()[ports.target(first)]);
    const Hops back = search(net, net.out, starts);
    ++result.count;
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

// Nodes need one component in common; inside them GPUs pass messages on.
void check_common(const Topology& topology, const FabricComponents& components) {
  const std::uint32_t per_node = topology.facts().gpus_per_node;
  std::map<std::vector<bool>, std::uint32_t> kinds;  // those of a node; its first GPU
  for (std::uint32_t gpu = 0; gpu < topology.gpus().size(); gpu += per_node) {
    std::vector<bool> parts(components.count, false);
    for (std::uint32_t i = gpu; i < gpu + per_node; ++i) parts[components.of_gpu[i]] = true;
    kinds.try_emplace(std::move(parts), gpu);
  }
  for (const auto& [a, gpu_a] : kinds) {
    for (const auto& [b, gpu_b] : kinds) {
      bool shared = false;
      for (std::size_t i = 0; i < components.count; ++i) shared = shared || (a[i] && b[i]);
      if (!shared) refuse_apart(topology, std::min(gpu_a, gpu_b), std::max(gpu_a, gpu_b));
    }
  }
}

}  // namespace

FabricComponents fabric_components(const Topology& topology, const NodePaths& nodes,
                                   const FabricPaths& fabric) {
  FabricComponents result;
  if (!fabric.ports().empty()) result = components(topology, fabric);
  check_nodes(topology, nodes, result.count == 1);
  if (result.count > 1) check_common(topology, result);
  return result;
}

}  // namespace trainyard
