// The algorithm that was selected for each call of a folded run, for reports. The communication
// model is queried once per class.
//
//    const SelectedAlgorithms table = selected_algorithms(workload, partition, communication);
//    selected_algorithm_of(table, workload, group_class, call).label;   // "nccl: Ring/LL128, ..."
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "sim/cluster/communication_model.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// By group class and call. Only algorithms whose label differs from the call's algorithm are in it.
using SelectedAlgorithms = std::map<std::pair<std::uint32_t, std::uint32_t>, SelectedAlgorithm>;

// Queries for the representative of each class. REQUIRES: the partition is of the workload.
[[nodiscard]] SelectedAlgorithms selected_algorithms(const Workload& workload,
                                                     const Partition& partition,
                                                     const CommunicationModel& communication);

[[nodiscard]] SelectedAlgorithm selected_algorithm_of(const SelectedAlgorithms& selected_algorithms,
                                                      const Workload& workload,
                                                      std::uint32_t group_class,
                                                      std::uint32_t call);

}  // namespace trainyard
