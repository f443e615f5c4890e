// The topology of a cluster: GPUs, switches and NICs, and the directed links that join them.
//
//    const Topology topology(facts, std::move(blueprint).wiring(), gpus, nic_of_gpu);
//    for (const Link link : topology.links_from(topology.gpus()[0])) use(link.to);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/cluster/timed_faults.hpp"
#include "sim/cluster/wiring.hpp"

namespace trainyard {

// Latency of collectives on this hardware: T = launch + steps * step latency + bytes / rate.
struct CollectiveLatency {
  Seconds launch = {};      // once per collective
  Seconds intra_step = {};  // per step that stays within a node
  Seconds inter_step = {};  // per step that crosses the network
  bool operator==(const CollectiveLatency&) const = default;
};

// How the fabric distributes the traffic between two GPUs over its shortest paths.
//
// - Ideal: all shortest paths carry it, in equal shares per cable (adaptive routing, packet
//   spraying).
// - Ecmp: each flow of the connection (queue pair) takes one cable at every switch, by a hash of
//   source, destination, flow, switch and seed.
// - RoundRobin: as Ecmp, but each switch assigns its cables to the destinations in rotation
//   (destination modulo cables, the static routing of InfiniBand fat-trees).
//
// Each of several parallel cables is a separate link, unless routing is Ideal.
struct Routing {
  enum class Kind : std::uint8_t { Ideal, Ecmp, RoundRobin } kind = Kind::Ideal;
  std::uint64_t seed = 1;                  // for Ecmp
  std::uint32_t flows_per_connection = 1;  // NCCL_IB_QPS_PER_CONNECTION with data split over QPs
  bool operator==(const Routing&) const = default;
};

// The kind of a GPU: its profile and the memory that training can use.
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
  std::vector<GpuKind> mixed_gpus = {};  // by GPU, if the GPUs differ; else empty
  std::vector<TimedFault> timed_faults = {};
  Bytes host_memory = {};  // of all CPUs of one node; zero: unknown
  CollectiveLatency latency = {};
  Routing routing = {};
  bool fabric_reduces = false;  // its switches reduce in the network (SHARP)
  // Sizes of the torus that the nodes (or the GPUs of one node) form, by dimension. The first
  // dimension varies fastest with the node number. Empty if they form no torus. REQUIRES: the
  // product is the number of nodes (or GPUs of a node).
  std::vector<std::uint32_t> torus = {};       // nodes
  std::vector<std::uint32_t> node_torus = {};  // GPUs of a node
};

// Immutable. Copies share their contents.
class Topology {
 public:
  // If routing is not ideal, the constructor replaces a link of several parallel cables by one link
  // per cable. REQUIRES: gpus lists the GPUs in rank order (node by node, the same number in each
  // node); nic_of_gpu has one NIC per GPU, or is empty for a cluster of one node. Throws InputError
  // for a link without capacity.
  Topology(ClusterFacts facts, Wiring wiring, std::vector<DeviceId> gpus,
           std::vector<DeviceId> nic_of_gpu);
  // Returns the same topology with the rates of each kind of link multiplied by factor_of(kind).
  [[nodiscard]] Topology with_rates(const std::function<double(LinkKind)>& factor_of) const;

  [[nodiscard]] const ClusterFacts& facts() const { return parts_->facts; }
  [[nodiscard]] const Wiring& wiring() const { return parts_->wiring; }
  [[nodiscard]] const std::vector<DeviceId>& gpus() const { return parts_->gpus; }
  [[nodiscard]] const std::vector<DeviceId>& nic_of_gpu() const { return parts_->nic_of_gpu; }

  [[nodiscard]] Wiring::Links links() const { return wiring().links(); }
  [[nodiscard]] Link link(LinkId id) const { return wiring().link(id); }
  // The links that start at a device, ascending.
  [[nodiscard]] Wiring::Links links_from(DeviceId device) const {
    return wiring().links_from(device);
  }
  [[nodiscard]] std::uint32_t device_count() const { return wiring().device_count(); }
  [[nodiscard]] Device device(DeviceId id) const { return wiring().device(id); }
  [[nodiscard]] std::string name(DeviceId id) const { return wiring().name(id); }

  // `gpu` is an index into gpus().
  [[nodiscard]] std::uint32_t node_of(std::uint32_t gpu) const {
    return gpu / facts().gpus_per_node;
  }
  [[nodiscard]] std::uint32_t local_index(std::uint32_t gpu) const {  // 0..gpus_per_node-1
    return gpu % facts().gpus_per_node;
  }
  [[nodiscard]] bool has_mixed_gpus() const { return !facts().mixed_gpus.empty(); }
  [[nodiscard]] GpuKind gpu_kind(std::uint32_t gpu) const;

 private:
  struct Parts {
    ClusterFacts facts;
    Wiring wiring;
    std::vector<DeviceId> gpus;
    std::vector<DeviceId> nic_of_gpu;
  };
  std::shared_ptr<const Parts> parts_;
};

}  // namespace trainyard
