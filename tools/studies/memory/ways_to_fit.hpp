// For a plan that does not fit: the smallest changes that make it fit, and the cost of each in
// time.
//
// Nothing is estimated in the answer: every way is the scenario with overridden fields, checked and
// simulated like any other. The search tries the changes of changes.hpp, which keep the global
// batch and, except for the last one, the number of GPUs. It first tries each change alone; if none
// fits, it tries pairs, then triples, the most promising first. The effects of single changes are
// added up only to choose which sets to simulate. A plan whose proven least memory
// (search/bounds.hpp) exceeds the memory of a GPU is not simulated.
//
//    FitSearch found = ways_to_fit({.scenario = {file}}, scenario, now);
//    found.ways[0].changes;    // {{"training.recompute", "full"}}
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "scenarios/simulate/simulate.hpp"
#include "tools/studies/batch/batch.hpp"

namespace trainyard {

struct FitQuestion {
  Variant scenario;
  std::size_t changes_most = 3;  // most changes in one set
  std::size_t runs_most = 64;    // most simulations in total
  std::size_t processes = 0;     // simulations at a time; 0: one per core
  // Called from time to time with the fraction done of the sets of the present size.
  std::function<void(double)> progress = {};
  // Polled often. It throws to end the search: what it throws reaches the caller.
  std::function<bool()> end = {};
};

// The memory and the time that a plan needs.
struct FitFigures {
  std::int64_t peak_bytes = 0;      // of the fullest stage
  std::int64_t capacity_bytes = 0;  // of its GPU; 0: not known, then the plan counts as fitting
  double step_time_s = 0.0;
  std::uint32_t gpus = 0;
  bool fits = false;  // on the GPUs, and with its offloaded state on the hosts
  [[nodiscard]] double gpu_seconds() const { return step_time_s * gpus; }
};
[[nodiscard]] FitFigures fit_figures(const Scenario& scenario, const Result& run);

struct WayToFit {
  std::vector<Override> changes;
  FitFigures figures;
  bool simulated = false;  // false: it needs at least peak_bytes, which is more than a GPU has
};

struct FitSearch {
  FitFigures now;  // of the unchanged scenario
  // ways that fit, with the fewest changes possible; least GPU time first
  std::vector<WayToFit> ways;
  std::vector<WayToFit> singles;  // every change alone, in the order tried
  std::size_t runs = 0;
  std::size_t changes_at_once = 0;  // of the ways, or of the last sets that were tried
};

// `now` are the figures of the unchanged scenario.
[[nodiscard]] FitSearch ways_to_fit(const FitQuestion& question, const Scenario& scenario,
                                    const FitFigures& now);

// The best way in one line: "The least change that fits: training.recompute=full; 61 GiB, one step
// takes 1.2 s (+12.3 %)".
[[nodiscard]] std::string first_way_line(const FitSearch& search);

// Changes as text: "training.recompute=full, parallelism.zero_stage=1".
[[nodiscard]] std::string to_text(const std::vector<Override>& changes);

}  // namespace trainyard
