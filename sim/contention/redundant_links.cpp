#include "sim/contention/redundant_links.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "sim/base/concurrency.hpp"

namespace trainyard {

namespace {

constexpr double kRounding = 1e-12;  // relative error of sums of fractions such as 1/3
constexpr std::uint32_t kNoTier = std::numeric_limits<std::uint32_t>::max();

// How far above the GPUs a device of the fabric is.
std::uint32_t tier(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::Nic:
      return 0;
    case DeviceKind::LeafSwitch:
      return 1;
    case DeviceKind::SpineSwitch:
      return 2;
    case DeviceKind::CoreSwitch:
      return 3;
    default:
      return kNoTier;
  }
}

// The direction of a link between two tiers, and its lower endpoint. All flows that go up the link
// have entered that switch from below, and all that come down leave it downwards.
struct Lift {
  bool up = false;
  std::uint32_t lower_tier = kNoTier;  // kNoTier: not between tiers
  DeviceId lower = 0;
};

Lift lift_of(const Cluster& cluster, const LinkEnds& link) {
  const std::uint32_t from = tier(cluster.device(link.from).kind);
  const std::uint32_t to = tier(cluster.device(link.to).kind);
  if (from == kNoTier || to == kNoTier || from == to) return {};
  const bool up = from < to;
  return {up, up ? from : to, up ? link.from : link.to};
}

// One pass over all shapes computes r of the header for every link between tiers. Its cost is
// proportional to the loads of all shapes.
class TierSearch {
 public:
  TierSearch(const Cluster& cluster, const JointGraph& joint)
      : cluster_(cluster),
        joint_(joint),
        lifts_(cluster.links().size(), false),
        places_(lifts_.size()),
        first_below_(cluster.device_count(), kNone) {
    // Both lists of links ascend: one pass finds the links in use among those outside of nodes.
    auto used = joint.links.begin();
    cluster.wiring().for_each_outside_patterns([&](LinkId id, const LinkEnds& link) {
      used = std::find_if(used, joint.links.end(), [&](LinkId other) { return other >= id; });
      if (used != joint.links.end() && *used == id) add(id, link);
    });
    load_below_.assign(tiers_.switches, 0.0);
  }

  TierTraffic found() {
    const auto shapes = static_cast<std::uint32_t>(joint_.group_of_shape.size());
    for (std::uint32_t shape = 0; shape < shapes; ++shape) look_at(shape);
    return std::move(tiers_);
  }

 private:
  // The traffic that a link adds to, below its upper switch, and its number among the links that
  // may be non-blocking.
  struct Place {
    std::uint32_t over = kNone;  // kNone: not between tiers
    std::uint32_t candidate = kNone;
  };
  struct Use {
    std::uint32_t of = 0;  // index in load_below_ or among the candidates
    double load = 0.0;
  };

  void add(LinkId id, const LinkEnds& link) {
    const Lift lift = lift_of(cluster_, link);
    if (lift.lower_tier == kNoTier) return;
    Place& place = places_[id];
    lifts_[id] = true;
    place.over = under(lift.up ? link.to : link.from, lift.up);
    tiers_.links.push_back({.link = id, .over = place.over});
    if (lift.lower_tier == 0) return;
    place.candidate = static_cast<std::uint32_t>(tiers_.candidates.size());
    tiers_.candidates.push_back({.link = id,
                                 .tier = lift.lower_tier,
                                 .below = under(lift.lower, lift.up),
                                 .over = place.over});
  }

  // Returns the index of the traffic below the switch. The two directions have an entry each.
  std::uint32_t under(DeviceId device, bool up) {
    std::uint32_t& first = first_below_[device];
    if (first == kNone) {
      first = tiers_.switches;
      tiers_.switches += 2;
    }
    return first + (up ? 1 : 0);
  }

  // Raises the ratio of every link that the flows of a shape cross. The loads of the shape are
  // first added up below each switch. The ratio of a candidate is its own load over the sum below
  // its lower end.
  void look_at(std::uint32_t shape) {
    added_.clear();
    crossed_.clear();
    for (const auto& [link, load] : joint_.shape(shape)) {
      if (!lifts_[link]) continue;
      const Place place = places_[link];
      added_.push_back({place.over, joint_.loads[load]});
      if (place.candidate != kNone) crossed_.push_back({place.candidate, joint_.loads[load]});
    }
    if (crossed_.empty()) return;
    for (const Use& use : added_) load_below_[use.of] += use.load;
    for (const Use& use : crossed_) {
      TierTraffic::Candidate& candidate = tiers_.candidates[use.of];
      const double below = load_below_[candidate.below];
      const double ratio = below > 0.0 ? use.load / below : std::numeric_limits<double>::infinity();
      candidate.ratio = std::max(candidate.ratio, ratio);
    }
    for (const Use& use : added_) load_below_[use.of] = 0.0;
  }

  const Cluster& cluster_;
  const JointGraph& joint_;
  std::vector<bool> lifts_;                 // by link: between tiers
  std::vector<Place> places_;               // by link, of these
  std::vector<std::uint32_t> first_below_;  // by device; kNone: no link to a lower tier
  std::vector<double> load_below_;          // of the present shape
  TierTraffic tiers_;
  std::vector<Use> added_;  // loads of the present shape
  std::vector<Use> crossed_;
};

}  // namespace

TierTraffic tier_traffic(const Cluster& cluster, const JointGraph& joint) {
  return TierSearch(cluster, joint).found();
}

std::size_t footprint(const TierTraffic& tiers) {
  return tiers.links.size() * sizeof(TierTraffic::TierLink) +
         tiers.candidates.size() * sizeof(TierTraffic::Candidate);
}

// Links are decided tier by tier: the bounds below a switch are final when its own links are
// decided.
std::vector<bool> non_blocking_links(const Cluster& cluster, const TierTraffic& tiers) {
  const Wiring& wiring = cluster.wiring();
  std::vector<double> bound(tiers.switches, 0.0);  // sum of the bounds of the links in use
  for (const TierTraffic::TierLink& link : tiers.links)
    bound[link.over] += wiring.wire(link.link).capacity.value();
  std::vector<bool> found(wiring.link_count(), false);
  // The lower end of a candidate is a leaf or a spine. Ports of NICs are no candidates; their
  // capacities bound what is below a leaf.
  for (std::uint32_t lower = 1; lower <= 2; ++lower) {
    for (const TierTraffic::Candidate& candidate : tiers.candidates) {
      if (candidate.tier != lower) continue;
      const double capacity = wiring.wire(candidate.link).capacity.value();
      const double own = candidate.ratio * bound[candidate.below];
      // False where no flow is below.
      if (!(own <= capacity * (1.0 + kRounding))) continue;
      found[candidate.link] = true;
      // A non-blocking link passes on its own bound.
      if (own < capacity) bound[candidate.over] += own - capacity;
    }
  }
  return found;
}

namespace {

// A device of this kind passes traffic on; no route begins or ends there.
bool is_passed(DeviceKind kind) {
  return kind == DeviceKind::PcieSwitch || kind == DeviceKind::Nic || kind == DeviceKind::Cpu;
}

// Series of links as trees (union-find). The root of a tree implies the others: it has the least
// capacity. Ties are broken by the properties that colour refinement compares, so that in symmetric
// placements the choice is the same.
class SeriesTrees {
 public:
  explicit SeriesTrees(const Wiring& wiring) : wiring_(wiring), root_(wiring.link_count()) {
    std::iota(root_.begin(), root_.end(), LinkId{});
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
    // Path halving.
    while (root_[link] != link) link = root_[link] = root_[root_[link]];
    return link;
  }

  [[nodiscard]] bool implies(LinkId a, LinkId b) const {
    const Wire& x = wiring_.wire(a);
    const Wire& y = wiring_.wire(b);
    // A total order, so the root of a series does not depend on the order of joins.
    return std::tie(x.capacity, x.kind, x.nominal, a) < std::tie(y.capacity, y.kind, y.nominal, b);
  }

  const Wiring& wiring_;
  std::vector<LinkId> root_;  // by link: another link of its series, or itself
};

// Links per piece of work.
constexpr std::size_t kLinksAtOnce = 4096;

// Finds the pairs of links in series that are loaded equally.
class NeighbourSearch {
 public:
  NeighbourSearch(const Cluster& cluster, const JointGraph& joint, const LinkUsers& users)
      : cluster_(cluster), joint_(joint), users_(users) {}

  [[nodiscard]] SeriesNeighbours found() const {
    SeriesNeighbours of_this;
    SeriesNeighbours of_other;
    parallel_for(
        is_large(cluster_), (joint_.links.size() + kLinksAtOnce - 1) / kLinksAtOnce,
        [&](std::size_t piece) { add(piece, of_other); },
        [&](std::size_t piece) { add(piece, of_this); });
    of_this.insert(of_this.end(), of_other.begin(), of_other.end());
    return of_this;
  }

 private:
  void add(std::size_t piece, SeriesNeighbours& found) const {
    const Wiring& wiring = cluster_.wiring();
    const auto links = std::span(joint_.links).subspan(piece * kLinksAtOnce);
    for (const LinkId id : links.first(std::min(kLinksAtOnce, links.size()))) {
      const auto [from, to, wire] = wiring.strand(id);
      if (!is_passed(cluster_.device(to).kind)) continue;
      const LinkId end = wiring.first_link_from(to + 1);
      for (LinkId next = wiring.first_link_from(to); next < end; ++next)
        // A link back to the device that `id` comes from does not continue it.
        if (loaded_alike(id, next) && wiring.to(next) != from) found.push_back({id, next});
    }
  }

  [[nodiscard]] bool loaded_alike(LinkId a, LinkId b) const {
    return std::ranges::equal(users_.of(a), users_.of(b));
  }

  const Cluster& cluster_;
  const JointGraph& joint_;
  const LinkUsers& users_;
};

}  // namespace

SeriesNeighbours series_neighbours(const Cluster& cluster, const JointGraph& joint,
                                   const LinkUsers& users) {
  return NeighbourSearch(cluster, joint, users).found();
}

std::size_t footprint(const SeriesNeighbours& neighbours) {
  return neighbours.size() * sizeof(SeriesNeighbour);
}

std::vector<LinkId> implied_links(const Cluster& cluster, const SeriesNeighbours& neighbours,
                                  const std::vector<bool>& redundant) {
  SeriesTrees series(cluster.wiring());
  for (const auto& [link, next] : neighbours)
    if (!redundant[link] && !redundant[next]) series.join(link, next);
  return std::move(series).roots();
}

}  // namespace trainyard
