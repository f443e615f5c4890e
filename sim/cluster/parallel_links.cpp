#include "sim/cluster/parallel_links.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "sim/base/mixed.hpp"
#include "sim/base/refinement.hpp"
#include "sim/workload/workload.hpp"  // IWYU pragma: keep (kNone)

namespace trainyard {

namespace {

// The side of a switch that sends on its links (Leaving), or receives on them (Arriving).
enum class Side : std::uint8_t { Leaving, Arriving };

// A hash of the links that join a switch to switches with endpoints. Each switch with endpoints is
// a separate class, so the hash is the sum of hashes of (link label, switch). Equal multisets
// have equal sums; the two sums give 128 bits.
struct NeighbourHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  void add(const NeighbourHash& more) {
    low += more.low;
    high += more.high;
  }
};

NeighbourHash neighbour_hash(std::uint32_t label, DeviceId other) {
  const std::uint64_t both = std::uint64_t{label} << 32U | other;
  return {mixed(both), mixed(both ^ 0xd1b54a32d192ed03ULL)};
}

// Numbers the initial colours of links and switches. Equal wires have one colour. Switches without
// endpoints have one colour if their kind, side and neighbour hash are equal. A switch with
// endpoints has a separate colour.
class FabricColours {
 public:
  std::uint32_t of_wire(const Wire& wire) {
    return number({1, static_cast<std::uint64_t>(wire.kind), bits(wire.capacity.value()),
                   bits(wire.nominal.value()), bits(wire.latency.value()), wire.cables});
  }
  // Most switches have the key of the previous one.
  std::uint32_t of_switch(DeviceKind kind, Side side, const NeighbourHash& sight) {
    const Key key{0,
                  static_cast<std::uint64_t>(kind),
                  static_cast<std::uint64_t>(side),
                  sight.low,
                  sight.high,
                  0};
    auto& [last, colour] = last_.at(static_cast<std::size_t>(side));
    if (last != key) {
      last = key;
      colour = number(key);
    }
    return colour;
  }
  std::uint32_t of_one() { return next_++; }

 private:
  using Key = std::array<std::uint64_t, 6>;
  static std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }
  std::uint32_t number(const Key& key) {
    const auto [known, fresh] = numbers_.try_emplace(key, next_);
    if (fresh) ++next_;
    return known->second;
  }
  std::map<Key, std::uint32_t> numbers_;
  std::uint32_t next_ = 0;
  std::array<std::pair<Key, std::uint32_t>, 2> last_ = {};  // by side
};

// The graph of links between switches, for colour refinement. A switch is two vertices, one for
// outgoing and one for incoming links, so that undirected edges keep the direction of links. An
// edge of kSameSwitch joins the two. Every other edge is a link; its label is the colour of its
// wire.
//
// Links to and from a switch with endpoints are not edges. Such a switch is alone in its class from
// the start, so refinement learns nothing new about it. A hash of these links in the initial colour
// of the other switch has the same effect, and the graph is much smaller.
class FabricGraph {
 public:
  explicit FabricGraph(const Wiring& wiring)
      : wiring_(wiring),
        begin_(wiring.runs_end()),
        has_endpoints_(wiring.device_count() - begin_, false),
        first_vertex_(has_endpoints_.size(), kNone) {
    wiring_.for_each_range([&](const StridedLinks& range) {
      const bool leaves_switch = is_fabric_switch(range.from_kind);
      if (leaves_switch != is_fabric_switch(range.to_kind)) {
        mark(leaves_switch ? range.from : range.to);
      } else if (leaves_switch) {
        inner_.push_back(range);
      }
    });
    for (const Wire& wire : wiring_.wires()) label_of_wire_.push_back(numbers_.of_wire(wire));
    std::size_t edges = has_endpoints_.size();
    for (const auto& [links, from, to, from_kind, to_kind, wire] : inner_)
      if (!has_endpoints_[from.first - begin_] && !has_endpoints_[to.first - begin_])
        edges += to.count;
    edges_.reserve(edges);  // usually exact
    for (const StridedLinks& range : inner_) add(range);
  }

  [[nodiscard]] ParallelLinks parallel_links() {
    const auto size = static_cast<std::uint32_t>(neighbour_hashes_.size());
    const std::vector<std::uint32_t> classes = refine(LabelledGraph(size, edges_), colours());
    for (const std::uint32_t vertex : first_vertex_)
      class_.push_back(vertex == kNone ? kNone : classes[vertex]);
    last_.resize(size);
    ParallelLinks::Parts parts{.first_link = wiring_.first_link_from(begin_),
                               .first_device = begin_,
                               .of_device = lowest_equivalents(size)};
    for (const StridedLinks& range : inner_) name(range, parts.of_link);
    close(parts.of_link, LinkId{wiring_.link_count()});
    collect(parts);
    return ParallelLinks(std::move(parts));
  }

 private:
  void mark(const StridedRange& switches) {
    const std::uint32_t different = switches.step == 0 ? 1 : switches.count;
    for (std::uint32_t i = 0; i < different; ++i) has_endpoints_[switches[i] - begin_] = true;
  }

  void add(const StridedLinks& range) {
    const DeviceId from{range.from.first};
    const std::uint32_t label = label_of_wire_[range.wire];
    const std::uint32_t leaving = vertex(from, Side::Leaving);
    // Links of a switch with endpoints are no edges: they enter the hash of the switch at the other
    // end.
    if (has_endpoints_[from - begin_]) {
      const NeighbourHash seen = neighbour_hash(label, from);
      for (std::uint32_t i = 0; i < range.to.count; ++i)
        neighbour_hashes_[vertex(DeviceId{range.to[i]}, Side::Arriving)].add(seen);
      return;
    }
    const Ends& ends = ends_of(range);
    neighbour_hashes_[leaving].add(ends.sight);
    if (!ends.some_without_endpoints) return;
    for (std::uint32_t i = 0; i < range.to.count; ++i)
      if (!has_endpoints_[range.to[i] - begin_])
        edges_.push_back({leaving, vertex(DeviceId{range.to[i]}, Side::Arriving), label});
  }

  // The far ends of a series of links: the hash of those that have endpoints, and whether there are
  // others.
  struct Ends {
    std::uint32_t label = 0;
    StridedRange to = {.count = 0};
    NeighbourHash sight = {};
    bool some_without_endpoints = false;
  };
  // Caches the ends by the position of the series among those of its switch, because a series
  // mostly equals the one at that position of the previous switch.
  const Ends& ends_of(const StridedLinks& range) {
    ranges_before_ = range.from.first == switch_before_ ? ranges_before_ + 1 : 0;
    switch_before_ = DeviceId{range.from.first};
    if (ranges_before_ == ends_.size()) ends_.emplace_back();
    Ends& ends = ends_[ranges_before_];
    const std::uint32_t label = label_of_wire_[range.wire];
    if (ends.label == label && ends.to == range.to) return ends;
    ends = {.label = label, .to = range.to};
    NeighbourHash sight;
    for (std::uint32_t i = 0; i < range.to.count; ++i) {
      vertex(DeviceId{range.to[i]}, Side::Arriving);
      if (has_endpoints_[range.to[i] - begin_]) {
        sight.add(neighbour_hash(label, DeviceId{range.to[i]}));
      } else {
        ends.some_without_endpoints = true;
      }
    }
    ends.sight = sight;
    return ends;
  }

  // Returns the vertex of a switch; creates its two vertices on first use.
  std::uint32_t vertex(DeviceId id, Side side) {
    std::uint32_t& first = first_vertex_[id - begin_];
    if (first == kNone) first = new_vertex();
    return first + static_cast<std::uint32_t>(side);
  }
  std::uint32_t new_vertex() {
    const auto first = static_cast<std::uint32_t>(neighbour_hashes_.size());
    neighbour_hashes_.resize(neighbour_hashes_.size() + 2);
    edges_.push_back({first, first + 1, kSameSwitch});
    return first;
  }

  [[nodiscard]] std::vector<std::uint32_t> colours() {
    std::vector<std::uint32_t> colours(neighbour_hashes_.size());
    for (std::uint32_t id = 0; id < first_vertex_.size(); ++id) {
      if (first_vertex_[id] == kNone) continue;
      const DeviceKind kind = wiring_.device(begin_ + id).kind;
      for (const Side side : {Side::Leaving, Side::Arriving}) {
        const std::uint32_t vertex = first_vertex_[id] + static_cast<std::uint32_t>(side);
        colours[vertex] = has_endpoints_[id]
                              ? numbers_.of_one()
                              : numbers_.of_switch(kind, side, neighbour_hashes_[vertex]);
      }
    }
    return colours;
  }

  // Assigns the links of a series to sets. Two links are in one set if their wires are equal and
  // they join the same two classes. Records the lowest link of each set and its members.
  void name(const StridedLinks& range, StridedList<NoTag>& of_link) {
    const auto class_of = [&](DeviceId id) { return class_[id - begin_]; };
    const std::uint32_t from = class_of(DeviceId{range.from.first});
    close(of_link, LinkId{range.links.first});
    StridedRange lowest{.count = 0};
    for (std::uint32_t i = 0; i < range.to.count;) {
      const std::uint32_t to = class_of(DeviceId{range.to[i]});
      // Consecutive links into one class are added together.
      std::uint32_t end = i + 1;
      while (end < range.to.count && class_of(DeviceId{range.to[end]}) == to) ++end;
      const StridedRange links{range.links[i], 1, end - i};
      const std::uint32_t number =
          number_of({from, to, label_of_wire_[range.wire]}, LinkId{links.first});
      members_.append(number, links, {});
      const StridedRange next{lowest_[number], 0, links.count};
      if (lowest.count == 0) {
        lowest = next;
      } else if (!lowest.extend(next)) {
        of_link.append(lowest, {});
        lowest = next;
      }
      i = end;
    }
    of_link.append(lowest, {});
  }

  using Kind = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
  // Switches of a class have consecutive numbers, so most links into a class are in the same set as
  // the previous one. `last_` saves the lookup.
  [[nodiscard]] std::uint32_t number_of(const Kind& kind, LinkId link) {
    Last& last = last_[std::get<1>(kind)];
    if (last.kind == kind) return last.number;
    const auto next = static_cast<std::uint32_t>(lowest_.size());
    const auto [known, fresh] = set_numbers_.try_emplace(kind, next);
    if (fresh) lowest_.push_back(link);
    last = {kind, known->second};
    return last.number;
  }

  // Marks the links before `end` that have no entry yet as single.
  void close(StridedList<NoTag>& of_link, LinkId end) const {
    const LinkId next = wiring_.first_link_from(begin_) + of_link.size();
    if (next < end) of_link.append({next, 1, end - next}, {});
  }

  void collect(ParallelLinks::Parts& parts) const {
    for (std::uint32_t number = 0; number < lowest_.size(); ++number) {
      ParallelLinks::ParallelSet set{.lowest = lowest_[number],
                                     .begin = static_cast<std::uint32_t>(parts.range.size())};
      members_.for_each(number, [&](const StridedRange& links, NoTag) {
        parts.range.push_back(links);
        set.links += links.count;
      });
      set.end = static_cast<std::uint32_t>(parts.range.size());
      if (set.links > 1) {
        parts.parallel_links.push_back(set);
      } else {
        // A single link is no set: its series is taken back.
        parts.range.resize(set.begin);
      }
    }
  }

  [[nodiscard]] std::vector<DeviceId> lowest_equivalents(std::uint32_t vertices) const {
    std::vector<DeviceId> result(first_vertex_.size());
    std::iota(result.begin(), result.end(), begin_);
    std::vector<DeviceId> lowest(vertices, kNone);
    for (std::uint32_t id = 0; id < result.size(); ++id) {
      if (class_[id] == kNone) continue;
      DeviceId& first = lowest[class_[id]];
      if (first == kNone) first = result[id];
      result[id] = first;
    }
    return result;
  }

  static constexpr std::uint32_t kSameSwitch = std::numeric_limits<std::uint32_t>::max();
  struct Last {
    Kind kind = {kNone, kNone, kNone};
    std::uint32_t number = 0;
  };

  const Wiring& wiring_;
  DeviceId begin_;  // first device that may be a switch; index 0 of arrays by device
  std::vector<bool> has_endpoints_;
  std::vector<std::uint32_t> first_vertex_;  // kNone: the switch has no link to another switch
  FabricColours numbers_;
  std::vector<std::uint32_t> label_of_wire_;
  std::vector<StridedLinks> inner_;  // ascending
  std::vector<Ends> ends_;           // of the previous switch, by position of the series
  std::size_t ranges_before_ = 0;
  DeviceId switch_before_ = kNone;
  std::vector<NeighbourHash> neighbour_hashes_;  // by vertex
  std::vector<LabelledEdge> edges_;
  std::vector<std::uint32_t> class_;  // by switch; kNone as in first_vertex_
  std::map<Kind, std::uint32_t> set_numbers_;
  std::vector<Last> last_;      // by class, the last set of links that leads to it
  std::vector<LinkId> lowest_;  // by set
  StridedGroups<NoTag> members_;
};

}  // namespace

std::vector<LinkId> ParallelLinks::of_each(std::uint32_t links) const {
  std::vector<LinkId> each(links);
  std::iota(each.begin(), each.end(), LinkId{});
  for (const auto& [begin, lowest, tag] : parts_.of_link.pieces())
    for (std::uint32_t i = 0; i < lowest.count; ++i)
      each[parts_.first_link + begin + i] = LinkId{lowest[i]};
  return each;
}

StridedSpan ParallelLinks::links(LinkId lowest) const {
  const auto found =
      std::ranges::lower_bound(parts_.parallel_links, lowest, {}, &ParallelSet::lowest);
  if (found == parts_.parallel_links.end() || found->lowest != lowest) return {};
  const auto range = std::span(parts_.range).subspan(found->begin, found->end - found->begin);
  return {range, found->links};
}

ParallelLinks find_parallel_links(const Wiring& wiring) {
  return FabricGraph(wiring).parallel_links();
}

}  // namespace trainyard
