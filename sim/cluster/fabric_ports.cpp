#include "sim/cluster/fabric_ports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/base/error.hpp"
#include "sim/cluster/strided_nics.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

namespace {

// Once each, ascending.
std::vector<std::uint32_t> places_of(const FabricPorts::Arcs& cables) {
  std::vector<std::uint32_t> places;
  for (const Arc& arc : cables) places.push_back(arc.place);
  std::ranges::sort(places);
  const auto doubled = std::ranges::unique(places);
  places.erase(doubled.begin(), doubled.end());
  return places;
}

void check_cabled(const Topology& topology, const PortLinks& up, const PortLinks& down) {
  if (up.one_each() && down.one_each()) return;
  for (std::uint32_t gpu = 0; gpu < topology.gpus().size(); ++gpu) {
    if (!up.of(gpu).empty() && !down.of(gpu).empty()) continue;
    throw InputError(Problem{"", "",
                             fmt::format("{} and the fabric cannot reach each other",
                                         topology.name(topology.nic_of_gpu()[gpu])),
                             "add nic links in both directions, or give its GPUs another NIC"});
  }
}

}  // namespace

FabricPorts::FabricPorts(Topology topology, const FabricNet& fabric)
    : topology_(std::move(topology)),
      fabric_(fabric),
      cables_(cables()),
      targets_(found_targets()),
      number_(numbers()) {
  cables_.place = {};
}

FabricPorts::Cables FabricPorts::cables() const {
  if (topology_.nic_of_gpu().empty()) return {};
  std::optional<Cables> strided = strided_cables();
  return strided ? std::move(*strided) : all_cables();
}

// Calls use(way, place, devices, links) for the cables between a device of the fabric and some
// beside it.
template <class Use>
void FabricPorts::for_each_cable(Use use) const {
  const auto tell = [&](DeviceId from, DeviceId to, const Series& beside, const Series& links) {
    if (const std::uint32_t place = fabric_.place(to); place != FabricNet::kNoPlace) {
      if (fabric_.place(beside.first) == FabricNet::kNoPlace) use(Way::Up, place, beside, links);
    } else if (const std::uint32_t start = fabric_.place(from); start != FabricNet::kNoPlace) {
      use(Way::Down, start, beside, links);
    }
  };
  topology_.wiring().for_each_series([&](const auto& series) {
    const auto& [links, from, to, from_kind, to_kind, wire] = series;
    if (topology_.wiring().wires()[wire].kind != LinkKind::NicPort) return;
    const bool up = is_fabric_switch(to_kind);
    const Series& ends = up ? to : from;
    if (!fabric_.nics_pass_on() && up != is_fabric_switch(from_kind) &&
        (ends.step == 0 || ends.count == 1))
      return tell(from.first, to.first, up ? from : to, links);
    for (std::uint32_t i = 0; i < links.count; ++i) {
      const bool to_fabric = fabric_.place(to[i]) != FabricNet::kNoPlace;
      tell(from[i], to[i], {to_fabric ? from[i] : to[i]}, {links[i]});
    }
  });
}

// Nothing unless each GPU has a NIC of its own in the same place of every node, with one cable each
// way.
std::optional<FabricPorts::Cables> FabricPorts::strided_cables() const {
  const auto own = StridedNics::of(topology_.nic_of_gpu(), topology_.facts().gpus_per_node);
  if (!own) return std::nullopt;
  StridedCables cables(*own);
  std::vector<bool> has_nics(fabric_.places(), false);
  for_each_cable([&](Way way, std::uint32_t place, const Series& devices, const Series& links) {
    if (cables.add(way == Way::Up, place, devices, links)) has_nics[place] = true;
  });
  if (!cables.are_all()) return std::nullopt;
  return Cables{PortLinks(std::move(cables).up()), PortLinks(std::move(cables).down()),
                std::move(has_nics), std::move(cables).places()};
}

FabricPorts::Cables FabricPorts::all_cables() const {
  const std::vector<DeviceId>& nic_of_gpu = topology_.nic_of_gpu();
  std::vector<std::uint32_t> number(topology_.device_count(), kNone);  // of NICs
  std::vector<bool> has_nics(fabric_.places(), false);
  std::uint32_t nics = 0;
  bool in_fabric = false;
  for (const DeviceId nic : nic_of_gpu) {
    if (number[nic] == kNone) number[nic] = nics++;
    const std::uint32_t place = fabric_.place(nic);
    if (place == FabricNet::kNoPlace) continue;
    in_fabric = has_nics[place] = true;
  }
  NicLinks up(nics);
  NicLinks down(nics);
  for_each_cable([&](Way way, std::uint32_t place, const Series& devices, const Series& links) {
    for (std::uint32_t i = 0; i < devices.count; ++i) {
      const std::uint32_t nic = number[devices[i]];
      if (nic == kNone) continue;
      (way == Way::Up ? up : down).add(nic, links[i]);
      has_nics[place] = true;
    }
  });
  // Where each GPU has a NIC of its own, these are numbered as they are.
  const bool own = nics == nic_of_gpu.size() && !in_fabric;
  const auto by_gpu = [&](NicLinks links) {
    if (own && links.one_each()) return std::move(links).as_they_are();
    return std::move(links).by_gpu(
        static_cast<std::uint32_t>(nic_of_gpu.size()), [&](std::uint32_t gpu) {
          const DeviceId nic = nic_of_gpu[gpu];
          return fabric_.place(nic) == FabricNet::kNoPlace ? number[nic] : NicLinks::kNoNic;
        });
  };
  Cables cables{by_gpu(std::move(up)), by_gpu(std::move(down)), std::move(has_nics)};
  check_cabled(topology_, cables.up, cables.down);
  return cables;
}

FabricPorts::Arcs FabricPorts::arcs(Way way, std::uint32_t gpu) const {
  const std::span<const LinkId> links = (way == Way::Up ? cables_.up : cables_.down).of(gpu);
  const auto at = [&](const LinkId* link) {
    return boost::transform_iterator<ArcAt, const LinkId*, Arc>(link, ArcAt{this, way, gpu});
  };
  return {at(links.data()), at(links.data() + links.size())};
}

Arc FabricPorts::arc(Way way, std::uint32_t gpu, LinkId link) const {
  if (link == kNoLink) return {.place = fabric_.place(topology_.nic_of_gpu()[gpu])};
  const Strand strand = topology_.wiring().strand(link);
  return {.place = fabric_.place(way == Way::Up ? strand.to : strand.from),
          .link = link,
          .cables = topology_.wiring().wires()[strand.wire].cables};
}

// Most NICs hang on one switch; where all do by one cable each it is known by now.
FabricPorts::Targets FabricPorts::found_targets() const {
  if (topology_.nic_of_gpu().empty()) return {};
  Targets found;
  std::vector<std::uint32_t> of_switch(fabric_.places(), kNone);
  std::map<std::vector<std::uint32_t>, std::uint32_t> of_switches;
  found.of_gpu.reserve(topology_.gpus().size());
  for (std::uint32_t gpu = 0; gpu < topology_.gpus().size(); ++gpu) {
    const auto next = static_cast<std::uint32_t>(found.switches.size());
    std::vector<std::uint32_t> places;
    if (cables_.place.empty()) places = places_of(down(gpu));
    const std::uint32_t first = places.empty() ? cables_.place[gpu] : places.front();
    std::uint32_t& target =
        places.size() < 2 ? of_switch[first] : of_switches.try_emplace(places, kNone).first->second;
    if (target == kNone) {
      target = next;
      found.switches.push_back(places.empty() ? std::vector{first} : std::move(places));
    }
    found.of_gpu.push_back(target);
  }
  return found;
}

// Nothing unless destinations are dealt in turn.
std::vector<std::uint32_t> FabricPorts::numbers() const {
  if (topology_.facts().routing.kind != Routing::Kind::RoundRobin) return {};
  std::vector<std::uint32_t> next(targets_.switches.size() + 1, 0);
  for (const std::uint32_t target : targets_.of_gpu) ++next[target + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::uint32_t> numbers;
  for (const std::uint32_t target : targets_.of_gpu) numbers.push_back(next[target]++);
  return numbers;
}

double FabricPorts::slowest_s(Way way, std::uint32_t gpu) const {
  double latency = 0.0;
  for (const LinkId link : (way == Way::Up ? cables_.up : cables_.down).of(gpu))
    if (link != kNoLink) latency = std::max(latency, topology_.wiring().wire(link).latency.value());
  return latency;
}

}  // namespace trainyard
