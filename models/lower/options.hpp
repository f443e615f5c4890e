// Options of each part of the lowering, derived from a training plan once for all programs of a
// step. Each part defines its options struct in its own header; only this file reads the plan.
//
//    const LoweringOptions options = lowering_options(plan);
//    StageLowering stage(options, pipeline_options(plan, options), {.stage = 3}, interner);
#pragma once

#include <cstdint>

#include "models/layers/layer_memory.hpp"
#include "models/layers/layer_tools.hpp"
#include "models/lower/data_parallel/data_parallel.hpp"
#include "models/lower/embedding_and_head.hpp"
#include "models/lower/messages.hpp"
#include "models/lower/offload.hpp"
#include "models/lower/stage_layout.hpp"
#include "models/lower/step_shape.hpp"
#include "models/plan.hpp"

namespace trainyard {

struct LoweringOptions {
  StepShape shape;  // of the rank with index 0 in every group
  LayerOptions layer;
  EmbeddingAndHeadOptions ends;
  MemoryOptions memory;
  WeightOptions weights;
  ReplicaOptions replicas;
  OffloadOptions offload;
  MessageOptions messages;
  std::int64_t framework_bytes = 0;  // CUDA context and workspaces of the framework
};
// Returns all options except those of the pipeline. REQUIRES: the plan outlives the options; the
// parallel sizes divide the ranks.
[[nodiscard]] LoweringOptions lowering_options(const TrainingPlan& plan);

// `known`: the options of the same plan. Throws InputError if the layers do not divide
// (layer_split).
[[nodiscard]] PipelineOptions pipeline_options(const TrainingPlan& plan,
                                               const LoweringOptions& known);

// The plan whose options are those of one pipeline rank: `tensor` is the number of its tensor
// ranks.
[[nodiscard]] TrainingPlan plan_of_stage(const TrainingPlan& plan, std::int64_t stage);

// Single parts of these options.
[[nodiscard]] StepShape step_shape(const TrainingPlan& plan);
[[nodiscard]] WeightOptions weight_options(const TrainingPlan& plan);
[[nodiscard]] MemoryOptions memory_options(const TrainingPlan& plan);
[[nodiscard]] StateRecipe state_recipe(const TrainingPlan& plan);  // for one shard (not divided)

}  // namespace trainyard
