#include "models/expert_grid.hpp"

#include <algorithm>

#include "models/pipeline_shape.hpp"
#include "models/rank_groups.hpp"

namespace trainyard {

ExpertGrid::ExpertGrid(const Parallelism& p)
    : order_(p.rank_order, {"tp", "ep", "dp", "pp"},
             {p.expert_tensor_size(), p.expert, p.expert_replicas(), p.pipeline}) {}

ExpertPosition ExpertGrid::position(RankId rank) const {
  const auto [tensor, expert, replica, pipeline] = order_.place(rank);
  return {.tensor = tensor, .expert = expert, .replica = replica, .pipeline = pipeline};
}

RankId ExpertGrid::rank(const ExpertPosition& at) const {
  return order_.rank({at.tensor, at.expert, at.replica, at.pipeline});
}

bool ExpertGrid::keeps_stages(const Parallelism& parallelism) {
  const RankGrid dense(parallelism);
  const ExpertGrid experts(parallelism);
  for (RankId rank = 0; rank < static_cast<RankId>(dense.world()); ++rank)
    if (dense.position(rank).pipeline != experts.position(rank).pipeline) return false;
  return true;
}

namespace {

// Each sharded copy of the model has its part of an expert's replicas; as add_shard_groups.
void add_expert_shard_groups(const Parallelism& p, const ExpertGrid& grid, Workload& workload) {
  if (p.zero_stage == 0) return;
  if (p.copies() > 1) {
    const std::int64_t shards = p.expert_replicas() / p.copies();
    add_groups_by(workload, grid, GroupKind::Data, number(Slot::ExpertShard),
                  [shards](ExpertPosition at) { return at.replica -= at.replica % shards, at; });
    add_groups_by(workload, grid, GroupKind::Data, number(Slot::ExpertReplica),
                  [shards](ExpertPosition at) { return at.replica %= shards, at; });
  }
  if (p.zero_stage == 3 && p.reshard_group > 0) {
    const std::int64_t part = p.expert_reshard_group();
    add_groups_by(workload, grid, GroupKind::Data, number(Slot::ExpertReshard),
                  [part](ExpertPosition at) { return at.replica -= at.replica % part, at; });
  }
}

}  // namespace

void add_expert_groups(const Parallelism& p, Workload& workload) {
  const ExpertGrid grid(p);
  add_groups_by(workload, grid, GroupKind::Expert, number(Slot::Expert),
                [](ExpertPosition at) { return at.expert = 0, at; });
  add_groups_by(workload, grid, GroupKind::Expert, number(Slot::ExpertTensor),
                [](ExpertPosition at) { return at.tensor = 0, at; });
  add_expert_shard_groups(p, grid, workload);
  if (placement_of(p) != StagePlacement::Bidirectional) {
    add_groups_by(workload, grid, GroupKind::Data, number(Slot::ExpertData),
                  [](ExpertPosition at) { return at.replica = 0, at; });
    return;
  }
  // Both holders of a stage, once for the stages of the first half and once for the others.
  for (const Slot slot : {Slot::ExpertData, Slot::ExpertDataMirror}) {
    add_groups_by(workload, grid, GroupKind::Data, number(slot), [&p](ExpertPosition at) {
      at.pipeline = std::min(at.pipeline, p.pipeline - 1 - at.pipeline);
      return at.replica = 0, at;
    });
  }
}

}  // namespace trainyard
