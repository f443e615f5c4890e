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
#include "sim/workload/workload.hpp"

namespace trainyard {

namespace {

enum class Side : std::uint8_t { Leaving, Arriving };  // of a switch, as a link sees it

// The links of a switch from and to switches that have endpoints, which are each
// known by themselves: sums of hashes of (link, switch). Equal multisets have equal sums.
struct Sight {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  void add(const Sight& more) {
    low += more.low;
    high += more.high;
  }
};

Sight sight_of(std::uint32_t label, DeviceId other) {
  const std::uint64_t both = std::uint64_t{label} << 32U | other;
  return {mixed(both), mixed(both ^ 0xd1b54a32d192ed03ULL)};
}

// The colours by which links and switches without endpoints are known; switches with endpoints are
// each known by themselves.
class FabricColours {
 public:
  std::uint32_t of_wire(const Wire& wire) {
    return number({1, static_cast<std::uint64_t>(wire.kind), bits(wire.capacity.value()),
                   bits(wire.nominal.value()), bits(wire.latency.value()), wire.cables});
  }
  // Most are as the one before.
  std::uint32_t of_switch(DeviceKind kind, Side side, const Sight& sight) {
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

// The links between switches. A switch is two vertices, where links leave and where they arrive, so
// that an edge has a direction; an edge is a link, its label what the link is known by. Links of a
// switch that has endpoints are no edges: its like is itself alone, so that what the other end sees
// of them never changes.
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
    edges_.reserve(edges);  // mostly as many
    for (const StridedLinks& range : inner_) add(range);
  }

  [[nodiscard]] ParallelLinks parallel_links() {
    const auto size = static_cast<std::uint32_t>(sight_.size());
    const std::vector<std::uint32_t> classes = refine(LabelledGraph(size, edges_), colours());
    for (const std::uint32_t vertex : first_vertex_)
      class_.push_back(vertex == kNone ? kNone : classes[vertex]);
    last_.resize(size);
    ParallelLinks::Parts parts{.first_link = wiring_.first_link_from(begin_),
                               .first_device = begin_,
                               .of_device = devices_alike(size)};
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
    if (has_endpoints_[from - begin_]) {
      const Sight seen = sight_of(label, from);
      for (std::uint32_t i = 0; i < range.to.count; ++i)
        sight_[vertex(DeviceId{range.to[i]}, Side::Arriving)].add(seen);
      return;
    }
    const Ends& ends = ends_of(range);
    sight_[leaving].add(ends.sight);
    if (!ends.some_without) return;
    for (std::uint32_t i = 0; i < range.to.count; ++i)
      if (!has_endpoints_[range.to[i] - begin_])
        edges_.push_back({leaving, vertex(DeviceId{range.to[i]}, Side::Arriving), label});
  }

  // The ends of a series as the switch at its start sees them, for those ends that have endpoints.
  struct Ends {
    std::uint32_t label = 0;
    StridedRange to = {.count = 0};
    Sight sight = {};
    bool some_without = false;
  };
  // The first series of a switch is mostly as the first one of the switch before, and so on.
  const Ends& ends_of(const StridedLinks& range) {
    ranges_before_ = range.from.first == switch_before_ ? ranges_before_ + 1 : 0;
    switch_before_ = DeviceId{range.from.first};
    if (ranges_before_ == ends_.size()) ends_.emplace_back();
    Ends& ends = ends_[ranges_before_];
    const std::uint32_t label = label_of_wire_[range.wire];
    if (ends.label == label && ends.to == range.to) return ends;
    ends = {.label = label, .to = range.to};
    Sight sight;
    for (std::uint32_t i = 0; i < range.to.count; ++i) {
      vertex(DeviceId{range.to[i]}, Side::Arriving);
      if (has_endpoints_[range.to[i] - begin_]) {
        sight.add(sight_of(label, DeviceId{range.to[i]}));
      } else {
        ends.some_without = true;
      }
    }
    ends.sight = sight;
    return ends;
  }

  // Makes the switch a vertex if it is none.
  std::uint32_t vertex(DeviceId id, Side side) {
    std::uint32_t& first = first_vertex_[id - begin_];
    if (first == kNone) first = new_vertex();
    return first + static_cast<std::uint32_t>(side);
  }
  std::uint32_t new_vertex() {
    const auto first = static_cast<std::uint32_t>(sight_.size());
    sight_.resize(sight_.size() + 2);
    edges_.push_back({first, first + 1, kSameSwitch});
    return first;
  }

  [[nodiscard]] std::vector<std::uint32_t> colours() {
    std::vector<std::uint32_t> colours(sight_.size());
    for (std::uint32_t id = 0; id < first_vertex_.size(); ++id) {
      if (first_vertex_[id] == kNone) continue;
      const DeviceKind kind = wiring_.device(begin_ + id).kind;
      for (const Side side : {Side::Leaving, Side::Arriving}) {
        const std::uint32_t vertex = first_vertex_[id] + static_cast<std::uint32_t>(side);
        colours[vertex] =
            has_endpoints_[id] ? numbers_.of_one() : numbers_.of_switch(kind, side, sight_[vertex]);
      }
    }
    return colours;
  }

  // Links are alike where they are known by the same and join switches alike. Notes the lowest of
  // each set of parallel links, and who belongs to it.
  void name(const StridedLinks& range, StridedList<NoTag>& of_link) {
    const auto class_of = [&](DeviceId id) { return class_[id - begin_]; };
    const std::uint32_t from = class_of(DeviceId{range.from.first});
    close(of_link, LinkId{range.links.first});
    StridedRange lowest{.count = 0};
    for (std::uint32_t i = 0; i < range.to.count;) {
      const std::uint32_t to = class_of(DeviceId{range.to[i]});
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
  // Switches of a class come in a row, so that most links into a class are like the last.
  [[nodiscard]] std::uint32_t number_of(const Kind& kind, LinkId link) {
    Last& last = last_[std::get<1>(kind)];
    if (last.kind == kind) return last.number;
    const auto next = static_cast<std::uint32_t>(lowest_.size());
    const auto [known, fresh] = set_numbers_.try_emplace(kind, next);
    if (fresh) lowest_.push_back(link);
    last = {kind, known->second};
    return last.number;
  }

  // Up to that link those not told are alone.
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
        parts.range.resize(set.begin);
      }
    }
  }

  [[nodiscard]] std::vector<DeviceId> devices_alike(std::uint32_t vertices) const {
    std::vector<DeviceId> alike(first_vertex_.size());
    std::iota(alike.begin(), alike.end(), begin_);
    std::vector<DeviceId> lowest(vertices, kNone);
    for (std::uint32_t id = 0; id < alike.size(); ++id) {
      if (class_[id] == kNone) continue;
      DeviceId& first = lowest[class_[id]];
      if (first == kNone) first = alike[id];
      alike[id] = first;
    }
    return alike;
  }

  static constexpr std::uint32_t kSameSwitch = std::numeric_limits<std::uint32_t>::max();
  struct Last {
    Kind kind = {kNone, kNone, kNone};
    std::uint32_t number = 0;
  };

  const Wiring& wiring_;
  DeviceId begin_;  // the first device that may be a switch; arrays by device begin there
  std::vector<bool> has_endpoints_;
  std::vector<std::uint32_t> first_vertex_;  // kNone: joins no two switches
  FabricColours numbers_;
  std::vector<std::uint32_t> label_of_wire_;
  std::vector<StridedLinks> inner_;  // ascending
  std::vector<Ends> ends_;           // of the switch before, by the number of the series
  std::size_t ranges_before_ = 0;
  DeviceId switch_before_ = kNone;
  std::vector<Sight> sight_;  // by vertex
  std::vector<LabelledEdge> edges_;
  std::vector<std::uint32_t> class_;  // by switch; kNone as in first_vertex_
  std::map<Kind, std::uint32_t> set_numbers_;
  std::vector<Last> last_;      // by class, the last set of parallel links that led to it
  std::vector<LinkId> lowest_;  // by set of parallel links
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
