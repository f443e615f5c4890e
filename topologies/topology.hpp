// Descriptions of clusters: a node type (data), repeated and joined by a fabric (registry).
//
//    ClusterSpec spec{
//        .node = load_node("dgx_h100"), .nodes = 16, .fabric = {.kind = RailOptimized{}}};
//    Cluster cluster = build_cluster(spec);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/cluster/cluster.hpp"
#include "topologies/fabric.hpp"

namespace trainyard {

// GPUs of a node that differ in kind from the others, such as the second card of a workstation.
struct OtherGpus {
  std::vector<std::uint32_t> gpus = {};  // local indices
  GpuKind kind = {};
  BytesPerSecond pcie = {};  // usable, to its switch; zero: as the node's
  BytesPerSecond pcie_nominal = {};
  bool operator==(const OtherGpus&) const = default;
};

// One server, or one NVLink domain of several servers (NVL72). Rates are per direction. Usable
// rates are those that collectives reach; nominal rates are as sold.
struct NodeSpec {
  std::string name = {};
  std::string gpu = {};  // GPU profile (kernels/profiles)
  std::uint32_t gpus = 8;
  Bytes gpu_memory = {};
  std::vector<OtherGpus> other_gpus = {};
  enum class ScaleUp : std::uint8_t {
    NvSwitch,
    FullMesh,
    Torus,
    None
  } scale_up = ScaleUp::NvSwitch;
  // Torus: GPUs along each dimension, fastest first; their product is `gpus`.
  std::vector<std::uint32_t> scale_up_dims = {};
  // Usable rate of one GPU: to the switch (NvSwitch), to all peers together (FullMesh), or in all
  // directions together (Torus: 1/2n of it each way along each of n dimensions).
  BytesPerSecond nvlink = {};
  BytesPerSecond nvlink_nominal = {};
  std::uint32_t nvlinks = 0;               // links of one GPU (12 on A100)
  std::uint32_t gpus_per_pcie_switch = 2;  // 0: NICs are connected to the CPU
  BytesPerSecond pcie = {};                // usable, GPU or NIC to its switch
  BytesPerSecond pcie_nominal = {};
  std::uint32_t gpus_per_cpu = 4;
  std::uint32_t cpus_per_host = 2;  // CPUs of one server; joined by `socket`
  BytesPerSecond socket = {};       // usable, CPU to CPU
  BytesPerSecond socket_nominal = {};
  BytesPerSecond chip_to_chip = {};  // usable, GPU to its CPU in addition to PCIe; zero: none
  BytesPerSecond chip_to_chip_nominal = {};
  Bytes host_memory = {};              // of all CPUs together; zero: not known
  BytesPerSecond host_bandwidth = {};  // of that memory, as sold; zero: not known
  std::uint32_t nics = 8;
  BytesPerSecond nic = {};  // usable, of one NIC
  BytesPerSecond nic_nominal = {};
  Seconds nvlink_latency = {};  // of one traversal of a wire
  Seconds pcie_latency = {};
  Seconds nic_latency = {};
  CollectiveLatency latency = {};  // of collective steps
  std::string source = {};  // of the figures; the data file has the source of every single number
  bool operator==(const NodeSpec&) const = default;
};

// A part of a cluster that is dead or slower than it should be, always or for a part of the run.
struct Fault {
  enum class Part : std::uint8_t { Link, Rail, Device } part = Part::Link;
  std::string from = {};  // Link: both directions between two devices
  std::string to = {};
  std::uint32_t rail = 0;        // Rail: NIC `rail` of every node
  std::string device = {};       // Device: all its links
  double capacity_factor = 0.0;  // share of the links' capacity that is left; 0: dead
  // Device, a GPU: the share of its kernels' speed that is left; its links keep their capacity.
  std::optional<double> speed_factor = {};
  Seconds begins = {};               // since the run began
  std::optional<Seconds> ends = {};  // none: it lasts
  [[nodiscard]] bool is_timed() const { return begins.value() > 0.0 || ends; }
  bool operator==(const Fault&) const = default;
};

// Nodes of another kind: they have the same numbers of GPUs and NICs, but other figures.
struct OtherNodes {
  std::vector<std::uint32_t> nodes = {};  // node numbers
  NodeSpec node = {};
  bool operator==(const OtherNodes&) const = default;
};

// A cluster described device by device (custom_cluster.hpp).
struct CustomSpec {
  std::vector<NamedDevice> devices = {};
  std::vector<Link> links = {};           // directed; ids are not used
  std::vector<DeviceId> gpus = {};        // in rank order
  std::vector<GpuKind> kinds = {};        // by GPU in rank order; empty: all as in the node
  std::vector<DeviceId> nic_of_gpu = {};  // empty where the cluster has one node
  CollectiveLatency latency = {};
  std::vector<std::uint32_t> torus = {};       // ClusterFacts::torus
  std::vector<std::uint32_t> node_torus = {};  // ClusterFacts::node_torus
  bool operator==(const CustomSpec&) const = default;
};

// Places with equally many nodes, in order, and a line from each to each other.
struct Sites {
  std::uint32_t count = 2;
  BytesPerSecond rate = {};  // of one line, in each direction
  Seconds latency = {};      // of one line: 5 us per kilometre of fibre, and its equipment
  bool operator==(const Sites&) const = default;
};

struct ClusterSpec {
  NodeSpec node = {};  // for a custom cluster: its name, GPU, number of GPUs and memory
  std::uint32_t nodes = 1;
  std::vector<OtherNodes> others = {};
  FabricSpec fabric = {};           // of each site
  std::optional<Sites> sites = {};  // none: all nodes are in one place
  std::optional<CustomSpec> custom = {};
  std::vector<Fault> faults = {};
  bool operator==(const ClusterSpec&) const = default;
};

[[nodiscard]] inline std::uint32_t gpu_count(const ClusterSpec& spec) {
  return spec.nodes * spec.node.gpus;
}

// Loads a node by its name in topologies/data, or by a path that ends in .json. Throws InputError.
[[nodiscard]] NodeSpec load_node(const std::string& name_or_path);
[[nodiscard]] std::vector<std::string> node_names();

// Throws InputError (pointers relative to the cluster object) when the fabric cannot hold the
// nodes, when a fault names something that does not exist, or when GPUs cannot reach each other.
[[nodiscard]] Cluster build_cluster(const ClusterSpec& spec);

// Returns the same cluster, built once for consecutive callers with an equal spec: the check of a
// scenario, its bounds, its run. Only the last cluster is cached. Thread-safe; a caller waits while
// another thread builds.
[[nodiscard]] std::shared_ptr<const Cluster> shared_cluster(const ClusterSpec& spec);

}  // namespace trainyard
