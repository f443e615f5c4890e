#include "scenarios/import/launched_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scenarios/import/imported_node.hpp"
#include "sim/base/error.hpp"
#include "sim/base/nearest.hpp"
#include "topologies/cluster_reader.hpp"
#include "topologies/node.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

namespace {

// The nodes that a launch uses, and the GPUs that it uses on each: --nnodes 2 with --nproc-per-node
// 4 on a DGX H100 are two nodes of four GPUs, a world of 8.
struct LaunchedNodes {
  std::int64_t nodes = 1;
  std::int64_t gpus = 1;  // of each node
  [[nodiscard]] std::int64_t world() const { return nodes * gpus; }
};

[[noreturn]] void refuse_launch(const std::string& file, const std::string& problem,
                                const std::string& hint) {
  throw InputError(Problem{.file = file, .pointer = {}, .problem = problem, .hint = hint});
}

// GPUs of one server: 4 of the 72 of an NVL72 rack.
std::int64_t gpus_per_host(const NodeSpec& node) {
  return std::clamp<std::int64_t>(std::int64_t{node.gpus_per_cpu} * node.cpus_per_host, 1,
                                  node.gpus);
}

// Returns the smallest number of nodes, of at most `most` units each, that divides the units
// evenly: 9 units with at most 8 in a node are 3 nodes of 3.
std::int64_t equal_nodes(std::int64_t units, std::int64_t most) {
  std::int64_t nodes = (units + most - 1) / most;
  while (units % nodes != 0) ++nodes;
  return nodes;
}

// The user chooses the nodes. The GPUs of each are an equal part of the world if that is known,
// else those of the hosts in a node.
LaunchedNodes chosen_nodes(const NodeSpec& node, std::int64_t nodes, const LaunchedSizes& sizes,
                           std::int64_t hosts) {
  if (sizes.world) return {.nodes = nodes, .gpus = *sizes.world / nodes};
  return {.nodes = nodes, .gpus = sizes.per_host ? *sizes.per_host * hosts : node.gpus};
}

void check_size(const std::string& file, const std::string& flag, std::optional<std::int64_t> given,
                std::int64_t most) {
  if (!given || (*given >= 1 && *given <= most)) return;
  refuse_launch(file, fmt::format("{} must be from 1 to {}, not {}", flag, most, *given), "");
}

// Derives the nodes from the sizes of a launch. The user's number of nodes has precedence, then the
// hosts of the launch, then its world. Throws InputError for `file` where such nodes cannot hold
// the world in equal parts, and where no argument determines the size of the world.
LaunchedNodes launched_nodes(const NodeSpec& node, std::optional<std::int64_t> chosen,
                             const LaunchedSizes& sizes, const std::string& file) {
  check_size(file, "--nproc-per-node", sizes.per_host, node.gpus);
  check_size(file, "--nodes", chosen, kNodesMost);
  check_size(file, "--nnodes", sizes.hosts, kNodesMost);
  check_size(file, "world_size", sizes.world, kNodesMost * node.gpus);
  const std::int64_t host = gpus_per_host(node);
  // A node of the simulator may hold several hosts of the launch (18 in an NVL72 rack), but only
  // where the processes of a host fit one server.
  const std::int64_t per_host = sizes.per_host.value_or(host);
  const std::int64_t hosts = per_host <= host ? node.gpus / host : 1;
  LaunchedNodes launched;
  if (chosen) {
    launched = chosen_nodes(node, *chosen, sizes, hosts);
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

}  // namespace

LaunchedCluster launched_cluster(const LaunchMachine& machine, const LaunchedSizes& sizes,
                                 const std::string& file) {
  const NodeSpec node = node_of_option(machine.node);
  LaunchedSizes known = sizes;
  if (machine.gpus && known.world && *known.world != *machine.gpus) {
    refuse_launch(file,
                  fmt::format("the launch runs {} processes, and --gpus says {}", *known.world,
                              *machine.gpus),
                  "leave --gpus out");
  }
  if (machine.gpus) known.world = machine.gpus;
  // The job's script counts only where neither the user nor the launch states nodes or world: a
  // launch within a job may use a part of its nodes.
  const bool of_job =
      !machine.nodes && !known.hosts && !known.world && (machine.job.hosts || machine.job.world);
  if (of_job)
    known = {.hosts = machine.job.hosts,
             .per_host = known.per_host ? known.per_host : machine.job.per_host,
             .world = machine.job.world};
  const LaunchedNodes launched = launched_nodes(node, machine.nodes, known, file);
  LaunchedCluster made{.section = {{"node", machine.node}, {"nodes", launched.nodes}},
                       .world = launched.world()};
  if (of_job)
    made.assumed.emplace_back(
        "the number of nodes is that of the job's script, since the launch does not state it");
  made.assumed.emplace_back("the fabric is rail-optimised without oversubscription");
  if (launched.gpus < node.gpus) {
    made.section["node"] = to_json(part_of(node, static_cast<std::uint32_t>(launched.gpus)));
    made.assumed.push_back(
        fmt::format("{} of a node's {} GPUs run a process, with their share of its NICs",
                    launched.gpus, node.gpus));
  }
  made.section["fabric"] = {{"kind", launched.nodes > 1 ? "rail_optimized" : "single_switch"}};
  return made;
}

std::vector<std::string> nodes_with_gpu_named(const std::string& gpu) {
  std::vector<std::string> exact;
  std::vector<std::string> near;
  const std::string wanted = normalised_word(gpu);
  if (wanted.empty()) return {};
  for (const std::string& name : node_names()) {
    const std::string profile = load_node(name).gpu;
    if (wanted == profile) exact.push_back(name);
    // "h100" within "nvidia_h100_80gb", and "a100" for "a100_80gb".
    if (wanted.find(profile) != std::string::npos || profile.starts_with(wanted))
      near.push_back(name);
  }
  return exact.empty() ? near : exact;
}

}  // namespace trainyard
