#include "sim/cluster/fabric_ports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "sim/base/error.hpp"
#include "sim/base/strided_range.hpp"
#include "sim/workload/workload.hpp"  // IWYU pragma: keep (kNone)

namespace trainyard {

namespace {

// A builder for PortLinks: the cables in one direction, by NIC.
class NicLinks {
 public:
  explicit NicLinks(std::uint32_t nics) : first_(nics, kNoLink) {}

  // REQUIRES: the cables of one NIC arrive in their order.
  void add(std::uint32_t nic, LinkId link) {
    if (first_[nic] == kNoLink) {
      first_[nic] = link;
    } else {
      more_.emplace_back(nic, link);
    }
  }
  [[nodiscard]] bool has(std::uint32_t nic) const { return first_[nic] != kNoLink; }
  [[nodiscard]] bool one_each() const {
    return more_.empty() && std::ranges::find(first_, kNoLink) == first_.end();
  }
  // REQUIRES: one_each(), and NICs have the numbers of their GPUs.
  [[nodiscard]] PortLinks with_one_each() && { return PortLinks(std::move(first_)); }
  // nic_of(gpu) is the number of a NIC; kNoNic if the NIC is part of the fabric.
  static constexpr std::uint32_t kNoNic = std::numeric_limits<std::uint32_t>::max();
  template <class NicOf>
  [[nodiscard]] PortLinks by_gpu(std::uint32_t gpus, NicOf nic_of) &&;

 private:
  std::vector<LinkId> first_;
  std::vector<std::pair<std::uint32_t, LinkId>> more_;  // NIC and link, after the first
};

template <class NicOf>
PortLinks NicLinks::by_gpu(std::uint32_t gpus, NicOf nic_of) && {
  std::ranges::stable_sort(more_, {}, &std::pair<std::uint32_t, LinkId>::first);
  std::vector<LinkId> links;
  std::vector<std::uint32_t> begin{0};
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    const std::uint32_t nic = nic_of(gpu);
    if (nic == kNoNic) {
      links.push_back(kNoLink);
    } else if (has(nic)) {
      links.push_back(first_[nic]);
      for (const auto& [of, link] :
           std::ranges::equal_range(more_, nic, {}, &std::pair<std::uint32_t, LinkId>::first))
        links.push_back(link);
    }
    begin.push_back(static_cast<std::uint32_t>(links.size()));
  }
  return {std::move(links), std::move(begin)};
}

// The largest stride between nodes, which bounds the size of StridedNics::first_.
constexpr std::uint32_t kStrideMost = 1U << 16U;

// NICs that belong to one GPU each, at the same index in every node. The GPU of a NIC follows from
// the NIC's number by division, without a table over all devices.
//
//    const auto nics = StridedNics::of(nic_of_gpu, gpus_per_node);
//    nics->gpu_of(nic_of_gpu[9]);   // 9
class StridedNics {
 public:
  // Returns nothing if NICs are not numbered in this way. REQUIRES: nic_of_gpu is not empty and
  // lists its GPUs node by node.
  [[nodiscard]] static std::optional<StridedNics> of(std::span<const DeviceId> nic_of_gpu,
                                                     std::uint32_t gpus_per_node);

  [[nodiscard]] std::uint32_t gpus() const { return gpus_; }
  // kNone: the device is the NIC of no GPU.
  [[nodiscard]] std::uint32_t gpu_of(DeviceId nic) const;
  // Returns the GPUs of a series of NICs, if they form a series too.
  [[nodiscard]] std::optional<StridedRange> gpus_of(const StridedRange& nics) const;

 private:
  struct First {
    DeviceId nic = 0;  // kNone: none
    std::uint32_t gpu = 0;
  };
  std::uint32_t gpus_ = 0;
  std::uint32_t gpus_per_node_ = 0;
  std::uint32_t stride_ = 0;  // between the NIC numbers of consecutive nodes
  std::vector<First> first_;  // by NIC number modulo stride_: the NIC of the first node
};

std::optional<StridedNics> StridedNics::of(std::span<const DeviceId> nic_of_gpu,
                                           std::uint32_t gpus_per_node) {
  StridedNics nics;
  nics.gpus_ = static_cast<std::uint32_t>(nic_of_gpu.size());
  nics.gpus_per_node_ = gpus_per_node;
  if (nics.gpus_ <= gpus_per_node) return std::nullopt;
  nics.stride_ = nic_of_gpu[gpus_per_node] - nic_of_gpu[0];
  if (nics.stride_ == 0 || nics.stride_ > kStrideMost) return std::nullopt;
  nics.first_.assign(nics.stride_, {kNone, 0});
  for (std::uint32_t gpu = 0; gpu < gpus_per_node; ++gpu) {
    First& first = nics.first_[nic_of_gpu[gpu] % nics.stride_];
    // Two NICs of a node must not have the same remainder.
    if (first.nic != kNone) return std::nullopt;
    first = {nic_of_gpu[gpu], gpu};
  }
  for (std::size_t gpu = gpus_per_node; gpu < nic_of_gpu.size(); ++gpu)
    if (nic_of_gpu[gpu] - nic_of_gpu[gpu - gpus_per_node] != nics.stride_) return std::nullopt;
  return nics;
}

std::uint32_t StridedNics::gpu_of(DeviceId nic) const {
  const First& first = first_[nic % stride_];
  if (first.nic > nic) return kNone;
  const std::uint64_t gpu = std::uint64_t{(nic - first.nic) / stride_} * gpus_per_node_ + first.gpu;
  return gpu < gpus_ ? static_cast<std::uint32_t>(gpu) : kNone;
}

std::optional<StridedRange> StridedNics::gpus_of(const StridedRange& nics) const {
  if (nics.count > 1 && nics.step != stride_) return std::nullopt;
  const std::uint32_t first = gpu_of(DeviceId{nics.first});
  if (first == kNone || gpu_of(DeviceId{nics.last()}) == kNone) return std::nullopt;
  return StridedRange{first, gpus_per_node_, nics.count};
}

// The cables of StridedNics by GPU. It is valid only while each NIC has at most one cable per
// direction.
class StridedCables {
 public:
  // REQUIRES: the NICs outlive the object.
  explicit StridedCables(const StridedNics& nics);

  // Adds cables up to a device of the fabric or down from it; `place` is its index there. Returns
  // true if some of the NICs belong to GPUs.
  bool add(bool up, std::uint32_t place, const StridedRange& nics, const StridedRange& links);
  [[nodiscard]] bool are_all() const { return one_each_ && told_ == 2 * up_.size(); }

  // By GPU.
  struct Lists {
    std::vector<LinkId> up;
    std::vector<LinkId> down;
    std::vector<std::uint32_t> places;  // the index of the switch that leads down to it
  };
  // REQUIRES: are_all().
  [[nodiscard]] Lists take() && { return {std::move(up_), std::move(down_), std::move(places_)}; }

 private:
  const StridedNics& nics_;
  std::vector<LinkId> up_;
  std::vector<LinkId> down_;
  std::vector<std::uint32_t> places_;
  bool one_each_ = true;
  std::size_t told_ = 0;
};

StridedCables::StridedCables(const StridedNics& nics)
    : nics_(nics),
      up_(nics.gpus(), kNoLink),
      down_(nics.gpus(), kNoLink),
      places_(nics.gpus(), kNone) {}

// A series whose NICs are not those of a series of GPUs is added NIC by NIC, by a call for each. A
// single NIC that belongs to no GPU adds nothing.
bool StridedCables::add(bool up, std::uint32_t place, const StridedRange& nics,
                        const StridedRange& links) {
  const std::optional<StridedRange> gpus = nics_.gpus_of(nics);
  if (!gpus) {
    bool some = false;
    for (std::uint32_t i = 0; i < nics.count && nics.count > 1; ++i)
      some = add(up, place, {nics[i]}, {links[i]}) || some;
    return some;
  }
  std::vector<LinkId>& side = up ? up_ : down_;
  for (std::uint32_t i = 0; i < gpus->count; ++i) {
    const std::uint32_t gpu = (*gpus)[i];
    // A second cable in one direction: the closed form does not hold.
    one_each_ = one_each_ && side[gpu] == kNoLink;
    side[gpu] = LinkId{links[i]};
    if (!up) places_[gpu] = place;
  }
  told_ += gpus->count;
  return true;
}

// Returns the distinct indices of the switches, ascending.
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
  // Regular clusters take the closed form. All others take a table over all devices.
  std::optional<Cables> strided = strided_cables();
  return strided ? std::move(*strided) : all_cables();
}

// Calls use(way, place, devices, links) for the cables between a device of the fabric, with index
// `place`, and devices outside of it.
template <class Use>
void FabricPorts::for_each_cable(Use use) const {
  // Reports a cable if one of its ends is part of the fabric and the other is not.
  const auto tell = [&](DeviceId from, DeviceId to, const StridedRange& neighbours,
                        const StridedRange& links) {
    if (const std::uint32_t place = fabric_.place(to); place != FabricNet::kNoPlace) {
      if (fabric_.place(DeviceId{neighbours.first}) == FabricNet::kNoPlace)
        use(Way::Up, place, neighbours, links);
    } else if (const std::uint32_t start = fabric_.place(from); start != FabricNet::kNoPlace) {
      use(Way::Down, start, neighbours, links);
    }
  };
  topology_.wiring().for_each_range([&](const auto& range) {
    // A series with one switch is reported as a whole. Other series, and all series where NICs may
    // be part of the fabric, are reported cable by cable.
    const auto& [links, from, to, from_kind, to_kind, wire] = range;
    if (topology_.wiring().wires()[wire].kind != LinkKind::NicPort) return;
    const bool up = is_fabric_switch(to_kind);
    const StridedRange& ends = up ? to : from;
    if (!fabric_.nics_pass_on() && up != is_fabric_switch(from_kind) &&
        (ends.step == 0 || ends.count == 1))
      return tell(DeviceId{from.first}, DeviceId{to.first}, up ? from : to, links);
    for (std::uint32_t i = 0; i < links.count; ++i) {
      const bool to_fabric = fabric_.place(DeviceId{to[i]}) != FabricNet::kNoPlace;
      tell(DeviceId{from[i]}, DeviceId{to[i]}, {to_fabric ? from[i] : to[i]}, {links[i]});
    }
  });
}

// Returns nothing unless each GPU has its own NIC, at the same index in every node, with one cable
// in each direction.
std::optional<FabricPorts::Cables> FabricPorts::strided_cables() const {
  const auto own = StridedNics::of(topology_.nic_of_gpu(), topology_.facts().gpus_per_node);
  if (!own) return std::nullopt;
  StridedCables cables(*own);
  std::vector<bool> has_nics(fabric_.places(), false);
  for_each_cable(
      [&](Way way, std::uint32_t place, const StridedRange& devices, const StridedRange& links) {
        if (cables.add(way == Way::Up, place, devices, links)) has_nics[place] = true;
      });
  if (!cables.are_all()) return std::nullopt;
  auto [up, down, places] = std::move(cables).take();
  return Cables{PortLinks(std::move(up)), PortLinks(std::move(down)), std::move(has_nics),
                std::move(places)};
}

FabricPorts::Cables FabricPorts::all_cables() const {
  const std::vector<DeviceId>& nic_of_gpu = topology_.nic_of_gpu();
  std::vector<std::uint32_t> number(topology_.device_count(), kNone);  // of NICs, by device
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
  for_each_cable(
      [&](Way way, std::uint32_t place, const StridedRange& devices, const StridedRange& links) {
        for (std::uint32_t i = 0; i < devices.count; ++i) {
          const std::uint32_t nic = number[devices[i]];
          if (nic == kNone) continue;
          (way == Way::Up ? up : down).add(nic, LinkId{links[i]});
          has_nics[place] = true;
        }
      });
  // If each GPU has its own NIC, NIC numbers equal GPU numbers and need no translation.
  const bool own = nics == nic_of_gpu.size() && !in_fabric;
  const auto by_gpu = [&](NicLinks links) {
    if (own && links.one_each()) return std::move(links).with_one_each();
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
  const LinkEnds strand = topology_.wiring().strand(link);
  return {.place = fabric_.place(way == Way::Up ? strand.to : strand.from),
          .link = link,
          .cables = topology_.wiring().wires()[strand.wire].cables};
}

// Numbers the distinct sets of switches. Most sets have one switch and are looked up by it. If
// every NIC has one cable, Cables::place has that switch.
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

// Returns the index of each GPU among the GPUs of its target; nothing unless routing is RoundRobin.
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
