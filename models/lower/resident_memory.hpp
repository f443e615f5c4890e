// The memory that a rank holds through the whole step: weights that it trains and weights that it
// does not, and the framework's own. The state of what is trained is held by the data-parallel
// scheme (hold_state in gradients.hpp).
#pragma once

#include <span>
#include <vector>

#include "models/layers/layer_memory.hpp"
#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/gradients.hpp"
#include "models/lower/options.hpp"
#include "models/lower/stage_layout.hpp"

namespace trainyard {

// The weights of every chunk of a pipeline rank, and the parameters of all of them together.
[[nodiscard]] std::vector<ChunkWeights> stage_weights(const LoweringOptions& options,
                                                      const StageLayout& layout);
[[nodiscard]] StageParameters stage_parameters(const LoweringOptions& options,
                                               const StageLayout& layout,
                                               const std::vector<ChunkWeights>& weights);

// Holds all that a pipeline rank has beside the state of the weights it trains.
void hold_stage_memory(const LoweringOptions& options, const std::vector<ChunkWeights>& weights,
                       const StageParameters& parameters, ProgramBuilder& build);
// The part of it that every rank holds: the framework's own, and a placeholder for each distinct
// shape among the weights of these layers.
void hold_framework(const LoweringOptions& options, std::span<const PlacedParts> layers,
                    ProgramBuilder& build);

}  // namespace trainyard
