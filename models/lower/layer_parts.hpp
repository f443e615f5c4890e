// The parts of a transformer layer that stand on one device: all four, unless the model is split by
// hand (operator_devices.hpp).
//
//   layer.forward({.attention_norm = true, .attention = true, .ffn_norm = false, .ffn = false});
#pragma once

#include "models/operator_devices.hpp"

namespace trainyard {

struct LayerParts {
  bool attention_norm = true;
  bool attention = true;  // with the residual addition
  bool ffn_norm = true;
  bool ffn = true;  // likewise; the experts of a layer that has them
  [[nodiscard]] bool whole() const { return attention_norm && attention && ffn_norm && ffn; }
};

// REQUIRES: a segment of a layer.
[[nodiscard]] inline LayerParts layer_parts(const Segment& segment) {
  return {.attention_norm = segment.holds(Operator::AttentionNorm),
          .attention = segment.holds(Operator::Attention),
          .ffn_norm = segment.holds(Operator::FeedForwardNorm),
          .ffn = segment.holds(Operator::FeedForward)};
}

}  // namespace trainyard
