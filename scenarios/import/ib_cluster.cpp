#include "scenarios/import/ib_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "scenarios/import/ib_layout.hpp"
#include "scenarios/import/ib_match.hpp"
#include "scenarios/import/imported_node.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"
#include "topologies/cluster_reader.hpp"
#include "topologies/custom_cluster.hpp"
#include "topologies/draft.hpp"
#include "topologies/node.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Returns the number of servers of a node, which share its NICs evenly: the 72 GPUs of an NVL72
// rack are in 18 servers of 4.
std::uint32_t servers_of(const NodeSpec& node) {
  const std::uint32_t gpus = std::max(node.gpus_per_cpu * node.cpus_per_host, 1U);
  const std::uint32_t servers = std::max(node.gpus / gpus, 1U);
  return node.nics % servers == 0 ? servers : 1;
}

// Gives the node type the number of NICs that its hosts have. Returns whether it is another one.
bool change_nic_count(const std::string& file, NodeSpec& node, IbLayout& layout) {
  if (layout.nics_of_host * servers_of(node) == node.nics) return false;
  if (node.gpus % layout.nics_of_host != 0)
    throw InputError(Problem{
        file, "",
        fmt::format("its hosts have {} HCAs; a {} has {} NICs for {} GPUs", layout.nics_of_host,
                    node.name, node.nics, node.gpus),
        "name another --node, or choose hosts with --hosts 'dgx*'; HCAs of one host share the "
        "first words of their names (\"dgx01 mlx5_0\")"});
  layout.assumed.push_back(fmt::format("a host has {} NICs here, not the {} of {}",
                                       layout.nics_of_host, node.nics, node.name));
  node.nics = layout.nics_of_host;
  return true;
}

// A cluster of a node type and a known fabric. `changed` writes the node type in full.
Json known_cluster(const ClusterSpec& spec, const NodeSpec& node, bool changed) {
  Json json = {{"node", node.name}, {"nodes", spec.nodes}};
  if (changed) {
    json["node"] = to_json(node);
    json["node"]["name"] = node.name;
  }
  if (spec.node.nic_nominal != node.nic_nominal)
    json["nic"] = {{"usable", exact_text(spec.node.nic)},
                   {"nominal", exact_text(spec.node.nic_nominal)}};
  json["fabric"] = to_json(spec.fabric);
  return json;
}

// Draws the fabric of a layout switch by switch and cable by cable, for a fabric that equals none
// of topologies/. All nodes are copies of one pattern.
class Drawing {
 public:
  Drawing(const IbFabric& fabric, const NodeSpec& node, const IbLayout& layout)
      : fabric_(fabric), node_(node), layout_(layout) {}

  Json cluster() {
    stamp_nodes();
    add_switches();
    add_cables();
    std::vector<DeviceId> nic_of_gpu;
    for (std::size_t gpu = 0; gpu < draft_.gpus.size(); ++gpu)
      // The NIC of a GPU by its number in the node type, on the same node.
      nic_of_gpu.push_back(
          draft_.nics[gpu / node_.gpus * node_.nics +
                      nic_index(node_, static_cast<std::uint32_t>(gpu % node_.gpus))]);
    const auto nodes = static_cast<std::uint32_t>(layout_.nodes.size());
    ClusterFacts facts{.name = fmt::format("{} x {}, as {} shows", nodes, node_.name, fabric_.tool),
                       .node = node_.name,
                       .gpu = node_.gpu,
                       .nodes = nodes,
                       .gpus_per_node = node_.gpus,
                       .gpu_memory = node_.gpu_memory,
                       .host_memory = node_.host_memory,
                       .latency = node_.latency};
    return to_custom_json(Cluster(std::move(facts), std::move(draft_.blueprint).wiring(),
                                  std::move(draft_.gpus), std::move(nic_of_gpu)));
  }

 private:
  void stamp_nodes() {
    const DrawnNode node = draw_node(node_);
    const std::uint32_t pattern = draft_.blueprint.add_pattern(node.wiring);
    for (std::uint32_t number = 0; number < layout_.nodes.size(); ++number) {
      const DeviceId first = draft_.blueprint.stamp(pattern, number);
      for (const DeviceId gpu : node.gpus) draft_.gpus.emplace_back(first + gpu);
      for (const DeviceId nic : node.nics) draft_.nics.emplace_back(first + nic);
    }
  }

  // Switches keep their names; two of one name get their GUID (or LID), too.
  void add_switches() {
    std::map<std::string, int> names;
    for (const auto& [at, level] : layout_.tiers.level) ++names[fabric_.devices[at].name];
    std::array<std::int32_t, kDeviceKinds> next{};
    for (const auto& [at, level] : layout_.tiers.level) {
      const DeviceKind kind = level == 1   ? DeviceKind::LeafSwitch
                              : level == 2 ? DeviceKind::SpineSwitch
                                           : DeviceKind::CoreSwitch;
      const IbDevice& device = fabric_.devices[at];
      const bool unique = !device.name.empty() && names.at(device.name) == 1;
      switches_[at] = draft_.blueprint.add(
          {.kind = kind, .index = next.at(static_cast<std::size_t>(kind))++},
          unique ? device.name : fmt::format("{} {}", device.name, device.key));
    }
  }

  // A link between switches stands for all cables between them, counted in cables of a NIC.
  [[nodiscard]] Wire wire(LinkKind kind, BytesPerSecond rate) const {
    const bool port = kind == LinkKind::NicPort;
    const auto cables = static_cast<std::uint32_t>(std::lround(rate / layout_.cable_rate));
    return {.kind = kind,
            .capacity = usable_nic_rate(rate, node_),
            .nominal = rate,
            .latency = port ? node_.nic_latency : kUsualHopLatency,
            .cables = port ? 1U : std::max(cables, 1U)};
  }

  void add_cables() {
    std::size_t number = 0;
    for (const IbNode& node : layout_.nodes)
      for (const IbNic& nic : node.nics) {
        for (const auto& [at, rate] : nic.cables)
          draft_.cable(draft_.nics[number], switches_.at(at), wire(LinkKind::NicPort, rate));
        ++number;
      }
    const std::map<std::size_t, int>& level = layout_.tiers.level;
    for (const auto& [ends, rate] : layout_.between) {
      if (!switches_.contains(ends.first) || !switches_.contains(ends.second)) continue;
      const int low = std::min(level.at(ends.first), level.at(ends.second));
      const int high = std::max(level.at(ends.first), level.at(ends.second));
      const LinkKind kind = low == high ? LinkKind::Local
                            : high == 2 ? LinkKind::LeafSpine
                                        : LinkKind::SpineCore;
      draft_.cable(switches_.at(ends.first), switches_.at(ends.second),
                   wire(kind, BytesPerSecond{rate}));
    }
  }

  const IbFabric& fabric_;
  const NodeSpec& node_;
  const IbLayout& layout_;
  Draft draft_;
  std::map<std::size_t, DeviceId> switches_;  // by number in the fabric
};

std::vector<std::string> findings(const IbLayout& layout) {
  const IbTiers& tiers = layout.tiers;
  std::size_t hosts = 0;
  for (const IbNode& node : layout.nodes) hosts += node.hosts.size();
  std::vector<std::string> all = {
      fmt::format("{} hosts with {} NICs of {}", hosts, layout.nics_of_host,
                  nic_rate_text(layout.nic_rate)),
      fmt::format("{} leaf, {} spine and {} core switches", tiers.leaves.size(),
                  tiers.spines.size(), tiers.cores.size())};
  std::string leaf = fmt::format("a leaf has cables to {} NICs of {} nodes", tiers.nics_of_leaf,
                                 tiers.nodes_of_leaf);
  if (tiers.uplinks > 0.0)
    leaf += fmt::format(" and {:.4g} uplinks: oversubscription {:.3g}", tiers.uplinks,
                        tiers.nics_of_leaf / tiers.uplinks);
  all.push_back(std::move(leaf));
  if (tiers.spine_up > 0.0)
    all.push_back(fmt::format("a spine has {:.4g} ports down and {:.4g} up", tiers.spine_down,
                              tiers.spine_up));
  all.insert(all.end(), layout.found.begin(), layout.found.end());
  return all;
}

std::vector<std::string> assumptions(const NodeSpec& node, const IbLayout& layout) {
  std::vector<std::string> all = layout.assumed;
  all.push_back(fmt::format("every host is {} {}: GPUs, NVLink, PCIe and memory are its own",
                            servers_of(node) > 1 ? "a part of a" : "a", node.name));
  all.emplace_back(
      "NIC 0 is the first HCA of a host in the order of the names, and each GPU uses the NIC of "
      "its "
      "number");
  all.push_back(fmt::format(
      "{:.3g} % of a cable's rate is usable, as of the NIC of {}; a hop between switches takes {}",
      100.0 * (node.nic / node.nic_nominal), node.name, to_text(kUsualHopLatency)));
  std::string order = "nodes are numbered by leaf: node 0 is " + layout.nodes.front().hosts.front();
  if (layout.nodes.size() > 1)
    order +=
        fmt::format(", node {} is {}", layout.nodes.size() - 1, layout.nodes.back().hosts.front());
  all.push_back(std::move(order));
  return all;
}

// Throws InputError where the cluster cannot run, for example where hosts cannot reach each other.
void check_runs(const std::string& file, const Json& cluster) {
  try {
    JsonFile document = JsonFile::parse(file, Json{{"cluster", cluster}}.dump());
    const ClusterSpec spec = read_cluster(document.root().object("cluster"));
    document.finish();
    (void)shared_cluster(spec);
  } catch (const InputError& error) {
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems) problem.file = file;
    throw InputError(std::move(problems));
  }
}

}  // namespace

IbCluster cluster_of_ib_fabric(const IbFabric& fabric, const IbChoice& choice) {
  NodeSpec node = node_of_option(choice.node);
  const std::uint32_t servers = servers_of(node);
  IbLayout layout = layout_of(fabric, {.nics = node.nics / servers,
                                       .hosts_of_node = servers,
                                       .name_pattern = choice.hosts,
                                       .unknown_rate = choice.nic});
  const bool changed = change_nic_count(fabric.file, node, layout);
  IbCluster made;
  const std::optional<ClusterSpec> known = matching_cluster(fabric, node, layout);
  made.found = findings(layout);
  if (known) {
    made.fabric = fabric_entry(known->fabric.kind).name;
    made.cluster = known_cluster(*known, node, changed);
    made.found.push_back(fmt::format("the switches and cables are those of {}", made.fabric));
  } else {
    made.cluster = Drawing(fabric, node, layout).cluster();
    made.found.emplace_back(
        "no fabric of Trainyard equals it: the cluster lists every switch and cable");
  }
  made.assumed = assumptions(node, layout);
  check_runs(fabric.file, made.cluster);
  return made;
}

}  // namespace trainyard
