// One transformer layer of one rank, forward and backward, as kernels and collectives, together
// with the memory that it holds.
//
// The operations and their shapes follow Shoeybi et al. 1909.08053 and Korthikanti et al.
// 2205.05198. This class writes the norms and the order of the two halves. The content of each
// half, attention and feed-forward, is a block of one kind (layer_block.hpp).
//
//    LayerLowering(options, shape, build).forward({.kept = memory.kept});
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/layers/layer_block.hpp"
#include "models/layers/layer_tools.hpp"
#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"

namespace trainyard {

class LayerLowering {
 public:
  LayerLowering(const LayerOptions& options, const StepShape& shape, ProgramBuilder& build)
      : tools_(options, shape, build) {}

  // Bytes of a forward: `kept` until its backward, and `workspace` (workspace) until the forward
  // ends.
  struct ForwardMemory {
    std::int64_t kept = 0;
    std::int64_t workspace = 0;
  };
  // Bytes of a backward: `rebuilt` is recomputed activations, `workspace` is workspace until the
  // backward ends, and `freed` is released when it ends.
  struct BackwardMemory {
    std::int64_t rebuilt = 0;
    std::int64_t workspace = 0;
    std::int64_t freed = 0;
  };
  // Writes the forward of one layer, or of the parts of it on this device. The builder's tags give
  // the layer, and whether this is the forward step or a recomputation.
  void forward(const ForwardMemory& memory, const LayerParts& parts = {});
  // Writes the backward of one layer, or a part of it. Returns its gradients in the order in which
  // they become final.
  std::vector<ReadyGradient> backward(BackwardPart part, const BackwardMemory& memory,
                                      const LayerParts& parts = {});

 private:
  [[nodiscard]] const LayerBlock& block(LayerHalf half) const;
  void block_forward(LayerHalf half);
  std::vector<ReadyGradient> block_backward(LayerHalf half, BackwardPart part);
  std::vector<ReadyGradient> blocks_backward(BackwardPart part, const LayerParts& parts);
  void recompute_second_gemms();

  LayerTools tools_;
};

}  // namespace trainyard
