// Names of a lowered step: its memory categories, numbered, and its streams.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// Memory categories of a lowered step, by number.
enum class Category : std::uint8_t {
  Weights,
  Gradients,
  OptimizerState,
  Activations,
  Logits,
  Communication,
  Framework,
  Workspace,      // gradients of activations while a layer's backward runs
  Fragmentation,  // reserved by the allocator, in no use at the peak; known after the run
  // Those from here on are in a workload only where it uses them, or one behind them.
  UnshardedWeights,  // gathered or fetched for a layer, until it gives them back
  Host,              // what stands in the memory of the CPU (kHostCategory)
};
[[nodiscard]] std::vector<std::string> category_names();
[[nodiscard]] std::vector<std::string> stream_names();
// Drops the names of streams and categories behind the last one in use, so that a step shows no
// room for what it does not do.
void drop_unused_names(Workload& workload);

}  // namespace trainyard
