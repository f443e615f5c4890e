// Prints the devices and links of a cluster as a table (declared in views.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/cluster/fabric_figures.hpp"
#include "sim/render/views/views.hpp"

namespace trainyard {

namespace {

// One line of the table of links. Links that differ only in their endpoints share a line. Both
// directions of a cable are counted, as in the simulator.
struct Row {
  LinkKind kind = LinkKind::NvLink;
  DeviceKind low = DeviceKind::Gpu;
  DeviceKind high = DeviceKind::Gpu;
  std::uint32_t cables = 1;
  BytesPerSecond usable = {};
  BytesPerSecond nominal = {};
  Seconds latency = {};
  auto operator<=>(const Row&) const = default;
};

std::string devices_text(const Cluster& cluster) {
  std::map<DeviceKind, std::uint32_t> total;
  std::map<DeviceKind, std::uint32_t> inside;
  for (DeviceId id = 0; id < cluster.device_count(); ++id) {
    const Device& device = cluster.device(id);
    ++total[device.kind];
    if (device.node == 0) ++inside[device.kind];
  }
  std::string text = fmt::format("{:<12}  {:>8}  {:>8}\n", "device", "count", "per node");
  for (const auto& [kind, count] : total) {
    const auto own = inside.find(kind);
    text += fmt::format("{:<12}  {:>8}  {:>8}\n", to_string(kind), count,
                        own == inside.end() ? "-" : std::to_string(own->second));
  }
  return text;
}

std::string links_text(const Cluster& cluster) {
  std::map<Row, std::uint64_t> rows;
  for (const Link& link : cluster.links()) {
    const auto [low, high] =
        std::minmax({cluster.device(link.from).kind, cluster.device(link.to).kind});
    ++rows[{link.kind, low, high, link.cables, link.capacity, link.nominal, link.latency}];
  }
  std::string text =
      fmt::format("{:<12}  {:<17}  {:>8}  {:>10}  {:>12}  {:>12}  {:>9}\n", "link", "between",
                  "directed", "cables per", "usable", "nominal", "latency");
  for (const auto& [row, count] : rows) {
    const std::string ends = fmt::format("{} - {}", to_string(row.low), to_string(row.high));
    text += fmt::format("{:<12}  {:<17}  {:>8}  {:>10}  {:>12}  {:>12}  {:>9}\n",
                        to_string(row.kind), ends, count, row.cables, to_text(row.usable),
                        to_text(row.nominal), to_text(row.latency));
  }
  return text;
}

std::string bisection_text(const Cluster& cluster) {
  const std::uint32_t nodes = cluster.facts().nodes;
  const std::uint32_t part =
      nodes > 1 ? nodes / 2 : static_cast<std::uint32_t>(cluster.gpus().size()) / 2;
  if (part == 0) return "bisection     none, there is one GPU\n";
  const BytesPerSecond rate = bisection_bandwidth(cluster);
  const std::uint32_t senders = nodes > 1 ? part * cluster.facts().gpus_per_node : part;
  return fmt::format("bisection     {} each way between the first {} {} and the rest, {} per GPU\n",
                     to_text(rate), part, nodes > 1 ? "node(s)" : "GPU(s)",
                     to_text(rate / senders));
}

std::string routing_text(const Cluster& cluster) {
  const Routing& routing = cluster.facts().routing;
  const char* flow = routing.flows_per_connection == 1 ? "flow" : "flows";
  switch (routing.kind) {
    case Routing::Kind::Ideal:
      return "";
    case Routing::Kind::Ecmp:
      return fmt::format("routing       ecmp, {} {} per connection, seed {}\n",
                         routing.flows_per_connection, flow, routing.seed);
    case Routing::Kind::RoundRobin:
      return fmt::format("routing       round_robin, {} {} per connection\n",
                         routing.flows_per_connection, flow);
  }
  return "";
}

// Returns "7 x a100_80gb, 80 GiB usable each; 1 x l40s, 44.99 GiB usable each", in order of first
// appearance.
std::string gpus_text(const Cluster& cluster) {
  std::vector<std::pair<GpuKind, std::size_t>> kinds;
  for (std::uint32_t gpu = 0; gpu < cluster.gpus().size(); ++gpu) {
    const GpuKind kind = cluster.gpu_kind(gpu);
    const auto known = std::ranges::find(kinds, kind, &std::pair<GpuKind, std::size_t>::first);
    if (known == kinds.end()) {
      kinds.emplace_back(kind, 1);
    } else {
      ++known->second;
    }
  }
  std::string text;
  for (const auto& [kind, count] : kinds) {
    if (!text.empty()) text += "; ";
    if (kinds.size() > 1) text += fmt::format("{} x ", count);
    text += fmt::format("{}, {} usable each", kind.profile, to_text(kind.memory));
  }
  return text;
}

}  // namespace

std::string topology_table(const Cluster& cluster) {
  const ClusterFacts& facts = cluster.facts();
  std::string text = fmt::format("{}\n{} GPUs ({}) on {} node(s)\n\n", facts.name,
                                 cluster.gpus().size(), gpus_text(cluster), facts.nodes);
  text += devices_text(cluster) + "\n" + links_text(cluster) + "\n" + bisection_text(cluster);
  text += fmt::format("collectives   launch {}, a step inside a node {}, across the network {}\n",
                      to_text(facts.latency.launch), to_text(facts.latency.intra_step),
                      to_text(facts.latency.inter_step));
  const FabricCount count = count_fabric(cluster);
  if (count.node_cables > 0) {
    text += fmt::format("cables        node to leaf {}, leaf to spine {}, spine to core {}\n",
                        count.node_cables, count.leaf_spine_cables, count.spine_core_cables);
  }
  if (count.local_cables + count.global_cables > 0) {
    text += fmt::format("              between neighbours {}, between groups {}\n",
                        count.local_cables, count.global_cables);
  }
  return text + routing_text(cluster);
}

}  // namespace trainyard
