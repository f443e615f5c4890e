// The layouts of a search: every legal combination of sizes for a model, a cluster and a batch.
//
//    SearchSpace space{.scenario = {.file = "a.json"}};
//    Layouts layouts = enumerate(space);   // each legal layout with the --set changes that make it
//
// space.cpp defines the values that are tried for each size, and is_legal() which combinations are
// layouts. `over` replaces the values of these fields, or adds further fields. Sequence parallelism
// is used with tensor parallelism, and `data` is the number of remaining GPUs.
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
  std::vector<Axis> over = {};  // each with one path
};

// Where the scenario has a block `power`, a price of one GPU for an hour takes the place of its own
// prices: of a rented GPU, by a preset or not, or of one that is bought.
void set_price(double per_gpu_hour, Variant& scenario);

struct Layout {
  Variant variant;    // the scenario with the changes that make this layout
  TrainingPlan plan;  // the same as a plan; checked only as enumerate() documents
  // those of the changes that are values of `over` for further fields
  std::vector<Override> further = {};
};

// Tokens of a step. Layouts whose steps train different batches compare by their time per token.
[[nodiscard]] inline double tokens_of(const Layout& layout) {
  const Training& training = layout.plan.training;
  return static_cast<double>(training.global_batch_size * training.sequence_length *
                             layout.plan.workers());
}

struct Layouts {
  std::vector<Layout> legal;
  std::size_t checked_layouts = 0;  // combinations of values, most of which are no layouts
  // Combinations of values of further fields: all of them, and those that were not read before the
  // end.
  std::size_t further = 1;
  std::size_t combinations_not_read = 0;
};

struct Enumeration {
  std::function<bool()> end = {};             // polled often; true: the rest is not read
  std::function<void(double)> progress = {};  // called with the fraction that is done
};

// The layouts whose sizes divide evenly and whose schedule exists. Further rules of the reader may
// still refuse a layout when it is simulated. Throws InputError for an invalid scenario, or if no
// layout is legal. The scenario is read anew for each combination of values of further fields, a
// few milliseconds each; at least the first combination is read.
[[nodiscard]] Layouts enumerate(const SearchSpace& space, const Enumeration& enumeration = {});

// Whether a combination of sizes is a layout: the sizes divide evenly and the schedule exists.
// These are the rules of scenarios/reader/checks.cpp that depend on sizes alone, without a file for
// messages: a search checks thousands of plans. What the reader refuses beyond that is counted when
// a layout is simulated.
[[nodiscard]] bool is_legal(const TrainingPlan& plan);

// Whether the layers divide over the stages and chunks of the plan, in the way that it says.
[[nodiscard]] bool layers_split(const TrainingPlan& plan);

// Whether the replicas divide into the sharded copies that the scenario names (`shard`,
// `reshard_group`), and these hold whole sets of experts. If they do not, the plan can neither be
// lowered nor bounded, and the reader reports it when the layout is simulated.
[[nodiscard]] bool replicas_divide_into_copies(const TrainingPlan& plan);

}  // namespace trainyard
