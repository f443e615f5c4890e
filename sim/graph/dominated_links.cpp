#include "sim/graph/dominated_links.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

namespace trainyard {

namespace {

// Sets of links that all shapes looked at so far load alike; at first all are in one.
class LoadedAlike {
 public:
  explicit LoadedAlike(std::size_t links) : set_of_(links, 0) {}

  // Those that the shape loads part from those that it does not, and by their load.
  void part(std::span<const ShapeLoad> shape, const std::vector<bool>& slack) {
    loaded_.clear();
    for (const auto& [link, load] : shape)
      if (!slack[link]) loaded_.push_back({std::uint64_t{set_of_[link]} << 32U | load, link});
    std::ranges::sort(loaded_, {}, &Loaded::set_and_load);
    for (std::size_t i = 0; i < loaded_.size(); ++i) {
      if (i == 0 || loaded_[i].set_and_load != loaded_[i - 1].set_and_load) ++sets_;
      set_of_[loaded_[i].link] = sets_ - 1;
    }
  }

  [[nodiscard]] std::uint32_t set_of(LinkId link) const { return set_of_[link]; }

 private:
  struct Loaded {
    std::uint64_t set_and_load = 0;
    LinkId link = 0;
  };
  std::vector<std::uint32_t> set_of_;  // by link
  std::uint32_t sets_ = 1;             // so many names are given
  std::vector<Loaded> loaded_;         // of the shape at hand
};

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

  [[nodiscard]] bool is_root(LinkId link) const { return root_[link] == link; }

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

std::vector<bool> dominated_links(const Cluster& cluster, const JointGraph& joint,
                                  const std::vector<bool>& slack) {
  LoadedAlike alike(cluster.links().size());
  const auto shapes = static_cast<std::uint32_t>(joint.group_of_shape.size());
  for (std::uint32_t shape = 0; shape < shapes; ++shape) alike.part(joint.shape(shape), slack);
  Rows rows(cluster, joint);
  for (const LinkId id : joint.links) {
    const Link& link = cluster.link(id);
    if (slack[id] || !is_passed(cluster.device(link.to).kind)) continue;
    for (const Link& next : cluster.links_from(link.to)) {
      const bool returns = next.to == link.from;
      if (!returns && !slack[next.id] && alike.set_of(next.id) == alike.set_of(id))
        rows.join(id, next.id);
    }
  }
  std::vector<bool> dominated(cluster.links().size(), false);
  for (const LinkId link : joint.links) dominated[link] = !rows.is_root(link);
  return dominated;
}

}  // namespace trainyard
