// Where a step runs: GPUs, switches and NICs, joined by directed links, and the ways between them.
//
// Built once by topologies/ from a drawing, then never changed. Nodes that are wired alike share
// all that is found out about their inside.
//
//   Cluster c = build_cluster(spec);
//   for (RouteHop hop : c.route(0, 8)) use(c.link(hop.link), hop.fraction);
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/cluster/link_bundles.hpp"
#include "sim/cluster/net.hpp"
#include "sim/cluster/port_links.hpp"
#include "sim/cluster/route.hpp"
#include "sim/cluster/route_cache.hpp"
#include "sim/cluster/wiring.hpp"

namespace trainyard {

// Latency of collectives on this hardware: T = launch + steps * step latency + bytes / rate.
struct CollectiveLatency {
  Seconds launch = {};      // once per collective
  Seconds intra_step = {};  // per step that stays within a node
  Seconds inter_step = {};  // per step that crosses the network
  bool operator==(const CollectiveLatency&) const = default;
};

// How the traffic from one GPU to another is dealt to the shortest paths of the fabric. Ideal: to
// all of them, in equal shares per cable (adaptive routing, packet spraying). Ecmp: each of the
// connection's flows (queue pairs) takes one cable at every switch, by a hash of source,
// destination, flow, switch and seed. RoundRobin: as Ecmp, but each switch deals the destinations
// to its cables in turn (destination modulo cables, the static routing of InfiniBand fat-trees).
// Bundled cables are links of their own unless routing is Ideal.
struct Routing {
  enum class Kind : std::uint8_t { Ideal, Ecmp, RoundRobin } kind = Kind::Ideal;
  std::uint64_t seed = 1;                  // of Ecmp
  std::uint32_t flows_per_connection = 1;  // NCCL_IB_QPS_PER_CONNECTION with data split over QPs
  bool operator==(const Routing&) const = default;
};

// What a GPU is: its profile and the memory that training can use.
struct GpuKind {
  std::string profile = {};
  Bytes memory = {};
  auto operator<=>(const GpuKind&) const = default;
};

struct ClusterFacts {
  std::string name = {};  // "16 x dgx_a100_80gb, rail_optimized"
  std::string node = {};  // node type
  std::string gpu = {};   // GPU profile name, "a100_80gb"
  std::uint32_t nodes = 0;
  std::uint32_t gpus_per_node = 0;
  Bytes gpu_memory = {};                 // usable capacity of one GPU
  std::vector<GpuKind> mixed_gpus = {};  // by GPU, where they are not all alike; else empty
  Bytes host_memory = {};                // of one node's CPUs together; zero: not known
  CollectiveLatency latency = {};
  Routing routing = {};
  bool fabric_reduces = false;  // its switches add what passes through them (SHARP)
  // Where nodes (or the GPUs of a node) form a torus: how many along each dimension, the first
  // varying fastest with the number. Empty where they do not. REQUIRES: the product is theirs.
  std::vector<std::uint32_t> torus = {};       // nodes
  std::vector<std::uint32_t> node_torus = {};  // GPUs of a node
};

// Moves, does not copy.
class Cluster {
 public:
  // Bundles of cables become as many links where routing is not ideal. REQUIRES: gpus lists the
  // GPUs in rank order (node by node, all nodes alike in number); nic_of_gpu has one NIC per GPU,
  // or is empty for a cluster of one node. Throws InputError for a link without capacity and for
  // GPUs that cannot reach each other.
  Cluster(ClusterFacts facts, Wiring wiring, std::vector<DeviceId> gpus,
          std::vector<DeviceId> nic_of_gpu);
  Cluster(Cluster&&) = default;
  Cluster& operator=(Cluster&&) = default;

  [[nodiscard]] const ClusterFacts& facts() const { return facts_; }
  [[nodiscard]] const Wiring& wiring() const { return wiring_; }
  [[nodiscard]] const std::vector<DeviceId>& gpus() const { return gpus_; }
  [[nodiscard]] const std::vector<DeviceId>& nic_of_gpu() const { return nic_of_gpu_; }
  [[nodiscard]] Wiring::Links links() const { return wiring_.links(); }
  [[nodiscard]] Link link(LinkId id) const { return wiring_.link(id); }
  // The links that start at a device, ascending.
  [[nodiscard]] Wiring::Links links_from(DeviceId device) const {
    return wiring_.links_from(device);
  }
  [[nodiscard]] std::uint32_t device_count() const { return wiring_.device_count(); }
  [[nodiscard]] Device device(DeviceId id) const { return wiring_.device(id); }
  [[nodiscard]] std::string name(DeviceId id) const { return wiring_.name(id); }
  // gpu: index into gpus()
  [[nodiscard]] std::uint32_t node_of(std::uint32_t gpu) const {
    return gpu / facts_.gpus_per_node;
  }
  [[nodiscard]] std::uint32_t local_index(std::uint32_t gpu) const;  // 0..gpus_per_node-1
  [[nodiscard]] bool has_mixed_gpus() const { return !facts_.mixed_gpus.empty(); }
  [[nodiscard]] GpuKind gpu_kind(std::uint32_t gpu) const;

  // How a message travels from GPU to GPU. In a node: over NVLink where both have it, else PCIe.
  // Between nodes: through the source's own NIC, then over the shortest paths of the fabric as
  // facts().routing deals them, then the destination's NIC. Where no path joins those two NICs (two
  // planes, a dead rail), another GPU of the source's node, else of the destination's, passes the
  // message on. Empty when from == to.
  [[nodiscard]] Route route(std::uint32_t from_gpu, std::uint32_t to_gpu,
                            RouteDetail detail = RouteDetail::EveryLink) const;

  // The same, but leaving the node through the NIC of the local GPU that has the destination's
  // index, reached over NVLink, so that the fabric is crossed on one rail (NCCL's PXN). Equal to
  // route() where the sender has no NVLink to that GPU.
  [[nodiscard]] Route route_rail_aligned(std::uint32_t from_gpu, std::uint32_t to_gpu,
                                         RouteDetail detail = RouteDetail::EveryLink) const;

  // The switches that a message on route() to another node passes: as many on all of its shortest
  // paths. Nothing where links count for several hops or NICs pass the traffic of others on, so
  // that only route() tells.
  [[nodiscard]] std::optional<std::uint32_t> switches_between(std::uint32_t from_gpu,
                                                              std::uint32_t to_gpu) const;

  // Links that carry the same and switches wired alike; all are alone where routing is not ideal.
  [[nodiscard]] const LinkBundles& bundles() const { return bundles_; }

  // How a copy travels from a GPU to the memory of the CPU nearest to it (least links; chip to
  // chip, or through PCIe switches), and back. Empty where no CPU is wired to the GPU.
  [[nodiscard]] Route route_to_host(std::uint32_t gpu) const;
  [[nodiscard]] Route route_from_host(std::uint32_t gpu) const;

  // What a message on route() (or on route_rail_aligned()) pays in latency beyond the reference
  // distance, for which facts().latency stands. Between nodes that reference is one switch between
  // two NICs: the extra is the latency of all cables from NIC to NIC, less that of the cluster's
  // fastest pair of NIC ports; each further switch adds the latency of the cable that leads to it
  // (InfiniBand 0.13 to 0.25 us, RoCE 0.4 to 0.8 us, fibre 5 ns/m). Five switches with 0.5 us a hop
  // are 4 x 0.5 = 2 us more than one. In a node the reference is the nearest GPU over NVLink; GPUs
  // that pass traffic on (a torus) add their links. Where shortest paths differ, that of the
  // slowest. Held by tests/topologies/latency_test.cpp.
  [[nodiscard]] Seconds extra_latency(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  [[nodiscard]] Seconds extra_latency_rail_aligned(std::uint32_t from_gpu,
                                                   std::uint32_t to_gpu) const;

 private:
  // The two nets of a node.
  enum class Side : std::uint8_t { NvLink, Host };
  // A link within a node, relative to it.
  struct InnerLink {
    std::uint32_t place = 0;     // of the device it starts at
    std::uint32_t position = 0;  // among the links of that device
  };
  // What nodes wired alike have in common: the same devices in the same places, and the same links
  // between them. Nets number their links as `links` has them.
  struct NodeShape {
    std::uint32_t first = 0;  // the lowest such node
    std::vector<InnerLink> links = {};
    Net nvlink = {};
    Net host = {};
  };
  // Between NICs and the switches they hang on, seen from the NIC.
  enum class Way : std::uint8_t { Up, Down };
  struct ArcAt {
    const Cluster* cluster = nullptr;
    Way way = Way::Up;
    std::uint32_t gpu = 0;
    Arc operator()(const LinkId& link) const { return cluster->port_arc(way, gpu, link); }
  };
  using Arcs = boost::iterator_range<boost::transform_iterator<ArcAt, const LinkId*, Arc>>;
  // The GPUs at which a message leaves its node and enters the other.
  struct Crossing {
    std::uint32_t leaves_at = 0;
    std::uint32_t enters_at = 0;
  };

  // cluster.cpp
  void check_links() const;

  // cluster_nodes.cpp
  void place_devices();
  void shape_nodes();
  [[nodiscard]] std::vector<std::uint64_t> node_wiring(std::uint32_t node) const;
  [[nodiscard]] NodeShape shape_of(std::uint32_t node) const;
  [[nodiscard]] Net node_net(std::uint32_t node, const NodeShape& shape, Side side) const;
  // Among the devices of its node.
  [[nodiscard]] std::uint32_t place(DeviceId id) const {
    return place_.empty() ? wiring_.runs().place_of(id) : place_[id];
  }
  [[nodiscard]] DeviceId device_at(std::uint32_t node, std::uint32_t place) const {
    return place_.empty() ? wiring_.runs().first_device_of(node) + place
                          : node_devices_[first_device_[node] + place];
  }
  [[nodiscard]] std::vector<DeviceId> devices_of(std::uint32_t node) const;
  [[nodiscard]] LinkId link_of(std::uint32_t node, InnerLink link) const;
  [[nodiscard]] std::uint32_t node_around(DeviceId id) const;
  [[nodiscard]] const NodeShape& shape_around(DeviceId id) const;
  [[nodiscard]] bool reaches(Side side, DeviceId from, DeviceId to) const;
  [[nodiscard]] const Route& way(Side side, DeviceId from, DeviceId to) const;
  [[nodiscard]] Route node_route(Side side, DeviceId from, DeviceId to) const;
  [[nodiscard]] std::optional<DeviceId> host_of(std::uint32_t gpu) const;
  [[nodiscard]] Route in_node(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  [[nodiscard]] Seconds node_latency(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  [[nodiscard]] bool is_joined(std::uint32_t node) const;

  // cluster_ports.cpp
  // Where a GPU's traffic enters and leaves the fabric. NICs are no part of the fabric that is
  // searched (unless they are cabled to each other), so that all NICs of a leaf share its
  // distances.
  void make_ports();
  [[nodiscard]] std::vector<bool> cable_ports();
  template <class Use>
  void for_each_cable(Use use) const;
  [[nodiscard]] Arc port_arc(Way way, std::uint32_t gpu, LinkId link) const;
  [[nodiscard]] Arcs up(std::uint32_t gpu) const { return arcs(Way::Up, gpu, up_.of(gpu)); }
  [[nodiscard]] Arcs down(std::uint32_t gpu) const { return arcs(Way::Down, gpu, down_.of(gpu)); }
  [[nodiscard]] Arcs arcs(Way way, std::uint32_t gpu, std::span<const LinkId> links) const;
  // Ports of one component reach each other.
  [[nodiscard]] std::uint32_t component(std::uint32_t gpu) const {
    return component_.empty() ? 0 : component_[gpu];
  }
  void check_cabled() const;
  void check_ways_to_nics() const;
  [[nodiscard]] bool has_ports_like(std::uint32_t node, std::uint32_t other) const;
  void find_targets();
  void number_ports();
  void find_components(const std::vector<bool>& has_ports);
  void check_reachable() const;
  void check_components() const;
  [[nodiscard]] double slowest(Way way, std::uint32_t gpu) const;

  // cluster_fabric.cpp
  void place_fabric();
  // Of a device among those of the fabric; kNoPlace: it is no part of it.
  [[nodiscard]] std::uint32_t fabric_place(DeviceId id) const {
    return id < first_fabric_device_ ? kNoPlace : fabric_place_[id - first_fabric_device_];
  }
  void lay_out_fabric();
  void lay_out_bundles();
  void tabulate_fabric();
  void tabulate_latency();
  [[nodiscard]] double fastest(Way way) const;
  [[nodiscard]] std::vector<std::uint32_t> wiring_at(std::uint32_t place) const;
  [[nodiscard]] Latencies fabric_latencies(std::uint32_t target, const Distances& hops) const;
  // As the table has them, or what `searched` has where there is no table.
  [[nodiscard]] Distances distances(std::uint32_t target, const Hops& searched) const;
  [[nodiscard]] Hops searched(std::uint32_t target) const;
  [[nodiscard]] std::shared_ptr<const Trunk> trunk(const Arc& start, std::uint32_t target) const;
  [[nodiscard]] Trunk trunk_to(std::span<const Arc> starts, const Distances& hops,
                               std::uint32_t target) const;
  void append_trunk(Route& route, const Trunk& trunk, RouteDetail detail) const;

  // cluster_paths.cpp
  [[nodiscard]] Crossing crossing(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  [[nodiscard]] std::optional<std::uint32_t> rail_relay(std::uint32_t from_gpu,
                                                        std::uint32_t to_gpu) const;
  [[nodiscard]] Route across_fabric(Crossing ends, Route so_far, RouteDetail detail) const;
  [[nodiscard]] std::vector<Arc> nearest_starts(std::uint32_t gpu, const Distances& hops) const;
  [[nodiscard]] Route all_paths(Crossing ends, Route so_far, RouteDetail detail) const;
  [[nodiscard]] Route dealt_paths(Crossing ends, Route so_far) const;
  [[nodiscard]] Seconds fabric_latency(std::uint32_t from_gpu, std::uint32_t to_gpu) const;

  ClusterFacts facts_;
  Wiring wiring_;
  std::vector<DeviceId> gpus_;
  std::vector<DeviceId> nic_of_gpu_;
  LinkBundles bundles_;

  // Where some node is not part of a run of nodes alike; else empty, as numbers tell:
  std::vector<std::uint32_t> place_;         // by device, among those of its node
  std::vector<DeviceId> node_devices_;       // node by node, by place
  std::vector<std::uint32_t> first_device_;  // by node, where its begin there; and the end
  std::vector<NodeShape> shapes_;
  std::vector<std::uint32_t> shape_of_node_;
  bool gpus_relay_ = false;  // some GPUs are joined by NVLink without a switch

  bool only_switches_ = false;            // pass traffic on, over links of one hop each
  Net fabric_;                            // under ideal routing of bundles, else of links
  std::vector<DeviceId> fabric_devices_;  // by place
  static constexpr std::uint32_t kNoPlace = std::numeric_limits<std::uint32_t>::max();
  DeviceId first_fabric_device_ = 0;
  std::vector<std::uint32_t> fabric_place_;  // by device from that one on
  PortLinks up_;    // from NICs to switches; none for one node without NICs
  PortLinks down_;  // the same back
  std::vector<std::vector<std::uint32_t>> targets_;  // places of switches that NICs hang on
  std::vector<std::uint32_t> target_;  // by GPU, index into targets_: those that lead to its NIC
  std::vector<std::uint32_t>
      port_number_;  // by GPU, those of one target in a row; where dealt in turn
  std::vector<std::uint32_t> component_;  // by GPU; empty: there is one
  std::uint32_t components_ = 0;
  // Distances to a target: a row, in which two places may have to trade theirs.
  struct Row {
    std::uint32_t row = 0;
    std::uint32_t target = 0;  // places
    std::uint32_t like = 0;
  };
  std::vector<Hops> fabric_hops_;  // rows that differ
  // By target. Empty when the table would be too large: then every route searches.
  std::vector<Row> row_of_target_;
  // Ways within a node by shape, side and places, with links as the shape numbers them; trunks by
  // place of the first switch and target.
  std::unique_ptr<RouteCache> routes_;
  std::optional<double> hop_latency_s_;    // where all links between switches have the same
  std::vector<Latencies> fabric_latency_;  // else, by target
  double reference_latency_s_ = 0.0;
};

// Estimates the bytes it holds.
[[nodiscard]] std::size_t footprint(const Cluster& cluster);

}  // namespace trainyard
