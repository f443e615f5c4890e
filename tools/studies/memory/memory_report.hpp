// The report of `trainyard memory` on a run: the memory of each stage by category and over time,
// the verdict, and the changes that make a plan fit that does not (ways_to_fit.hpp).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/plan.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "tools/studies/memory/ways_to_fit.hpp"

namespace trainyard {

// The rule of thumb that people use before they simulate. It is printed for comparison with the
// simulated figure.
//
//    GPUs = parameters x 18 bytes x 1.25 / memory of one GPU
//
// 18 bytes are the weight, its gradient and Adam's state in mixed precision. The factor 1.25 covers
// activations and buffers. Example: 80 billion parameters on GPUs of 80 GB need 22.5, so 23 GPUs
// (Bekman, Machine Learning Engineering Open Book, "The AI battlefield").
struct RuleOfThumb {
  double gpus = 0.0;            // before rounding up
  std::int64_t whole_gpus = 0;  // rounded up
};
// `gpu_gigabytes` is the memory as sold, in units of 1e9 bytes.
[[nodiscard]] RuleOfThumb rule_of_thumb(double parameters, double gpu_gigabytes);

struct MemoryReport {
  const Scenario& scenario;
  const Result& run;
  std::optional<FitSearch> search;  // if the plan does not fit
};

// The report for a terminal: plain text of at most 100 columns.
[[nodiscard]] std::string memory_text(const MemoryReport& report);
// The whole report, with the curves of the fullest rank of every stage.
[[nodiscard]] nlohmann::ordered_json memory_json(const MemoryReport& report);
// A page that opens from disk, with the memory of each stage over time.
[[nodiscard]] std::string memory_page(const MemoryReport& report);

}  // namespace trainyard
