#include "sim/graph/link_bundles.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/graph/refinement.hpp"
#include "sim/graph/workload.hpp"

namespace trainyard {

namespace {

enum class Side : std::uint8_t { Leaving, Arriving };  // of a switch, as a link sees it

// What links are known by, and switches without endpoints; others by their own number.
class FabricColours {
 public:
  std::uint32_t of_wire(const Wire& wire) {
    return number({1.0, static_cast<double>(wire.kind), wire.capacity.value(), wire.nominal.value(),
                   wire.latency.value(), static_cast<double>(wire.cables)});
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
};

// The links between switches. A switch is two vertices, where links leave and where they arrive, so
// that an edge has a direction; an edge is a link, its label what the link is known by.
class FabricGraph {
 public:
  explicit FabricGraph(const Cluster& cluster)
      : cluster_(cluster),
        has_endpoints_(cluster.device_count(), false),
        first_vertex_(has_endpoints_.size(), kNone) {
    const Wiring& wiring = cluster.wiring();
    const auto is_switch = [&](DeviceId id) { return is_fabric_switch(wiring.device(id).kind); };
    std::vector<Strand> strands;
    wiring.for_each_outside_patterns([&](LinkId id, const Strand& strand) {
      const bool leaves_switch = is_switch(strand.from);
      if (leaves_switch != is_switch(strand.to)) {
        has_endpoints_[leaves_switch ? strand.from : strand.to] = true;
      } else if (leaves_switch) {
        inner_.push_back(id);
        strands.push_back(strand);
      }
    });
    std::vector<std::uint32_t> label_of_wire;
    for (const Wire& wire : wiring.wires()) label_of_wire.push_back(numbers_.of_wire(wire));
    edges_.reserve(inner_.size());
    edge_of_inner_.reserve(inner_.size());
    for (const Strand& strand : strands) add(strand, label_of_wire[strand.wire]);
  }

  // The lowest link and switch of each class, for those of the class.
  void name(LinkBundles& bundles) const {
    const auto size = static_cast<std::uint32_t>(colours_.size());
    const std::vector<std::uint32_t> classes = refine(LabelledGraph(size, edges_), colours_);
    const Numbered links = number_links(classes);
    for (std::size_t i = 0; i < inner_.size(); ++i)
      bundles.of_link[inner_[i]] = links.lowest[links.of_inner[i]];
    bundles.together = together(links);
    std::vector<DeviceId> lowest_device(size, kNone);
    for (DeviceId device = 0; device < first_vertex_.size(); ++device) {
      if (first_vertex_[device] == kNone) continue;
      DeviceId& first = lowest_device[classes[first_vertex_[device]]];
      if (first == kNone) first = device;
      bundles.of_device[device] = first;
    }
  }

 private:
  // Bundles in the order of their lowest links.
  struct Numbered {
    std::vector<std::uint32_t> of_inner;  // of each inner link its bundle
    std::vector<LinkId> lowest;
  };

  // Links are alike where they are known by the same and join switches alike.
  [[nodiscard]] Numbered number_links(const std::vector<std::uint32_t>& classes) const {
    using Kind = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
    constexpr Kind kNoKind{kNone, kNone, kNone};
    Numbered result;
    result.of_inner.reserve(inner_.size());
    std::map<Kind, std::uint32_t> numbers;
    // Switches of a class come in a row, so that most links into a class are like the last.
    std::vector<std::pair<Kind, std::uint32_t>> last(colours_.size(), {kNoKind, 0});
    for (std::size_t i = 0; i < inner_.size(); ++i) {
      const LabelledEdge& edge = edges_[edge_of_inner_[i]];
      const std::uint32_t to = classes[edge.b - 1];
      const Kind kind{classes[edge.a], to, edge.label};
      auto& [known, number] = last[to];
      if (known != kind) {
        known = kind;
        const auto next = static_cast<std::uint32_t>(result.lowest.size());
        const auto [place, fresh] = numbers.try_emplace(kind, next);
        if (fresh) result.lowest.push_back(inner_[i]);
        number = place->second;
      }
      result.of_inner.push_back(number);
    }
    return result;
  }

  [[nodiscard]] std::vector<LinkId> together(const Numbered& links) const {
    std::vector<std::uint32_t> begin(links.lowest.size() + 1, 0);
    for (const std::uint32_t number : links.of_inner) ++begin[number + 1];
    for (std::size_t number = 0; number < links.lowest.size(); ++number)
      begin[number + 1] = begin[number] + (begin[number + 1] > 1 ? begin[number + 1] : 0);
    std::vector<LinkId> result(begin.back());
    std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
    for (std::size_t i = 0; i < inner_.size(); ++i)
      if (const std::uint32_t number = links.of_inner[i]; begin[number] < begin[number + 1])
        result[next[number]++] = inner_[i];
    return result;
  }

  void add(const Strand& strand, std::uint32_t label) {
    const std::uint32_t from = vertex(strand.from, Side::Leaving);
    const std::uint32_t to = vertex(strand.to, Side::Arriving);
    edge_of_inner_.push_back(static_cast<std::uint32_t>(edges_.size()));
    edges_.push_back({from, to, label});
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
  std::vector<std::uint32_t> edge_of_inner_;
  std::vector<std::uint32_t> colours_;
  std::vector<LabelledEdge> edges_;
  std::vector<std::uint32_t> first_vertex_;  // by device; kNone: joins no two switches
};

}  // namespace

LinkBundles link_bundles(const Cluster& cluster) {
  LinkBundles bundles{.of_link = std::vector<LinkId>(cluster.links().size()),
                      .of_device = std::vector<DeviceId>(cluster.device_count()),
                      .together = {}};
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
