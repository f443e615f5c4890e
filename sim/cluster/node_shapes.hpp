// The inside of nodes: where its devices stand, and what nodes wired alike have in common.
//
//   const NodeShapes nodes(topology);
//   const NodeShapes::Shape& shape = nodes.of(node);
//   search(shape.nvlink, shape.nvlink.in, std::array{nodes.place(gpu)});
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cluster/net.hpp"
#include "sim/cluster/topology.hpp"

namespace trainyard {

class NodeShapes {
 public:
  // A link within a node, relative to it.
  struct InnerLink {
    std::uint32_t place = 0;     // of the device it starts at
    std::uint32_t position = 0;  // among the links of that device
  };
  // Nodes of one shape have the same devices in the same places, and the same links between them.
  // The two nets number their links as `links` has them.
  struct Shape {
    std::uint32_t first = 0;  // the lowest such node
    std::vector<InnerLink> links = {};
    Net nvlink = {};
    Net host = {};
  };

  explicit NodeShapes(Topology topology);

  [[nodiscard]] const std::vector<Shape>& all() const { return shapes_; }
  [[nodiscard]] std::uint32_t number(std::uint32_t node) const { return of_node_[node]; }
  [[nodiscard]] const Shape& of(std::uint32_t node) const { return shapes_[of_node_[node]]; }
  // REQUIRES: the device belongs to a node.
  [[nodiscard]] std::uint32_t node_around(DeviceId id) const {
    return static_cast<std::uint32_t>(topology_.device(id).node);
  }
  // Among the devices of its node.
  [[nodiscard]] std::uint32_t place(DeviceId id) const {
    return places_.of_device.empty() ? topology_.wiring().runs().place_of(id)
                                     : places_.of_device[id];
  }
  // Whether the devices of every node are numbered in a row, by place.
  [[nodiscard]] bool are_in_a_row() const { return places_.of_device.empty(); }
  [[nodiscard]] DeviceId device_at(std::uint32_t node, std::uint32_t place) const {
    return are_in_a_row() ? topology_.wiring().runs().first_device_of(node) + place
                          : places_.devices[places_.first[node] + place];
  }
  [[nodiscard]] LinkId link_of(std::uint32_t node, InnerLink link) const {
    return topology_.wiring().first_link_from(device_at(node, link.place)) + link.position;
  }

 private:
  // Empty where all nodes are part of runs of nodes alike, whose numbers tell.
  struct Places {
    std::vector<std::uint32_t> of_device = {};
    std::vector<DeviceId> devices = {};     // node by node, by place
    std::vector<std::uint32_t> first = {};  // by node, where its devices begin; and the end
  };
  [[nodiscard]] static Places places_in(const Topology& topology);
  [[nodiscard]] std::vector<DeviceId> devices_of(std::uint32_t node) const;
  [[nodiscard]] std::vector<std::uint64_t> wiring_of(std::uint32_t node) const;
  [[nodiscard]] Shape shape_of(std::uint32_t node) const;
  template <class Takes, class Relays>
  [[nodiscard]] Net net_of(const Shape& shape, Takes takes, Relays relays) const;

  Topology topology_;
  Places places_;
  std::vector<Shape> shapes_;
  std::vector<std::uint32_t> of_node_;
};

}  // namespace trainyard
