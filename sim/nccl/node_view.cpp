#include "sim/nccl/node_view.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/words.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard::nccl {

namespace {

constexpr double kGiga = 1e9;

// The value of the longest key that the name begins with.
template <class Value>
std::optional<Value> by_prefix(const nlohmann::ordered_json& table, const std::string& name) {
  std::optional<Value> best;
  std::size_t length = 0;
  for (const auto& [prefix, value] : table.items()) {
    if (!name.starts_with(prefix) || prefix.size() <= length) continue;
    length = prefix.size();
    best = value.template get<Value>();
  }
  return best;
}

// Where a device hangs on the host side: the number of its PCIe switch and of its CPU, counted from
// 0 as they appear.
class HostSide {
 public:
  explicit HostSide(const Cluster& cluster) : cluster_(cluster) {}

  // A GPU wired straight to its NIC counts as one switch with it.
  std::uint32_t pcie_switch(DeviceId device) { return numbered(switches_, switch_device(device)); }

  std::uint32_t socket(DeviceId device) {
    const std::optional<DeviceId> cpu = cpu_of(device);
    return cpu ? numbered(sockets_, *cpu) : 0;
  }

  // Of its CPU to another of the server; 0 where there is none.
  double socket_rate(DeviceId device) const {
    const std::optional<DeviceId> cpu = cpu_of(device);
    if (!cpu) return 0.0;
    for (const Link& link : cluster_.links_from(*cpu))
      if (link.kind == LinkKind::Socket) return link.capacity.value() / kGiga;
    return 0.0;
  }

  double pcie_rate(DeviceId device) const {
    for (const Link& link : cluster_.links_from(device))
      if (link.kind == LinkKind::Pcie) return link.capacity.value() / kGiga;
    return 0.0;
  }

  bool has_chip_to_chip(DeviceId gpu) const {
    const std::optional<Link> link = link_to(gpu, DeviceKind::Cpu);
    return link && link->kind == LinkKind::ChipToChip;
  }

 private:
  std::optional<Link> link_to(DeviceId from, DeviceKind kind) const {
    for (const Link& link : cluster_.links_from(from)) {
      const bool wired = link.kind == LinkKind::Pcie || link.kind == LinkKind::ChipToChip;
      if (wired && cluster_.device(link.to).kind == kind) return link;
    }
    return {};
  }

  std::optional<DeviceId> cpu_of(DeviceId device) const {
    for (const DeviceId at : {switch_device(device), device})
      if (const auto link = link_to(at, DeviceKind::Cpu)) return link->to;
    return {};
  }

  DeviceId switch_device(DeviceId device) const {
    if (const auto link = link_to(device, DeviceKind::PcieSwitch)) return link->to;
    if (const auto link = link_to(device, DeviceKind::Nic)) return link->to;
    return device;
  }

  static std::uint32_t numbered(std::map<DeviceId, std::uint32_t>& numbers, DeviceId device) {
    return numbers.emplace(device, static_cast<std::uint32_t>(numbers.size())).first->second;
  }

  const Cluster& cluster_;
  std::map<DeviceId, std::uint32_t> switches_;
  std::map<DeviceId, std::uint32_t> sockets_;
};

using Json = nlohmann::ordered_json;

Json read_lists(const std::filesystem::path& path) {
  JsonFile file = JsonFile::read(path);
  return file.document();
}

const Json& topology() {
  return read_once<Json>(data_file("sim/nccl/data", "topology"), read_lists);
}

// The entry of the newest generation that is no newer than the GPU; 0 where there is none.
double of_generation(const Json& table, std::uint32_t sm) {
  double value = 0.0;
  std::uint32_t nearest = 0;
  for (const auto& [key, entry] : table.items()) {
    const auto generation = static_cast<std::uint32_t>(std::stoul(key));
    if (generation > sm || generation < nearest) continue;
    nearest = generation;
    value = entry.get<double>();
  }
  return value;
}

// NVLinks that NCCL finds in a wire: those bundled in it. A wire of one stands for a bundle that
// the cluster does not describe, which is the GPU's links or its part of them for each peer.
double links_of(const Link& link, std::size_t wires, std::uint32_t sm) {
  if (link.cables > 1) return link.cables;
  const double all = of_generation(topology().at("nvlink").at("links"), sm);
  return std::max(1.0, std::floor(all / static_cast<double>(wires)));
}

void read_scale_up(const GroupPlace& place, const std::vector<std::uint32_t>& roles,
                   NodeView& view) {
  view.scale_up = NodeView::ScaleUp::None;
  const DeviceId gpu = place.cluster.gpus()[place.gpus[roles.front()]];
  std::vector<Link> wires;
  for (const Link& link : place.cluster.links_from(gpu))
    if (link.kind == LinkKind::NvLink) wires.push_back(link);
  if (wires.empty()) return;
  const Link& link = wires.front();
  const bool to_switch = place.cluster.device(link.to).kind == DeviceKind::NvSwitch;
  view.scale_up = to_switch ? NodeView::ScaleUp::NvSwitch : NodeView::ScaleUp::FullMesh;
  const double carried = link.capacity.value() / kGiga;
  const double rate = of_generation(topology().at("nvlink").at("rates"), view.sm);
  const double links = links_of(link, wires.size(), view.sm);
  view.nvlink = rate > 0.0 ? rate * links : carried;
  view.nvlink_wire = view.nvlink / links;
  view.nvlink_share = carried / view.nvlink;
}

double port_rate(const Cluster& cluster, DeviceId nic) {
  double rate = 0.0;
  for (const Link& link : cluster.links_from(nic))
    if (link.kind == LinkKind::NicPort) rate += link.nominal.value() / kGiga;
  return rate;
}

void read_nics(const GroupPlace& place, const std::vector<std::uint32_t>& roles, HostSide& host,
               NodeView& view) {
  std::vector<DeviceId> seen;
  for (const std::uint32_t role : roles) {
    const DeviceId nic = place.cluster.nic_of_gpu()[place.gpus[role]];
    if (std::find(seen.begin(), seen.end(), nic) != seen.end()) continue;
    seen.push_back(nic);
    view.pcie = std::max(view.pcie, host.pcie_rate(nic));
    view.nics.push_back({.rate = port_rate(place.cluster, nic),
                         .pcie_switch = host.pcie_switch(nic),
                         .socket = host.socket(nic)});
  }
}

}  // namespace

std::optional<HostFacts> host_facts(const std::string& gpu, const std::string& node) {
  const Json& document = topology();
  const auto sm = by_prefix<std::uint32_t>(document.at("gpus").at("sm"), gpu);
  if (!sm) return {};
  const auto vendor = by_prefix<std::string>(document.at("hosts").at("cpu"), node).value_or("");
  return HostFacts{.sm = *sm,
                   .cpu = value_of(kCpuVendors, vendor).value_or(CpuVendor::Intel),
                   .cpu_is_known = !vendor.empty()};
}

std::vector<NodeKind> node_kinds(const GroupPlace& place) {
  const Placement placement = placement_of(place);
  TY_CHECK(!placement.nodes.empty());
  const std::size_t least = placement.smallest();
  std::map<std::size_t, const std::vector<std::uint32_t>*> by_nics;
  for (const std::vector<std::uint32_t>& roles : placement.nodes) {
    if (roles.size() > least) continue;
    std::set<DeviceId> nics;
    if (placement.nodes.size() > 1)
      for (const std::uint32_t role : roles)
        nics.insert(place.cluster.nic_of_gpu()[place.gpus[role]]);
    by_nics.try_emplace(nics.size(), &roles);
  }
  std::vector<NodeKind> kinds;
  for (const auto& [nics, roles] : by_nics) kinds.push_back({.roles = *roles, .nics = nics});
  return kinds;
}

NodeView node_view(const GroupPlace& place, const NodeKind& kind, const HostFacts& facts) {
  NodeView view;
  view.sm = facts.sm;
  view.cpu = facts.cpu;
  HostSide host(place.cluster);
  for (const std::uint32_t role : kind.roles) {
    const DeviceId gpu = place.cluster.gpus()[place.gpus[role]];
    view.gpus.push_back({.pcie_switch = host.pcie_switch(gpu), .socket = host.socket(gpu)});
    view.pcie = std::max(view.pcie, host.pcie_rate(gpu));
    view.socket = std::max(view.socket, host.socket_rate(gpu));
    view.nics_by_chip_to_chip = view.nics_by_chip_to_chip || host.has_chip_to_chip(gpu);
  }
  read_scale_up(place, kind.roles, view);
  if (kind.nics > 0) read_nics(place, kind.roles, host, view);
  return view;
}

NodeView node_view(const GroupPlace& place, const HostFacts& facts) {
  return node_view(place, node_kinds(place).front(), facts);
}

NodeView switched_node(const SwitchedNode& shape) {
  NodeView view;
  view.sm = shape.sm;
  view.nvlink = shape.nvlink;
  view.nvlink_wire = shape.nvlink / shape.nvlinks;
  view.pcie = shape.pcie;
  for (std::uint32_t i = 0; i < shape.gpus; ++i) {
    const std::uint32_t at = i / shape.per_switch;
    view.gpus.push_back({.pcie_switch = at, .socket = 2 * i / shape.gpus});
    if (shape.nic > 0.0)
      view.nics.push_back({.rate = shape.nic, .pcie_switch = at, .socket = 2 * i / shape.gpus});
  }
  return view;
}

}  // namespace trainyard::nccl
