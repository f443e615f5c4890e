// The choices that each part of the lowering reads, worked out from a training plan once for all
// programs of a step. A part says in its own header what it reads; only this file looks it up.
//
//   const LoweringOptions options = lowering_options(plan);
//   StageLowering stage(options, pipeline_options(plan, options), {.stage = 3}, interner);
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
  StepShape shape;  // of the rank that is first everywhere
  LayerOptions layer;
  EmbeddingAndHeadOptions ends;
  MemoryOptions memory;
  WeightOptions weights;
  ReplicaOptions replicas;
  OffloadOptions offload;
  MessageOptions messages;
  std::int64_t framework_bytes = 0;  // its context and its workspaces
};
// REQUIRES: the plan outlives them; its ranks divide.
[[nodiscard]] LoweringOptions lowering_options(const TrainingPlan& plan);

// `known`: of the same plan. Throws InputError where the layers do not divide (layer_split).
[[nodiscard]] PipelineOptions pipeline_options(const TrainingPlan& plan,
                                               const LoweringOptions& known);

// Some of them alone.
[[nodiscard]] StepShape step_shape(const TrainingPlan& plan);
[[nodiscard]] WeightOptions weight_options(const TrainingPlan& plan);
[[nodiscard]] MemoryOptions memory_options(const TrainingPlan& plan);
[[nodiscard]] StateRecipe state_recipe(const TrainingPlan& plan);  // undivided

}  // namespace trainyard
