#include "topologies/torus.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "topologies/draft.hpp"

namespace trainyard {

namespace {

// Returns the `count` factors of `places` with the least sum, each at least `least`, in descending
// order; an empty list if there are none. The recursion enumerates all factorisations in ascending
// order, so the result is exact.
std::vector<std::uint32_t> least_sum(std::uint32_t places, std::uint32_t count,
                                     std::uint32_t least) {
  if (count == 1) return {places};
  std::vector<std::uint32_t> best;
  for (std::uint32_t factor = least; std::uint64_t{factor} * factor <= places || factor == 1;
       ++factor) {
    if (places % factor != 0) continue;
    std::vector<std::uint32_t> rest = least_sum(places / factor, count - 1, factor);
    if (rest.empty()) continue;
    rest.push_back(factor);
    const auto sum = [](const auto& all) {
      return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
    };
    if (best.empty() || sum(rest) < sum(best)) best = std::move(rest);
  }
  return best;
}

}  // namespace

std::vector<TorusWire> torus_wires(std::span<const std::uint32_t> dims) {
  std::vector<TorusWire> wires;
  const auto places = static_cast<std::uint32_t>(torus_size(dims));
  for (std::uint32_t place = 0; place < places; ++place) {
    std::uint32_t stride = 1;
    for (const std::uint32_t size : dims) {
      const std::uint32_t at = place / stride % size;
      const std::uint32_t next = place - at * stride + (at + 1) % size * stride;
      // In a dimension of two positions only the first draws the wire, because both neighbours are
      // the same.
      if (size > 2 || (size == 2 && at == 0)) {
        wires.push_back({.from = place, .to = next, .times = size == 2 ? 2U : 1U});
      }
      stride *= size;
    }
  }
  return wires;
}

std::vector<std::uint32_t> balanced_dims(std::uint32_t places, std::uint32_t count) {
  TY_CHECK(places > 0 && count > 0, places, count);
  std::vector<std::uint32_t> dims = least_sum(places, count, 1);
  std::sort(dims.begin(), dims.end(), std::greater<>{});
  return dims;
}

std::uint64_t torus_size(std::span<const std::uint32_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), std::uint64_t{1}, std::multiplies<>{});
}

// A torus of nodes: each node has a router for its NICs, and `cables` cables of a NIC's rate lead
// to each neighbour. Routes are the shortest ones; at every router they divide evenly over the
// dimensions still to go, and where the target is half-way around a ring over both directions.
//
// In a ring of n nodes in which every node sends S to every other, every directed link carries n^2
// S / 8 (n even), so n = 8 takes at least 8 S / B (checked by tests/topologies/torus_test.cpp).

std::vector<std::uint32_t> torus_dims(const Torus& fabric, std::uint32_t nodes) {
  if (fabric.dims.empty()) return balanced_dims(nodes, std::max(fabric.dimensions, 1U));
  const std::uint64_t places = torus_size(fabric.dims);
  if (places == nodes) return fabric.dims;
  const auto count = static_cast<std::uint32_t>(fabric.dims.size());
  throw InputError(Problem{
      "", "/fabric/dims",
      fmt::format("a torus of {} has {} places for {} nodes", fmt::join(fabric.dims, " x "), places,
                  nodes),
      fmt::format("for {} nodes use [{}]", nodes, fmt::join(balanced_dims(nodes, count), ", "))});
}

void draw_fabric(const Torus& fabric, const ClusterSpec& spec, Draft& draft) {
  const std::vector<std::uint32_t> dims = torus_dims(fabric, spec.nodes);
  const auto routers = add_switches(draft, DeviceKind::LeafSwitch, "router", spec.nodes);
  for (std::size_t i = 0; i < draft.nics.size(); ++i) {
    draft.cable(draft.nics[i], routers[i / spec.node.nics], nic_wire(spec));
  }
  const std::uint32_t cables = fabric.cables > 0 ? fabric.cables : spec.node.nics;
  for (const TorusWire& wire : torus_wires(dims)) {
    draft.cable(routers[wire.from], routers[wire.to],
                switch_wire(spec, fabric.hop_latency, LinkKind::Local, cables * wire.times));
  }
}

}  // namespace trainyard
