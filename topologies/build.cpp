// Builds a cluster from its description: nodes, fabric, routing, faults.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "sim/base/error.hpp"
#include "topologies/custom_cluster.hpp"
#include "topologies/draft.hpp"
#include "topologies/faults.hpp"
#include "topologies/node.hpp"
#include "topologies/topology.hpp"
#include "topologies/torus.hpp"

namespace trainyard {

const NodeSpec& node_at(const ClusterSpec& spec, std::uint32_t number) {
  for (const OtherNodes& others : spec.others)
    if (std::ranges::find(others.nodes, number) != others.nodes.end()) return others.node;
  return spec.node;
}

namespace {

// Pointers are relative to the cluster object; the caller puts the file and the path before them.
[[noreturn]] void refuse(std::string pointer, std::string problem, std::string hint) {
  throw InputError(Problem{"", std::move(pointer), std::move(problem), std::move(hint)});
}

// Nodes may differ in their parts and rates, but not in the numbers of GPUs and NICs.
void check_others(const ClusterSpec& spec) {
  std::set<std::uint32_t> seen;
  for (std::size_t i = 0; i < spec.others.size(); ++i) {
    const OtherNodes& others = spec.others[i];
    const std::string at = fmt::format("/others/{}", i);
    for (const std::uint32_t number : others.nodes) {
      if (number >= spec.nodes)
        refuse(at + "/nodes", fmt::format("there is no node {}", number),
               fmt::format("nodes are numbered 0 to {}", spec.nodes - 1));
      if (!seen.insert(number).second)
        refuse(at + "/nodes", fmt::format("node {} is named twice", number), "name it once");
    }
    if (others.node.gpus != spec.node.gpus || others.node.nics != spec.node.nics)
      refuse(at + "/node",
             fmt::format("{} has {} GPUs and {} NICs, {} has {} and {}", others.node.name,
                         others.node.gpus, others.node.nics, spec.node.name, spec.node.gpus,
                         spec.node.nics),
             "all nodes of a cluster have equally many of both");
  }
}

// Draws every kind of node once and stamps copies of it.
void stamp_nodes(const ClusterSpec& spec, Draft& draft) {
  std::vector<DrawnNode> kinds;  // the usual node first, then those of `others`
  std::vector<std::uint32_t> patterns;
  std::vector<std::uint32_t> kind_of(spec.nodes, 0);
  const auto add_kind = [&](const NodeSpec& node) {
    kinds.push_back(draw_node(node));
    patterns.push_back(draft.blueprint.add_pattern(kinds.back().wiring));
  };
  draft.gpus.reserve(std::size_t{spec.nodes} * spec.node.gpus);
  draft.nics.reserve(std::size_t{spec.nodes} * spec.node.nics);
  add_kind(spec.node);
  for (const OtherNodes& others : spec.others) {
    for (const std::uint32_t number : others.nodes)
      kind_of[number] = static_cast<std::uint32_t>(kinds.size());
    add_kind(others.node);
  }
  for (std::uint32_t number = 0; number < spec.nodes; ++number) {
    const DrawnNode& node = kinds[kind_of[number]];
    const DeviceId first = draft.blueprint.stamp(patterns[kind_of[number]], number);
    for (const DeviceId gpu : node.gpus) draft.gpus.emplace_back(first + gpu);
    for (const DeviceId nic : node.nics) draft.nics.emplace_back(first + nic);
  }
}

// Gives the cables of other nodes' NICs their rates and latencies. The fabric has drawn all cables
// with those of the usual node's NIC.
void change_ports(const ClusterSpec& spec, Wiring& wiring) {
  if (spec.others.empty()) return;
  wiring.rewire([&](const Link& link) {
    Wire wire = wire_of(link);
    if (wire.kind != LinkKind::NicPort) return wire;
    // A cable may carry half of a NIC's rate (DualTor), so the rate is scaled, not replaced.
    for (const DeviceId end : {link.from, link.to}) {
      if (wiring.device(end).kind != DeviceKind::Nic) continue;
      const NodeSpec& node = node_at(spec, static_cast<std::uint32_t>(wiring.device(end).node));
      wire.capacity = wire.capacity * (node.nic / spec.node.nic);
      wire.nominal = wire.nominal * (node.nic_nominal / spec.node.nic_nominal);
      wire.latency = node.nic_latency;
    }
    return wire;
  });
}

// A step of a collective waits for the slowest node.
CollectiveLatency slower(const CollectiveLatency& a, const CollectiveLatency& b) {
  return {.launch = std::max(a.launch, b.launch),
          .intra_step = std::max(a.intra_step, b.intra_step),
          .inter_step = std::max(a.inter_step, b.inter_step)};
}

// Lists the GPUs where they differ. The host memory of the cluster is the smallest of its nodes,
// and its latency the longest.
void describe_others(const ClusterSpec& spec, ClusterFacts& facts) {
  if (spec.others.empty() && spec.node.other_gpus.empty()) return;
  for (std::uint32_t number = 0; number < spec.nodes; ++number) {
    const NodeSpec& node = node_at(spec, number);
    for (std::uint32_t gpu = 0; gpu < node.gpus; ++gpu)
      facts.mixed_gpus.push_back(gpu_kind(node, gpu));
    facts.host_memory =
        number == 0 ? node.host_memory : std::min(facts.host_memory, node.host_memory);
    facts.latency = number == 0 ? node.latency : slower(facts.latency, node.latency);
  }
  clear_if_uniform(facts);
}

ClusterFacts facts_of(const ClusterSpec& spec) {
  std::string name = fmt::format("{} x {}", spec.nodes, spec.node.name);
  for (const OtherNodes& others : spec.others)
    name += fmt::format(" ({} of them {})", others.nodes.size(), others.node.name);
  if (spec.nodes > 1) name += fmt::format(", {}", fabric_entry(spec.fabric.kind).name);
  if (spec.nodes > 1 && spec.fabric.routing.kind != Routing::Kind::Ideal) {
    name += ", " + to_json(spec.fabric.routing)["kind"].get<std::string>();
  }
  if (spec.sites) name += fmt::format(", {} sites", spec.sites->count);
  if (!spec.faults.empty()) {
    name += fmt::format(", {} fault{}", spec.faults.size(), spec.faults.size() > 1 ? "s" : "");
  }
  const auto* torus = std::get_if<Torus>(&spec.fabric.kind);
  return {.name = std::move(name),
          .node = spec.node.name,
          .gpu = spec.node.gpu,
          .nodes = spec.nodes,
          .gpus_per_node = spec.node.gpus,
          .gpu_memory = spec.node.gpu_memory,
          .host_memory = spec.node.host_memory,
          .latency = spec.node.latency,
          .routing = spec.fabric.routing,
          .fabric_reduces = spec.fabric.reduces,
          .torus = spec.nodes > 1 && torus != nullptr ? torus_dims(*torus, spec.nodes)
                                                      : std::vector<std::uint32_t>{},
          .node_torus = spec.node.scale_up == NodeSpec::ScaleUp::Torus
                            ? spec.node.scale_up_dims
                            : std::vector<std::uint32_t>{}};
}

void check_ratio(double oversubscription) {
  if (oversubscription < 1.0)
    refuse("/fabric", "oversubscription is at least 1", "1 is full bandwidth");
}

// Checks what the reader of a file has checked already, because a spec built in code may violate
// it.
void check(const ClusterSpec& spec) {
  const NodeSpec& node = spec.node;
  if (spec.nodes == 0) refuse("/nodes", "a cluster has at least one node, not 0", "");
  if (node.gpus == 0) refuse("/node", "a node has at least one GPU, not 0", "");
  if (spec.nodes == 1 && spec.sites)
    refuse("/sites", "one node is in one place", "leave them out, or give more nodes");
  if (spec.nodes > 1 && node.nics == 0) {
    refuse("/node", fmt::format("{} has no NIC to join {} nodes", node.name, spec.nodes),
           "give the node NICs, or use one node");
  }
  if (node.nics > 0 && node.gpus % node.nics != 0) {
    refuse("/node", fmt::format("{} NICs do not divide {} GPUs", node.nics, node.gpus),
           "use a divisor of the number of GPUs");
  }
  if (node.scale_up == NodeSpec::ScaleUp::Torus && torus_size(node.scale_up_dims) != node.gpus) {
    refuse(
        "/node",
        fmt::format("a torus of {} places for {} GPUs", torus_size(node.scale_up_dims), node.gpus),
        "the product of the dimensions is the number of GPUs");
  }
  if (spec.fabric.routing.flows_per_connection == 0) {
    refuse("/fabric/routing/flows_per_connection", "a connection has at least one flow, not 0", "");
  }
  std::visit(
      [](const auto& kind) {
        if constexpr (requires { kind.radix; })
          if (kind.radix < 2) refuse("/fabric/radix", "a switch has at least 2 ports", "");
        if constexpr (requires { kind.oversubscription; }) check_ratio(kind.oversubscription);
        if constexpr (requires { kind.core_oversubscription; })
          check_ratio(kind.core_oversubscription);
      },
      spec.fabric.kind);
}

}  // namespace

void draw_fabric(const ClusterSpec& spec, Draft& draft) {
  if (spec.sites) return draw_sites(spec, draft);
  std::visit([&](const auto& kind) { draw_fabric(kind, spec, draft); }, spec.fabric.kind);
}

// The order is fixed: nodes, fabric, rates of other nodes' NICs, faults. Each step changes what the
// earlier ones have drawn.
Cluster build_cluster(const ClusterSpec& spec) {
  if (spec.custom) return build_custom(spec);
  check(spec);
  check_others(spec);
  Draft draft;
  stamp_nodes(spec, draft);
  if (spec.nodes > 1) draw_fabric(spec, draft);
  Wiring wiring = std::move(draft.blueprint).wiring();
  std::vector<DeviceId> nic_of_gpu;
  if (spec.nodes > 1) {
    change_ports(spec, wiring);
    std::vector<std::uint32_t> nics;  // by local index of the GPU
    for (std::uint32_t gpu = 0; gpu < spec.node.gpus; ++gpu)
      nics.push_back(nic_index(spec.node, gpu));
    nic_of_gpu.reserve(draft.gpus.size());
    for (std::size_t first = 0; first < draft.nics.size(); first += spec.node.nics)
      for (const std::uint32_t nic : nics) nic_of_gpu.push_back(draft.nics[first + nic]);
  }
  ClusterFacts facts = facts_of(spec);
  describe_others(spec, facts);
  return build_with_faults(spec.faults, std::move(facts), std::move(wiring), std::move(draft.gpus),
                           std::move(nic_of_gpu));
}

namespace {

// The cluster that shared_cluster() returned last.
struct Kept {
  std::mutex mutex;
  ClusterSpec spec;
  std::shared_ptr<const Cluster> cluster;
};

// Returns the cached cluster. The object is never destroyed: at exit the process frees its memory
// at once, while destroying a hundred thousand devices one by one takes longer.
Kept& kept() {
  static Kept& last = *new Kept;
  return last;
}

}  // namespace

std::shared_ptr<const Cluster> shared_cluster(const ClusterSpec& spec) {
  Kept& last = kept();
  const std::scoped_lock lock(last.mutex);
  if (last.cluster && last.spec == spec) return last.cluster;
  last.cluster.reset();  // avoids two large clusters in memory at once
  last.cluster = std::make_shared<const Cluster>(build_cluster(spec));
  last.spec = spec;
  return last.cluster;
}

}  // namespace trainyard
