#include "sim/fold/link_rows.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/workload/workload.hpp"

namespace trainyard {

namespace {

bool passes_on(DeviceKind kind) {
  return kind == DeviceKind::PcieSwitch || kind == DeviceKind::Nic;
}

// The links that lead to a device from its first two neighbours, and how many there are.
struct Arriving {
  std::array<LinkId, 2> links = {};
  std::uint32_t count = 0;
};

// Devices between two neighbours, as far as the links that leave them tell.
class Passages {
 public:
  explicit Passages(const Cluster& cluster)
      : wiring_(cluster.wiring()), number_(cluster.device_count(), kNone) {
    for (DeviceId id = 0; id < number_.size(); ++id) {
      if (!passes_on(cluster.device(id).kind)) continue;
      const LinkId first = wiring_.first_link_from(id);
      if (wiring_.links_from(id).size() != 2 || wiring_.to(first) == wiring_.to(first + 1))
        continue;
      number_[id] = static_cast<std::uint32_t>(devices_.size());
      devices_.push_back(id);
    }
    collect_arriving();
  }

  // Calls `use` with each two links of which one follows the other.
  void for_neighbours(const auto& use) const {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const auto& [arriving, count] = arriving_[i];
      const LinkId first = wiring_.first_link_from(devices_[i]);
      const DeviceId here = wiring_.to(first);
      const DeviceId there = wiring_.to(first + 1);
      if (count != 2) continue;
      if (wiring_.from(arriving[0]) == here && wiring_.from(arriving[1]) == there) {
        use(arriving[0], first + 1);
        use(arriving[1], first);
      } else if (wiring_.from(arriving[0]) == there && wiring_.from(arriving[1]) == here) {
        use(arriving[0], first);
        use(arriving[1], first + 1);
      }
    }
  }

 private:
  void collect_arriving() {
    arriving_.resize(devices_.size());
    const LinkId links = wiring_.link_count();
    for (LinkId link = 0; link < links; ++link) {
      const std::uint32_t number = number_[wiring_.to(link)];
      if (number == kNone) continue;
      Arriving& arriving = arriving_[number];
      if (arriving.count < arriving.links.size()) arriving.links.at(arriving.count) = link;
      ++arriving.count;
    }
  }

  const Wiring& wiring_;
  std::vector<std::uint32_t> number_;  // by device, in devices_
  std::vector<DeviceId> devices_;
  std::vector<Arriving> arriving_;
};

}  // namespace

std::vector<LinkId> link_rows(const Cluster& cluster) {
  LinkRows rows(cluster, each_link(cluster));
  Passages(cluster).for_neighbours([&](LinkId link, LinkId next) { rows.join(link, next); });
  return std::move(rows).strongest();
}

LinkRows::LinkRows(const Cluster& cluster, std::vector<LinkId> stands)
    : cluster_(cluster), root_(std::move(stands)) {}

void LinkRows::join(LinkId a, LinkId b) {
  a = root_of(a);
  b = root_of(b);
  if (a == b) return;
  if (is_stronger(b, a)) std::swap(a, b);
  root_[b] = a;
}

std::vector<LinkId> LinkRows::strongest() && {
  for (LinkId link = 0; link < root_.size(); ++link) root_[link] = root_of(link);
  return std::move(root_);
}

LinkId LinkRows::root_of(LinkId link) {
  while (root_[link] != link) link = root_[link] = root_[root_[link]];
  return link;
}

bool LinkRows::is_stronger(LinkId a, LinkId b) const {
  const Wire& x = cluster_.wiring().wire(a);
  const Wire& y = cluster_.wiring().wire(b);
  return std::tie(x.capacity, x.kind, x.nominal, a) < std::tie(y.capacity, y.kind, y.nominal, b);
}

std::vector<LinkId> each_link(const Cluster& cluster) {
  std::vector<LinkId> links(cluster.wiring().link_count());
  std::iota(links.begin(), links.end(), 0U);
  return links;
}

}  // namespace trainyard
