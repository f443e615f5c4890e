// Where a step runs: GPUs, switches and NICs as vertices, wires as directed links, in a Boost
// graph.
//
// A full-duplex wire is two links. Capacities are what a collective can really use (NCCL's
// constants for NVLink and PCIe, payload rates for NICs); the nominal figure is kept beside for
// reports. Built once by topologies/, then never changed.
//
//   Cluster c = build_cluster(spec);
//   for (RouteHop hop : c.route(0, 8)) use(c.link(hop.link), hop.fraction);
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace trainyard {

using DeviceId = std::uint32_t;
using LinkId = std::uint32_t;

enum class DeviceKind : std::uint8_t {
  Gpu,
  NvSwitch,
  PcieSwitch,
  Nic,
  LeafSwitch,
  SpineSwitch,
  CoreSwitch,
  Cpu
};
inline constexpr std::size_t kDeviceKinds = 8;
[[nodiscard]] std::string_view to_string(DeviceKind kind);

// ChipToChip joins a GPU and its CPU without PCIe (Grace), Socket two CPUs of one server.
enum class LinkKind : std::uint8_t {
  NvLink,
  Pcie,
  NicPort,
  LeafSpine,
  SpineCore,
  ChipToChip,
  Socket
};
inline constexpr std::size_t kLinkKinds = 7;
[[nodiscard]] std::string_view to_string(LinkKind kind);

struct Device {
  DeviceKind kind = DeviceKind::Gpu;
  std::string name;        // "node 3 gpu 5", "leaf 2"
  std::int32_t node = -1;  // server, -1 for switches of the fabric
  std::int32_t index = 0;  // position among its kind within the node (GPU 0..7) or fabric
};

struct Link {
  LinkId id = 0;
  LinkKind kind = LinkKind::NvLink;
  DeviceId from = 0;
  DeviceId to = 0;
  BytesPerSecond capacity;   // usable
  BytesPerSecond nominal;    // as sold
  Seconds latency;           // one traversal
  std::uint32_t cables = 1;  // parallel wires bundled in this link; the capacity is that of all
};

using ClusterGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Device, Link>;

// A flow of one byte from a to b puts `fraction` bytes on the link (1/16 on each of 16 spines).
struct RouteHop {
  LinkId link = 0;
  double fraction = 1.0;
};
using Route = std::vector<RouteHop>;

// Latency of collectives on this hardware: T = launch + steps * step latency + bytes / rate.
struct CollectiveLatency {
  Seconds launch;      // once per collective
  Seconds intra_step;  // per step that stays within a node
  Seconds inter_step;  // per step that crosses the network
};

struct ClusterFacts {
  std::string name;  // "16 x dgx_a100_80gb, rail_optimized"
  std::string node;  // node type
  std::string gpu;   // GPU profile name, "a100_80gb"
  std::uint32_t nodes = 0;
  std::uint32_t gpus_per_node = 0;
  Bytes gpu_memory;  // usable capacity of one GPU
  CollectiveLatency latency;
};

class Cluster {
 public:
  // Links are numbered in the order of the graph's edges, by source vertex. REQUIRES: gpus lists
  // the GPU vertices in rank order (node by node, all nodes alike in number); nic_of_gpu has one
  // NIC per GPU, or is empty for a cluster of one node. Throws InputError for a link without
  // capacity and for GPUs that cannot reach each other.
  Cluster(ClusterFacts facts, ClusterGraph graph, std::vector<DeviceId> gpus,
          std::vector<DeviceId> nic_of_gpu);

  [[nodiscard]] const ClusterFacts& facts() const { return facts_; }
  [[nodiscard]] const ClusterGraph& graph() const { return graph_; }
  [[nodiscard]] const std::vector<DeviceId>& gpus() const { return gpus_; }
  [[nodiscard]] const std::vector<DeviceId>& nic_of_gpu() const { return nic_of_gpu_; }
  [[nodiscard]] const std::vector<Link>& links() const { return links_; }
  [[nodiscard]] const Link& link(LinkId id) const { return links_.at(id); }
  [[nodiscard]] const Device& device(DeviceId id) const { return graph_[id]; }
  [[nodiscard]] std::uint32_t node_of(std::uint32_t gpu) const;      // gpu: index into gpus()
  [[nodiscard]] std::uint32_t local_index(std::uint32_t gpu) const;  // 0..gpus_per_node-1

  // How a message travels from GPU to GPU. In a node: over NVLink where both have it, else PCIe.
  // Between nodes: through the source's own NIC, then over all shortest paths of the fabric, at
  // every hop in equal shares per cable (ideal routing), then the destination's NIC. Empty when
  // from == to.
  [[nodiscard]] Route route(std::uint32_t from_gpu, std::uint32_t to_gpu) const;

  // The same, but leaving the node through the NIC of the local GPU that has the destination's
  // index, reached over NVLink, so that the fabric is crossed on one rail (NCCL's PXN). Equal to
  // route() where the sender has no NVLink to that GPU.
  [[nodiscard]] Route route_rail_aligned(std::uint32_t from_gpu, std::uint32_t to_gpu) const;

 private:
  struct Arc {
    DeviceId device = 0;  // the other end
    LinkId link = 0;
  };
  // Adjacency as flat arrays: arcs of vertex v are arcs[begin[v] .. begin[v + 1]).
  struct Adjacency {
    std::vector<std::uint32_t> begin;
    std::vector<Arc> arcs;
    [[nodiscard]] std::span<const Arc> of(DeviceId device) const {
      return std::span(arcs).subspan(begin[device], begin[device + 1] - begin[device]);
    }
  };
  using LinkKinds = std::uint32_t;          // set of link kinds, one bit each
  using Hops = std::vector<std::uint16_t>;  // distance to a target, by place in the zone

  void number_links();
  void check_links() const;
  void place_devices();
  void connect_nics();
  void check_reachable() const;
  [[nodiscard]] bool passes(LinkId link, LinkKinds kinds) const;
  [[nodiscard]] Hops hops_to(DeviceId target, LinkKinds kinds) const;
  [[nodiscard]] Route spread(DeviceId from, DeviceId to, LinkKinds kinds, const Hops& hops) const;
  [[nodiscard]] Route shortest_paths(DeviceId from, DeviceId to, LinkKinds kinds) const;
  [[nodiscard]] Route across_fabric(std::uint32_t from_gpu, std::uint32_t to_gpu) const;

  ClusterFacts facts_;
  ClusterGraph graph_;
  std::vector<DeviceId> gpus_;
  std::vector<DeviceId> nic_of_gpu_;
  std::vector<Link> links_;
  Adjacency out_;
  Adjacency in_;
  // A zone is a node, or the fabric (network switches and every NIC). Searches stay in one zone.
  std::vector<std::uint32_t> zone_;   // by device
  std::vector<std::uint32_t> place_;  // by device: its number within the zone
  std::vector<std::uint32_t> zone_size_;
  // Ends of the fabric: where a GPU's traffic enters and leaves it. A NIC with one cable is
  // stripped, so that all NICs of a leaf share the leaf's distances.
  struct Port {
    Route out;                 // GPU to NIC, and the NIC's cable
    Route in;                  // the way back
    DeviceId entry = 0;        // the switch (or NIC) where the fabric starts
    std::uint32_t target = 0;  // index into fabric_hops_
  };
  std::vector<Port> ports_;        // by GPU; empty for one node
  std::vector<Hops> fabric_hops_;  // by target
};

// What can flow from one half of the cluster to the other: the least cut that parts the GPUs of the
// first half of the nodes (of the GPUs, for one node) from the rest, one direction. Found by
// maximum flow; 0 for one GPU. Eight NICs of 48.5 GB/s on each of two nodes: 388 GB/s, if PCIe lets
// them.
[[nodiscard]] BytesPerSecond bisection_bandwidth(const Cluster& cluster);

}  // namespace trainyard
