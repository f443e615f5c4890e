// A layer is an attention block and a feed-forward block, each of one kind: the seam behind which
// kinds stand. A new kind is a file with its writer and a row in layer_block.cpp.
//
//   layer_block_at(architecture, LayerHalf::Attention, layer).forward(tools);
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/lower/layer_tools.hpp"

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

}  // namespace trainyard
