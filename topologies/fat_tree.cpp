// Fat-trees without rails. All NICs of a node are on the same leaf (or on as few as hold them), and
// leaves are filled in the order of the nodes. With two levels, every leaf is joined to every
// spine. With three, cores join pods of leaves and spines.

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.hpp"
#include "topologies/draft.hpp"

namespace trainyard {

namespace {

struct LeafPlan {
  std::uint32_t nics = 0;     // downlinks of one leaf
  std::uint32_t uplinks = 0;  // of one leaf
  std::uint32_t leaves = 0;
};

// Puts whole nodes on a leaf where one fits; otherwise a node has several leaves and its NICs are
// spread evenly over them: 8 NICs and leaves with 6 downlinks give two leaves of 4 NICs a node.
template <class Tree>
LeafPlan plan_leaves(const Tree& fabric, const ClusterSpec& spec) {
  const std::uint32_t down = downlinks(fabric.radix, fabric.oversubscription);
  if (down == 0) {
    throw InputError(Problem{
        "", "/fabric/radix",
        fmt::format("a leaf of {} ports has none left for nodes", fabric.radix), "raise radix"});
  }
  LeafPlan plan;
  if (spec.node.nics <= down) {
    const std::uint32_t nodes = down / spec.node.nics;
    plan.nics = nodes * spec.node.nics;
    plan.leaves = (spec.nodes + nodes - 1) / nodes;
  } else {
    const std::uint32_t pieces = (spec.node.nics + down - 1) / down;
    plan.nics = (spec.node.nics + pieces - 1) / pieces;
    plan.leaves = spec.nodes * pieces;
  }
  plan.uplinks = uplinks(plan.nics, fabric.oversubscription);
  return plan;
}

std::vector<DeviceId> draw_leaves(const ClusterSpec& spec, const LeafPlan& plan, Draft& draft) {
  const auto leaves = add_switches(draft, DeviceKind::LeafSwitch, "leaf", plan.leaves);
  const Wire wire = nic_wire(spec);
  const bool whole_nodes = spec.node.nics <= plan.nics;
  const std::uint32_t pieces = whole_nodes ? 1 : plan.leaves / spec.nodes;
  const std::uint32_t nodes_per_leaf = std::max(plan.nics / spec.node.nics, 1U);
  for (std::size_t i = 0; i < draft.nics.size(); ++i) {
    const std::size_t node = i / spec.node.nics;
    const std::size_t nic = i % spec.node.nics;
    const std::size_t leaf = node / nodes_per_leaf * pieces + (whole_nodes ? 0 : nic / plan.nics);
    draft.cable(draft.nics[i], leaves[leaf], wire);
  }
  return leaves;
}

[[noreturn]] void refuse(const ClusterSpec& spec, const LeafPlan& plan, std::uint32_t radix,
                         std::uint32_t leaves_most, std::string_view tiers,
                         std::string_view remedy) {
  const std::uint64_t nics = std::uint64_t{leaves_most} * plan.nics;
  throw InputError(Problem{"", "/nodes",
                           fmt::format("{} nodes do not fit: {} levels of {}-port switches hold {}",
                                       spec.nodes, tiers, radix, nics / spec.node.nics),
                           std::string(remedy)});
}

}  // namespace

void draw_fabric(const FatTree& fabric, const ClusterSpec& spec, Draft& draft) {
  const LeafPlan plan = plan_leaves(fabric, spec);
  const std::uint32_t radix = fabric.radix;
  if (plan.leaves > radix) {
    refuse(spec, plan, radix, radix, "two",
           "use fat_tree3, or raise fabric.radix or the oversubscription");
  }
  const std::vector<DeviceId> leaves = draw_leaves(spec, plan, draft);
  if (!join_two_tiers(spec, {radix, fabric.hop_latency}, leaves, plan.uplinks, draft)) {
    refuse(spec, plan, radix, radix, "two", "use fat_tree3, or raise fabric.radix");
  }
}

void draw_fabric(const FatTree3& fabric, const ClusterSpec& spec, Draft& draft) {
  const LeafPlan plan = plan_leaves(fabric, spec);
  const std::uint32_t radix = fabric.radix;
  const std::uint32_t pod = downlinks(radix, fabric.core_oversubscription);
  if (plan.leaves > pod * radix) {
    refuse(spec, plan, radix, pod * radix, "three", "raise fabric.radix or an oversubscription");
  }
  const std::vector<DeviceId> leaves = draw_leaves(spec, plan, draft);
  std::vector<std::vector<DeviceId>> pods;
  for (std::size_t begin = 0; begin < leaves.size(); begin += pod) {
    const auto from = leaves.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::size_t size = std::min<std::size_t>(pod, leaves.size() - begin);
    pods.emplace_back(from, from + static_cast<std::ptrdiff_t>(size));
  }
  if (!join_three_tiers(spec, {radix, fabric.hop_latency}, fabric.core_oversubscription, pods,
                        plan.uplinks, draft)) {
    refuse(spec, plan, radix, pod * radix, "three", "raise fabric.radix or an oversubscription");
  }
}

// A multi-plane fabric as DeepSeek builds it (DeepSeek-V3, ISCA'25): NIC q of every node is in
// plane q, and each plane is a separate two-level fat-tree. With 64 ports a plane holds 64^2/2 =
// 2048 nodes, so 8 planes hold 16 384 GPUs in two levels. No cable joins two planes: a GPU of the
// node forwards a message over NVLink (PXN).
void draw_fabric(const MultiPlane& fabric, const ClusterSpec& spec, Draft& draft) {
  const std::uint32_t radix = fabric.radix;
  const std::uint32_t down = downlinks(radix, fabric.oversubscription);
  const std::uint32_t leaves = down == 0 ? 0 : (spec.nodes + down - 1) / down;
  if (down == 0 || leaves > radix) {
    throw InputError(Problem{
        "", "/nodes",
        fmt::format("{} nodes do not fit: a plane of two levels of {}-port switches holds {}",
                    spec.nodes, radix, std::uint64_t{radix} * down),
        "raise fabric.radix or fabric.oversubscription, or use rail_optimized, which has a third "
        "level"});
  }
  const Wire wire = nic_wire(spec);
  for (std::uint32_t plane = 0; plane < spec.node.nics; ++plane) {
    const auto switches = add_switches(draft, DeviceKind::LeafSwitch, "leaf", leaves);
    for (std::uint32_t node = 0; node < spec.nodes; ++node) {
      const std::size_t nic = std::size_t{node} * spec.node.nics + plane;
      draft.cable(draft.nics[nic], switches[node / down], wire);
    }
    if (leaves > 1 && !join_two_tiers(spec, {radix, fabric.hop_latency}, switches,
                                      uplinks(down, fabric.oversubscription), draft)) {
      throw InputError(
          Problem{"", "/fabric/radix",
                  fmt::format("spines of {} ports are too small for {} leaves", radix, leaves),
                  "raise radix"});
    }
  }
}

}  // namespace trainyard
