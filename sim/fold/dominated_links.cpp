#include "sim/fold/dominated_links.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "sim/base/beside.hpp"
#include "sim/fold/link_rows.hpp"

namespace trainyard {

namespace {

// Where a way goes on and none begins or ends.
bool is_passed(DeviceKind kind) {
  return kind == DeviceKind::PcieSwitch || kind == DeviceKind::Nic || kind == DeviceKind::Cpu;
}

std::pair<std::uint32_t, std::uint32_t> what_loads(const LinkCrossings::Crossing& crossing) {
  return {crossing.shape, crossing.load};
}

// Two links of which one follows the other.
struct Neighbours {
  LinkId link = 0;
  LinkId next = 0;
};

// Links in a row that are looked at together.
constexpr std::size_t kLinksTogether = 4096;

// Of rows that are loaded alike and not one row yet.
class AlikeNeighbours {
 public:
  AlikeNeighbours(const Cluster& cluster, const JointGraph& joint, const LinkCrossings& crossings,
                  const std::vector<bool>& slack)
      : cluster_(cluster), joint_(joint), crossings_(crossings), slack_(slack) {}

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
      if (slack_[id]) continue;
      const auto [from, to, wire] = wiring.strand(id);
      if (!is_passed(cluster_.device(to).kind)) continue;
      const LinkId end = wiring.first_link_from(to + 1);
      for (LinkId next = wiring.first_link_from(to); next < end; ++next)
        if (!slack_[next] && loaded_alike(id, next) && wiring.to(next) != from)
          found.push_back({id, next});
    }
  }

  [[nodiscard]] bool loaded_alike(LinkId a, LinkId b) const {
    const LinkId row = joint_.row_of[a];
    const LinkId other = joint_.row_of[b];
    return row != other &&
           std::ranges::equal(crossings_.of(row), crossings_.of(other), {}, what_loads, what_loads);
  }

  const Cluster& cluster_;
  const JointGraph& joint_;
  const LinkCrossings& crossings_;
  const std::vector<bool>& slack_;
};

}  // namespace

std::vector<LinkId> dominating_links(const Cluster& cluster, const JointGraph& joint,
                                     const LinkCrossings& crossings,
                                     const std::vector<bool>& slack) {
  LinkRows rows(cluster, joint.row_of);
  for (const auto& [link, next] : AlikeNeighbours(cluster, joint, crossings, slack).found())
    rows.join(link, next);
  return std::move(rows).strongest();
}

}  // namespace trainyard
