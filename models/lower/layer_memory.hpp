// What one layer keeps for its backward, per rank and microbatch, under the plan's recomputation.
#pragma once

#include <cstdint>
#include <optional>

#include "models/architecture/memory.hpp"
#include "models/plan.hpp"

namespace trainyard {

struct LayerMemory {
  std::int64_t kept = 0;     // from forward to backward (under full recomputation its input alone)
  std::int64_t working = 0;  // in addition while the layer's backward runs
  // Of a split backward, from its input part to its weight part: the inputs and the output
  // gradients of the four products, gathered where a sequence-parallel layer splits them. A GPT at
  // 16 bits, t = 1: 32sbh (Qi et al. 2401.10241, section 3; tests/models/lower/memory_test.cpp).
  std::int64_t for_weights = 0;
  // Beside it while the layer's backward runs: the gradients of its widest part's inner tensors,
  // and two of the residual stream's size (a sequence-parallel layer gathers both). A Llama:
  // sb(6f/t + 4h).
  std::int64_t workspace = 0;
  // All that its backward reads, whether it was kept or computed again.
  [[nodiscard]] std::int64_t everything() const { return kept + working; }
};
// The plan as the memory formulas ask for it.
[[nodiscard]] ActivationQuery activation_query(const TrainingPlan& plan);
// `trained`: false for a layer of frozen weights (models/frozen.hpp). `expert_rows`: rows that the
// rank's experts work on; none: as many as its own tokens make.
[[nodiscard]] LayerMemory layer_memory(const TrainingPlan& plan, LayerKind kind = LayerKind::Dense,
                                       std::optional<std::int64_t> expert_rows = {},
                                       bool trained = true);
// The plan's precision and optimizer, its state divided over so many shards.
[[nodiscard]] StateRecipe state_recipe(const TrainingPlan& plan, std::int64_t shards);

}  // namespace trainyard
