// What a training step keeps in the memory of the CPU beside each GPU instead of on the GPU.
//
// Activations of some layers go there after their forward and come back before their backward; the
// optimizer's state stays there and is updated by the CPU (ZeRO-Offload, Ren et al. 2101.06840) or
// fetched, updated by the GPU and stored again; the layers' weights are fetched for every use. All
// of it travels over the links between GPU and CPU, beside whatever else uses them
// (lower/offload.hpp).
//
//   OffloadSettings offload{.activations = 0.5, .optimizer = OffloadedOptimizer::Cpu};
#pragma once

#include <cstdint>

#include "sim/base/units.hpp"

namespace trainyard {

// Where the optimizer's state is, and who updates the weights.
enum class OffloadedOptimizer : std::uint8_t { None, Cpu, Fetch };

struct OffloadSettings {
  double activations = 0.0;  // the share of what a layer keeps that goes to the host, 0 to 1
  std::int64_t activation_layers = 0;  // of the first so many layers of a chunk; 0: of all
  OffloadedOptimizer optimizer = OffloadedOptimizer::None;
  // Of the layers; embedding and head stay. With zero_stage 3 the shards of all.
  bool weights = false;
  [[nodiscard]] bool any() const {
    return activations > 0.0 || optimizer != OffloadedOptimizer::None || weights;
  }

  bool operator==(const OffloadSettings&) const = default;
};

// What of its node's CPUs a GPU can use: an equal part. Zero where the node's data do not say.
struct HostShare {
  Bytes memory = {};
  BytesPerSecond bandwidth = {};  // of that memory, as sold

  bool operator==(const HostShare&) const = default;
};

// How fast a CPU's Adam walks through its state: this share of the bandwidth of its memory, counted
// with the bytes of optimizer_step_bytes (architecture/memory.hpp). Ren et al. 2101.06840, table 4,
// measure 1, 2, 4, 8 and 10 billion parameters in 0.22, 0.51, 1.03, 2.41 and 2.57 s on two Xeon
// Platinum 8168: the median rate is 3.89e9 parameters a second, at 30 bytes 117 GB/s of the 2 x 128
// GB/s of six channels of DDR4-2666 each, 0.456.
inline constexpr double kCpuOptimizerShare = 0.456;

}  // namespace trainyard
