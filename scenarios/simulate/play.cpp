#include "scenarios/simulate/play.hpp"

#include <vector>

#include "sim/engine/engine.hpp"

namespace trainyard {

Timeline play(const Result& result, const Lowered& lowered, const Interference& losses,
              const SimulateOptions& options) {
  std::vector<double> seconds;
  seconds.reserve(result.kernel_costs.size());
  for (const Cost& cost : result.kernel_costs) seconds.push_back(cost.time.value());
  return make_engine(result.facts.engine)
      ->run({.cluster = *result.cluster,
             .workload = *result.workload,
             .partition = *result.partition,
             .kernel_seconds = seconds,
             .progress = options.progress,
             .stop = options.stop,
             .compute_loss = losses.compute,
             .communication_loss = losses.communication,
             .hosts = lowered.hosts,
             .contract = options.contract,
             .record = options.figures,
             .known = lowered.known.get()});
}

}  // namespace trainyard
