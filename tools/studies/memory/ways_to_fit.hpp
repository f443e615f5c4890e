// A plan that does not fit: the smallest changes that make it fit, and what each costs in time.
//
// Nothing is guessed: every way is the scenario with its fields overridden, checked and simulated
// like any other. Tried are the changes of changes.hpp, which keep the global batch and, but for
// the last, the GPUs: first each alone; where none fits, pairs, then threes, the most promising
// first. What the changes save and cost alone is added up to choose which to simulate, never to
// answer. A plan whose proven least memory (search/bounds.hpp) is more than a GPU has is not
// simulated.
//
//   FitSearch found = ways_to_fit({.file = file, .overrides = {}}, scenario, now);
//   found.ways[0].changes;    // {{"training.recompute", "full"}}
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "scenarios/simulate/simulate.hpp"

namespace trainyard {

struct FitQuestion {
  std::string file;
  std::vector<Override> overrides = {};
  std::size_t changes_most = 3;  // at once
  std::size_t runs_most = 64;    // simulations in all
  std::size_t processes = 0;     // at a time; 0: one per core
  // The fraction done of the changes tried so many at once, now and then.
  std::function<void(double)> progress = {};
};

// The memory and the time that a plan needs.
struct FitFigures {
  std::int64_t peak_bytes = 0;      // of the fullest stage
  std::int64_t capacity_bytes = 0;  // of its GPU; 0: not known, then it fits
  double step_time_s = 0.0;
  std::uint32_t gpus = 0;
  bool fits = false;  // on the GPUs, and what it keeps on the hosts there
  [[nodiscard]] double gpu_seconds() const { return step_time_s * gpus; }
};
[[nodiscard]] FitFigures fit_figures(const Scenario& scenario, const Result& run);

struct WayToFit {
  std::vector<Override> changes;
  FitFigures figures;
  bool simulated = false;  // else it needs at least peak_bytes, more than a GPU has
};

struct FitSearch {
  FitFigures now;                 // of the scenario as it is
  std::vector<WayToFit> ways;     // that fit, with as few changes as any; least GPU time first
  std::vector<WayToFit> singles;  // every change alone, in the order tried
  std::size_t runs = 0;
  std::size_t changes_at_once = 0;  // of the ways, or of the last that were tried
};

// `now`: of the scenario as it is.
[[nodiscard]] FitSearch ways_to_fit(const FitQuestion& question, const Scenario& scenario,
                                    const FitFigures& now);

// "The least change that fits: training.recompute=full, 61 GiB, +12.3 % of time". One line.
[[nodiscard]] std::string first_way_line(const FitSearch& search);

// "training.recompute=full, parallelism.zero_stage=1".
[[nodiscard]] std::string to_text(const std::vector<Override>& changes);

}  // namespace trainyard
