// The scenario of an elastic job that has lost replicas.
//
//    const Scenario smaller = with_fewer_replicas(scenario, 1);
#pragma once

#include <cstdint>

#include "scenarios/reader/scenario.hpp"

namespace trainyard {

// Fewer replicas, each of which does as much as before: the global batch and the cluster become
// smaller in proportion. The last replicas leave, with their nodes; what names nodes (`others`,
// `placement`, faults) names those that stay by their new numbers. Throws InputError where the
// nodes of the replicas that leave hold ranks of others too, and nodes differ.
[[nodiscard]] Scenario with_fewer_replicas(const Scenario& scenario, std::int64_t lost);

}  // namespace trainyard
