#include "sim/cluster/fabric_figures.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <cmath>
#include <limits>

namespace trainyard {

namespace {

// The flow network for Boost's push-relabel algorithm, which needs a reverse arc for every arc.
// Capacities are whole bytes per second, so that the result is exact.
using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct Pipe {
  std::int64_t capacity = 0;
  std::int64_t residual = 0;
  Traits::edge_descriptor reverse;
};
using FlowGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Pipe>;

void add_pipe(FlowGraph& graph, std::size_t from, std::size_t to, std::int64_t capacity) {
  const auto forth = boost::add_edge(from, to, Pipe{capacity, 0, {}}, graph).first;
  const auto back = boost::add_edge(to, from, Pipe{0, 0, {}}, graph).first;
  graph[forth].reverse = back;
  graph[back].reverse = forth;
}

}  // namespace

FabricCount count_fabric(const Cluster& cluster) {
  FabricCount count;
  for (DeviceId id = 0; id < cluster.device_count(); ++id) {
    const DeviceKind kind = cluster.device(id).kind;
    if (kind == DeviceKind::LeafSwitch) ++count.leaves;
    if (kind == DeviceKind::SpineSwitch) ++count.spines;
    if (kind == DeviceKind::CoreSwitch) ++count.cores;
  }
  // A cable is two links. It is counted at its lower device.
  for (const Link& link : cluster.links()) {
    const DeviceKind from = cluster.device(link.from).kind;
    if (link.kind == LinkKind::NicPort && from == DeviceKind::Nic) count.node_cables += link.cables;
    if (link.kind == LinkKind::LeafSpine && from == DeviceKind::LeafSwitch) {
      count.leaf_spine_cables += link.cables;
    }
    if (link.kind == LinkKind::SpineCore && from == DeviceKind::SpineSwitch) {
      count.spine_core_cables += link.cables;
    }
    // The two devices of a local or global cable are on one tier, so one of the two directions is
    // counted.
    if (link.kind == LinkKind::Local && link.from < link.to) count.local_cables += link.cables;
    if (link.kind == LinkKind::Global && link.from < link.to) count.global_cables += link.cables;
  }
  return count;
}

BytesPerSecond bisection_bandwidth(const Cluster& cluster) {
  const std::size_t devices = cluster.device_count();
  const auto gpus = static_cast<std::uint32_t>(cluster.gpus().size());
  const std::uint32_t nodes = cluster.facts().nodes;
  // With an odd number of nodes the smaller half comes first.
  const std::uint32_t half = nodes > 1 ? nodes / 2 * cluster.facts().gpus_per_node : gpus / 2;
  if (half == 0) return {};
  // A source above the GPUs of the first half and a sink below the others: the maximum flow between
  // them is the minimum cut.
  FlowGraph graph(devices + 2);
  const std::size_t source = devices;
  const std::size_t sink = devices + 1;
  // Inside a single node traffic uses only NVLink if there is any, as routes do.
  const auto is_nvlink = [](const Link& link) { return link.kind == LinkKind::NvLink; };
  const bool only_nvlink =
      nodes == 1 && std::any_of(cluster.links().begin(), cluster.links().end(), is_nvlink);
  for (const Link& link : cluster.links()) {
    if (only_nvlink && !is_nvlink(link)) continue;
    add_pipe(graph, link.from, link.to, std::llround(link.capacity.value()));
  }
  // Unbounded, but small enough that the sum over 2^20 GPUs does not overflow.
  constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max() / (1 << 20);
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    const std::size_t device = cluster.gpus()[gpu];
    if (gpu < half) add_pipe(graph, source, device, kUnbounded);
    if (gpu >= half) add_pipe(graph, device, sink, kUnbounded);
  }
  const std::int64_t flow =
      boost::push_relabel_max_flow(graph, source, sink,
                                   boost::capacity_map(boost::get(&Pipe::capacity, graph))
                                       .residual_capacity_map(boost::get(&Pipe::residual, graph))
                                       .reverse_edge_map(boost::get(&Pipe::reverse, graph)));
  return BytesPerSecond{static_cast<double>(flow)};
}

}  // namespace trainyard
