#include "sim/cluster/net.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

// Distances take 16 bits, because a cluster stores a row of them for every target.
std::uint16_t checked_hops(std::size_t distance) {
  if (distance < kUnreachable) return static_cast<std::uint16_t>(distance);
  throw InputError(Problem{
      "", "", fmt::format("a way through the network crosses more than {} links", kUnreachable - 1),
      "join its switches on shorter ways, a torus by more dimensions"});
}

// Builds the CSR adjacency by counting sort, so the arcs of a vertex keep the order of the links.
// `near` is the endpoint that owns an arc, `far` the endpoint that it leads to.
Adjacency adjacency(std::size_t places, std::span<const NetLink> links,
                    std::uint32_t NetLink::*near, std::uint32_t NetLink::*far) {
  Adjacency result;
  result.begin.assign(places + 1, 0);
  for (const NetLink& link : links) ++result.begin[link.*near + 1];
  std::partial_sum(result.begin.begin(), result.begin.end(), result.begin.begin());
  result.arcs.resize(links.size());
  std::vector<std::uint32_t> next(result.begin.begin(), result.begin.end() - 1);
  for (const NetLink& link : links)
    result.arcs[next[link.*near]++] = {link.*far, link.link, link.cables, link.length};
  return result;
}

void sort_by_place(Adjacency& adjacency) {
  for (std::size_t i = 0; i + 1 < adjacency.begin.size(); ++i) {
    std::sort(adjacency.arcs.begin() + adjacency.begin[i],
              adjacency.arcs.begin() + adjacency.begin[i + 1], [](const Arc& a, const Arc& b) {
                return std::pair(a.place, a.link) < std::pair(b.place, b.link);
              });
  }
}

}  // namespace

Net laid_out(std::vector<bool> relays, std::span<const NetLink> links, ArcOrder order) {
  const std::size_t places = relays.size();
  Net net{
      .out = adjacency(places, links, &NetLink::from, &NetLink::to),
      .in = adjacency(places, links, &NetLink::to, &NetLink::from),
      .relays = std::move(relays),
      .plain = std::ranges::all_of(links, [](const NetLink& link) { return link.length == 1; })};
  if (order == ArcOrder::OfPlaces) {
    sort_by_place(net.out);
    sort_by_place(net.in);
  }
  return net;
}

// Breadth-first search by rings of equal distance. An arc of length 3 adds its vertex to the ring
// three steps later, so a bucket per distance replaces the priority queue of Dijkstra's algorithm.
Hops search(const Net& net, const Adjacency& arcs, std::span<const std::uint32_t> starts) {
  Hops hops(net.relays.size(), kUnreachable);
  std::vector<std::vector<std::uint32_t>> rings(1);
  for (const std::uint32_t start : starts) {
    hops[start] = 0;
    rings.front().push_back(start);
  }
  for (std::size_t distance = 0; distance < rings.size(); ++distance) {
    for (std::size_t next = 0; next < rings[distance].size(); ++next) {
      const std::uint32_t here = rings[distance][next];
      if (hops[here] != distance) continue;  // a shorter path was found since
      if (distance > 0 && !net.relays[here]) continue;
      for (const Arc& arc : arcs.of(here)) {
        const std::size_t there = distance + arc.length;
        if (hops[arc.place] != kUnreachable && hops[arc.place] <= there) continue;
        hops[arc.place] = checked_hops(there);
        if (rings.size() <= there) rings.resize(there + 1);
        rings[there].push_back(arc.place);
      }
    }
  }
  return hops;
}

// Visits the vertices from the targets outwards by distance, so the latency of a vertex is final
// before its predecessors read it. Only arcs that are part of a shortest path count.
Latencies slowest_path(const Net& net, const Distances& hops,
                       std::span<const std::uint32_t> targets,
                       const std::function<double(LinkId)>& latency_of) {
  Latencies latencies(hops.size(), -1.0);
  std::vector<std::vector<std::uint32_t>> rings(1);
  for (const std::uint32_t target : targets) {
    latencies[target] = 0.0;
    rings.front().push_back(target);
  }
  for (std::size_t distance = 0; distance < rings.size(); ++distance) {
    for (std::size_t next = 0; next < rings[distance].size(); ++next) {
      const std::uint32_t here = rings[distance][next];
      if (distance > 0 && !net.relays[here]) continue;
      for (const Arc& arc : net.in.of(here)) {
        const std::size_t there = distance + arc.length;
        if (hops[arc.place] != there) continue;
        if (rings.size() <= there) rings.resize(there + 1);
        if (latencies[arc.place] < 0.0) rings[there].push_back(arc.place);
        latencies[arc.place] =
            std::max(latencies[arc.place], latency_of(arc.link) + latencies[here]);
      }
    }
  }
  return latencies;
}

// Visits the vertices by descending distance, so all shares of a vertex have arrived before it
// forwards their sum. It forwards to neighbours on shortest paths, in equal shares per cable.
//
// Example: a leaf with one cable to each of 4 spines, of which each has one cable to the target's
// leaf: 4 links with 1/4 up and 4 links with 1/4 down. Of three spines with 2, 1 and 1 cables the
// first one gets 1/2.
Spread spread(const Net& net, std::span<const Arc> starts, const Distances& hops) {
  Spread result{.route = {}, .share = std::vector<double>(hops.size(), 0.0)};
  std::vector<std::vector<std::uint32_t>> rings(hops[starts.front().place] + std::size_t{1});
  const auto pass = [&](std::span<const Arc> arcs, double amount) {
    double cables = 0.0;
    for (const Arc& arc : arcs) cables += arc.cables;
    for (const Arc& arc : arcs) {
      const double fraction = amount * (arc.cables / cables);
      if (arc.link != kNoLink) result.route.push_back({arc.link, fraction});
      // The first share that arrives at a vertex puts it on its ring.
      if (result.share[arc.place] == 0.0) rings[hops[arc.place]].push_back(arc.place);
      result.share[arc.place] += fraction;
    }
  };
  pass(starts, 1.0);
  std::vector<Arc> onward;
  for (std::size_t distance = rings.size() - 1; distance > 0; --distance) {
    for (const std::uint32_t here : rings[distance]) {
      onward.clear();
      for (const Arc& arc : net.out.of(here)) {
        if (hops[arc.place] + arc.length != distance) continue;
        if (hops[arc.place] > 0 && !net.relays[arc.place]) continue;
        onward.push_back(arc);
      }
      pass(onward, result.share[here]);
    }
  }
  return result;
}

}  // namespace trainyard
