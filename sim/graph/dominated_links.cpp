#include "sim/graph/dominated_links.hpp"

#include <cstdint>
#include <utility>

#include "sim/base/mixed.hpp"
#include "sim/graph/link_rows.hpp"

namespace trainyard {

namespace {

// Where a way goes on and none begins or ends.
bool is_passed(DeviceKind kind) {
  return kind == DeviceKind::PcieSwitch || kind == DeviceKind::Nic || kind == DeviceKind::Cpu;
}

}  // namespace

// Only neighbours are compared, some millions of pairs, so 64 bits do.
std::vector<std::uint64_t> loaded_by(const Cluster& cluster, const JointGraph& joint) {
  std::vector<std::uint64_t> sums(cluster.links().size(), 0);
  const auto shapes = static_cast<std::uint32_t>(joint.group_of_shape.size());
  for (std::uint32_t shape = 0; shape < shapes; ++shape)
    for (const auto& [link, load] : joint.shape(shape))
      sums[link] += mixed(std::uint64_t{shape} << 32U | load);
  return sums;
}

std::vector<LinkId> dominating_links(const Cluster& cluster, const JointGraph& joint,
                                     const std::vector<std::uint64_t>& loaded,
                                     const std::vector<bool>& slack) {
  LinkRows rows(cluster, joint.row_of);
  const auto loaded_alike = [&](LinkId a, LinkId b) {
    return loaded[joint.row_of[a]] == loaded[joint.row_of[b]];
  };
  const Wiring& wiring = cluster.wiring();
  for (const LinkId id : joint.links) {
    const auto [from, to, wire] = wiring.strand(id);
    if (slack[id] || !is_passed(cluster.device(to).kind)) continue;
    const LinkId end = wiring.first_link_from(to + 1);
    for (LinkId next = wiring.first_link_from(to); next < end; ++next) {
      const bool returns = wiring.to(next) == from;
      if (!returns && !slack[next] && loaded_alike(id, next)) rows.join(id, next);
    }
  }
  return std::move(rows).strongest();
}

}  // namespace trainyard
