// The time in which pipeline stages hand layers over to each other, when `"balance": "auto"` gives
// stages other layers because a part became slow or recovered.
//
//    const auto cluster = shared_cluster(scenario.cluster);
//    layer_move_s(scenario.plan, *cluster, std::vector<std::int64_t>{8, 8}, {{10, 6}});
#pragma once

#include <cstdint>
#include <span>

#include "models/plan.hpp"
#include "sim/cluster/cluster.hpp"

namespace trainyard {

// Seconds in which the layers move on the cluster. `before` and `after` are the layers
// of each pipeline stage, which are numbered from the first stage on, so that a stage that gets one
// more passes the others along.
//
// Every rank sends what it holds of a layer between two steps, weights and optimizer state, to the
// rank at the same tensor, context and data position of the layer's new stage, or to its peers
// there where the stages have unequal numbers of tensor ranks. All transfers begin
// together and share their links, so the most loaded link ends last: its bytes over its rate.
// Latencies, milliseconds at most, are left out. Experts move with their layer.
[[nodiscard]] double layer_move_s(const TrainingPlan& plan, const Cluster& cluster,
                                  std::span<const std::int64_t> before,
                                  std::span<const std::int64_t> after);

}  // namespace trainyard
