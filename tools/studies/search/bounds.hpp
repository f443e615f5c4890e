// Lower bounds on the time and memory of a layout, computed without a simulation.
//
//    Bounder bounder(scenario);                    // reads cluster, kernels and NCCL once
//    LayoutBound least = bounder.bound(plan);      // least.step_time_s <= the simulated step
//
// Time. Each step of the schedule (a forward or backward of one microbatch on one chunk) occupies
// its rank for at least D. D is the longest path through its kernels and through those collectives
// of its tensor, context and expert groups that stay within a node; these have their links for
// themselves and slow nothing. The output of the step is available after O <= D. The schedule's
// lists are played with D and O, and messages take no time. The time of a rank before and after its
// steps (clearing gradients, the optimizer) is added:
//
//    T >= max over ranks of head + end of its last step + tail
//
// The bound is the step on an ideal cluster without interference, minus all waiting for
// data-parallel, pipeline and wider communication. Durations come from a few steps that are lowered
// but not simulated: microbatches are equal, and the least duration of each kind of step counts.
//
// Memory. The bound is the memory that a rank holds all the time, plus, along its list, the part
// that each microbatch under way keeps from its forward, plus the additional need of the running
// step.
//
// A split backward is two kinds of steps. Two steps that run as one block are bounded by their
// kernels alone, and may hide under each other's kernels. A model split by hand has a coarser
// bound: each rank's kernels, and the memory that it holds all the time.
// tests/tools/studies/search/search_test.cpp compares the bounds with simulations.
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

// The JSON pointer of the part of the scenario for which no bound is known (GPUs of several kinds,
// parameter servers, offload, documents that each replica draws for itself). There is no value if
// the bounds hold.
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

  // The bound of a plan. Throws InputError if the plan cannot be lowered. REQUIRES: the plan is for
  // the scenario's cluster.
  [[nodiscard]] LayoutBound bound(const TrainingPlan& plan) const;
  // Usable bytes of one GPU.
  [[nodiscard]] double capacity_bytes() const;

 private:
  struct Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace trainyard
