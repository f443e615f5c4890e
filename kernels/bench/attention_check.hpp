// Checks attention on the GPU against its CPU reference, at selected rows.
//
//    check_attention(attention, {.result = memory, .log_sum = &sums});   // throws WrongResult
//
// Forward, three rows are computed from the operands, which follow from the seeds. Gradients are
// checked with the result and the sums that the forward wrote, because these were checked before.
#pragma once

#include "kernels/bench/measure.hpp"

namespace trainyard::bench {

struct AttentionSeeds {
  std::uint64_t q = 11, k = 12, v = 13, result_gradient = 14;
};
inline constexpr AttentionSeeds attention_seeds;

// Results on the GPU, [batch, position, head, column] in the attention's dtype. The sums are fp32
// [batch, head, position], and null where the variant does not store them; the check of gradients
// then computes them.
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
