// A graph for path searches in one part of a cluster: the NVLink side or the host side of a node,
// or the fabric. Its devices are vertices 0, 1, ... (their "places"). Its builder chooses the
// numbers of its links.
//
//    const Hops hops = search(net, net.in, std::span(&target, 1));
//    const Spread ways = spread(net, std::span(&start, 1), hops);   // over all shortest paths
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "sim/cluster/wire.hpp"

namespace trainyard {

inline constexpr std::uint16_t kUnreachable = std::numeric_limits<std::uint16_t>::max();
inline constexpr LinkId kNoLink = std::numeric_limits<LinkId>::max();

// One step of a path, in a compact layout for the inner loop of a walk.
struct Arc {
  std::uint32_t place = 0;  // vertex at the other end
  LinkId link = kNoLink;    // kNoLink: no link; the walk starts here
  std::uint32_t cables = 1;
  std::uint32_t length = 1;  // in hops
};

// Arcs by vertex (CSR): those of a vertex are arcs[begin[place] .. begin[place + 1]).
struct Adjacency {
  std::vector<std::uint32_t> begin;
  std::vector<Arc> arcs;
  [[nodiscard]] std::span<const Arc> of(std::size_t place) const {
    return std::span(arcs).subspan(begin[place], begin[place + 1] - begin[place]);
  }
};

struct Net {
  Adjacency out;
  Adjacency in;
  std::vector<bool> relays;  // by vertex: paths may pass through it
  bool plain = true;         // every arc has length 1
};

struct NetLink {
  std::uint32_t from = 0;  // vertices
  std::uint32_t to = 0;
  LinkId link = 0;
  std::uint32_t cables = 1;
  std::uint32_t length = 1;
};

// The order of the arcs of a vertex: that of the links, or by the other vertex, then link.
enum class ArcOrder : std::uint8_t { OfLinks, OfPlaces };
[[nodiscard]] Net laid_out(std::vector<bool> relays, std::span<const NetLink> links,
                           ArcOrder order);

using Hops = std::vector<std::uint16_t>;  // distance to the nearest target, by vertex
// Distances by vertex: hops that it owns, or a row of a table in which vertices a and b are
// swapped.
class Distances {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a row of hops converts to distances.
  Distances(const Hops& row) : row_(row) {}
  // NOLINTNEXTLINE(google-explicit-constructor): new hops convert to distances, which own them.
  Distances(Hops&& own) : own_(std::move(own)), row_(own_) {}
  Distances(const Hops& row, std::uint32_t a, std::uint32_t b) : row_(row), a_(a), b_(b) {}
  Distances(const Distances&) = delete;
  Distances& operator=(const Distances&) = delete;
  ~Distances() = default;
  [[nodiscard]] std::uint16_t operator[](std::size_t place) const {
    return row_[place == a_ ? b_ : place == b_ ? a_ : place];
  }
  [[nodiscard]] std::size_t size() const { return row_.size(); }

 private:
  Hops own_;
  std::span<const std::uint16_t> row_;
  std::uint32_t a_ = 0;
  std::uint32_t b_ = 0;
};

using Latencies = std::vector<double>;  // seconds on the slowest shortest path, by vertex

// Returns the distance from the nearest of the starts along `arcs`, which is net.out or net.in. A
// start need not relay. Throws InputError if a distance does not fit into 16 bits.
[[nodiscard]] Hops search(const Net& net, const Adjacency& arcs,
                          std::span<const std::uint32_t> starts);

// Returns, by vertex, the latency of the slowest shortest path to the targets; -1 if there is none.
// REQUIRES: `hops` are the distances to `targets`; latency_of returns seconds for the net's links.
[[nodiscard]] Latencies slowest_path(const Net& net, const Distances& hops,
                                     std::span<const std::uint32_t> targets,
                                     const std::function<double(LinkId)>& latency_of);

// A link of a route. A flow of one byte puts `fraction` bytes on it (1/16 on each of 16 spines).
struct RouteHop {
  LinkId link = 0;
  double fraction = 1.0;
  // The number of links with this fraction each: 1, or, in a route by sets of parallel links
  // (RouteDetail::ParallelLinks), the size of the set of which `link` is the lowest
  // (parallel_links.hpp).
  std::uint32_t parallel_count = 1;
};
using Route = std::vector<RouteHop>;

// The links that a message crosses, and the share of it that reaches each vertex.
struct Spread {
  Route route;
  std::vector<double> share;
};

// Spreads one byte over all shortest paths. Every device splits its share equally per cable.
[[nodiscard]] Spread spread(const Net& net, std::span<const Arc> starts, const Distances& hops);

}  // namespace trainyard
