#include "sim/nccl/node_view.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/words.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard::nccl {

namespace {

constexpr double kGiga = 1e9;

// The value of the longest key that is a prefix of the name.
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

// The link of the device to a device of this kind on the host.
std::optional<Link> host_link(const Topology& cluster, DeviceId from, DeviceKind kind) {
  for (const Link& link : cluster.links_from(from)) {
    const bool wired = link.kind == LinkKind::Pcie || link.kind == LinkKind::ChipToChip;
    if (wired && cluster.device(link.to).kind == kind) return link;
  }
  return {};
}

// A GPU with a direct link to its NIC counts as being on one switch with it.
DeviceId switch_of(const Topology& cluster, DeviceId device) {
  for (const DeviceKind above : {DeviceKind::PcieSwitch, DeviceKind::Nic})
    if (const auto link = host_link(cluster, device, above)) return link->to;
  return device;
}

// The CPU above the device's PCIe switch, or else the CPU to which the device itself is connected.
std::optional<DeviceId> cpu_of(const Topology& cluster, DeviceId device, DeviceId pcie_switch) {
  for (const DeviceId at : {pcie_switch, device})
    if (const auto link = host_link(cluster, at, DeviceKind::Cpu)) return link->to;
  return {};
}

// Rate in GB/s of the first link of this kind; 0 if there is none.
double rate_of(const Topology& cluster, DeviceId device, LinkKind kind) {
  for (const Link& link : cluster.links_from(device))
    if (link.kind == kind) return link.capacity.value() / kGiga;
  return 0.0;
}

HostPort host_port(const Topology& cluster, DeviceId device, DeviceId first) {
  const DeviceId pcie_switch = switch_of(cluster, device);
  HostPort port{.pcie_switch = pcie_switch - first,
                .pcie = rate_of(cluster, device, LinkKind::Pcie)};
  if (const auto cpu = cpu_of(cluster, device, pcie_switch)) {
    port.cpu = *cpu - first;
    port.socket = rate_of(cluster, *cpu, LinkKind::Socket);
  }
  return port;
}

GpuLinks::Nic nic_links(const Topology& cluster, DeviceId nic, DeviceId first) {
  GpuLinks::Nic links{.number = nic - first, .host = host_port(cluster, nic, first)};
  for (const Link& link : cluster.links_from(nic)) {
    if (link.kind != LinkKind::NicPort) continue;
    links.rate += link.nominal.value() / kGiga;
    if (link.nominal.value() > 0.0)
      links.share = std::min(links.share, link.capacity.value() / link.nominal.value());
  }
  return links;
}

// Numbers devices from 0 in the order of the queries.
class Numbers {
 public:
  std::uint32_t operator[](std::uint32_t device) {
    return numbers_.emplace(device, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<std::uint32_t, std::uint32_t> numbers_;
};

// Devices that are connected to no CPU count as being on the first one.
struct HostNumbers {
  Numbers switches = {};
  Numbers cpus = {};
  std::uint32_t pcie_switch(const HostPort& port) { return switches[port.pcie_switch]; }
  std::uint32_t socket(const HostPort& port) { return port.cpu ? cpus[*port.cpu] : 0; }
};

using Json = nlohmann::ordered_json;

Json read_lists(const std::filesystem::path& path) {
  JsonFile file = JsonFile::read(path);
  return file.document();
}

// The facts about GPUs and hosts that the cluster's links do not contain (data/topology.json).
const Json& topology() {
  return read_once<Json>(data_file("sim/nccl/data", "topology"), read_lists);
}

// The entry of the newest generation up to that of the GPU; 0 if there is none.
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

// Number of NVLinks that NCCL finds in a wire: the number of its cables. A wire with one cable
// represents a set of parallel links that the cluster does not describe: all links of the GPU, or
// an equal part of them for each peer.
double links_of(const GpuLinks::NvLink& link, std::size_t wires, const NvLinkFacts& facts) {
  if (link.cables > 1) return link.cables;
  return std::max(1.0, std::floor(facts.links / static_cast<double>(wires)));
}

// Sets NCCL's NVLink rate, which is the number of links times a fixed rate of the generation, and
// the ratio of the real rate to it (nvlink_share), which only the time model uses. The slowest wire
// represents all, because a collective is as fast as its slowest GPU. In a mesh, wires to other
// members come first.
void read_scale_up(std::span<const GpuLinks* const> members, const NvLinkFacts& facts,
                   NodeView& view) {
  view.scale_up = NodeView::ScaleUp::None;
  const auto leads_out = [&](const GpuLinks::NvLink& link) {
    return link.peer && std::ranges::find(members, *link.peer, &GpuLinks::number) == members.end();
  };
  const auto order = [&](const GpuLinks::NvLink& link) {
    return std::pair(leads_out(link), link.rate);
  };
  const GpuLinks::NvLink* slowest = nullptr;
  std::size_t wires = 0;
  for (const GpuLinks* gpu : members) {
    if (gpu->nvlinks.empty()) return;
    const auto link = std::ranges::min_element(gpu->nvlinks, {}, order);
    if (slowest != nullptr && order(*link) >= order(*slowest)) continue;
    slowest = &*link;
    wires = gpu->nvlinks.size();
  }
  view.scale_up = slowest->peer ? NodeView::ScaleUp::FullMesh : NodeView::ScaleUp::NvSwitch;
  const double links = links_of(*slowest, wires, facts);
  view.nvlink = facts.rate > 0.0 ? facts.rate * links : slowest->rate;
  view.nvlink_wire = view.nvlink / links;
  view.nvlink_share = slowest->rate / view.nvlink;
}

// Adds each NIC once, although several members may share it.
void read_nics(std::span<const GpuLinks* const> members, HostNumbers& host, NodeView& view) {
  std::vector<std::uint32_t> seen;
  for (const GpuLinks* gpu : members) {
    const GpuLinks::Nic& nic = *gpu->nic;
    if (std::ranges::find(seen, nic.number) != seen.end()) continue;
    seen.push_back(nic.number);
    view.pcie = std::max(view.pcie, nic.host.pcie);
    view.nic_share = std::min(view.nic_share, nic.share);
    view.nics.push_back({.rate = nic.rate,
                         .pcie_switch = host.pcie_switch(nic.host),
                         .socket = host.socket(nic.host)});
  }
}

}  // namespace

double usable_nic_rate(const NodeView& node) {
  double rate = 0.0;
  for (const NodeNic& nic : node.nics) rate += nic.rate;
  return rate * node.nic_share;
}

double usable_nvlink_rate(const NodeView& node) {
  if (node.scale_up == NodeView::ScaleUp::None) return 0.0;
  const bool mesh = node.scale_up == NodeView::ScaleUp::FullMesh;
  const double peers = mesh ? static_cast<double>(node.gpus.size()) - 1.0 : 1.0;
  return node.nvlink * node.nvlink_share * peers;
}

NvLinkFacts nvlink_facts(std::uint32_t sm) {
  const Json& nvlink = topology().at("nvlink");
  return {.rate = of_generation(nvlink.at("rates"), sm),
          .links = of_generation(nvlink.at("links"), sm)};
}

std::optional<HostFacts> host_facts(const std::string& gpu, const std::string& node) {
  const Json& document = topology();
  const auto sm = by_prefix<std::uint32_t>(document.at("gpus").at("sm"), gpu);
  if (!sm) return {};
  const auto vendor = by_prefix<std::string>(document.at("hosts").at("cpu"), node).value_or("");
  return HostFacts{.sm = *sm,
                   .nvlink = nvlink_facts(*sm),
                   .cpu = value_of(kCpuVendors, vendor).value_or(CpuVendor::Intel),
                   .cpu_is_known = !vendor.empty()};
}

GpuLinks gpu_links(const Topology& cluster, std::uint32_t gpu) {
  const DeviceId device = cluster.gpus()[gpu];
  const DeviceId first = cluster.gpus()[gpu - cluster.local_index(gpu)];
  GpuLinks links{.profile = cluster.gpu_kind(gpu).profile,
                 .number = device - first,
                 .host = host_port(cluster, device, first)};
  const std::optional<Link> to_cpu = host_link(cluster, device, DeviceKind::Cpu);
  links.chip_to_chip = to_cpu && to_cpu->kind == LinkKind::ChipToChip;
  for (const Link& link : cluster.links_from(device)) {
    if (link.kind != LinkKind::NvLink) continue;
    const bool to_switch = cluster.device(link.to).kind == DeviceKind::NvSwitch;
    links.nvlinks.push_back({.peer = to_switch ? std::nullopt : std::optional(link.to - first),
                             .rate = link.capacity.value() / kGiga,
                             .cables = link.cables});
  }
  if (!cluster.nic_of_gpu().empty())
    links.nic = nic_links(cluster, cluster.nic_of_gpu()[gpu], first);
  return links;
}

NodeView node_view(std::span<const GpuLinks* const> members, WithNics with_nics,
                   const HostFacts& facts) {
  NodeView view;
  view.sm = facts.sm;
  view.cpu = facts.cpu;
  HostNumbers host;
  for (const GpuLinks* gpu : members) {
    view.gpus.push_back(
        {.pcie_switch = host.pcie_switch(gpu->host), .socket = host.socket(gpu->host)});
    view.pcie = std::max(view.pcie, gpu->host.pcie);
    view.socket = std::max(view.socket, gpu->host.socket);
    view.nics_by_chip_to_chip = view.nics_by_chip_to_chip || gpu->chip_to_chip;
  }
  read_scale_up(members, facts.nvlink, view);
  if (with_nics == WithNics::Yes) read_nics(members, host, view);
  return view;
}

NodeView node_view(const PlacedGroup& placed, const HostFacts& facts) {
  const Placement placement = placement_of(placed);
  const auto node =
      std::ranges::min_element(placement.nodes, {}, &std::vector<std::uint32_t>::size);
  std::vector<GpuLinks> links;
  for (const std::uint32_t group_rank : *node)
    links.push_back(gpu_links(placed.cluster, placed.gpus[group_rank]));
  std::vector<const GpuLinks*> members;
  for (const GpuLinks& gpu : links) members.push_back(&gpu);
  return node_view(members, placement.nodes.size() > 1 ? WithNics::Yes : WithNics::No, facts);
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

namespace {

// NCCL rounds the remaining rate to three digits, so that sums of rates are exact.
double rounded(double rate) { return std::round(rate * 1000.0) / 1000.0; }

// The number of switches or of CPUs. The devices number them from 0 without gaps.
template <class Places, class Field>
std::uint32_t count_of(const Places& gpus, Field field) {
  std::uint32_t count = 0;
  for (const auto& gpu : gpus) count = std::max(count, field(gpu) + 1);
  return count;
}

constexpr auto kSwitchOf = [](const auto& device) { return device.pcie_switch; };
constexpr auto kSocketOf = [](const auto& device) { return device.socket; };

}  // namespace

NodeLinks::NodeLinks(const NodeView& node) : node_(node) {
  number_wires();
  left_ = rate_;
  find_paths();
}

// Each device has two directed wires, stored consecutively; the mesh and the CPUs have one for each
// ordered pair.
void NodeLinks::number_wires() {
  const NodeView& node = node_;
  const auto gpus = static_cast<std::uint32_t>(node.gpus.size());
  const auto nics = static_cast<std::uint32_t>(node.nics.size());
  const auto add = [&](std::uint32_t wires, double rate) {
    const auto first = static_cast<std::uint32_t>(rate_.size());
    rate_.resize(rate_.size() + wires, rate);
    return first;
  };
  const bool mesh = node.scale_up == NodeView::ScaleUp::FullMesh;
  nvlink_ = add(mesh ? gpus * gpus : 2 * gpus, node.nvlink);
  gpu_pcie_ = add(2 * gpus, node.pcie);
  nic_pcie_ = add(2 * nics, node.pcie);
  port_ = add(2 * nics, 0.0);
  for (std::uint32_t i = 0; i < nics; ++i)
    rate_[port_ + 2 * i] = rate_[port_ + 2 * i + 1] = node.nics[i].rate;
  const std::uint32_t switches =
      std::max(count_of(node.gpus, kSwitchOf), count_of(node.nics, kSwitchOf));
  sockets_ = std::max(count_of(node.gpus, kSocketOf), count_of(node.nics, kSocketOf));
  switch_ = add(2 * switches, node.pcie);
  socket_ = add(sockets_ * sockets_, node.socket);
}

// Direct paths come first: the nearest GPU of a NIC depends on them, and a path through that GPU
// (PXN) depends on the nearest GPU.
void NodeLinks::find_paths() {
  const auto gpus = static_cast<std::uint32_t>(node_.gpus.size());
  const auto nics = static_cast<std::uint32_t>(node_.nics.size());
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    for (std::uint32_t peer = 0; peer < gpus; ++peer) peers_.push_back(between_gpus(gpu, peer));
    for (std::uint32_t nic = 0; nic < nics; ++nic) out_.push_back(over_pcie(gpu, nic));
    switch_ways_.push_back(path(PathType::NvLink, {nvlink_ + 2 * gpu}));
    switch_ways_.push_back(path(PathType::NvLink, {nvlink_ + 2 * gpu + 1}));
  }
  for (std::uint32_t nic = 0; nic < nics; ++nic) nearest_gpu_by_nic_.push_back(nearest_gpu(nic));
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    for (std::uint32_t nic = 0; nic < nics; ++nic) {
      to_nic_.push_back(path_to_nic(gpu, nic));
      from_nic_.push_back(path_from_nic(nic, gpu));
    }
  }
}

// A path without wires, from a GPU to itself, has NCCL's rate of a local link, which limits
// nothing.
NodePath NodeLinks::path(PathType type, std::vector<std::uint32_t> wires) const {
  NodePath made{.type = type,
                .rate = wires.empty() ? 5000.0 : rate_[wires.front()],
                .wires = std::move(wires)};
  for (const std::uint32_t wire : made.wires) made.rate = std::min(made.rate, rate_[wire]);
  return made;
}

PathType NodeLinks::host_type(const NodeGpu& from, const NodeGpu& to) const {
  if (from.pcie_switch == to.pcie_switch) return PathType::OneSwitch;
  return from.socket == to.socket ? PathType::HostBridge : PathType::AcrossSockets;
}

void NodeLinks::climb(std::vector<std::uint32_t>& wires, const NodeGpu& from,
                      const NodeGpu& to) const {
  if (from.pcie_switch == to.pcie_switch) return;
  wires.push_back(switch_ + 2 * from.pcie_switch);
  if (from.socket != to.socket) {
    wires.push_back(socket_ + from.socket * sockets_ + to.socket);
  }
  wires.push_back(switch_ + 2 * to.pcie_switch + 1);
}

const NodePath& NodeLinks::to_gpu(std::uint32_t from, std::uint32_t to) const {
  const std::size_t gpus = node_.gpus.size();
  TY_CHECK(from < gpus && to < gpus, from, to);
  return peers_[from * gpus + to];
}

const NodePath& NodeLinks::to_nic(std::uint32_t gpu, std::uint32_t nic) const {
  return to_nic_[gpu * node_.nics.size() + nic];
}

const NodePath& NodeLinks::from_nic(std::uint32_t nic, std::uint32_t gpu) const {
  return from_nic_[gpu * node_.nics.size() + nic];
}

const NodePath& NodeLinks::to_switch(std::uint32_t gpu) const {
  return switch_ways_[2 * std::size_t{gpu}];
}

const NodePath& NodeLinks::from_switch(std::uint32_t gpu) const {
  return switch_ways_[2 * std::size_t{gpu} + 1];
}

// GPUs without NVLink reach each other over PCIe and, if necessary, the CPUs.
NodePath NodeLinks::between_gpus(std::uint32_t from, std::uint32_t to) const {
  const auto gpus = static_cast<std::uint32_t>(node_.gpus.size());
  if (from == to) return path(PathType::Same, {});
  if (node_.scale_up == NodeView::ScaleUp::NvSwitch)
    return path(PathType::NvLink, {nvlink_ + 2 * from, nvlink_ + 2 * to + 1});
  if (node_.scale_up == NodeView::ScaleUp::FullMesh)
    return path(PathType::NvLink, {nvlink_ + from * gpus + to});
  std::vector<std::uint32_t> wires{gpu_pcie_ + 2 * from};
  climb(wires, node_.gpus[from], node_.gpus[to]);
  wires.push_back(gpu_pcie_ + 2 * to + 1);
  return path(host_type(node_.gpus[from], node_.gpus[to]), std::move(wires));
}

NodePath NodeLinks::over_pcie(std::uint32_t gpu, std::uint32_t nic) const {
  const NodeGpu from = node_.gpus[gpu];
  const NodeGpu to{.pcie_switch = node_.nics[nic].pcie_switch, .socket = node_.nics[nic].socket};
  // On Grace, only the wires of the NIC limit the path; C2C leads to the CPU.
  if (node_.nics_by_chip_to_chip && from.socket == to.socket)
    return path(PathType::ChipToChipNic, {nic_pcie_ + 2 * nic + 1, port_ + 2 * nic});
  std::vector<std::uint32_t> wires{gpu_pcie_ + 2 * gpu};
  climb(wires, from, to);
  wires.push_back(nic_pcie_ + 2 * nic + 1);
  wires.push_back(port_ + 2 * nic);
  return path(host_type(from, to), std::move(wires));
}

// A GPU that reaches the NIC over the host only, but the NIC's nearest GPU over NVLink, sends
// through that GPU (PXN).
NodePath NodeLinks::path_to_nic(std::uint32_t gpu, std::uint32_t nic) const {
  const NodePath& direct = out_[gpu * node_.nics.size() + nic];
  const std::uint32_t neighbour = nearest_gpu_of(nic);
  const bool helps = neighbour != gpu && direct.type > PathType::NicByPeer &&
                     node_.scale_up != NodeView::ScaleUp::None;
  if (!helps) return direct;
  const NodePath& last = out_[neighbour * node_.nics.size() + nic];
  if (last.type > PathType::ChipToChipNic) return direct;
  std::vector<std::uint32_t> wires = to_gpu(gpu, neighbour).wires;
  wires.insert(wires.end(), last.wires.begin(), last.wires.end());
  return path(PathType::NicByPeer, std::move(wires));
}

// The same wires in the other direction. The two directions of a device are neighbours, so the
// reverse of an even wire (relative to the first) is the next one.
NodePath NodeLinks::path_from_nic(std::uint32_t nic, std::uint32_t gpu) const {
  NodePath back = out_[gpu * node_.nics.size() + nic];
  for (std::uint32_t& wire : back.wires) {
    if (wire >= socket_) continue;  // both directions between two CPUs have the same rate
    wire = wire % 2 == gpu_pcie_ % 2 ? wire + 1 : wire - 1;
  }
  return back;
}

std::vector<std::uint32_t> NodeLinks::nearest_gpus(std::uint32_t nic) const {
  std::vector<std::uint32_t> nearest;
  PathType best = PathType::None;
  for (std::uint32_t gpu = 0; gpu < node_.gpus.size(); ++gpu) {
    const PathType type = out_[gpu * node_.nics.size() + nic].type;
    if (type < best) nearest.clear();
    best = std::min(best, type);
    if (type == best) nearest.push_back(gpu);
  }
  return nearest;
}

// The nearest GPU by the type of path. NICs that are equally near to several GPUs (on one PCIe
// switch, or on ports of one CPU) are assigned to them in rotation.
std::uint32_t NodeLinks::nearest_gpu(std::uint32_t nic) const {
  const std::vector<std::uint32_t> nearest = nearest_gpus(nic);
  std::uint32_t turn = 0;
  for (std::uint32_t other = 0; other < nic; ++other)
    if (nearest_gpus(other) == nearest) ++turn;
  return nearest[turn % nearest.size()];
}

double NodeLinks::best_rate() const {
  double best = 0.0;
  const auto gpus = static_cast<std::uint32_t>(node_.gpus.size());
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    for (std::uint32_t nic = 0; nic < node_.nics.size(); ++nic)
      best = std::max(best, to_nic(gpu, nic).rate);
    if (!node_.nics.empty()) continue;
    for (std::uint32_t peer = 0; peer < gpus; ++peer)
      if (peer != gpu) best = std::max(best, to_gpu(gpu, peer).rate);
  }
  return best;
}

double NodeLinks::total_rate() const {
  const double peers = static_cast<double>(node_.gpus.size()) - 1.0;
  const double nvlink = node_.scale_up == NodeView::ScaleUp::None       ? 0.0
                        : node_.scale_up == NodeView::ScaleUp::FullMesh ? peers * node_.nvlink
                                                                        : node_.nvlink;
  return std::max(nvlink, node_.pcie);
}

// Takes the demands in order and records the previous values, so that a failure restores them
// exactly.
bool NodeLinks::take(const std::vector<Demand>& demands) {
  taken_.clear();
  for (const Demand& demand : demands) {
    for (const std::uint32_t wire : demand.path->wires) {
      if (left_[wire] < demand.rate) {
        for (auto entry = taken_.rbegin(); entry != taken_.rend(); ++entry)
          left_[entry->first] = entry->second;
        return false;
      }
      taken_.emplace_back(wire, left_[wire]);
      left_[wire] = rounded(left_[wire] - demand.rate);
    }
  }
  return true;
}

}  // namespace trainyard::nccl
