#include "sim/graph/link_bundles.hpp"

#include <algorithm>
#include <cstdint>
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
  const auto is_switch = [&](DeviceId id) {
    const DeviceKind kind = cluster.device(id).kind;
    return kind == DeviceKind::LeafSwitch || kind == DeviceKind::SpineSwitch ||
           kind == DeviceKind::CoreSwitch;
  };
  return is_switch(link.from) && is_switch(link.to);
}

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
  std::uint32_t of_switch(DeviceKind kind) {
    return number({0.0, static_cast<double>(kind), 0.0, 0.0, 0.0, 0.0});
  }
  std::uint32_t of_one(DeviceId id) {
    return number({2.0, static_cast<double>(id), 0.0, 0.0, 0.0, 0.0});
  }

 private:
  using Key = std::tuple<double, double, double, double, double, double>;
  std::uint32_t number(const Key& key) {
    return numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }
  std::map<Key, std::uint32_t> numbers_;
  std::optional<std::pair<Key, std::uint32_t>> last_;  // most links are like the one before
};

// Devices and links between switches as vertices, so that an edge has a direction.
class FabricGraph {
 public:
  explicit FabricGraph(const Cluster& cluster)
      : cluster_(cluster),
        has_endpoints_(boost::num_vertices(cluster.graph()), false),
        vertex_of_device_(has_endpoints_.size(), kNone) {
    for (const Link& link : cluster.links()) {
      if (between_switches(cluster, link)) {
        inner_.push_back(link.id);
      } else {
        has_endpoints_[link.from] = has_endpoints_[link.to] = true;
      }
    }
    for (const LinkId id : inner_) add(cluster.link(id));
  }

  // The lowest link and switch of each class, for those of the class.
  void name(LinkBundles& bundles) const {
    const auto size = static_cast<std::uint32_t>(colours_.size());
    const std::vector<std::uint32_t> classes = refine(LabelledGraph(size, edges_), colours_);
    std::vector<LinkId> lowest(size, kNone);
    for (std::size_t i = 0; i < inner_.size(); ++i) {
      LinkId& first = lowest[classes[vertex_of_link_[i]]];
      first = std::min(first, inner_[i]);
      bundles.of_link[inner_[i]] = first;
    }
    std::vector<DeviceId> lowest_device(size, kNone);
    for (DeviceId device = 0; device < vertex_of_device_.size(); ++device) {
      if (vertex_of_device_[device] == kNone) continue;
      DeviceId& first = lowest_device[classes[vertex_of_device_[device]]];
      if (first == kNone) first = device;
      bundles.of_device[device] = first;
    }
  }

 private:
  void add(const Link& link) {
    const std::uint32_t from = vertex(link.from);
    const std::uint32_t to = vertex(link.to);
    const auto self = static_cast<std::uint32_t>(colours_.size());
    colours_.push_back(numbers_.of_link(link));
    vertex_of_link_.push_back(self);
    edges_.push_back({from, self, 0});
    edges_.push_back({self, to, 1});
  }

  std::uint32_t vertex(DeviceId id) {
    std::uint32_t& known = vertex_of_device_[id];
    if (known != kNone) return known;
    known = static_cast<std::uint32_t>(colours_.size());
    colours_.push_back(has_endpoints_[id] ? numbers_.of_one(id)
                                          : numbers_.of_switch(cluster_.device(id).kind));
    return known;
  }

  const Cluster& cluster_;
  std::vector<bool> has_endpoints_;
  FabricColours numbers_;
  std::vector<LinkId> inner_;
  std::vector<std::uint32_t> vertex_of_link_;
  std::vector<std::uint32_t> colours_;
  std::vector<LabelledEdge> edges_;
  std::vector<std::uint32_t> vertex_of_device_;  // kNone: joins no two switches
};

}  // namespace

LinkBundles link_bundles(const Cluster& cluster) {
  LinkBundles bundles{.of_link = std::vector<LinkId>(cluster.links().size()),
                      .of_device = std::vector<DeviceId>(boost::num_vertices(cluster.graph()))};
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
