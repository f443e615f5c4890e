// What the backward pass computes again: which layers of a model chunk, which modules of a layer.
//
//   Training training{.recompute = Recompute::Full, .recompute_num_layers = 4};
//   recompute_units(training, 10);   // {0, 4, again}, {4, 4, again}, {8, 2, again}
//
// Methods of Recompute::Full, by n = recompute_num_layers (Megatron-LM --recompute-method):
//   uniform   groups of n layers with one checkpoint each; the whole group is computed again before
//             its backward. n = 1 keeps every layer's input; n = sqrt(layers) keeps least
//             (Chen et al. 1604.06174: 2 sqrt(L) layers' worth).
//   block     the first n layers of every chunk are checkpointed one by one, the others keep all.
//   every     every n-th layer is checkpointed, the others keep all (torchtitan's selective
//             activation checkpointing by layer).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/plan.hpp"

namespace trainyard {

// Consecutive layers of a chunk. `again`: they keep the first one's input and are computed again
// together; else each keeps what its modules keep.
struct RecomputeUnit {
  std::int64_t first = 0;
  std::int64_t layers = 0;
  bool again = false;
  bool operator==(const RecomputeUnit&) const = default;
};

// All layers of a chunk, in order.
[[nodiscard]] std::vector<RecomputeUnit> recompute_units(const Training& training,
                                                         std::int64_t layers);
// The share of the plan's layers that are computed again as a whole, 0 to 1.
[[nodiscard]] double recomputed_layer_share(const TrainingPlan& plan);

// "core_attn" and its like; what the scenario reader offers.
[[nodiscard]] std::vector<std::string> recompute_module_names();
[[nodiscard]] std::vector<std::string> recompute_method_names();
// REQUIRES: the names are known.
[[nodiscard]] RecomputeModules recompute_modules(const Training& training);

}  // namespace trainyard
