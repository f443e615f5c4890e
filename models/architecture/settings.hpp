// Two settings of training that decide which activations of a layer are kept.
#pragma once

#include <cstdint>

namespace trainyard {

// None keeps every activation. Selective drops the attention core (scores, softmax, its dropout)
// and computes it again in the backward pass. Full keeps only the input of each layer.
enum class Recompute : std::uint8_t { None, Selective, Full };

// Flash computes attention in one kernel and keeps one number per row (the log-sum-exp). Unfused
// writes the s x s matrix of scores to memory.
enum class AttentionKind : std::uint8_t { Flash, Unfused };

}  // namespace trainyard
