// The grid is measured when nothing else is asked for: shapes that span those of training steps.
//
//   for (const Task& task : grid_tasks(Grid::Default)) ...
#pragma once

#include <vector>

#include "kernels/bench/task.hpp"
#include "sim/base/units.hpp"

namespace trainyard::bench {

enum class Grid : std::uint8_t {
  Default,  // under eight minutes on one GPU
  Small     // a few shapes of each kind, under half a minute: does everything work here?
};

// No task twice; the same order every time.
[[nodiscard]] std::vector<Task> grid_tasks(Grid grid);

// About how long measuring takes on a slow GPU of today's kind (an A100's 312 TFLOP/s bf16 at half
// of peak, 1.3 TB/s, PCIe at 20 GB/s), warm-up, choice of algorithm, cache flushes and check
// included. Sizes the default grid; no simulation uses it.
[[nodiscard]] Seconds estimated_duration(const Task& task);

}  // namespace trainyard::bench
