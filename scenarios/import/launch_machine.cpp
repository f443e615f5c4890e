#include "scenarios/import/launch_machine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.hpp"
#include "topologies/cluster_reader.hpp"

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

}  // namespace trainyard
