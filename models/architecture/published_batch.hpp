// Typical number of tokens of one optimizer step for a model of a given size, from published
// training runs (models/batches/published.json).
//
//    published_tokens(8.03e9);   // 4e6
#pragma once

#include <cstdint>

namespace trainyard {

// The median of the five published runs that are nearest in size, measured by the ratio of
// parameters. REQUIRES: parameters > 0.
[[nodiscard]] double published_tokens(double parameters);

struct BatchQuestion {
  double tokens = 0.0;  // of one step
  std::int64_t sequence_length = 1;
  std::int64_t gpus = 1;
};

// Converts a number of tokens into a nearby number of whole sequences that replicas of any layout
// can share. With at least as many sequences as GPUs it is the number of GPUs times a power of two.
// Otherwise it is the smallest divisor of the number of GPUs that is not below the number of
// sequences.
[[nodiscard]] std::int64_t sequences_of_step(const BatchQuestion& question);

}  // namespace trainyard
