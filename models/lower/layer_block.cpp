#include "models/lower/layer_block.hpp"

#include <array>

#include "sim/base/check.hpp"

namespace trainyard {

std::span<const LayerBlockKind> layer_block_kinds() {
  static const std::array kinds{latent_attention_block(), multi_head_attention_block(),
                                experts_block(), feed_forward_block()};
  return kinds;
}

const LayerBlockKind& layer_block_at(const Architecture& architecture, LayerHalf half,
                                     std::int64_t layer) {
  for (const LayerBlockKind& kind : layer_block_kinds())
    if (kind.half == half && kind.is_at(architecture, layer)) return kind;
  TY_CHECK(false, layer);
  return layer_block_kinds().front();
}

}  // namespace trainyard
