// Lower bounds on the time and memory of a layout, known before it is simulated.
//
//   Bounder bounder(scenario);                    // its cluster, kernels and NCCL, once
//   LayoutBound least = bounder.bound(plan);      // least.step_time_s <= the simulated step
//
// Time. Each step of the schedule (a forward or backward of one microbatch on one chunk) occupies
// its rank for at least D: the longest path through its kernels and those collectives of its
// tensor, context and expert groups that stay within a node, which have their links for themselves
// and slow nothing. Its output is there after O <= D. The schedule's lists are then played with D
// and O and messages that take no time, and what a rank does before and after its steps (clearing
// gradients, the optimizer) is added:
//
//     T >= max over ranks of head + end of its last step + tail
//
// The bound is the step on an ideal cluster without interference, less all that waits for
// data-parallel, pipeline and wider communication. Durations are read from a few steps lowered but
// not simulated: microbatches are alike, and the least of each kind counts.
//
// Memory. What a rank holds all the time, plus, along its list, what each microbatch under way
// keeps of its forward and what the running step needs beyond that.
//
// A split backward is two kinds of steps. Two steps that run as one block are bounded by their
// kernels alone, and may hide under each other's. A model split by hand is bounded more coarsely:
// by each rank's kernels, and by what it holds all the time. Held against simulations by
// tests/tools/studies/search/search_test.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "models/plan.hpp"
#include "scenarios/reader/scenario.hpp"

namespace trainyard {

struct LayoutBound {
  double step_time_s = 0.0;
  double peak_bytes = 0.0;
};

// The place of what the bounds do not hold for; nothing where they hold.
[[nodiscard]] std::optional<std::string_view> unbounded_part(const Scenario& scenario);

class Bounder {
 public:
  // REQUIRES: !unbounded_part(scenario).
  explicit Bounder(const Scenario& scenario);
  Bounder(const Bounder&) = delete;
  Bounder& operator=(const Bounder&) = delete;
  Bounder(Bounder&&) noexcept;
  Bounder& operator=(Bounder&&) noexcept;
  ~Bounder();

  // Throws InputError where the plan cannot be lowered. REQUIRES: it is of the scenario's cluster.
  [[nodiscard]] LayoutBound bound(const TrainingPlan& plan) const;
  // Usable bytes of one GPU.
  [[nodiscard]] double capacity_bytes() const;

 private:
  struct Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace trainyard
