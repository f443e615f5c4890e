// The shape of a feed-forward part: matrices on the way up and down, and an activation function
// between them. Dense layers have one, and so have the experts that see every token.
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

// Bytes of the input and output of an activation function so wide, divided over the tensor ranks.
[[nodiscard]] std::int64_t activation_bytes(const Architecture& architecture, std::int64_t width,
                                            const ActivationSizes& sizes);

// The most that the gradients of a part with an activation function hold beyond what they have
// freed: the output's (gathered, where the sequence is split) beside that of the function's output,
// or those of the function's inputs.
[[nodiscard]] std::int64_t activation_gradients(const Architecture& architecture,
                                                std::int64_t output, std::int64_t width);

}  // namespace trainyard
