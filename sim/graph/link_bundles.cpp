#include "sim/graph/link_bundles.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/graph/refinement.hpp"
#include "sim/graph/workload.hpp"

namespace trainyard {

namespace {

bool between_switches(const Cluster& cluster, const Link& link) {
  return is_fabric_switch(cluster.device(link.from).kind) &&
         is_fabric_switch(cluster.device(link.to).kind);
}

enum class Side : std::uint8_t { Leaving, Arriving };  // of a switch, as a link sees it

// What links are known by, and switches without endpoints; others by their own number.
class FabricColours {
 public:
  std::uint32_t of_link(const Link& link) {
    const Key key{1.0,
                  static_cast<double>(link.kind),
                  link.capacity.value(),
                  link.nominal.value(),
                  link.latency.value(),
                  static_cast<double>(link.cables)};
    if (!last_ || last_->first != key) last_.emplace(key, number(key));
    return last_->second;
  }
  std::uint32_t of_switch(DeviceKind kind, Side side) {
    return number({0.0, static_cast<double>(kind), static_cast<double>(side), 0.0, 0.0, 0.0});
  }
  std::uint32_t of_one(DeviceId id, Side side) {
    return number({2.0, static_cast<double>(id), static_cast<double>(side), 0.0, 0.0, 0.0});
  }

 private:
  using Key = std::tuple<double, double, double, double, double, double>;
  std::uint32_t number(const Key& key) {
    return numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }
  std::map<Key, std::uint32_t> numbers_;
  std::optional<std::pair<Key, std::uint32_t>> last_;  // most links are like the one before
};

// The links between switches. A switch is two vertices, where links leave and where they arrive, so
// that an edge has a direction; an edge is a link, its label what the link is known by.
class FabricGraph {
 public:
  explicit FabricGraph(const Cluster& cluster)
      : cluster_(cluster),
        has_endpoints_(cluster.device_count(), false),
        first_vertex_(has_endpoints_.size(), kNone) {
    for (const Link link : cluster.links()) {
      if (between_switches(cluster, link)) {
        inner_.push_back(link.id);
      } else {
        has_endpoints_[link.from] = has_endpoints_[link.to] = true;
      }
    }
    for (const LinkId id : inner_) add(cluster.link(id));
  }

  // The lowest link and switch of each class, for those of the class. Links are alike where they
  // are known by the same and join switches alike.
  void name(LinkBundles& bundles) const {
    const auto size = static_cast<std::uint32_t>(colours_.size());
    const std::vector<std::uint32_t> classes = refine(LabelledGraph(size, edges_), colours_);
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, LinkId> lowest;
    auto last = lowest.end();  // links of a switch come in a row
    for (std::size_t i = 0; i < inner_.size(); ++i) {
      const Link& link = cluster_.link(inner_[i]);
      const std::tuple kind{classes[first_vertex_[link.from]], classes[first_vertex_[link.to]],
                            label_of_inner_[i]};
      if (last == lowest.end() || last->first != kind)
        last = lowest.try_emplace(kind, inner_[i]).first;
      bundles.of_link[inner_[i]] = last->second;
    }
    std::vector<DeviceId> lowest_device(size, kNone);
    for (DeviceId device = 0; device < first_vertex_.size(); ++device) {
      if (first_vertex_[device] == kNone) continue;
      DeviceId& first = lowest_device[classes[first_vertex_[device]]];
      if (first == kNone) first = device;
      bundles.of_device[device] = first;
    }
  }

 private:
  void add(const Link& link) {
    const std::uint32_t from = vertex(link.from, Side::Leaving);
    const std::uint32_t to = vertex(link.to, Side::Arriving);
    label_of_inner_.push_back(numbers_.of_link(link));
    edges_.push_back({from, to, label_of_inner_.back()});
  }

  std::uint32_t vertex(DeviceId id, Side side) {
    std::uint32_t& first = first_vertex_[id];
    if (first == kNone) {
      first = static_cast<std::uint32_t>(colours_.size());
      for (const Side each : {Side::Leaving, Side::Arriving})
        colours_.push_back(has_endpoints_[id] ? numbers_.of_one(id, each)
                                              : numbers_.of_switch(cluster_.device(id).kind, each));
      edges_.push_back({first, first + 1, kSameSwitch});
    }
    return first + static_cast<std::uint32_t>(side);
  }

  static constexpr std::uint32_t kSameSwitch = std::numeric_limits<std::uint32_t>::max();

  const Cluster& cluster_;
  std::vector<bool> has_endpoints_;
  FabricColours numbers_;
  std::vector<LinkId> inner_;
  std::vector<std::uint32_t> label_of_inner_;
  std::vector<std::uint32_t> colours_;
  std::vector<LabelledEdge> edges_;
  std::vector<std::uint32_t> first_vertex_;  // by device; kNone: joins no two switches
};

}  // namespace

LinkBundles link_bundles(const Cluster& cluster) {
  LinkBundles bundles{.of_link = std::vector<LinkId>(cluster.links().size()),
                      .of_device = std::vector<DeviceId>(cluster.device_count())};
  std::iota(bundles.of_link.begin(), bundles.of_link.end(), 0U);
  std::iota(bundles.of_device.begin(), bundles.of_device.end(), 0U);
  if (cluster.facts().routing.kind == Routing::Kind::Ideal) FabricGraph(cluster).name(bundles);
  return bundles;
}

std::vector<LinkLoad> every_link(const Cluster& cluster, std::span<const LinkLoad> loads) {
  std::vector<LinkLoad> each;
  for (const LinkLoad& load : loads) {
    if (load.alike == 1) each.push_back(load);
    if (load.alike > 1)
      for (const LinkId link : cluster.bundle(load.link)) each.push_back({link, load.bytes});
  }
  std::ranges::stable_sort(each, {}, &LinkLoad::link);
  std::vector<LinkLoad> result;
  for (const LinkLoad& load : each) {
    if (result.empty() || result.back().link != load.link) {
      result.push_back(load);
    } else {
      result.back().bytes += load.bytes;
    }
  }
  return result;
}

}  // namespace trainyard
