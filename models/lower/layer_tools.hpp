// The tools that all writers of a layer's blocks share: elementwise kernels, linear layers and
// collectives of the tensor group.
#pragma once

#include "models/lower/elementwise.hpp"
#include "models/lower/linear_layers.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"
#include "models/lower/tensor_parallel.hpp"
#include "models/recompute.hpp"

namespace trainyard {

struct LayerTools {
  LayerTools(const TrainingPlan& training_plan, const StepShape& step, ProgramBuilder& builder)
      : plan(training_plan),
        shape(step),
        build(builder),
        again(plan.training.recompute == Recompute::Selective ? recompute_modules(plan.training)
                                                              : RecomputeModules{.core = false}),
        elementwise(plan, shape, build),
        linear(plan, shape, build, elementwise),
        tensor(plan, shape, build, elementwise, linear) {}
  LayerTools(const LayerTools&) = delete;  // its parts refer to each other
  LayerTools& operator=(const LayerTools&) = delete;

  // Runs what it is given as recomputation.
  template <typename Module>
  void repeat(const Module& module) {
    const Tags tags = build.tags();
    Tags repeated = tags;
    repeated.part = StepPart::Recompute;
    build.tag(repeated);
    module();
    build.tag(tags);
  }

  const TrainingPlan& plan;
  const StepShape& shape;
  ProgramBuilder& build;
  const RecomputeModules again;  // what a layer's backward runs again, none but under Selective
  Elementwise elementwise;
  LinearLayers linear;
  TensorParallel tensor;
};

// A writer of a part of a layer, with the tools at hand.
class BlockWriter {
 protected:
  using Rows = LinearLayers::Rows;

  explicit BlockWriter(LayerTools& tools)
      : tools_(tools),
        plan_(tools.plan),
        arch_(tools.plan.architecture),
        shape_(tools.shape),
        build_(tools.build),
        elementwise_(tools.elementwise),
        linear_(tools.linear),
        tensor_(tools.tensor) {}

  LayerTools& tools_;
  const TrainingPlan& plan_;
  const Architecture& arch_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  Elementwise& elementwise_;
  LinearLayers& linear_;
  TensorParallel& tensor_;
};

}  // namespace trainyard
