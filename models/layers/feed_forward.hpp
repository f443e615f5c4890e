// The shape of a feed-forward part: up and down matrices with an activation function between them.
// Dense layers and shared experts have one.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/layers/layer_block.hpp"

namespace trainyard {

struct FeedForwardShape {
  std::string_view up;
  std::string_view down;
  std::int64_t width = 0;
  std::int64_t copies = 1;
  std::int64_t active = 1;
  std::array<bool RecomputeModules::*, 2> modules = {};
};
[[nodiscard]] std::vector<Weight> feed_forward_weights(const Architecture& architecture,
                                                       const FeedForwardShape& shape);

// Bytes of the input and output of an activation function of this width, divided over the tensor
// ranks.
[[nodiscard]] std::int64_t activation_bytes(const Architecture& architecture, std::int64_t width,
                                            const ActivationSizes& sizes);

// Largest number of elements that the gradients of a part with an activation function hold, beyond
// what they have freed: the gradient of the output (gathered, where the sequence is split) together
// with that of the function's output, or the gradients of the function's inputs.
[[nodiscard]] std::int64_t activation_gradients(const Architecture& architecture,
                                                std::int64_t output, std::int64_t width);

}  // namespace trainyard
