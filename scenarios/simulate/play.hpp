// The stage of the main line that runs the engine.
//
//    result.timeline = play(result, lowered, find_interference(cluster, lowered, folded, pricings),
//                           options);
#pragma once

#include "scenarios/simulate/interference.hpp"
#include "scenarios/simulate/lowered.hpp"
#include "scenarios/simulate/simulate.hpp"

namespace trainyard {

// Returns the start and end of every operation. REQUIRES: `result` has its cluster, workload,
// partition, kernel costs and the name of the engine; its workload is that of `lowered`.
[[nodiscard]] Timeline play(const Result& result, const Lowered& lowered,
                            const Interference& losses, const SimulateOptions& options);

}  // namespace trainyard
