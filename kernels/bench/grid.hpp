// The tasks that are measured by default: shapes that cover those of training steps.
//
//    for (const Task& task : grid_tasks(Grid::Default)) fmt::print("{}\n", task_text(task));
#pragma once

#include <vector>

#include "kernels/bench/task.hpp"
#include "sim/base/units.hpp"

namespace trainyard::bench {

enum class Grid : std::uint8_t {
  Default,  // takes less than eight minutes on one GPU
  Small     // a few shapes of each kind, in less than half a minute, as a quick check of everything
};

// Contains no task twice, and is in the same order every time.
[[nodiscard]] std::vector<Task> grid_tasks(Grid grid);

// Rough time to measure a task on a slow current GPU (an A100's 312 TFLOP/s bf16 at half of peak,
// 1.3 TB/s, PCIe at 20 GB/s), with warm-up, choice of algorithm, cache flushes and check. It sizes
// the default grid; no simulation uses it.
[[nodiscard]] Seconds estimated_duration(const Task& task);

}  // namespace trainyard::bench
