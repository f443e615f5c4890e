// The layouts that a search looks at: every legal combination of sizes for a model, a cluster and a
// batch.
//
//   SearchSpace space{.scenario = {.file = "a.json"}};
//   std::vector<Layout> layouts = enumerate(space);   // each with the --set changes that make it
//
// space.cpp says which values of each size are tried, and is_legal() which combinations are
// layouts. `over` gives other values for these fields, or further fields to try. Sequence
// parallelism goes with tensor parallelism; `data` is what is left of the GPUs.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "models/plan.hpp"
#include "scenarios/reader/scenario.hpp"
#include "tools/studies/batch/batch.hpp"
#include "tools/studies/sweep/grid.hpp"

namespace trainyard {

struct SearchSpace {
  Variant scenario;
  std::vector<Axis> over = {};  // each of one path
};

struct Layout {
  Variant variant;                     // the scenario with the changes that make this layout
  TrainingPlan plan;                   // the same as a plan; unchecked beyond what enumerate() says
  std::vector<Override> further = {};  // of the changes: values of `over` for further fields
};

struct Layouts {
  std::vector<Layout> legal;
  std::size_t looked_at = 0;  // combinations of values, most of them no layout at all
  // Combinations of values of further fields: all, and those not read before the end.
  std::size_t further = 1;
  std::size_t more_not_reached = 0;
};

struct Enumeration {
  std::function<bool()> end = {};             // asked often; true: the rest is not reached
  std::function<void(double)> progress = {};  // the fraction that is done
};

// The layouts whose sizes divide what they must and whose schedule exists; rules of the reader
// beyond that may still refuse one when it is simulated. Throws InputError for a scenario at fault,
// or where nothing is legal. The scenario is read anew for each combination of values of further
// fields, a few milliseconds each; at least the first is read.
[[nodiscard]] Layouts enumerate(const SearchSpace& space, const Enumeration& enumeration = {});

// Whether a combination of sizes is a layout: the sizes divide what they must and the schedule
// exists. These are the rules of scenarios/reader/checks.cpp that sizes alone decide, without a
// file to report to: a search asks them of thousands of plans. What the reader refuses beyond that
// is counted when a layout is simulated.
[[nodiscard]] bool is_legal(const TrainingPlan& plan);

// Whether replicas divide into the sharded copies that the scenario names (`shard`,
// `reshard_group`), and these hold whole sets of experts. Where they do not, nothing can be
// lowered, and so nothing bounded; the reader says so when the layout is simulated.
[[nodiscard]] bool replicas_divide_into_copies(const TrainingPlan& plan);

}  // namespace trainyard
