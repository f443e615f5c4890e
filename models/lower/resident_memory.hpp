// The memory that a rank holds for the whole step in addition to the state of its trained weights:
// frozen weights and the framework's own memory. The data-parallel scheme holds the weights,
// gradients and optimizer state of what is trained (hold_state in gradients.hpp).
#pragma once

#include <span>
#include <vector>

#include "models/layers/layer_memory.hpp"
#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/gradients.hpp"
#include "models/lower/options.hpp"
#include "models/lower/stage_layout.hpp"

namespace trainyard {

// The weights of every chunk of a pipeline rank, and the counts of the parameters of all chunks.
[[nodiscard]] std::vector<ChunkWeights> stage_weights(const LoweringOptions& options,
                                                      const StageLayout& layout);
[[nodiscard]] StageParameters stage_parameters(const LoweringOptions& options,
                                               const StageLayout& layout,
                                               const std::vector<ChunkWeights>& weights);

// Adds all memory that a pipeline rank holds in addition to the state of its trained weights, and
// moves offloaded weights from the GPU to the host.
void hold_stage_memory(const LoweringOptions& options, const std::vector<ChunkWeights>& weights,
                       const StageParameters& parameters, ProgramBuilder& build);
// Adds the part that every rank holds: the framework's own memory, and a placeholder for each
// distinct shape among the weights of these layers.
void hold_framework(const LoweringOptions& options, std::span<const PlacedParts> layers,
                    ProgramBuilder& build);

}  // namespace trainyard
