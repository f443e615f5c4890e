// A lowered workload on its cluster: folded, priced and replayed, once or many times.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/collectives/nccl/options.hpp"
#include "scenarios/run/kernel_pricing.hpp"
#include "scenarios/run/run.hpp"
#include "sim/engine/host_lane.hpp"
#include "sim/engine/known_programs.hpp"
#include "sim/fold/join_ground.hpp"
#include "sim/workload/call_order.hpp"

namespace trainyard {

// What all replays of one workload have in common.
struct KeptForReplays {
  std::vector<std::string> gpu_of_kernel;  // as specialise() says
  std::vector<HostLane> hosts = {};
  KernelPricings pricings;
  std::optional<CallOrder> order = {};
  std::optional<std::vector<bool>> used = {};  // kernels
  KnownPrograms known = {};
  std::optional<JoinGround> ground = {};  // of the cluster of the next replay, which uses it up
};

[[nodiscard]] nccl::Options options_of(const CollectiveChoice& choice);

// Folds, prices and replays run.workload on run.cluster. REQUIRES: `kept` was always of this
// workload.
void replay(Run& run, const CollectiveChoice& choice, const RunOptions& options,
            KeptForReplays& kept);

}  // namespace trainyard
