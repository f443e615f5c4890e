// The two kinds of layers of most models: with one feed-forward part, and with experts.
#pragma once

#include <cstdint>

#include "models/layers/layer_block.hpp"

namespace trainyard {

// The layer of the model whose feed-forward half is the block with this name.
inline LayerKind layer_with(const Architecture& a, std::string_view block) {
  LayerKind kind = layer_kind(a, 0);
  for (const LayerBlock& row : layer_blocks())
    if (row.name == block) kind.ffn = static_cast<std::uint8_t>(&row - layer_blocks().data());
  return kind;
}
inline LayerKind dense_layer(const Architecture& a) { return layer_with(a, "feed-forward"); }
inline LayerKind moe_layer(const Architecture& a) { return layer_with(a, "experts"); }

inline std::int64_t layers_of(const Architecture& a, LayerKind kind) {
  std::int64_t sum = 0;
  for (std::int64_t layer = 0; layer < a.layers; ++layer) sum += layer_kind(a, layer) == kind;
  return sum;
}

}  // namespace trainyard
