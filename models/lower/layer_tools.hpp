// The tools that all writers of a layer's blocks share: elementwise kernels, linear layers and
// collectives of the tensor group.
#pragma once

#include "models/lower/elementwise.hpp"
#include "models/lower/layer_options.hpp"
#include "models/lower/linear_layers.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"
#include "models/lower/tensor_parallel.hpp"

namespace trainyard {

struct LayerTools {
  LayerTools(const LayerOptions& of_layer, const StepShape& step, ProgramBuilder& builder)
      : options(of_layer),
        shape(step),
        build(builder),
        elementwise(options.architecture, options.streaming, shape, build),
        linear(options.products, shape, build, elementwise),
        tensor(options.tensor, shape, build, elementwise, linear) {}
  LayerTools(const LayerTools&) = delete;  // its parts refer to each other
  LayerTools& operator=(const LayerTools&) = delete;

  // A layer is computed again as a whole, and nothing reads what its last product makes.
  [[nodiscard]] bool ends_early() const {
    return options.stops_early && build.tags().part == StepPart::Recompute;
  }

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

  const LayerOptions& options;
  const StepShape& shape;
  ProgramBuilder& build;
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
        options_(tools.options),
        arch_(tools.options.architecture),
        streaming_(tools.options.streaming),
        shape_(tools.shape),
        build_(tools.build),
        elementwise_(tools.elementwise),
        linear_(tools.linear),
        tensor_(tools.tensor) {}

  LayerTools& tools_;
  const LayerOptions& options_;
  const Architecture& arch_;
  const StreamingKernels& streaming_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  Elementwise& elementwise_;
  LinearLayers& linear_;
  TensorParallel& tensor_;
};

}  // namespace trainyard
