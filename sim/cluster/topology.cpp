#include "sim/cluster/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/cluster/blueprint.hpp"

namespace trainyard {

namespace {

// Ideal routing loads all parallel cables of a link equally, so that one link is enough. A hashed
// flow takes one of the cables, so each must be a link.
bool has_parallel_cables(const Wire& wire) { return wire.cables > 1 && is_fabric_side(wire.kind); }

// Replaces each fabric link of several cables by one link per cable. Links within nodes stay.
Wiring apart(Wiring wiring) {
  if (std::ranges::none_of(wiring.wires(), has_parallel_cables)) return wiring;
  return with_replaced_outer_links(wiring, [](const Link& link, Blueprint& blueprint) {
    Wire wire = wire_of(link);
    const std::uint32_t parts = has_parallel_cables(wire) ? wire.cables : 1;
    wire.capacity = wire.capacity / parts;
    wire.nominal = wire.nominal / parts;
    wire.cables /= parts;
    for (std::uint32_t part = 0; part < parts; ++part) blueprint.link(link.from, link.to, wire);
  });
}

bool has_capacity(const Wire& wire) {
  return wire.capacity.value() > 0.0 && std::isfinite(wire.capacity.value());
}

void check_links(const Wiring& wiring) {
  // The few wires decide; the loop over links only finds the names for the message.
  if (std::ranges::all_of(wiring.wires(), has_capacity)) return;
  for (const Link link : wiring.links()) {
    if (has_capacity(wire_of(link))) continue;
    throw InputError(Problem{
        "", "",
        fmt::format("the {} link from {} to {} has a capacity of {} B/s", to_string(link.kind),
                    wiring.name(link.from), wiring.name(link.to), link.capacity.value()),
        "give it a positive capacity or leave the link out"});
  }
}

}  // namespace

Topology::Topology(ClusterFacts facts, Wiring wiring, std::vector<DeviceId> gpus,
                   std::vector<DeviceId> nic_of_gpu) {
  TY_CHECK(!gpus.empty());
  TY_CHECK(gpus.size() == std::size_t{facts.nodes} * facts.gpus_per_node, gpus.size());
  TY_CHECK(nic_of_gpu.empty() || nic_of_gpu.size() == gpus.size(), nic_of_gpu.size());
  TY_CHECK(facts.mixed_gpus.empty() || facts.mixed_gpus.size() == gpus.size(),
           facts.mixed_gpus.size());
  TY_CHECK(!nic_of_gpu.empty() || facts.nodes == 1, facts.nodes);
  if (facts.routing.kind != Routing::Kind::Ideal) wiring = apart(std::move(wiring));
  check_links(wiring);
  parts_ = std::make_shared<const Parts>(
      Parts{std::move(facts), std::move(wiring), std::move(gpus), std::move(nic_of_gpu)});
}

Topology Topology::with_rates(const std::function<double(LinkKind)>& factor_of) const {
  Wiring wiring = this->wiring();
  wiring.change_wires([&](Wire& wire) {
    const double factor = factor_of(wire.kind);
    wire.capacity = wire.capacity * factor;
    wire.nominal = wire.nominal * factor;
  });
  return {facts(), std::move(wiring), gpus(), nic_of_gpu()};
}

GpuKind Topology::gpu_kind(std::uint32_t gpu) const {
  if (has_mixed_gpus()) return facts().mixed_gpus.at(gpu);
  return {.profile = facts().gpu, .memory = facts().gpu_memory};
}

}  // namespace trainyard
