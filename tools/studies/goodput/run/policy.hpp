// Which nodes a job can do without (FailurePolicy).
//
// Slots are numbered replica by replica, and stage by stage within a replica. Policy mirrored has
// two copies of the whole job, one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/studies/goodput/run/job.hpp"

namespace trainyard {

// Whether the job trains on while nodes are missing, without a restart.
[[nodiscard]] bool trains_on(FailurePolicy policy);

// Whether the job can do its steps without these slots, by a policy that trains on. A job of the
// other policies cannot.
[[nodiscard]] bool can_do_without(const Job& job, const std::vector<std::int64_t>& empty);

// Whether a copy of every part of a near checkpoint is left after these slots have lost theirs.
// Nodes that hold the same part are as far from each other as they can be: slot s has part s mod
// (nodes/copies). REQUIRES: no slot is listed twice. No copies: it always is.
[[nodiscard]] bool copies_survive(std::int64_t copies, std::int64_t nodes,
                                  const std::vector<std::int64_t>& slots);

// The pipeline stage of a slot. REQUIRES: each node holds one stage of one replica, or whole
// replicas.
[[nodiscard]] std::int64_t stage_of(const Job& job, std::int64_t slot);

// The pipeline stages of these empty slots, sorted. A stage occurs as often as replicas lack the
// same one of its nodes. If two replicas lack node 0 of a stage and one lacks node 1, the stage
// occurs twice: the step waits for the peers of node 0.
[[nodiscard]] std::vector<std::int64_t> missing_stages(const Job& job,
                                                       const std::vector<std::int64_t>& empty);

}  // namespace trainyard
