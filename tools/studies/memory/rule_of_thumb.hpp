// The rule that people use before they simulate, to stand beside the simulated figure.
//
//   GPUs = parameters x 18 bytes x 1.25 / memory of one GPU
//
// 18 bytes are the weight, its gradient and Adam's state in mixed precision; 1.25 stands for
// activations and buffers. 80 billion parameters on GPUs of 80 GB: 22.5, so 23 (Bekman, Machine
// Learning Engineering Open Book, "The AI battlefield").
#pragma once

#include <cstdint>
#include <string>

#include "models/plan.hpp"

namespace trainyard {

struct RuleOfThumb {
  double gpus = 0.0;            // before rounding up
  std::int64_t whole_gpus = 0;  // rounded up
};
// `gpu_gigabytes`: as sold, in units of 1e9 bytes.
[[nodiscard]] RuleOfThumb rule_of_thumb(double parameters, double gpu_gigabytes);

// "rule of thumb: ...". One line. `gpu_memory`: usable bytes; 80 GiB are sold as 80 GB.
[[nodiscard]] std::string rule_of_thumb_line(const TrainingPlan& plan, Bytes gpu_memory);

}  // namespace trainyard
