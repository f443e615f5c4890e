// One transformer layer of one rank, forward and backward, as kernels and collectives, and the
// memory that it holds meanwhile.
//
// The operations and their shapes are those of reference 04 section 1 (Shoeybi et al. 1909.08053;
// Korthikanti et al. 2205.05198). Norms and the order of the halves are written here. What stands
// in each half, attention and feed-forward, is a block of one kind (layer_block.hpp).
//
//   LayerLowering(options, shape, build).forward({.kept = memory.kept});
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

  // Bytes of a forward: what it keeps for its backward, and what it holds until its end.
  struct ForwardMemory {
    std::int64_t kept = 0;
    std::int64_t beside = 0;
  };
  // Bytes of a backward: activations that it makes again and, until its end, what it works with;
  // `freed` is given back at its end.
  struct BackwardMemory {
    std::int64_t rebuilt = 0;
    std::int64_t beside = 0;
    std::int64_t freed = 0;
  };
  // Forward of one layer, or of the parts of it that stand here; the tags say which, and whether it
  // is the forward step or a recomputation.
  void forward(const ForwardMemory& memory, const LayerParts& parts = {});
  // Backward of one layer, or a part of it; its gradients in the order they become final.
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
