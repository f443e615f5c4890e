#include "sim/cluster/latency_model.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <ranges>
#include <span>
#include <utility>

namespace trainyard {

namespace {

// Returns the latency of the slowest link to `target` from each of its neighbours; -1 for all
// others.
Latencies neighbour_latencies(const Net& net, std::uint32_t target,
                              const std::function<double(LinkId)>& latency_of) {
  Latencies latencies(net.relays.size(), -1.0);
  latencies[target] = 0.0;
  for (const Arc& arc : net.in.of(target))
    latencies[arc.place] = std::max(latencies[arc.place], latency_of(arc.link));
  return latencies;
}

// True if NVLink joins two GPUs directly, so that GPUs may relay traffic.
bool gpus_relay(const Topology& topology, const NodeShapes& nodes) {
  const auto joins_gpus = [&](const Link& link) {
    return link.kind == LinkKind::NvLink && topology.device(link.from).kind == DeviceKind::Gpu &&
           topology.device(link.to).kind == DeviceKind::Gpu;
  };
  return std::ranges::any_of(nodes.all(), [&](const NodeShapes::Shape& shape) {
    return std::ranges::any_of(shape.links, [&](NodeShapes::InnerLink inner) {
      return joins_gpus(topology.link(nodes.link_of(shape.first, inner)));
    });
  });
}

}  // namespace

LatencyModel::LatencyModel(std::shared_ptr<const Router> router)
    : router_(std::move(router)),
      gpus_relay_(gpus_relay(router_->topology(), router_->nodes().shapes())) {
  const FabricPaths& fabric = router_->fabric();
  if (fabric.ports().empty()) return;
  reference_s_ = fastest_port_s(Way::Up) + fastest_port_s(Way::Down);
  hop_s_ = equal_hops_s();
  if (hop_s_ || !fabric.has_table()) return;
  for (std::uint32_t target = 0; target < fabric.ports().targets().size(); ++target)
    to_target_.push_back(to_target(target, fabric.distances(target)));
}

// The latency of the fastest port in one direction, which the reference includes. Compares all
// ports only if they differ. In most clusters all ports have the same latency.
double LatencyModel::fastest_port_s(Way way) const {
  const Topology& topology = router_->topology();
  std::optional<double> of_all;
  bool uniform = std::ranges::all_of(topology.nic_of_gpu(), [&](DeviceId nic) {
    return router_->fabric().fabric().place(nic) == FabricNet::kNoPlace;
  });
  for (const Wire& wire : topology.wiring().wires()) {
    if (wire.kind != LinkKind::NicPort) continue;
    uniform = uniform && (!of_all || *of_all == wire.latency.value());
    of_all = wire.latency.value();
  }
  if (uniform && of_all) return *of_all;
  double fastest = std::numeric_limits<double>::infinity();
  for (std::uint32_t gpu = 0; gpu < topology.gpus().size(); ++gpu)
    fastest = std::min(fastest, router_->fabric().ports().slowest_s(way, gpu));
  return fastest;
}

// Returns nothing if links differ in latency or count for several hops; 0 if there are no links.
std::optional<double> LatencyModel::equal_hops_s() const {
  const Net& net = router_->fabric().fabric().net();
  if (!net.plain) return std::nullopt;
  std::optional<double> of_all;
  for (const Arc& arc : net.out.arcs) {
    const double latency = router_->topology().wiring().wire(arc.link).latency.value();
    if (of_all && *of_all != latency) return std::nullopt;
    of_all = latency;
  }
  return of_all.value_or(0.0);
}

Latencies LatencyModel::to_target(std::uint32_t target, const Distances& hops) const {
  const FabricPaths& fabric = router_->fabric();
  return slowest_path(
      fabric.fabric().net(), hops, fabric.ports().targets()[target],
      [&](LinkId link) { return router_->topology().wiring().wire(link).latency.value(); });
}

Seconds LatencyModel::extra(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  if (from_gpu == to_gpu) return {};
  const Topology& topology = router_->topology();
  if (topology.node_of(from_gpu) == topology.node_of(to_gpu)) return in_node(from_gpu, to_gpu);
  return over_fabric(router_->crossing(from_gpu, to_gpu));
}

Seconds LatencyModel::extra_rail_aligned(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  const std::optional<Router::Crossing> ends = router_->rail_crossing(from_gpu, to_gpu);
  return ends ? over_fabric(*ends) : extra(from_gpu, to_gpu);
}

// GPUs differ in distance only in a node whose GPUs relay traffic. The extra is the latency of the
// path less that from the GPU that is nearest to the target. In a ring of four GPUs with links of
// 0.5 us, a GPU opposite of the target pays 0.5 us.
Seconds LatencyModel::in_node(std::uint32_t from_gpu, std::uint32_t to_gpu) const {
  if (!gpus_relay_) return {};
  const Topology& topology = router_->topology();
  const NodeShapes& nodes = router_->nodes().shapes();
  const std::uint32_t node = topology.node_of(to_gpu);
  const NodeShapes::Shape& shape = nodes.of(node);
  const auto place = [&](std::uint32_t gpu) { return nodes.place(topology.gpus()[gpu]); };
  const std::uint32_t to = place(to_gpu);
  const auto latency_of = [&](LinkId inner) {
    return topology.wiring().wire(nodes.link_of(node, shape.links[inner])).latency.value();
  };
  const std::uint32_t first = node * topology.facts().gpus_per_node;
  const auto gpus = std::views::iota(first, first + topology.facts().gpus_per_node);
  // If the target is a direct neighbour of every GPU (a full mesh), one pass over its links is
  // enough. Else a search finds the shortest paths.
  Latencies latencies = neighbour_latencies(shape.nvlink, to, latency_of);
  const auto known = [&](std::uint32_t gpu) { return latencies[place(gpu)] >= 0.0; };
  if (!shape.nvlink.plain || !std::ranges::all_of(gpus, known)) {
    const std::span target(&to, 1);
    latencies = slowest_path(shape.nvlink, search(shape.nvlink, shape.nvlink.in, target), target,
                             latency_of);
  }
  if (!known(from_gpu)) return {};
  double nearest = std::numeric_limits<double>::infinity();
  for (const std::uint32_t gpu : gpus)
    if (gpu != to_gpu && known(gpu)) nearest = std::min(nearest, latencies[place(gpu)]);
  return Seconds{latencies[place(from_gpu)] - nearest};
}

Seconds LatencyModel::over_fabric(Router::Crossing ends) const {
  const FabricPaths& fabric = router_->fabric();
  const std::uint32_t target = fabric.ports().target(ends.enters_at);
  const Distances hops = fabric.distances(target);
  // With equal hops the latency is hops times hop_s_. Else it comes from the table, or from a
  // search if distances have no table either.
  double between = 0.0;
  for (const Arc& arc : fabric.nearest_starts(ends.leaves_at, hops)) {
    const double way = hop_s_               ? *hop_s_ * hops[arc.place]
                       : fabric.has_table() ? to_target_[target][arc.place]
                                            : to_target(target, hops)[arc.place];
    between = std::max(between, way);
  }
  // All cables from NIC to NIC: up, between switches, and down.
  const double whole = fabric.ports().slowest_s(Way::Up, ends.leaves_at) + between +
                       fabric.ports().slowest_s(Way::Down, ends.enters_at);
  return Seconds{std::max(0.0, whole - reference_s_)};
}

}  // namespace trainyard
