// What carried each call of a folded run, for reports: asked of the communication model once per
// class.
//
//   const Carriers table = carriers(workload, partition, communication);
//   carrier_of(table, workload, group_class, call).label;   // "nccl: Ring/LL128, 24 channels"
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "sim/cluster/communication_model.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// By group class and call: those that say more than the call's algorithm does.
using Carriers = std::map<std::pair<std::uint32_t, std::uint32_t>, Carrier>;

// The representative speaks for its class. REQUIRES: the partition is of the workload.
[[nodiscard]] Carriers carriers(const Workload& workload, const Partition& partition,
                                const CommunicationModel& communication);

[[nodiscard]] Carrier carrier_of(const Carriers& carriers, const Workload& workload,
                                 std::uint32_t group_class, std::uint32_t call);

}  // namespace trainyard
