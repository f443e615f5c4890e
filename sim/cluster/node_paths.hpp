// Paths within nodes: the indices of devices in their nodes, the wiring that identical nodes share,
// and routes over NVLink or over the host side (PCIe, chip to chip, sockets).
//
//    const NodePaths nodes(topology);
//    nodes.between_gpus(0, 7);
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/cluster/net.hpp"
#include "sim/cluster/topology.hpp"

namespace trainyard {

// The index of each device in its node (its "place"), and the distinct shapes of nodes.
class NodeShapes {
 public:
  // A link within a node, in a form that all nodes of a shape share.
  struct InnerLink {
    std::uint32_t place = 0;     // index in the node of the device it starts at
    std::uint32_t position = 0;  // index among the links of that device
  };
  // Nodes of one shape have the same devices at the same indices, and the same links between them.
  // Link numbers in the two nets are indices into `links`.
  struct Shape {
    std::uint32_t first = 0;  // the lowest node of this shape
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
  // Returns the index of a device in its node.
  [[nodiscard]] std::uint32_t place(DeviceId id) const {
    return places_.of_device.empty() ? topology_.wiring().runs().holder_of(id)
                                     : places_.of_device[id];
  }
  // True if the devices of every node have consecutive numbers, in the order of their indices.
  [[nodiscard]] bool has_consecutive_devices() const { return places_.of_device.empty(); }
  [[nodiscard]] DeviceId device_at(std::uint32_t node, std::uint32_t place) const {
    return has_consecutive_devices() ? topology_.wiring().runs().first_device_of(node) + place
                                     : places_.devices[places_.first[node] + place];
  }
  [[nodiscard]] LinkId link_of(std::uint32_t node, InnerLink link) const {
    return topology_.wiring().first_link_from(device_at(node, link.place)) + link.position;
  }

 private:
  // Empty if all nodes belong to runs of identical nodes, which compute these numbers.
  struct Places {
    std::vector<std::uint32_t> of_device = {};
    std::vector<DeviceId> devices = {};     // node by node, by index
    std::vector<std::uint32_t> first = {};  // by node, its start in `devices`; and the end
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

// Routes within nodes. Thread-safe. Each route is searched once for all nodes of a shape and
// cached.
class NodePaths {
 public:
  // The two nets of a node.
  enum class Side : std::uint8_t { NvLink, Host };

  // Throws InputError for a GPU without a path to its NIC or back.
  explicit NodePaths(const Topology& topology);

  [[nodiscard]] const NodeShapes& shapes() const { return shapes_; }
  // Empty if there is no path. REQUIRES: both devices are in one node.
  [[nodiscard]] Route route(Side side, DeviceId from, DeviceId to) const;
  // Appends that route.
  void append(Route& route, Side side, DeviceId from, DeviceId to) const;
  [[nodiscard]] bool has_route(Side side, DeviceId from, DeviceId to) const;
  // Over NVLink if it joins them, else over the host side. REQUIRES: GPUs of one node.
  [[nodiscard]] Route between_gpus(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  // To the memory of the CPU nearest to the GPU, and back. Empty if no CPU is wired to the GPU.
  [[nodiscard]] Route to_host(std::uint32_t gpu) const;
  [[nodiscard]] Route from_host(std::uint32_t gpu) const;
  // True if every GPU of the node reaches all others.
  [[nodiscard]] bool joins_gpus(std::uint32_t node) const;

 private:
  // Returns the cached route, with links as indices into Shape::links.
  [[nodiscard]] const Route& way(Side side, DeviceId from, DeviceId to) const;
  [[nodiscard]] std::optional<DeviceId> host_of(std::uint32_t gpu) const;
  [[nodiscard]] bool has_devices_like(std::uint32_t node, std::uint32_t other) const;
  void check_ways_to_nics() const;

  Topology topology_;
  NodeShapes shapes_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::uint64_t, Route> ways_;  // by shape, side and the two indices
};

}  // namespace trainyard
