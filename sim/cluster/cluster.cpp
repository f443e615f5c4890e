#include "sim/cluster/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/cluster/blueprint.hpp"

namespace trainyard {

namespace {

// Hops of the trunks that are kept: 16 MiB of them. Groups are priced one after the other, those of
// the same leaves in a row, so that a few hundred trunks are in use at a time.
constexpr std::size_t kTrunkHopsMost = std::size_t{1} << 20U;

// A bundle of cables is one link under ideal routing, which loads its cables alike. A hashed flow
// takes one of them.
bool comes_apart(const Wire& wire) { return wire.cables > 1 && is_fabric_side(wire.kind); }

// As many links as there are cables. Those within nodes are none of the fabric's.
Wiring apart(Wiring wiring) {
  if (std::ranges::none_of(wiring.wires(), comes_apart)) return wiring;
  return redrawn_outside(wiring, [](const Link& link, Blueprint& blueprint) {
    Wire wire = wire_of(link);
    const std::uint32_t parts = comes_apart(wire) ? wire.cables : 1;
    wire.capacity = wire.capacity / parts;
    wire.nominal = wire.nominal / parts;
    wire.cables /= parts;
    for (std::uint32_t part = 0; part < parts; ++part) blueprint.link(link.from, link.to, wire);
  });
}

bool has_capacity(const Wire& wire) {
  return wire.capacity.value() > 0.0 && std::isfinite(wire.capacity.value());
}

}  // namespace

Cluster::Cluster(ClusterFacts facts, Wiring wiring, std::vector<DeviceId> gpus,
                 std::vector<DeviceId> nic_of_gpu)
    : facts_(std::move(facts)),
      wiring_(std::move(wiring)),
      gpus_(std::move(gpus)),
      nic_of_gpu_(std::move(nic_of_gpu)),
      routes_(std::make_unique<RouteCache>(kTrunkHopsMost)) {
  TY_CHECK(!gpus_.empty());
  TY_CHECK(gpus_.size() == std::size_t{facts_.nodes} * facts_.gpus_per_node, gpus_.size());
  TY_CHECK(nic_of_gpu_.empty() || nic_of_gpu_.size() == gpus_.size(), nic_of_gpu_.size());
  TY_CHECK(!has_mixed_gpus() || facts_.mixed_gpus.size() == gpus_.size(), facts_.mixed_gpus.size());
  TY_CHECK(!nic_of_gpu_.empty() || facts_.nodes == 1, facts_.nodes);
  const bool ideal = facts_.routing.kind == Routing::Kind::Ideal;
  if (!ideal) wiring_ = apart(std::move(wiring_));
  check_links();
  if (ideal) bundles_ = link_bundles(wiring_);
  place_devices();
  shape_nodes();
  place_fabric();
  if (ideal) {
    lay_out_bundles();
  } else {
    lay_out_fabric();
  }
  if (!nic_of_gpu_.empty()) make_ports();
  check_reachable();
}

std::uint32_t Cluster::local_index(std::uint32_t gpu) const { return gpu % facts_.gpus_per_node; }

GpuKind Cluster::gpu_kind(std::uint32_t gpu) const {
  if (has_mixed_gpus()) return facts_.mixed_gpus.at(gpu);
  return {.profile = facts_.gpu, .memory = facts_.gpu_memory};
}

void Cluster::check_links() const {
  if (std::ranges::all_of(wiring_.wires(), has_capacity)) return;
  for (const Link link : links()) {
    if (has_capacity(wire_of(link))) continue;
    throw InputError(Problem{
        "", "",
        fmt::format("the {} link from {} to {} has a capacity of {} B/s", to_string(link.kind),
                    name(link.from), name(link.to), link.capacity.value()),
        "give it a positive capacity or leave the link out"});
  }
}

// Wiring, bundles and the tables of the fabric take some ten numbers a link.
std::size_t footprint(const Cluster& cluster) {
  constexpr std::size_t kNumbersOfALink = 10;
  return cluster.links().size() * kNumbersOfALink * sizeof(std::uint32_t);
}

}  // namespace trainyard
