// The points where GPUs enter and leave the fabric: the cables of their NICs, and the switches that
// these cables lead to.
//
//    const FabricPorts ports(topology, fabric);
//    for (const Arc& cable : ports.up(gpu)) use(cable.place);
#pragma once

#include <boost/iterator/transform_iterator.hpp>
#include <boost/range/iterator_range.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/cluster/fabric_net.hpp"

namespace trainyard {

// The cables of NICs in one direction, by GPU: from its NIC to the fabric, or back. Most NICs have
// one cable, which takes 4 bytes. A NIC that is itself part of the fabric has the single entry
// kNoLink.
class PortLinks {
 public:
  PortLinks() = default;
  // One cable per GPU.
  explicit PortLinks(std::vector<LinkId> links) : links_(std::move(links)) {}
  // The links of a GPU are links[begin[gpu] .. begin[gpu + 1]).
  PortLinks(std::vector<LinkId> links, std::vector<std::uint32_t> begin)
      : links_(std::move(links)), begin_(std::move(begin)) {}

  [[nodiscard]] bool one_each() const { return begin_.empty(); }
  [[nodiscard]] std::span<const LinkId> of(std::uint32_t gpu) const {
    const std::span<const LinkId> all(links_);
    return one_each() ? all.subspan(gpu, 1)
                      : all.subspan(begin_[gpu], begin_[gpu + 1] - begin_[gpu]);
  }

 private:
  std::vector<LinkId> links_;
  std::vector<std::uint32_t> begin_;
};

// The direction of a cable between a NIC and its switch: Up leaves the NIC.
enum class Way : std::uint8_t { Up, Down };

class FabricPorts {
 public:
  struct ArcAt {
    const FabricPorts* ports = nullptr;
    Way way = Way::Up;
    std::uint32_t gpu = 0;
    Arc operator()(const LinkId& link) const { return ports->arc(way, gpu, link); }
  };
  using Arcs = boost::iterator_range<boost::transform_iterator<ArcAt, const LinkId*, Arc>>;

  // Throws InputError for a NIC without cables in both directions. REQUIRES: the fabric outlives
  // the object.
  FabricPorts(Topology topology, const FabricNet& fabric);

  // True for a cluster of one node without NICs.
  [[nodiscard]] bool empty() const { return targets_.of_gpu.empty(); }
  [[nodiscard]] Arcs up(std::uint32_t gpu) const { return arcs(Way::Up, gpu); }
  [[nodiscard]] Arcs down(std::uint32_t gpu) const { return arcs(Way::Down, gpu); }
  // Returns the target of a GPU. A target is the set of switches with a cable down to the GPU's
  // NIC, as ascending indices in the fabric. GPUs with the same set share a target.
  [[nodiscard]] std::uint32_t target(std::uint32_t gpu) const { return targets_.of_gpu[gpu]; }
  [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& targets() const {
    return targets_.switches;
  }
  // Returns the index of the GPU among the GPUs of its target. REQUIRES: routing is RoundRobin.
  [[nodiscard]] std::uint32_t number(std::uint32_t gpu) const { return number_[gpu]; }
  // True, by index in the fabric, for devices with cables to NICs.
  [[nodiscard]] const std::vector<bool>& has_nics() const { return cables_.has_nics; }
  // Returns the latency of the slowest cable of the GPU's NIC in that direction; 0 if it has none.
  [[nodiscard]] double slowest_s(Way way, std::uint32_t gpu) const;

 private:
  struct Cables {
    PortLinks up = {};
    PortLinks down = {};
    std::vector<bool> has_nics = {};
    // By GPU, the index of the switch that leads down to it. Filled only if each GPU has exactly
    // one.
    std::vector<std::uint32_t> place = {};
  };
  struct Targets {
    std::vector<std::vector<std::uint32_t>> switches = {};
    std::vector<std::uint32_t> of_gpu = {};
  };
  [[nodiscard]] Cables cables() const;
  [[nodiscard]] std::optional<Cables> strided_cables() const;
  [[nodiscard]] Cables all_cables() const;
  [[nodiscard]] Targets found_targets() const;
  [[nodiscard]] std::vector<std::uint32_t> numbers() const;
  template <class Use>
  void for_each_cable(Use use) const;
  [[nodiscard]] Arcs arcs(Way way, std::uint32_t gpu) const;
  [[nodiscard]] Arc arc(Way way, std::uint32_t gpu, LinkId link) const;

  Topology topology_;
  const FabricNet& fabric_;
  Cables cables_;
  Targets targets_;
  std::vector<std::uint32_t> number_;  // by GPU
};

}  // namespace trainyard
