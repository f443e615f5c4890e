#include "scenarios/import/launch_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/base/error.hpp"
#include "topologies/cluster_reader.hpp"
#include "topologies/torus.hpp"

namespace trainyard {

namespace {

[[noreturn]] void refuse_launch(const std::string& file, const std::string& problem,
                                const std::string& hint) {
  throw InputError(Problem{.file = file, .pointer = {}, .problem = problem, .hint = hint});
}

std::int64_t gpus_per_host(const NodeSpec& node) {
  return std::clamp<std::int64_t>(std::int64_t{node.gpus_per_cpu} * node.cpus_per_host, 1,
                                  node.gpus);
}

// The smallest number of nodes, of `most` units each, that hold equally many units.
std::int64_t equal_nodes(std::int64_t units, std::int64_t most) {
  std::int64_t nodes = (units + most - 1) / most;
  while (units % nodes != 0) ++nodes;
  return nodes;
}

LaunchedNodes chosen_nodes(const NodeSpec& node, const LaunchedSizes& sizes, std::int64_t hosts) {
  const std::int64_t nodes = *sizes.chosen;
  if (sizes.world) return {.nodes = nodes, .gpus = *sizes.world / nodes};
  return {.nodes = nodes, .gpus = sizes.per_host ? *sizes.per_host * hosts : node.gpus};
}

// A GPU of a full mesh has a wire to each of its peers.
void keep_wires(NodeSpec& node, std::uint32_t peers, std::uint32_t before) {
  if (peers == 0) {
    node.scale_up = NodeSpec::ScaleUp::None;
    return;
  }
  const double share = static_cast<double>(peers) / before;
  node.nvlink = node.nvlink * share;
  node.nvlink_nominal = node.nvlink_nominal * share;
  node.nvlinks = std::max<std::uint32_t>(node.nvlinks * peers / before, 1);
}

void check_size(const std::string& file, const std::string& flag, std::optional<std::int64_t> given,
                std::int64_t most) {
  if (!given || (*given >= 1 && *given <= most)) return;
  refuse_launch(file, fmt::format("{} must be from 1 to {}, not {}", flag, most, *given), "");
}

}  // namespace

LaunchedNodes launched_nodes(const NodeSpec& node, const LaunchedSizes& sizes,
                             const std::string& file) {
  check_size(file, "--nproc-per-node", sizes.per_host, node.gpus);
  check_size(file, "--nodes", sizes.chosen, kNodesMost);
  check_size(file, "--nnodes", sizes.hosts, kNodesMost);
  check_size(file, "world_size", sizes.world, kNodesMost * node.gpus);
  const std::int64_t host = gpus_per_host(node);
  const std::int64_t per_host = sizes.per_host.value_or(host);
  const std::int64_t hosts = per_host <= host ? node.gpus / host : 1;
  LaunchedNodes launched;
  if (sizes.chosen) {
    launched = chosen_nodes(node, sizes, hosts);
  } else if (sizes.hosts) {
    launched.nodes = equal_nodes(*sizes.hosts, hosts);
    launched.gpus = *sizes.hosts / launched.nodes * per_host;
  } else if (sizes.world) {
    launched.nodes = equal_nodes(*sizes.world, node.gpus);
    launched.gpus = *sizes.world / launched.nodes;
  } else {
    refuse_launch(file, "the launch does not say on how many nodes it runs", "add --nodes 16");
  }
  if (sizes.world && launched.world() != *sizes.world) {
    refuse_launch(file,
                  fmt::format("the launch runs {} processes, which {} nodes of {} GPUs do not make",
                              *sizes.world, launched.nodes, launched.gpus),
                  "say on how many nodes it runs with --nodes");
  }
  if (launched.gpus > node.gpus) {
    refuse_launch(file,
                  fmt::format("the launch runs {} processes on a node; a {} has {} GPUs",
                              launched.gpus, node.name, node.gpus),
                  "name another --node, or more --nodes");
  }
  return launched;
}

NodeSpec part_of(NodeSpec node, std::uint32_t gpus) {
  const std::uint32_t whole = node.gpus;
  if (gpus == whole) return node;
  const auto divisor_up_to = [gpus](std::uint32_t most) {
    std::uint32_t divisor = std::clamp<std::uint32_t>(most, 1, gpus);
    while (gpus % divisor != 0) --divisor;
    return divisor;
  };
  node.gpus = gpus;
  if (node.nics > 0) node.nics = divisor_up_to((node.nics * gpus + whole - 1) / whole);
  if (node.gpus_per_pcie_switch > 0)
    node.gpus_per_pcie_switch = std::gcd(gpus, node.gpus_per_pcie_switch);
  node.gpus_per_cpu = divisor_up_to(node.gpus_per_cpu);
  if (node.scale_up == NodeSpec::ScaleUp::Torus) node.scale_up_dims = balanced_dims(gpus, 3);
  if (node.scale_up == NodeSpec::ScaleUp::FullMesh) keep_wires(node, gpus - 1, whole - 1);
  for (OtherGpus& other : node.other_gpus)
    std::erase_if(other.gpus, [gpus](std::uint32_t one) { return one >= gpus; });
  std::erase_if(node.other_gpus, [](const OtherGpus& other) { return other.gpus.empty(); });
  return node;
}

}  // namespace trainyard
