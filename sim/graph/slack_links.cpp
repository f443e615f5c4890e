#include "sim/graph/slack_links.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace trainyard {

namespace {

constexpr double kRounding = 1e-12;  // of sums of fractions such as 1/3
constexpr std::uint32_t kNoTier = std::numeric_limits<std::uint32_t>::max();

// How far above the GPUs a device of the fabric stands.
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

// Whether a link leads up or down between two tiers, and at which switch its cover joins it: the
// lower of its ends, where all that goes up has come in and all that came down goes out.
struct Lift {
  bool up = false;
  std::uint32_t lower_tier = kNoTier;  // kNoTier: not between tiers
  DeviceId lower = 0;
};

Lift lift_of(const Cluster& cluster, const Link& link) {
  const std::uint32_t from = tier(cluster.device(link.from).kind);
  const std::uint32_t to = tier(cluster.device(link.to).kind);
  if (from == kNoTier || to == kNoTier || from == to) return {};
  const bool up = from < to;
  return {up, up ? from : to, up ? link.from : link.to};
}

// What passes between a switch and the tier below it.
struct Below {
  double load = 0.0;   // of the chain at hand
  double bound = 0.0;  // sum of the bounds of the links in use
};

class SlackSearch {
 public:
  SlackSearch(const Cluster& cluster, const JointGraph& joint)
      : cluster_(cluster),
        joint_(joint),
        lifts_(cluster.links().size()),
        slack_(cluster.links().size(), false),
        ratio_(cluster.links().size(), 0.0),
        below_(2 * boost::num_vertices(cluster.graph())) {
    for (const LinkId id : joint.links) {
      lifts_[id] = lift_of(cluster, cluster.link(id));
      bound_below(id, cluster.link(id).capacity.value());
    }
  }

  std::vector<bool> searched() {
    const auto shapes = static_cast<std::uint32_t>(joint_.group_of_shape.size());
    for (std::uint32_t shape = 0; shape < shapes; ++shape) look_at(shape);
    // Tier by tier: the bounds below a switch are final when its own links are decided.
    for (std::uint32_t lower = 1; lower <= 2; ++lower) {
      for (const LinkId id : joint_.links) {
        if (lifts_[id].lower_tier == lower) decide(id);
      }
    }
    return std::move(slack_);
  }

 private:
  // By the switch above the link, traffic upwards and downwards apart.
  Below& under(DeviceId device, bool up) { return below_[2 * device + (up ? 1 : 0)]; }

  void bound_below(LinkId id, double bound) {
    const Lift& lift = lifts_[id];
    if (lift.lower_tier == kNoTier) return;
    const Link& link = cluster_.link(id);
    under(lift.up ? link.to : link.from, lift.up).bound += bound;
  }

  void add_below(const ShapeLoad& load, double sign) {
    const Lift& lift = lifts_[load.link];
    if (lift.lower_tier == kNoTier) return;
    const Link& link = cluster_.link(load.link);
    Below& below = under(lift.up ? link.to : link.from, lift.up);
    below.load = sign > 0.0 ? below.load + joint_.loads[load.load] : 0.0;
  }

  // Raises the ratio of every link that the chains of a shape cross.
  void look_at(std::uint32_t shape) {
    for (const ShapeLoad& load : joint_.shape(shape)) add_below(load, 1.0);
    for (const ShapeLoad& load : joint_.shape(shape)) {
      const Lift& lift = lifts_[load.link];
      if (lift.lower_tier == kNoTier || lift.lower_tier == 0) continue;
      const double below = under(lift.lower, lift.up).load;
      const double ratio =
          below > 0.0 ? joint_.loads[load.load] / below : std::numeric_limits<double>::infinity();
      ratio_[load.link] = std::max(ratio_[load.link], ratio);
    }
    for (const ShapeLoad& load : joint_.shape(shape)) add_below(load, -1.0);
  }

  void decide(LinkId id) {
    const Lift& lift = lifts_[id];
    const double capacity = cluster_.link(id).capacity.value();
    const double bound = ratio_[id] * under(lift.lower, lift.up).bound;
    slack_[id] = bound <= capacity * (1.0 + kRounding);
    if (!slack_[id] || bound >= capacity) return;
    bound_below(id, bound - capacity);
  }

  const Cluster& cluster_;
  const JointGraph& joint_;
  std::vector<Lift> lifts_;    // by link
  std::vector<bool> slack_;    // by link
  std::vector<double> ratio_;  // by link: r of the header
  std::vector<Below> below_;   // by device and direction
};

}  // namespace

std::vector<bool> slack_links(const Cluster& cluster, const JointGraph& joint) {
  return SlackSearch(cluster, joint).searched();
}

}  // namespace trainyard
