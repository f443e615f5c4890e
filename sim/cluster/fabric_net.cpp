#include "sim/cluster/fabric_net.hpp"

#include <algorithm>

namespace trainyard {

namespace {

// A global link counts as three hops, so that minimal routes of a dragonfly cross one global link
// (local, global, local: 5 hops) and never two in succession (6 hops).
constexpr std::uint32_t length_of(LinkKind kind) { return kind == LinkKind::Global ? 3 : 1; }

// Returns the NICs with a link to another NIC, ascending; a NIC may occur several times.
std::vector<DeviceId> nics_cabled_to_nics(const Wiring& wiring) {
  std::vector<DeviceId> nics;
  wiring.for_each_range([&](const StridedLinks& range) {
    if (range.from_kind != DeviceKind::Nic || range.to_kind != DeviceKind::Nic) return;
    for (std::uint32_t i = 0; i < range.links.count; ++i)
      nics.insert(nics.end(), {DeviceId{range.from[i]}, DeviceId{range.to[i]}});
  });
  std::ranges::sort(nics);
  return nics;
}

// Returns the devices of the fabric, ascending.
std::vector<DeviceId> fabric_devices(const Topology& topology) {
  const std::vector<DeviceId> nics = nics_cabled_to_nics(topology.wiring());
  const DeviceId runs_end = topology.wiring().runs_end();
  std::vector<DeviceId> devices;
  for (DeviceId id = nics.empty() ? runs_end : std::min(runs_end, nics.front());
       id < topology.device_count(); ++id)
    if (is_fabric_switch(topology.device(id).kind) || std::ranges::binary_search(nics, id))
      devices.push_back(id);
  return devices;
}

}  // namespace

FabricNet::FabricNet(const Topology& topology, const ParallelLinks& parallel_links)
    : devices_(fabric_devices(topology)),
      first_device_(devices_.empty() ? DeviceId{topology.device_count()} : devices_.front()),
      place_(topology.device_count() - first_device_, kNoPlace),
      nics_pass_on_(std::ranges::any_of(
          devices_, [&](DeviceId id) { return !is_fabric_switch(topology.device(id).kind); })) {
  for (std::uint32_t place = 0; place < places(); ++place)
    place_[devices_[place] - first_device_] = place;
  // Ideal routing loads the links of a set equally, so one link stands for the set. A hashed flow
  // takes one link of it, so every link is needed.
  const bool ideal = topology.facts().routing.kind == Routing::Kind::Ideal;
  net_ = laid_out(std::vector<bool>(devices_.size(), true),
                  ideal ? every_set(topology, parallel_links) : every_link(topology),
                  ideal ? ArcOrder::OfLinks : ArcOrder::OfPlaces);
}

std::vector<NetLink> FabricNet::every_link(const Topology& topology) const {
  std::vector<NetLink> links;
  for (const DeviceId id : devices_) {
    for (const Link link : topology.links_from(id)) {
      if (!is_fabric_side(link.kind) || place(link.to) == kNoPlace) continue;
      links.push_back({.from = place(id),
                       .to = place(link.to),
                       .link = link.id,
                       .cables = link.cables,
                       .length = length_of(link.kind)});
    }
  }
  return links;
}

// Each set joins the lowest switches of two classes of equivalent wiring. A switch with endpoints
// is the only one of its class, so paths between such switches have the same lengths as over all
// links.
std::vector<NetLink> FabricNet::every_set(const Topology& topology,
                                          const ParallelLinks& parallel_links) const {
  std::vector<NetLink> result;
  const auto add = [&](LinkId lowest) {
    const Link link = topology.link(lowest);
    if (!is_fabric_side(link.kind) || place(link.to) == kNoPlace) return;
    const auto links =
        static_cast<std::uint32_t>(std::max<std::size_t>(1, parallel_links.links(lowest).size()));
    result.push_back({.from = place(link.from),
                      .to = place(parallel_links.lowest_equivalent(link.to)),
                      .link = lowest,
                      .cables = link.cables * links,
                      .length = length_of(link.kind)});
  };
  for (const DeviceId id : devices_) {
    topology.wiring().for_each_range_from(id, [&](const StridedLinks& range) {
      if (is_fabric_switch(range.to_kind) || nics_pass_on_)
        parallel_links.for_each_lowest(range.links, add);
    });
  }
  return result;
}

}  // namespace trainyard
