#include "models/expert_grid.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "models/pipeline_shape.hpp"
#include "models/rank_groups.hpp"

namespace trainyard {

namespace {

enum Dimension : std::size_t { kTensor, kExpert, kReplica, kPipeline, kDimensions };

std::size_t dimension_of(const std::string& word) {
  if (word == "tp") return kTensor;
  if (word == "ep") return kExpert;
  if (word == "dp") return kReplica;
  if (word == "pp") return kPipeline;
  return kDimensions;
}

using KeyOf = std::function<ExpertPosition(ExpertPosition)>;

// One group for every distinct key; members in rank order, the role is the position.
void add_groups_by(Workload& workload, const ExpertGrid& grid, GroupKind kind, Slot slot,
                   const KeyOf& key) {
  std::map<RankId, std::vector<RankId>> members;
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    members[grid.rank(key(grid.position(rank)))].push_back(rank);
  }
  for (auto& [first, group] : members) {
    if (group.size() < 2) continue;
    const auto id = static_cast<GroupId>(workload.groups.size());
    for (std::uint32_t role = 0; role < group.size(); ++role) {
      workload.ranks[group[role]].slots[static_cast<std::size_t>(slot)] = {.group = id,
                                                                           .role = role};
    }
    workload.groups.push_back({.kind = kind, .members = std::move(group)});
  }
}

}  // namespace

ExpertGrid::ExpertGrid(const Parallelism& p)
    : size_{p.expert_tensor_size(), p.expert, p.expert_replicas(), p.pipeline} {
  std::istringstream words(p.rank_order);
  std::int64_t stride = 1;
  for (std::string word; std::getline(words, word, '-');) {
    const std::size_t dimension = dimension_of(word);
    if (dimension == kDimensions) continue;
    stride_[dimension] = stride;
    stride *= size_[dimension];
  }
}

ExpertPosition ExpertGrid::position(RankId rank) const {
  const auto along = [&](std::size_t dimension) {
    return static_cast<std::int64_t>(rank) / stride_[dimension] % size_[dimension];
  };
  return {.tensor = along(kTensor),
          .expert = along(kExpert),
          .replica = along(kReplica),
          .pipeline = along(kPipeline)};
}

RankId ExpertGrid::rank(const ExpertPosition& at) const {
  return static_cast<RankId>(at.tensor * stride_[kTensor] + at.expert * stride_[kExpert] +
                             at.replica * stride_[kReplica] + at.pipeline * stride_[kPipeline]);
}

bool ExpertGrid::keeps_stages(const Parallelism& parallelism) {
  const RankGrid dense(parallelism);
  const ExpertGrid experts(parallelism);
  for (RankId rank = 0; rank < static_cast<RankId>(dense.world()); ++rank)
    if (dense.position(rank).pipeline != experts.position(rank).pipeline) return false;
  return true;
}

void add_expert_groups(const Parallelism& p, Workload& workload) {
  const ExpertGrid grid(p);
  add_groups_by(workload, grid, GroupKind::Expert, Slot::Expert,
                [](ExpertPosition at) { return at.expert = 0, at; });
  add_groups_by(workload, grid, GroupKind::Expert, Slot::ExpertTensor,
                [](ExpertPosition at) { return at.tensor = 0, at; });
  if (placement_of(p) != Placement::Bidirectional) {
    add_groups_by(workload, grid, GroupKind::Data, Slot::ExpertData,
                  [](ExpertPosition at) { return at.replica = 0, at; });
    return;
  }
  // Both holders of a stage, once for the stages of the first half and once for the others.
  for (const Slot slot : {Slot::ExpertData, Slot::ExpertDataMirror}) {
    add_groups_by(workload, grid, GroupKind::Data, slot, [&p](ExpertPosition at) {
      at.pipeline = std::min(at.pipeline, p.pipeline - 1 - at.pipeline);
      return at.replica = 0, at;
    });
  }
}

}  // namespace trainyard
