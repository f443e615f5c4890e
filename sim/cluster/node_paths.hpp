// The ways within nodes: over NVLink, or over the host side (PCIe, chip to chip, sockets).
//
//   const NodePaths nodes(topology);
//   nodes.between_gpus(0, 7);
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "sim/cluster/node_shapes.hpp"
#include "sim/cluster/route.hpp"

namespace trainyard {

// Several threads may ask. A way is searched once for all nodes of a shape, and kept.
class NodePaths {
 public:
  // The two nets of a node.
  enum class Side : std::uint8_t { NvLink, Host };

  // Throws InputError for a GPU that has no way to its NIC and back.
  explicit NodePaths(const Topology& topology);

  [[nodiscard]] const NodeShapes& shapes() const { return shapes_; }
  // Empty where there is no way. REQUIRES: both are of one node.
  [[nodiscard]] Route route(Side side, DeviceId from, DeviceId to) const;
  [[nodiscard]] bool has_route(Side side, DeviceId from, DeviceId to) const;
  // Over NVLink where both have it, else over the host side. REQUIRES: GPUs of one node.
  [[nodiscard]] Route between_gpus(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  // To the memory of the CPU nearest to it, and back. Empty where none is wired to the GPU.
  [[nodiscard]] Route to_host(std::uint32_t gpu) const;
  [[nodiscard]] Route from_host(std::uint32_t gpu) const;
  // Every GPU of the node is reached by all others.
  [[nodiscard]] bool joins_gpus(std::uint32_t node) const;

 private:
  // With links as the shape numbers them.
  [[nodiscard]] const Route& way(Side side, DeviceId from, DeviceId to) const;
  [[nodiscard]] std::optional<DeviceId> host_of(std::uint32_t gpu) const;
  [[nodiscard]] bool has_devices_like(std::uint32_t node, std::uint32_t other) const;
  void check_ways_to_nics() const;

  Topology topology_;
  NodeShapes shapes_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::uint64_t, Route> ways_;  // by shape, side and places
};

}  // namespace trainyard
