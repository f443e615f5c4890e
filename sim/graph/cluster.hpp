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
#include <memory>
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
  std::string name = {};   // "node 3 gpu 5", "leaf 2"
  std::int32_t node = -1;  // server, -1 for switches of the fabric
  std::int32_t index = 0;  // position among its kind within the node (GPU 0..7) or fabric
};

struct Link {
  LinkId id = 0;
  LinkKind kind = LinkKind::NvLink;
  DeviceId from = 0;
  DeviceId to = 0;
  BytesPerSecond capacity = {};  // usable
  BytesPerSecond nominal = {};   // as sold
  Seconds latency = {};          // one traversal
  std::uint32_t cables = 1;      // parallel wires bundled in this link; the capacity is that of all
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
  Seconds launch = {};      // once per collective
  Seconds intra_step = {};  // per step that stays within a node
  Seconds inter_step = {};  // per step that crosses the network
};

struct ClusterFacts {
  std::string name = {};  // "16 x dgx_a100_80gb, rail_optimized"
  std::string node = {};  // node type
  std::string gpu = {};   // GPU profile name, "a100_80gb"
  std::uint32_t nodes = 0;
  std::uint32_t gpus_per_node = 0;
  Bytes gpu_memory = {};  // usable capacity of one GPU
  CollectiveLatency latency = {};
};

// Moves, does not copy.
class Cluster {
 public:
  // Links are numbered in the order of the graph's edges, by source vertex. REQUIRES: gpus lists
  // the GPU vertices in rank order (node by node, all nodes alike in number); nic_of_gpu has one
  // NIC per GPU, or is empty for a cluster of one node. Throws InputError for a link without
  // capacity and for GPUs that cannot reach each other.
  Cluster(ClusterFacts facts, const ClusterGraph& graph, std::vector<DeviceId> gpus,
          std::vector<DeviceId> nic_of_gpu);

  [[nodiscard]] const ClusterFacts& facts() const { return facts_; }
  [[nodiscard]] const ClusterGraph& graph() const { return *graph_; }
  [[nodiscard]] const std::vector<DeviceId>& gpus() const { return gpus_; }
  [[nodiscard]] const std::vector<DeviceId>& nic_of_gpu() const { return nic_of_gpu_; }
  [[nodiscard]] const std::vector<Link>& links() const { return links_; }
  [[nodiscard]] const Link& link(LinkId id) const { return links_.at(id); }
  [[nodiscard]] const Device& device(DeviceId id) const { return (*graph_)[id]; }
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
  // One step of a path, laid out for the inner loop of a walk.
  struct Arc {
    DeviceId device = 0;      // the other end
    std::uint32_t place = 0;  // its number in the zone that is searched
    LinkId link = 0;
    std::uint32_t cables = 1;
  };
  // Arcs of a device are arcs[begin[device] .. begin[device + 1]).
  struct Adjacency {
    std::vector<std::uint32_t> begin;
    std::vector<Arc> arcs;
    [[nodiscard]] std::span<const Arc> of(DeviceId device) const {
      return std::span(arcs).subspan(begin[device], begin[device + 1] - begin[device]);
    }
  };
  // A part of the cluster that is searched on its own: NVLink, the host side (PCIe, chip-to-chip,
  // sockets) or the fabric. Zones keep searches small: a node is a zone, and the whole fabric is
  // one.
  struct Net {
    Adjacency out;
    Adjacency in;
    std::vector<std::uint32_t> place;      // by device, kNowhere where it does not belong
    std::vector<bool> relays;              // by device: paths may lead through it
    std::vector<std::uint32_t> zone_size;  // by node; the fabric has one entry
    [[nodiscard]] std::size_t size_around(const Device& device) const;
  };
  using Hops = std::vector<std::uint16_t>;  // distance to one target, by place

  // Where a GPU's traffic enters and leaves the fabric. A NIC with one cable is stripped, so that
  // all NICs of a leaf share the leaf's distances.
  struct Port {
    Route out = {};            // GPU to NIC, and the NIC's cable
    Route in = {};             // the way back
    DeviceId entry = 0;        // the switch (or NIC) where the fabric starts
    std::uint32_t target = 0;  // index into fabric_hops_
  };

  void copy_numbered(const ClusterGraph& graph);
  void check_links() const;
  [[nodiscard]] Net node_net(std::uint32_t kinds, bool through_gpus) const;
  [[nodiscard]] Net fabric_net() const;
  void fill_adjacency(Net& net, std::uint32_t kinds) const;
  void make_ports();
  void tabulate_fabric(const std::vector<DeviceId>& targets);
  void check_reachable() const;
  void check_node(std::uint32_t first_gpu) const;
  [[nodiscard]] Hops search(const Net& net, const Adjacency& arcs, DeviceId start) const;
  [[nodiscard]] Hops hops_to(const Net& net, DeviceId target) const;
  // `so_far`, continued from one device to the other.
  [[nodiscard]] Route spread(const Net& net, DeviceId from, DeviceId to, const Hops& hops,
                             Route so_far) const;
  [[nodiscard]] Route shortest_paths(const Net& net, DeviceId from, DeviceId to) const;
  [[nodiscard]] Route across_fabric(std::uint32_t from_gpu, std::uint32_t to_gpu) const;

  ClusterFacts facts_;
  std::unique_ptr<ClusterGraph> graph_;  // Boost graphs copy where others move
  std::vector<DeviceId> gpus_;
  std::vector<DeviceId> nic_of_gpu_;
  std::vector<Link> links_;
  Net nvlink_;
  Net host_;
  Net fabric_;
  std::vector<Port> ports_;  // by GPU; empty for one node without NICs
  // By target. Empty when the table would be too large: then every route searches.
  std::vector<Hops> fabric_hops_;
};

}  // namespace trainyard
