// What one layer keeps for its backward, per rank and microbatch, under the plan's recomputation.
#pragma once

#include <cstdint>

#include "models/architecture/memory.hpp"
#include "models/plan.hpp"

namespace trainyard {

struct LayerMemory {
  std::int64_t kept = 0;  // from forward to backward (a checkpoint alone under full recomputation)
  std::int64_t working = 0;  // in addition while the layer's backward runs
};
// The plan as the memory formulas ask for it.
[[nodiscard]] ActivationQuery activation_query(const TrainingPlan& plan);
[[nodiscard]] LayerMemory layer_memory(const TrainingPlan& plan);

}  // namespace trainyard
