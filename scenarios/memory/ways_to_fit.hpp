// A plan that does not fit: the smallest changes that make it fit, and what each costs in time.
//
// Nothing is guessed: every way is the scenario with its fields overridden, checked and simulated
// like any other. Tried are more recomputation, less of a batch at once, sequence parallelism, more
// sharding, more tensor, pipeline or context ranks with fewer replicas in their place (the number
// of GPUs and the global batch stay), and what can wait in the host's memory. First each alone;
// where none fits, pairs, then threes, the most promising first: savings are added up to choose
// which to simulate, never to answer.
//
//   FitSearch found = ways_to_fit({.file = file, .overrides = {}}, scenario, worst_peak);
//   found.ways[0].changes;    // {{"training.recompute", "full"}}
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"

namespace trainyard {

struct FitQuestion {
  std::string file;
  std::vector<Override> overrides = {};
  std::size_t runs_most = 40;  // simulations in all
};

// One way, simulated.
struct Way {
  std::vector<Override> changes;
  std::int64_t peak_bytes = 0;  // of the fullest stage
  double step_time_s = 0.0;
  bool fits = false;
};

struct FitSearch {
  std::vector<Way> ways;     // that fit, with as few changes as any; the quickest first
  std::vector<Way> singles;  // every change alone, in the order tried
  std::size_t runs = 0;
  std::size_t changes_at_once = 0;  // of the ways, or of the last that were tried
};

// `peak_bytes`: of the scenario as it is, on its fullest stage.
[[nodiscard]] FitSearch ways_to_fit(const FitQuestion& question, const Scenario& scenario,
                                    std::int64_t peak_bytes);

// "training.recompute=full, parallelism.zero_stage=1".
[[nodiscard]] std::string to_text(const std::vector<Override>& changes);

}  // namespace trainyard
