// Attention on the GPU against its CPU reference, by rows.
//
//   check_attention(attention, {.result = memory, .log_sum = &sums});   // throws WrongResult
//
// Forward, three rows are computed anew from the operands, which seeds tell. Gradients are judged
// by the result and the sums that forward left, since these were judged before.
#pragma once

#include "kernels/bench/measure.hpp"

namespace trainyard::bench {

struct AttentionSeeds {
  std::uint64_t q = 11, k = 12, v = 13, result_gradient = 14;
};
inline constexpr AttentionSeeds attention_seeds;

// On the GPU, [batch, position, head, column] in the attention's dtype; sums fp32 [batch, head,
// position], and null where the variant does not keep them (then gradients compute them anew).
struct AttentionResults {
  const DeviceMemory& result;
  const DeviceMemory* log_sum = nullptr;
  const DeviceMemory* q_gradient = nullptr;
  const DeviceMemory* k_gradient = nullptr;
  const DeviceMemory* v_gradient = nullptr;
};
void check_attention(const Attention& attention, const AttentionResults& results);
void check_attention_gradients(const Attention& attention, const AttentionResults& results);

}  // namespace trainyard::bench
