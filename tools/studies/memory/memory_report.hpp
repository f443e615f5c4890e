// The report of `trainyard memory` on a run: what each stage holds, by category and over time, the
// verdict, and the changes with which a plan that does not fit would (ways_to_fit.hpp).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/plan.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "tools/studies/memory/ways_to_fit.hpp"

namespace trainyard {

// The rule that people use before they simulate, to stand beside the simulated figure.
//
//   GPUs = parameters x 18 bytes x 1.25 / memory of one GPU
//
// 18 bytes are the weight, its gradient and Adam's state in mixed precision; 1.25 stands for
// activations and buffers. 80 billion parameters on GPUs of 80 GB: 22.5, so 23 (Bekman, Machine
// Learning Engineering Open Book, "The AI battlefield").
struct RuleOfThumb {
  double gpus = 0.0;            // before rounding up
  std::int64_t whole_gpus = 0;  // rounded up
};
// `gpu_gigabytes`: as sold, in units of 1e9 bytes.
[[nodiscard]] RuleOfThumb rule_of_thumb(double parameters, double gpu_gigabytes);

struct MemoryReport {
  const Scenario& scenario;
  const Result& run;
  std::optional<FitSearch> search;  // where the plan does not fit
};

// For a terminal: plain text of at most 100 columns.
[[nodiscard]] std::string memory_text(const MemoryReport& report);
// Everything, the curves of the fullest rank of every stage included.
[[nodiscard]] nlohmann::ordered_json memory_json(const MemoryReport& report);
// A page of its own, without scripts or anything from elsewhere: one picture for each stage.
[[nodiscard]] std::string memory_page(const MemoryReport& report);

}  // namespace trainyard
