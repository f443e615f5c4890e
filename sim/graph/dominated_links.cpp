#include "sim/graph/dominated_links.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <utility>

namespace trainyard {

namespace {

// The finaliser of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

// Where a way goes on and none begins or ends.
bool is_passed(DeviceKind kind) {
  return kind == DeviceKind::PcieSwitch || kind == DeviceKind::Nic || kind == DeviceKind::Cpu;
}

// Of equal capacities the choice is by what refinement knows links by, so that in symmetric places
// it is the same.
auto known_by(const Cluster& cluster, const JointGraph& joint, LinkId id) {
  const Link& link = cluster.link(id);
  return std::tuple(link.capacity, link.kind, link.nominal, joint.bundle_size[id], id);
}

// Links in a row that are loaded alike, as trees of which the root is the one with the least
// capacity.
class Rows {
 public:
  Rows(const Cluster& cluster, const JointGraph& joint)
      : cluster_(cluster), joint_(joint), root_(cluster.links().size()) {
    std::iota(root_.begin(), root_.end(), 0U);
  }

  void join(LinkId a, LinkId b) {
    a = root_of(a);
    b = root_of(b);
    if (a == b) return;
    if (known_by(cluster_, joint_, b) < known_by(cluster_, joint_, a)) std::swap(a, b);
    root_[b] = a;
  }

  std::vector<LinkId> roots() && {
    for (LinkId link = 0; link < root_.size(); ++link) root_[link] = root_of(link);
    return std::move(root_);
  }

 private:
  LinkId root_of(LinkId link) {
    while (root_[link] != link) link = root_[link] = root_[root_[link]];
    return link;
  }

  const Cluster& cluster_;
  const JointGraph& joint_;
  std::vector<LinkId> root_;  // by link: another of its row, or itself
};

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
  Rows rows(cluster, joint);
  for (const LinkId id : joint.links) {
    const Link& link = cluster.link(id);
    if (slack[id] || !is_passed(cluster.device(link.to).kind)) continue;
    for (const Link& next : cluster.links_from(link.to)) {
      const bool returns = next.to == link.from;
      if (!returns && !slack[next.id] && loaded[next.id] == loaded[id]) rows.join(id, next.id);
    }
  }
  return std::move(rows).roots();
}

}  // namespace trainyard
