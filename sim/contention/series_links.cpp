#include "sim/contention/series_links.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "sim/base/beside.hpp"

namespace trainyard {

namespace {

// Where a way goes on and none begins or ends.
bool is_passed(DeviceKind kind) {
  return kind == DeviceKind::PcieSwitch || kind == DeviceKind::Nic || kind == DeviceKind::Cpu;
}

std::pair<std::uint32_t, std::uint32_t> what_loads(const LinkUsers::User& user) {
  return {user.shape, user.load};
}

// Series of links as trees with the one that implies the others at the root: that with the least
// capacity, and of equals what refinement tells apart, so that in symmetric places the choice is
// the same.
class SeriesTrees {
 public:
  explicit SeriesTrees(const Wiring& wiring) : wiring_(wiring), root_(wiring.link_count()) {
    std::iota(root_.begin(), root_.end(), 0U);
  }

  void join(LinkId a, LinkId b) {
    a = root_of(a);
    b = root_of(b);
    if (implies(b, a)) std::swap(a, b);
    root_[b] = a;
  }

  [[nodiscard]] std::vector<LinkId> roots() && {
    for (LinkId link = 0; link < root_.size(); ++link) root_[link] = root_of(link);
    return std::move(root_);
  }

 private:
  [[nodiscard]] LinkId root_of(LinkId link) {
    while (root_[link] != link) link = root_[link] = root_[root_[link]];
    return link;
  }

  [[nodiscard]] bool implies(LinkId a, LinkId b) const {
    const Wire& x = wiring_.wire(a);
    const Wire& y = wiring_.wire(b);
    return std::tie(x.capacity, x.kind, x.nominal, a) < std::tie(y.capacity, y.kind, y.nominal, b);
  }

  const Wiring& wiring_;
  std::vector<LinkId> root_;  // by link: another of its series, or itself
};

// Two links of which one follows the other.
struct Neighbours {
  LinkId link = 0;
  LinkId next = 0;
};

// Links in a row that are looked at together.
constexpr std::size_t kLinksTogether = 4096;

// Of links that are loaded alike.
class AlikeNeighbours {
 public:
  AlikeNeighbours(const Cluster& cluster, const JointGraph& joint, const LinkUsers& users,
                  const std::vector<bool>& redundant)
      : cluster_(cluster), joint_(joint), users_(users), redundant_(redundant) {}

  [[nodiscard]] std::vector<Neighbours> found() const {
    std::vector<Neighbours> of_this;
    std::vector<Neighbours> of_other;
    share_out(
        is_large(cluster_), (joint_.links.size() + kLinksTogether - 1) / kLinksTogether,
        [&](std::size_t piece) { add(piece, of_other); },
        [&](std::size_t piece) { add(piece, of_this); });
    of_this.insert(of_this.end(), of_other.begin(), of_other.end());
    return of_this;
  }

 private:
  void add(std::size_t piece, std::vector<Neighbours>& found) const {
    const Wiring& wiring = cluster_.wiring();
    const auto links = std::span(joint_.links).subspan(piece * kLinksTogether);
    for (const LinkId id : links.first(std::min(kLinksTogether, links.size()))) {
      if (redundant_[id]) continue;
      const auto [from, to, wire] = wiring.strand(id);
      if (!is_passed(cluster_.device(to).kind)) continue;
      const LinkId end = wiring.first_link_from(to + 1);
      for (LinkId next = wiring.first_link_from(to); next < end; ++next)
        if (!redundant_[next] && loaded_alike(id, next) && wiring.to(next) != from)
          found.push_back({id, next});
    }
  }

  [[nodiscard]] bool loaded_alike(LinkId a, LinkId b) const {
    return std::ranges::equal(users_.of(a), users_.of(b), {}, what_loads, what_loads);
  }

  const Cluster& cluster_;
  const JointGraph& joint_;
  const LinkUsers& users_;
  const std::vector<bool>& redundant_;
};

}  // namespace

std::vector<LinkId> series_links(const Cluster& cluster, const JointGraph& joint,
                                 const LinkUsers& users, const std::vector<bool>& redundant) {
  SeriesTrees series(cluster.wiring());
  for (const auto& [link, next] : AlikeNeighbours(cluster, joint, users, redundant).found())
    series.join(link, next);
  return std::move(series).roots();
}

}  // namespace trainyard
