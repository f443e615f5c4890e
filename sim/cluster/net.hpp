// A part of a cluster that is searched on its own: the NVLink or the host side of a node, or the
// fabric. Its devices have places 0, 1, ..., its links numbers of whoever laid it out.
//
//   const Hops hops = search(net, net.in, std::span(&target, 1));
//   const Spread ways = spread(net, std::span(&start, 1), hops);   // over all shortest paths
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

// One step of a path, laid out for the inner loop of a walk.
struct Arc {
  std::uint32_t place = 0;  // of the other end
  LinkId link = kNoLink;    // kNoLink: none, the walk starts here
  std::uint32_t cables = 1;
  std::uint32_t length = 1;  // in hops
};

// Arcs of a place are arcs[begin[place] .. begin[place + 1]).
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
  std::vector<bool> relays;  // by place: paths may lead through it
  bool plain = true;         // every arc is of length 1
};

struct NetLink {
  std::uint32_t from = 0;  // places
  std::uint32_t to = 0;
  LinkId link = 0;
  std::uint32_t cables = 1;
  std::uint32_t length = 1;
};

// Arcs in the order of the links, or by place.
enum class ArcOrder : std::uint8_t { OfLinks, OfPlaces };
[[nodiscard]] Net laid_out(std::vector<bool> relays, std::span<const NetLink> links,
                           ArcOrder order);

using Hops = std::vector<std::uint16_t>;  // distance to the nearest target, by place
// Distances, its own or a row of a table in which two places trade theirs.
class Distances {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): plain hops are distances too.
  Distances(const Hops& row) : row_(row) {}
  // NOLINTNEXTLINE(google-explicit-constructor): hops just searched are distances too.
  Distances(Hops&& own) : own_(std::move(own)), row_(own_) {}
  Distances(const Hops& row, std::uint32_t a, std::uint32_t b) : row_(row), a_(a), b_(b) {}
  Distances(const Distances&) = delete;
  Distances& operator=(const Distances&) = delete;
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

using Latencies = std::vector<double>;  // seconds to it on the slowest shortest path, by place

// From the nearest of the starts along `arcs`, `out` or `in` of the net; a start need not relay.
// Throws InputError where a distance does not fit into 16 bits.
[[nodiscard]] Hops search(const Net& net, const Adjacency& arcs,
                          std::span<const std::uint32_t> starts);

// REQUIRES: hops are those to the targets; latency_of knows the net's links, in seconds.
[[nodiscard]] Latencies slowest_path(const Net& net, const Distances& hops,
                                     std::span<const std::uint32_t> targets,
                                     const std::function<double(LinkId)>& latency_of);

// A flow of one byte from a to b puts `fraction` bytes on the link (1/16 on each of 16 spines).
struct RouteHop {
  LinkId link = 0;
  double fraction = 1.0;
  // The number of links that each have that load: the whole set of parallel links of which `link`
  // is the lowest (parallel_links.hpp), where a route is told by sets of parallel links.
  std::uint32_t alike = 1;
};
using Route = std::vector<RouteHop>;

// Links crossed, and what arrived where, by place.
struct Spread {
  Route route;
  std::vector<double> share;
};

// One byte over all shortest paths, in equal shares per cable at every device.
[[nodiscard]] Spread spread(const Net& net, std::span<const Arc> starts, const Distances& hops);

}  // namespace trainyard
