// Changes that free memory of a GPU: what `trainyard memory` tries where a plan does not fit.
//
// Each is a small step away from any plan: more recomputation, less of a batch at once, more
// sharding, more ranks of another dimension in the place of replicas, a schedule that holds fewer
// microbatches, smaller optimizer states and gradients, something kept in the host's memory, twice
// the GPUs. Two of one kind do not go together.
//
//   Knobs knobs = knobs_of(scenario);
//   if (fit_changes()[0].apply(knobs)) difference(scenario, knobs);   // the --set that says so
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "scenarios/reader/scenario.hpp"

namespace trainyard {

// The fields that a change may touch.
struct Knobs {
  Parallelism parallelism;
  Training training;
  OffloadSettings offload;
  std::int64_t nodes = 0;  // of the cluster; 0: it is no number of equal nodes
  bool experts = false;    // the model has some
};
[[nodiscard]] Knobs knobs_of(const Scenario& scenario);

struct FitChange {
  std::string_view kind;
  bool (*apply)(Knobs&);  // false: the plan has no room for it
};
// In the order in which they are tried: what changes least first.
[[nodiscard]] const std::vector<FitChange>& fit_changes();

// The differences from the scenario, as overrides of its fields.
[[nodiscard]] std::vector<Override> difference(const Scenario& scenario, const Knobs& knobs);

}  // namespace trainyard
