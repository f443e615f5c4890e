// Changes that free GPU memory. `trainyard memory` tries them for a plan that does not fit.
//
// Each is a small change of any plan: more recomputation, smaller microbatches, more sharding, more
// ranks of another dimension in exchange for replicas, a schedule that holds fewer microbatches,
// smaller optimizer states and gradients, offloading to host memory, or twice the GPUs. Two changes
// of one kind cannot be combined.
//
//    Knobs knobs = knobs_of(scenario);
//    if (fit_changes()[0].apply(knobs)) difference(scenario, knobs);   // the --set options for it
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "scenarios/reader/scenario.hpp"

namespace trainyard {

// The fields that a change may modify.
struct Knobs {
  Parallelism parallelism;
  Training training;
  OffloadSettings offload;
  std::int64_t nodes = 0;  // of the cluster; 0: the cluster is not a number of equal nodes
  bool experts = false;    // the model has experts
};
[[nodiscard]] Knobs knobs_of(const Scenario& scenario);

struct FitChange {
  std::string_view kind;
  bool (*apply)(Knobs&);  // returns false if the change is not possible for the plan
};
// All changes in the order in which they are tried, the smallest change first.
[[nodiscard]] const std::vector<FitChange>& fit_changes();

// The differences from the scenario, as overrides of its fields.
[[nodiscard]] std::vector<Override> difference(const Scenario& scenario, const Knobs& knobs);

}  // namespace trainyard
