// The power that GPUs and nodes draw, and the clock that a power cap leaves.
//
// A GPU with a process on it draws idle_w. A resident kernel adds active_w, also while a collective
// waits for other ranks. Tensor cores and memory add their shares of use:
//
//    P = min(limit, idle_w + active_w + tensor_w * FLOP/s / peak + memory_w * bytes/s / bandwidth)
//
// Worked, H100: a kernel at 18 % of the peak FLOP/s and 75 % of the bandwidth draws
// 110 + 149 + 578 * 0.18 + 386 * 0.75 = 652.5 W.
//
// The part of P above the static power follows the clock r and the voltage v:
//
//    P(r) = static_w + (P - static_w) r (v / v_0)^2,   v / v_0 = max(r, least_voltage)
//
// Voltage falls with the clock, down to a least voltage. The dynamic power of CMOS circuits is
// proportional to clock and squared voltage (Weste and Harris, CMOS VLSI Design, chapter 5).
// Worked: at half the clock an H100 that draws 700 W draws 154 + 546 * 0.5 * 0.83^2 = 342 W.
//
// The tensor cores follow the clock, and the memory does not. A kernel that the memory bounds slows
// down once its tensor cores need more time than its memory.
// Constants are data of models/power/data, each with its source.
#pragma once

#include <string>

namespace trainyard {

struct GpuPower {
  double limit_w = 0.0;        // sustained power limit, the TDP
  double idle_w = 0.0;         // a process holds the GPU, no kernel runs
  double active_w = 0.0;       // more while a kernel is resident
  double tensor_w = 0.0;       // more at the peak rate of the tensor cores
  double memory_w = 0.0;       // more at the full bandwidth of the memory
  double static_share = 0.0;   // part of limit_w that a working GPU draws at any clock
  double least_voltage = 0.0;  // over the voltage at the full clock

  [[nodiscard]] double static_w() const { return static_share * limit_w; }
};

// Parts of a node besides its GPUs, and what lies between it and the wall.
struct NodePower {
  double host_w_per_gpu = 0.0;  // CPUs, memory, board and fans of an idle node, for each GPU
  double nic_w = 0.0;           // one NIC
  double fan_share = 0.0;       // watts of fans for each watt that the GPUs draw above idle
  double supply_loss = 0.0;     // watts that power supplies lose for each watt of the node
  double switch_w = 0.0;        // one switch of the fabric
};

struct PowerData {
  GpuPower gpu;
  NodePower node;
  std::string measured = {};   // the GPU whose measurements stand behind the constants
  bool derived = false;        // scaled from that GPU by the power limits
  bool own_generation = true;  // that GPU is of the same generation
};

// Shares of a GPU's peak rates that a kernel reaches, 0..1.
struct PeakShares {
  double tensor = 0.0;  // FLOP/s over the peak of the kernel's precision
  double memory = 0.0;  // bytes/s over the bandwidth
};

// Returns watts, at most the limit.
[[nodiscard]] double kernel_power_w(const GpuPower& gpu, const PeakShares& use);

// Returns the clock, relative to the one without a cap, at which work that draws `power_w` keeps a
// cap: 1 where it draws no more than that. REQUIRES: cap_w > gpu.static_w().
[[nodiscard]] double clock_under_cap(const GpuPower& gpu, double power_w, double cap_w);

// Returns the watts of work that draws `power_w` at the full clock.
[[nodiscard]] double power_at_clock_w(const GpuPower& gpu, double power_w, double clock);
// Returns the time of a kernel at a clock over that at the full one. REQUIRES: clock > 0.
[[nodiscard]] double slowdown_at_clock(const PeakShares& use, double clock);

// Returns the watts of a node at the wall whose GPUs draw `gpus_w` together.
[[nodiscard]] double node_power_w(const PowerData& data, double gpus, double nics, double gpus_w);
// Returns the cap of each GPU at which a node keeps its cap. The inverse of node_power_w().
[[nodiscard]] double gpu_cap_of_node_cap_w(const PowerData& data, double gpus, double nics,
                                           double node_cap_w);

// Reads the constants of a GPU of kernels/profiles. A GPU without a file of its own takes those of
// a measured GPU of its generation, with the watts of the GPU scaled by the limits.
// `limit_w`: the limit in its profile, 0 where that has none. Throws InputError for a GPU whose
// limit or generation no file gives.
[[nodiscard]] PowerData load_power(const std::string& gpu, const std::string& generation,
                                   double limit_w);

}  // namespace trainyard
