#include "sim/cluster/link_bundles.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/base/mixed.hpp"
#include "sim/base/refinement.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

namespace {

enum class Side : std::uint8_t { Leaving, Arriving };  // of a switch, as a link sees it

// What a switch is joined to by links from and to switches that have endpoints, which are each
// known by themselves: sums of hashes of (link, switch). Equal multisets have equal sums.
struct Sight {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  void add(std::uint32_t label, DeviceId other) {
    const std::uint64_t both = std::uint64_t{label} << 32U | other;
    low += mixed(both);
    high += mixed(both ^ 0xd1b54a32d192ed03ULL);
  }
};

// What links are known by, and switches without endpoints; others by their own number.
class FabricColours {
 public:
  std::uint32_t of_wire(const Wire& wire) {
    return number({1, static_cast<std::uint64_t>(wire.kind), bits(wire.capacity.value()),
                   bits(wire.nominal.value()), bits(wire.latency.value()), wire.cables});
  }
  std::uint32_t of_switch(DeviceKind kind, Side side, const Sight& sight) {
    return number({0, static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(side), sight.low,
                   sight.high, 0});
  }
  std::uint32_t of_one(DeviceId id, Side side) {
    return number({2, id, static_cast<std::uint64_t>(side), 0, 0, 0});
  }

 private:
  using Key = std::array<std::uint64_t, 6>;
  static std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }
  std::uint32_t number(const Key& key) {
    return numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }
  std::map<Key, std::uint32_t> numbers_;
};

// The links between switches. A switch is two vertices, where links leave and where they arrive, so
// that an edge has a direction; an edge is a link, its label what the link is known by. Links of a
// switch that has endpoints are no edges: its like is itself alone, so that what the other end sees
// of them never changes.
class FabricGraph {
 public:
  explicit FabricGraph(const Cluster& cluster)
      : wiring_(cluster.wiring()),
        has_endpoints_(cluster.device_count(), false),
        first_vertex_(has_endpoints_.size(), kNone) {
    const auto is_switch = [&](DeviceId id) { return is_fabric_switch(wiring_.device(id).kind); };
    wiring_.for_each_outside_patterns([&](LinkId id, const Strand& strand) {
      const bool leaves_switch = is_switch(strand.from);
      if (leaves_switch != is_switch(strand.to)) {
        has_endpoints_[leaves_switch ? strand.from : strand.to] = true;
      } else if (leaves_switch) {
        inner_.push_back(id);
      }
    });
    for (const Wire& wire : wiring_.wires()) label_of_wire_.push_back(numbers_.of_wire(wire));
    for (const LinkId id : inner_) add(wiring_.strand(id));
  }

  // The lowest link and switch of each class, for those of the class.
  void name(LinkBundles& bundles) {
    const auto size = static_cast<std::uint32_t>(sight_.size());
    const std::vector<std::uint32_t> classes = refine(LabelledGraph(size, edges_), colours());
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
    std::vector<std::pair<Kind, std::uint32_t>> last(classes.size(), {kNoKind, 0});
    for (const LinkId id : inner_) {
      const Strand strand = wiring_.strand(id);
      const std::uint32_t to = classes[first_vertex_[strand.to]];
      const Kind kind{classes[first_vertex_[strand.from]], to, label_of_wire_[strand.wire]};
      auto& [known, number] = last[to];
      if (known != kind) {
        known = kind;
        const auto next = static_cast<std::uint32_t>(result.lowest.size());
        const auto [place, fresh] = numbers.try_emplace(kind, next);
        if (fresh) result.lowest.push_back(id);
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

  void add(const Strand& strand) {
    const std::uint32_t from = vertex(strand.from, Side::Leaving);
    const std::uint32_t to = vertex(strand.to, Side::Arriving);
    const std::uint32_t label = label_of_wire_[strand.wire];
    if (has_endpoints_[strand.from]) {
      sight_[to].add(label, strand.from);
    } else if (has_endpoints_[strand.to]) {
      sight_[from].add(label, strand.to);
    } else {
      edges_.push_back({from, to, label});
    }
  }

  std::uint32_t vertex(DeviceId id, Side side) {
    std::uint32_t& first = first_vertex_[id];
    if (first == kNone) {
      first = static_cast<std::uint32_t>(sight_.size());
      sight_.resize(sight_.size() + 2);
      edges_.push_back({first, first + 1, kSameSwitch});
    }
    return first + static_cast<std::uint32_t>(side);
  }

  [[nodiscard]] std::vector<std::uint32_t> colours() {
    std::vector<std::uint32_t> colours(sight_.size());
    for (DeviceId id = 0; id < first_vertex_.size(); ++id) {
      if (first_vertex_[id] == kNone) continue;
      for (const Side side : {Side::Leaving, Side::Arriving}) {
        const std::uint32_t vertex = first_vertex_[id] + static_cast<std::uint32_t>(side);
        colours[vertex] = has_endpoints_[id]
                              ? numbers_.of_one(id, side)
                              : numbers_.of_switch(wiring_.device(id).kind, side, sight_[vertex]);
      }
    }
    return colours;
  }

  static constexpr std::uint32_t kSameSwitch = std::numeric_limits<std::uint32_t>::max();

  const Wiring& wiring_;
  std::vector<bool> has_endpoints_;
  FabricColours numbers_;
  std::vector<std::uint32_t> label_of_wire_;
  std::vector<LinkId> inner_;
  std::vector<Sight> sight_;  // by vertex
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
