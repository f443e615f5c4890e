// One transformer layer of one rank, forward and backward, as kernels and collectives, and the
// memory that it holds meanwhile.
//
// The operations and their shapes are those of reference 04 section 1 (Shoeybi et al. 1909.08053;
// Korthikanti et al. 2205.05198). Norms and the order of the halves are written here. What stands
// in each half, attention and feed-forward, is a block of one kind: the seam behind which kinds
// stand. A new kind is a file with its writer, a row in
// layer.cpp, its declaration below, and what ../README.md lists.
//
//   layer_block_at(architecture, LayerHalf::Attention, layer).forward(tools);
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/layer_tools.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"

namespace trainyard {

enum class LayerHalf : std::uint8_t { Attention, FeedForward };

struct LayerBlockKind {
  std::string_view name;
  LayerHalf half = LayerHalf::Attention;
  bool (*is_at)(const Architecture& architecture, std::int64_t layer) = nullptr;
  // From the norm's output to what is added to what went round the block. The builder's tags name
  // the layer, here and below.
  void (*forward)(LayerTools& tools) = nullptr;
  // From the gradient of that to that of the norm's output; the gradients of weights in the order
  // they become final (chunk_weights.hpp).
  std::vector<ReadyGradient> (*backward)(LayerTools& tools, BackwardPart part) = nullptr;
  // Runs again what was not kept of the forward where every second product's output was
  // (RecomputeModules::second_products); nullptr: the layer runs nothing again then.
  void (*second_products)(LayerTools& tools) = nullptr;
  // The forward leaves its last product out where LayerTools::ends_early.
  bool may_end_early = false;
};

[[nodiscard]] std::span<const LayerBlockKind> layer_block_kinds();
// The first kind in the table that says it is at that layer.
[[nodiscard]] const LayerBlockKind& layer_block_at(const Architecture& architecture, LayerHalf half,
                                                   std::int64_t layer);

[[nodiscard]] LayerBlockKind latent_attention_block();
[[nodiscard]] LayerBlockKind multi_head_attention_block();
[[nodiscard]] LayerBlockKind experts_block();
[[nodiscard]] LayerBlockKind feed_forward_block();

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
  [[nodiscard]] const LayerBlockKind& block(LayerHalf half) const;
  void block_forward(LayerHalf half);
  std::vector<ReadyGradient> block_backward(LayerHalf half, BackwardPart part);
  std::vector<ReadyGradient> blocks_backward(BackwardPart part, const LayerParts& parts);
  void second_products_again();

  LayerTools tools_;
};

}  // namespace trainyard
