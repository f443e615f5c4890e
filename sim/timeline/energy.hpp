// Power over time, and energy by kind, of a finished run.
//
// The power of a GPU is a step function: it changes where a kernel or a communication of its rank
// starts or ends. At an instant a GPU draws
//
//    idle_w                              nothing runs
//    waiting_w                           a collective has started and waits for other ranks
//    waiting_w + traffic                 a communication moves data; traffic = joules per byte that
//                                        it sends, times bytes, over its duration
//    kernel_w (+ traffic)                a kernel computes; several add what each has above idle
//
// and never more than limit_w. A call of no bytes, with which ranks only wait for each other,
// counts as nothing. A node adds its host, its NICs, fans that grow with the GPUs, and what its
// power supplies lose; a cluster adds switches, and cooling by its PUE. Energy is the integral of
// these step functions, class by class, so it costs what the classes cost.
//
//    Energy e = run_energy(cluster, workload, partition, timeline, rates);
//    e.of(PowerKind::Compute);   // joules of all GPUs in kernels bound by the tensor cores
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/fold/fold.hpp"
#include "sim/timeline/timeline.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Where energy goes. Idle includes bubbles and waiting for other ranks; Host includes fans and
// losses of the power supplies. The time of a kernel during a communication counts as the kernel's.
enum class PowerKind : std::uint8_t {
  Compute,
  MemoryBound,
  Communication,
  Idle,
  Host,
  Nic,
  Switch,
  Cooling
};
inline constexpr std::size_t kPowerKinds = 8;
// "memory_bound": the keys of the result JSON.
[[nodiscard]] std::string_view to_string(PowerKind kind);

// A GPU by its state.
struct GpuRates {
  double idle_w = 0.0;
  double waiting_w = 0.0;
  double limit_w = 0.0;
  double traffic_j_per_byte = 0.0;  // for each byte that it sends
};

struct PowerRates {
  std::vector<GpuRates> gpus;       // by program
  std::vector<double> kernel_w;     // by kernel: a GPU that computes it
  std::vector<bool> compute_bound;  // by kernel
  double host_w = 0.0;              // of a node
  double nic_w = 0.0;               // of all NICs of a node
  double switch_w = 0.0;            // of all switches of the cluster
  double fan_share = 0.0;           // watts of fans for each watt of a GPU above idle
  double supply_loss = 0.0;         // watts lost for each watt of a node
  double pue = 1.0;                 // power of the building over that of the computers
  std::uint32_t nodes_per_rack = 1;
  double idle_gpu_w = 0.0;  // a GPU without a rank

  // Watts at the wall for a GPU that draws `watts`, with its fans and its part of the losses.
  [[nodiscard]] double at_wall(double watts, double idle_w) const {
    return (watts + fan_share * (watts - idle_w)) * (1.0 + supply_loss);
  }
};

struct Energy {
  std::array<double, kPowerKinds> joules{};
  [[nodiscard]] double of(PowerKind kind) const { return joules[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] double& of(PowerKind kind) { return joules[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] double total() const;
};

// A time of constant power of one GPU.
struct PowerSpan {
  double start_s = 0.0;
  double end_s = 0.0;
  double watts = 0.0;
  PowerKind kind = PowerKind::Idle;
};

// The spans of a GPU of a rank class in order, without holes, from 0 to the makespan.
[[nodiscard]] std::vector<PowerSpan> power_spans(const Workload& workload,
                                                 const Partition& partition,
                                                 const Timeline& timeline, const PowerRates& rates,
                                                 std::size_t rank_class);

// The energy of the whole cluster over the makespan.
[[nodiscard]] Energy run_energy(const Cluster& cluster, const Workload& workload,
                                const Partition& partition, const Timeline& timeline,
                                const PowerRates& rates);

// A step function of time: watts[i] from at_s[i] to at_s[i + 1], the last until end_s.
struct PowerSeries {
  std::vector<double> at_s = {};
  std::vector<double> watts = {};
  double end_s = 0.0;

  [[nodiscard]] double joules() const;
  [[nodiscard]] double peak_w() const;  // 0 for an empty series
  // The largest difference between two instants at most `window_s` apart.
  [[nodiscard]] double largest_change_w(double window_s) const;
  // The part between two dates. REQUIRES: 0 <= begin_s <= until_s <= end_s.
  [[nodiscard]] PowerSeries between(double begin_s, double until_s) const;
};

// Nodes, or racks, with the same ranks: how many there are, and the first.
struct PowerGroup {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

// Power over time of one GPU of each class, of each kind of node and rack, and of the cluster with
// switches and cooling. Nodes and racks draw what they take from the wall. Racks are consecutive
// nodes; the last may have fewer.
struct PowerTraces {
  std::vector<PowerSeries> gpus;  // by rank class
  std::vector<PowerSeries> nodes, racks;
  std::vector<PowerGroup> node_groups, rack_groups;  // in step with nodes and racks
  PowerSeries cluster;
};
[[nodiscard]] PowerTraces power_traces(const Cluster& cluster, const Workload& workload,
                                       const Partition& partition, const Timeline& timeline,
                                       const PowerRates& rates);
// The part between two dates.
[[nodiscard]] PowerTraces between(PowerTraces traces, double begin_s, double until_s);

}  // namespace trainyard
