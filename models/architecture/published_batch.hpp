// How many tokens runs of a model's size train on in one optimizer step, as far as they published
// it (models/batches/published.json).
//
//   published_tokens(8.03e9);   // 4e6
#pragma once

#include <cstdint>

namespace trainyard {

// The median of the five published runs that are nearest in size, by the ratio of parameters.
// REQUIRES: parameters > 0.
[[nodiscard]] double published_tokens(double parameters);

struct BatchQuestion {
  double tokens = 0.0;  // of a step
  std::int64_t sequence_length = 1;
  std::int64_t gpus = 1;
};

// About so many tokens in whole sequences, which replicas of any layout can share: the GPUs times a
// power of two, or, where there are more GPUs than sequences, the smallest number that is no less
// and divides them.
[[nodiscard]] std::int64_t sequences_of_step(const BatchQuestion& question);

}  // namespace trainyard
