#include "topologies/node.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "topologies/torus.hpp"

namespace trainyard {

namespace {

// The entry that the GPU stands in, if it is not one of the node's usual ones.
const OtherGpus* other_gpus(const NodeSpec& node, std::uint32_t gpu) {
  for (const OtherGpus& other : node.other_gpus)
    if (std::ranges::find(other.gpus, gpu) != other.gpus.end()) return &other;
  return nullptr;
}

// One server while it is drawn. A PCIe switch, a CPU and a NIC each serve a run of neighbouring
// GPUs.
class NodeDraft {
 public:
  explicit NodeDraft(const NodeSpec& node) : node_(node) {}

  DrawnNode draw() {
    gpus_ = add_all(DeviceKind::Gpu, node_.gpus);
    scale_up();
    cpus_ = add_all(DeviceKind::Cpu, node_.gpus / node_.gpus_per_cpu);
    join_cpus();
    if (node_.gpus_per_pcie_switch > 0) {
      switches_ = add_all(DeviceKind::PcieSwitch, node_.gpus / node_.gpus_per_pcie_switch);
    }
    nics_ = add_all(DeviceKind::Nic, node_.nics);
    join_host_side();
    return {std::move(blueprint_).wiring(), std::move(gpus_), std::move(nics_)};
  }

 private:
  std::vector<DeviceId> add_all(DeviceKind kind, std::uint32_t count) {
    std::vector<DeviceId> ids;
    for (std::uint32_t i = 0; i < count; ++i)
      ids.push_back(
          blueprint_.add({.kind = kind, .node = 0, .index = static_cast<std::int32_t>(i)}));
    return ids;
  }

  // The switches of an NVLink domain are one non-blocking crossbar: every GPU has a link to each of
  // the chips and spreads over them, so one vertex with the GPU's whole rate says the same.
  void scale_up() {
    if (node_.scale_up == NodeSpec::ScaleUp::None || node_.gpus < 2) return;
    if (node_.scale_up == NodeSpec::ScaleUp::NvSwitch) {
      const DeviceId plane = add_all(DeviceKind::NvSwitch, 1).front();
      const Wire wire{.kind = LinkKind::NvLink,
                      .capacity = node_.nvlink,
                      .nominal = node_.nvlink_nominal,
                      .latency = node_.nvlink_latency,
                      .cables = std::max(node_.nvlinks, 1U)};
      for (const DeviceId gpu : gpus_) blueprint_.cable(gpu, plane, wire);
      return;
    }
    if (node_.scale_up == NodeSpec::ScaleUp::Torus) return join_torus();
    const double peers = node_.gpus - 1.0;
    const Wire wire{.kind = LinkKind::NvLink,
                    .capacity = node_.nvlink / peers,
                    .nominal = node_.nvlink_nominal / peers,
                    .latency = node_.nvlink_latency,
                    .cables = std::max(node_.nvlinks / (node_.gpus - 1), 1U)};
    for (std::size_t a = 0; a < gpus_.size(); ++a) {
      for (std::size_t b = a + 1; b < gpus_.size(); ++b) blueprint_.cable(gpus_[a], gpus_[b], wire);
    }
  }

  // Each direction along each dimension has an equal part of a GPU's rate.
  void join_torus() {
    const auto ways = static_cast<std::uint32_t>(
        2 * std::count_if(node_.scale_up_dims.begin(), node_.scale_up_dims.end(),
                          [](std::uint32_t size) { return size > 1; }));
    for (const TorusWire& wire : torus_wires(node_.scale_up_dims)) {
      const double part = static_cast<double>(wire.times) / ways;
      blueprint_.cable(gpus_[wire.from], gpus_[wire.to],
                       {.kind = LinkKind::NvLink,
                        .capacity = node_.nvlink * part,
                        .nominal = node_.nvlink_nominal * part,
                        .latency = node_.nvlink_latency,
                        .cables = std::max(node_.nvlinks * wire.times / ways, 1U)});
    }
  }

  void join_cpus() {
    const Wire wire{.kind = LinkKind::Socket,
                    .capacity = node_.socket,
                    .nominal = node_.socket_nominal,
                    .latency = node_.pcie_latency};
    const std::size_t host = node_.cpus_per_host;
    for (std::size_t a = 0; a < cpus_.size(); ++a) {
      for (std::size_t b = a + 1; b < cpus_.size() && b / host == a / host; ++b) {
        blueprint_.cable(cpus_[a], cpus_[b], wire);
      }
    }
  }

  void join_host_side() {
    const Wire pcie{.kind = LinkKind::Pcie,
                    .capacity = node_.pcie,
                    .nominal = node_.pcie_nominal,
                    .latency = node_.pcie_latency};
    const Wire chip{.kind = LinkKind::ChipToChip,
                    .capacity = node_.chip_to_chip,
                    .nominal = node_.chip_to_chip_nominal,
                    .latency = node_.pcie_latency};
    for (std::size_t i = 0; i < switches_.size(); ++i) {
      blueprint_.cable(switches_[i], cpu_of(i * node_.gpus_per_pcie_switch), pcie);
    }
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      if (!switches_.empty()) blueprint_.cable(gpus_[i], switch_of(i), pcie_of(i, pcie));
      if (node_.chip_to_chip.value() > 0.0) blueprint_.cable(gpus_[i], cpu_of(i), chip);
    }
    for (std::size_t i = 0; i < nics_.size(); ++i) {
      const std::size_t gpu = i * node_.gpus / node_.nics;
      blueprint_.cable(nics_[i], switches_.empty() ? cpu_of(gpu) : switch_of(gpu), pcie);
    }
  }

  // The card's own rate, where it differs from the slot's.
  [[nodiscard]] Wire pcie_of(std::size_t gpu, Wire wire) const {
    const OtherGpus* other = other_gpus(node_, static_cast<std::uint32_t>(gpu));
    if (other == nullptr || other->pcie.value() <= 0.0) return wire;
    wire.capacity = other->pcie;
    wire.nominal = other->pcie_nominal;
    return wire;
  }

  [[nodiscard]] DeviceId cpu_of(std::size_t gpu) const { return cpus_[gpu / node_.gpus_per_cpu]; }
  [[nodiscard]] DeviceId switch_of(std::size_t gpu) const {
    return switches_[gpu / node_.gpus_per_pcie_switch];
  }

  const NodeSpec& node_;
  Blueprint blueprint_;
  std::vector<DeviceId> gpus_;
  std::vector<DeviceId> cpus_;
  std::vector<DeviceId> switches_;
  std::vector<DeviceId> nics_;
};

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

}  // namespace

GpuKind gpu_kind(const NodeSpec& node, std::uint32_t gpu) {
  const OtherGpus* other = other_gpus(node, gpu);
  if (other != nullptr) return other->kind;
  return {.profile = node.gpu, .memory = node.gpu_memory};
}

void forget_if_alike(ClusterFacts& facts) {
  const GpuKind usual{.profile = facts.gpu, .memory = facts.gpu_memory};
  const auto differs = [&](const GpuKind& kind) { return kind != usual; };
  if (std::ranges::none_of(facts.mixed_gpus, differs)) facts.mixed_gpus.clear();
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

DrawnNode draw_node(const NodeSpec& node) { return NodeDraft(node).draw(); }

}  // namespace trainyard
