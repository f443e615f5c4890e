// The step over several batches: the same scenario with other seeds, which draw other documents and
// other loads of experts.
//
//    const BatchTimes times = over_batches(scenario, {.batches = 20});
//    sample_mean(times.step_s).half_width;   // of the 95 % interval of the mean
//
// Where lengths of documents are drawn, each batch is simulated as drawn and balanced. Both see the
// same documents, so that the saving of each batch has less spread than the times.
#pragma once

#include <cstddef>
#include <functional>

#include "scenarios/reader/scenario.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

struct OverBatchesOptions {
  std::size_t batches = 2;
  std::size_t processes = 0;                                    // 0: one per core
  std::function<void(std::size_t, std::size_t)> progress = {};  // simulations done, and all
};

// Simulates the batches of the seeds from that of the scenario on. The balance that is compared
// with `none` is the scenario's, or `documents`. Throws InputError if the seed changes nothing in
// this scenario.
[[nodiscard]] BatchTimes over_batches(const Scenario& scenario, const OverBatchesOptions& options);

}  // namespace trainyard
