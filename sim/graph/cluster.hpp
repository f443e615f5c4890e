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
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
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

// ChipToChip joins a GPU and its CPU without PCIe (Grace), Socket two CPUs of one server, Local
// switches of one tier that are neighbours (a torus, a dragonfly group), Global two dragonfly
// groups.
enum class LinkKind : std::uint8_t {
  NvLink,
  Pcie,
  NicPort,
  LeafSpine,
  SpineCore,
  ChipToChip,
  Socket,
  Local,
  Global
};
inline constexpr std::size_t kLinkKinds = 9;
[[nodiscard]] std::string_view to_string(LinkKind kind);

struct Device {
  DeviceKind kind = DeviceKind::Gpu;
  std::string name = {};   // "node 3 gpu 5", "leaf 2"
  std::int32_t node = -1;  // server, -1 for switches of the fabric
  std::int32_t index = 0;  // position among its kind within the node (GPU 0..7) or fabric
  bool operator==(const Device&) const = default;
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
  bool operator==(const Link&) const = default;
};

using ClusterGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Device, Link>;

// A flow of one byte from a to b puts `fraction` bytes on the link (1/16 on each of 16 spines).
struct RouteHop {
  LinkId link = 0;
  double fraction = 1.0;
  // So many links in all have that load: the whole bundle of which `link` is the lowest
  // (link_bundles.hpp), where a route is told by bundles.
  std::uint32_t alike = 1;
};
using Route = std::vector<RouteHop>;

// Whether a route names every link, or of a bundle that it loads alike only the lowest.
enum class RouteDetail : std::uint8_t { EveryLink, Bundles };

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
  // Links are numbered in the order of the graph's edges, by source vertex. REQUIRES: gpus lists
  // the GPU vertices in rank order (node by node, all nodes alike in number); nic_of_gpu has one
  // NIC per GPU, or is empty for a cluster of one node. Throws InputError for a link without
  // capacity and for GPUs that cannot reach each other.
  Cluster(ClusterFacts facts, std::unique_ptr<ClusterGraph> graph, std::vector<DeviceId> gpus,
          std::vector<DeviceId> nic_of_gpu);
  // The same with a copy of the graph.
  Cluster(ClusterFacts facts, const ClusterGraph& graph, std::vector<DeviceId> gpus,
          std::vector<DeviceId> nic_of_gpu);

  [[nodiscard]] const ClusterFacts& facts() const { return facts_; }
  [[nodiscard]] const ClusterGraph& graph() const { return *graph_; }
  [[nodiscard]] const std::vector<DeviceId>& gpus() const { return gpus_; }
  [[nodiscard]] const std::vector<DeviceId>& nic_of_gpu() const { return nic_of_gpu_; }
  [[nodiscard]] const std::vector<Link>& links() const { return links_; }
  [[nodiscard]] const Link& link(LinkId id) const { return links_.at(id); }
  // The links that start at a device, ascending.
  [[nodiscard]] std::span<const Link> links_from(DeviceId device) const {
    return std::span(links_).subspan(first_link_[device],
                                     first_link_[device + 1] - first_link_[device]);
  }
  [[nodiscard]] const Device& device(DeviceId id) const { return (*graph_)[id]; }
  [[nodiscard]] std::uint32_t node_of(std::uint32_t gpu) const;      // gpu: index into gpus()
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

  // By link, the lowest of its bundle (link_bundles.hpp).
  [[nodiscard]] const std::vector<LinkId>& bundle_of() const { return bundle_of_; }
  // All links of a bundle of two or more by its lowest, ascending; empty for a link that is alone.
  [[nodiscard]] std::span<const LinkId> bundle(LinkId lowest) const;
  // The lowest of the switches that are wired as this one is, itself where it is alone.
  [[nodiscard]] DeviceId wired_like(DeviceId device) const { return wired_like_[device]; }

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
  static constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint16_t kUnreachable = std::numeric_limits<std::uint16_t>::max();

  // One step of a path, laid out for the inner loop of a walk.
  struct Arc {
    DeviceId device = 0;      // the other end
    std::uint32_t place = 0;  // its number in the zone that is searched
    LinkId link = kNowhere;   // kNowhere: none, the walk starts at the device
    std::uint32_t cables = 1;
    std::uint32_t length = 1;  // in hops; a global link counts for more (lengths of cluster.cpp)
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
    bool plain = true;                     // every arc is of length 1
    [[nodiscard]] std::size_t size_around(const Device& device) const;
  };
  using Hops = std::vector<std::uint16_t>;  // distance to the nearest target, by place
  using Latencies = std::vector<double>;    // seconds to it on the slowest shortest path, by place
  // Links crossed and what arrived where, by place.
  struct Spread {
    Route route;
    std::vector<double> share;
  };

  // What the traffic of every NIC that hangs on one switch alone crosses on its way to a target.
  struct Trunk {
    Route bundles = {};                 // in the order of the walk
    std::vector<double> arriving = {};  // by number of the switch in its target
  };

  // Where a GPU's traffic enters and leaves the fabric. NICs are no part of the fabric that is
  // searched (unless they are cabled to each other), so that all NICs of a leaf share its
  // distances.
  struct Port {
    Route out = {};               // GPU to NIC
    Route in = {};                // the way back
    std::vector<Arc> up = {};     // NIC to its switches (or the NIC itself, without a link)
    std::vector<Arc> down = {};   // the same back; device is the switch
    std::uint32_t target = 0;     // index into targets_: the switches of `down`
    std::uint32_t number = 0;     // among all ports, those of one target in a row
    std::uint32_t component = 0;  // ports of one component reach each other
    double up_latency_s = 0.0;    // of the slowest cable
    double down_latency_s = 0.0;
  };
  // The GPUs at which a message leaves its node and enters the other.
  struct Crossing {
    std::uint32_t leaves_at = 0;
    std::uint32_t enters_at = 0;
  };

  // A node's own links, and the lowest node that is wired like it: with the same devices in the
  // same places, and the same links between them in the same order.
  struct NodeLinks {
    std::uint32_t like = 0;
    std::vector<LinkId> links = {};
  };

  void number_links();
  void compare_nodes();
  void check_links() const;
  void find_bundles();
  void fill_bundled_fabric();
  [[nodiscard]] Net node_net(std::uint32_t kinds, bool through_gpus) const;
  [[nodiscard]] Net fabric_net() const;
  void fill_adjacency(Net& net, std::uint32_t kinds) const;
  void make_ports();
  void cable_port(Port& port, DeviceId nic, std::span<const LinkId> up,
                  std::span<const LinkId> down) const;
  void number_ports();
  void tabulate_fabric();
  [[nodiscard]] std::vector<std::uint32_t> wiring_of(DeviceId device) const;
  // The row of the table, or what `searched` has where there is no table.
  [[nodiscard]] const Hops& distances(std::uint32_t target, const Hops& searched) const;
  [[nodiscard]] Hops searched(std::uint32_t target) const;
  void tabulate_latency();
  void find_components();
  void check_reachable() const;
  void check_components() const;
  [[nodiscard]] bool is_joined(std::uint32_t first_gpu) const;

  [[nodiscard]] Hops search(const Net& net, const Adjacency& arcs,
                            std::span<const DeviceId> starts) const;
  [[nodiscard]] Hops hops_to(const Net& net, DeviceId target) const;
  [[nodiscard]] Latencies slowest_path(const Net& net, const Hops& hops,
                                       std::span<const DeviceId> targets) const;
  [[nodiscard]] Spread spread(const Net& net, std::span<const Arc> starts, const Hops& hops,
                              Route so_far) const;
  [[nodiscard]] Route shortest_paths(const Net& net, DeviceId from, DeviceId to) const;
  [[nodiscard]] Route searched_paths(const Net& net, DeviceId from, DeviceId to) const;
  [[nodiscard]] std::optional<DeviceId> host_of(std::uint32_t gpu) const;
  [[nodiscard]] Route in_node(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  [[nodiscard]] Crossing crossing(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  [[nodiscard]] std::optional<std::uint32_t> rail_relay(std::uint32_t from_gpu,
                                                        std::uint32_t to_gpu) const;
  [[nodiscard]] Route across_fabric(Crossing ends, Route so_far, RouteDetail detail) const;
  [[nodiscard]] std::vector<Arc> nearest_starts(const Port& source, const Hops& hops) const;
  [[nodiscard]] Route all_paths(const Port& source, const Port& sink, Route so_far,
                                RouteDetail detail) const;
  [[nodiscard]] const Trunk& trunk(const Arc& start, std::uint32_t target) const;
  [[nodiscard]] Trunk trunk_to(std::span<const Arc> starts, const Hops& hops,
                               std::uint32_t target) const;
  void append_trunk(Route& route, const Trunk& trunk, RouteDetail detail) const;
  [[nodiscard]] Route dealt_paths(Crossing ends, Route so_far) const;
  [[nodiscard]] Seconds fabric_latency(std::uint32_t from_gpu, std::uint32_t to_gpu) const;
  [[nodiscard]] Seconds node_latency(std::uint32_t from_gpu, std::uint32_t to_gpu) const;

  ClusterFacts facts_;
  std::unique_ptr<ClusterGraph> graph_;  // Boost graphs copy where others move
  std::vector<DeviceId> gpus_;
  std::vector<DeviceId> nic_of_gpu_;
  std::vector<Link> links_;
  std::vector<LinkId> first_link_;  // by device, and the end
  std::vector<LinkId> bundle_of_;
  std::vector<DeviceId> wired_like_;  // by device, the lowest switch wired as it is
  std::vector<LinkId> bundled_;       // links of bundles of two or more, bundle by bundle
  Net nvlink_;
  Net host_;
  Net fabric_;
  Net bundled_fabric_;  // an arc for each bundle, between the lowest of switches wired alike
  std::vector<NodeLinks> nodes_;
  // Ways within the first of nodes alike, by net, node and places; links by position in the node.
  mutable std::unordered_map<std::uint64_t, Route> node_routes_;
  bool gpus_relay_ = false;  // some GPUs are joined by NVLink without a switch
  std::vector<Port> ports_;  // by GPU; empty for one node without NICs
  std::uint32_t components_ = 0;
  std::vector<std::vector<DeviceId>> targets_;  // sets of switches that NICs hang on
  // By target. Empty when the table would be too large: then every route searches.
  std::vector<Hops> fabric_hops_;
  // The trunks last asked for, by place of the first switch and target.
  mutable std::unordered_map<std::uint64_t, Trunk> trunks_;
  mutable std::size_t trunk_hops_ = 0;     // of all of them
  std::optional<double> hop_latency_s_;    // where all links between switches have the same
  std::vector<Latencies> fabric_latency_;  // else, by target
  double reference_latency_s_ = 0.0;
};

}  // namespace trainyard
