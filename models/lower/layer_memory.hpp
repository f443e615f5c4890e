// What one layer keeps for its backward, per rank and microbatch, under the plan's recomputation.
#pragma once

#include <cstdint>
#include <optional>

#include "models/architecture/memory.hpp"
#include "models/plan.hpp"

namespace trainyard {

struct LayerMemory {
  std::int64_t kept = 0;  // from forward to backward (a checkpoint alone under full recomputation)
  std::int64_t working = 0;  // in addition while the layer's backward runs
  // Of a split backward, from its input part to its weight part: the inputs and the output
  // gradients of the four products, gathered where a sequence-parallel layer splits them. A GPT at
  // 16 bits, t = 1: 32sbh (Qi et al. 2401.10241, section 3; tests/models/lower/memory_test.cpp).
  std::int64_t for_weights = 0;
};
// The plan as the memory formulas ask for it.
[[nodiscard]] ActivationQuery activation_query(const TrainingPlan& plan);
// `expert_rows`: rows that the rank's experts work on; none: as many as its own tokens make.
[[nodiscard]] LayerMemory layer_memory(const TrainingPlan& plan, LayerKind kind = LayerKind::Dense,
                                       std::optional<std::int64_t> expert_rows = {});

}  // namespace trainyard
