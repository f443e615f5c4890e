#include "models/rank_groups.hpp"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "sim/base/check.hpp"

namespace trainyard {

// Mixed-radix numbers: the stride of a dimension is the product of the sizes of those before it in
// `order`. A dimension that is not listed has stride 0.
RankOrder::RankOrder(const std::string& order,
                     const std::array<std::string_view, kDimensions>& names, const Place& size)
    : size_(size) {
  std::istringstream words(order);
  for (std::string word; std::getline(words, word, '-');) {
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) continue;
    const auto dimension = static_cast<std::size_t>(found - names.begin());
    stride_[dimension] = world_;
    world_ *= size_[dimension];
  }
}

RankOrder::Place RankOrder::place(RankId rank) const {
  Place place{};
  for (std::size_t i = 0; i < kDimensions; ++i)
    if (stride_[i] > 0 && size_[i] > 1)
      place[i] = rank / static_cast<RankId>(stride_[i]) % static_cast<RankId>(size_[i]);
  return place;
}

RankId RankOrder::rank(const Place& place) const {
  std::int64_t rank = 0;
  for (std::size_t i = 0; i < kDimensions; ++i) rank += place[i] * stride_[i];
  return static_cast<RankId>(rank);
}

RankGrid::RankGrid(const Parallelism& p) {
  const auto add = [&](std::int64_t tensor, std::int64_t stages) {
    const RankOrder order(p.rank_order, {"tp", "cp", "dp", "pp"},
                          {tensor, p.context, p.data, stages});
    const std::int64_t begin = stages_.empty() ? 0 : world();
    stages_.push_back(
        {.order = order, .tensor = tensor, .begin = begin, .end = begin + order.world()});
  };
  if (p.tensor_per_stage.empty()) add(p.tensor, p.pipeline);
  for (const std::int64_t tensor : p.tensor_per_stage) add(tensor, 1);
  TY_CHECK(world() == p.ranks_of_replica() * p.data, p.rank_order);
}

const RankGrid::Ranks& RankGrid::of_stage(std::int64_t stage) const {
  return stages_.size() == 1 ? stages_.front() : stages_.at(static_cast<std::size_t>(stage));
}

GridPosition RankGrid::position(RankId rank) const {
  const std::int64_t number = std::int64_t{rank} % world();
  std::size_t at = 0;
  while (number >= stages_[at].end) ++at;
  const Ranks& ranks = stages_[at];
  const auto [tensor, context, data, pipeline] =
      ranks.order.place(static_cast<RankId>(number - ranks.begin));
  return {.tensor = tensor,
          .context = context,
          .data = data,
          .pipeline = pipeline + static_cast<std::int64_t>(at)};
}

RankId RankGrid::rank(const GridPosition& at) const {
  const Ranks& ranks = of_stage(at.pipeline);
  const std::int64_t stage = stages_.size() == 1 ? at.pipeline : 0;
  const RankId within = ranks.order.rank({at.tensor, at.context, at.data, stage});
  return static_cast<RankId>(ranks.begin + std::int64_t{within});
}

StagePeers RankGrid::peers(const GridPosition& position, std::int64_t stage) const {
  const std::int64_t here = of_stage(position.pipeline).tensor;
  const std::int64_t there = of_stage(stage).tensor;
  StagePeers peers{.first = position};
  peers.first.pipeline = stage;
  peers.first.tensor = position.tensor * there / here;
  peers.count = std::max<std::int64_t>(1, there / here);
  peers.number = position.tensor % std::max<std::int64_t>(1, here / there);
  return peers;
}

std::uint32_t gpu_of_rank(const Parallelism& parallelism, RankId rank) {
  if (parallelism.placement.empty()) return std::uint32_t{rank};
  return static_cast<std::uint32_t>(parallelism.placement.at(rank));
}

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

bool ExpertGrid::same_stages(const Parallelism& parallelism) {
  const RankGrid dense(parallelism);
  const ExpertGrid experts(parallelism);
  for (RankId rank = 0; rank < static_cast<RankId>(dense.world()); ++rank)
    if (dense.position(rank).pipeline != experts.position(rank).pipeline) return false;
  return true;
}

// ---- groups

namespace {

// The binding of a slot. The rank gets more slots if it has too few.
SlotBinding& slot_of(Rank& rank, Slot slot) {
  const std::size_t at = number(slot);
  if (rank.slots.size() <= at) rank.slots.resize(at + 1);
  return rank.slots[at];
}

// Makes one group for every rank that is the first of a group, in their order. `first[r]` is the
// first rank of the group of rank r. Members are in rank order; a single rank forms no group. Two
// passes over the ranks, so the cost is linear in their number.
void add_groups_of(Workload& workload, GroupKind kind, Slot slot,
                   const std::vector<RankId>& first) {
  std::vector<std::uint32_t> size(first.size(), 0);
  for (const RankId rank : first) ++size[rank];
  std::vector<GroupId> group_of(first.size(), kNone);
  for (RankId rank = 0; rank < first.size(); ++rank) {
    if (size[rank] < 2) continue;
    group_of[rank] = static_cast<GroupId>(workload.groups.size());
    workload.groups.push_back({.kind = kind, .members = {}});
    workload.groups.back().members.reserve(size[rank]);
  }
  for (RankId rank = 0; rank < first.size(); ++rank) {
    const GroupId id = group_of[first[rank]];
    if (id == kNone) continue;
    std::vector<RankId>& members = workload.groups[id].members;
    slot_of(workload.ranks[rank], slot) = {
        .group = id, .group_rank = static_cast<std::uint32_t>(members.size())};
    members.push_back(rank);
  }
}

// Makes one group for every distinct key of the ranks' positions. Grid provides position(rank) and
// rank(position). `key` maps a position to that of the first rank of its group.
template <class Grid, class Key>
void add_groups_by(Workload& workload, const Grid& grid, GroupKind kind, Slot slot,
                   const Key& key) {
  std::vector<RankId> first;
  first.reserve(workload.ranks.size());
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank)
    first.push_back(grid.rank(key(grid.position(rank))));
  add_groups_of(workload, kind, slot, first);
}

// A group of two ranks. The sender and the receiver bind it to different slots.
void add_pair(Workload& workload, RankId from, Slot send, RankId to, Slot recv,
              GroupKind kind = GroupKind::Pipeline) {
  const auto id = static_cast<GroupId>(workload.groups.size());
  workload.groups.push_back({.kind = kind, .members = {from, to}});
  slot_of(workload.ranks[from], send) = {.group = id, .group_rank = 0};
  slot_of(workload.ranks[to], recv) = {.group = id, .group_rank = 1};
}

// Replicas of the data-parallel group. Where two directions share the ranks, the group contains
// both holders of a stage; there is one for the stages of the first half and one for the others.
void add_data_groups(const Parallelism& parallelism, const RankGrid& grid, StagePlacement placement,
                     Workload& workload) {
  if (placement != StagePlacement::Bidirectional) {
    add_groups_by(workload, grid, GroupKind::Data, Slot::Data,
                  [](GridPosition p) { return p.context = p.data = 0, p; });
    return;
  }
  for (const Slot slot : {Slot::Data, Slot::DataMirror}) {
    add_groups_by(workload, grid, GroupKind::Data, slot, [&parallelism](GridPosition p) {
      p.pipeline = std::min(p.pipeline, parallelism.pipeline - 1 - p.pipeline);
      return p.context = p.data = 0, p;
    });
  }
}

// The position of the first of the ranks that share one sharded copy of what the rank holds.
GridPosition first_of_copy(GridPosition position, std::int64_t shard) {
  position.data -= position.data % shard;
  position.context = 0;
  return position;
}

void add_shard_groups(const Parallelism& parallelism, const RankGrid& grid, Workload& workload) {
  if (parallelism.zero_stage == 0) return;
  const std::int64_t shard = parallelism.shard_size();
  if (shard < parallelism.data) {
    add_groups_by(workload, grid, GroupKind::Data, Slot::Shard,
                  [shard](GridPosition p) { return first_of_copy(p, shard); });
    add_groups_by(workload, grid, GroupKind::Data, Slot::Replica,
                  [shard](GridPosition p) { return p.data %= shard, p; });
  }
  const std::int64_t part = parallelism.reshard_size();
  if (parallelism.zero_stage == 3 && part > 0) {
    add_groups_by(workload, grid, GroupKind::Data, Slot::Reshard,
                  [part](GridPosition p) { return p.data -= p.data % part, p; });
  }
}

// Groups of ranks that trade heads or gather; on a ring, pairs with the next rank in both
// directions.
void add_context_groups(const Parallelism& parallelism, const ContextShape& shape,
                        const RankGrid& grid, Workload& workload) {
  if (parallelism.context == 1) return;
  if (shape.heads > 1 || parallelism.context_exchange == ContextExchange::AllGather) {
    const std::int64_t together = shape.heads > 1 ? shape.heads : parallelism.context;
    add_groups_by(workload, grid, GroupKind::Context, Slot::Context,
                  [together](GridPosition p) { return p.context -= p.context % together, p; });
  }
  if (shape.ring == 1 || parallelism.context_exchange == ContextExchange::AllGather) return;
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    GridPosition next = grid.position(rank);
    next.context = (next.context + shape.heads) % parallelism.context;
    const RankId neighbour = grid.rank(next);
    add_pair(workload, rank, Slot::SendContext, neighbour, Slot::RecvContext, GroupKind::Context);
    add_pair(workload, neighbour, Slot::SendContextBack, rank, Slot::RecvContextBack,
             GroupKind::Context);
  }
}

// Pairs with the next rank of the tensor group, where GEMMs run in pieces round a ring.
void add_tensor_pairs(const Parallelism& parallelism, const RankGrid& grid, Workload& workload) {
  if (!parallelism.chunked_tensor || parallelism.tensor == 1) return;
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    GridPosition next = grid.position(rank);
    const std::int64_t ranks = parallelism.tensor_of(next.pipeline);
    if (ranks == 1) continue;
    next.tensor = (next.tensor + 1) % ranks;
    add_pair(workload, rank, Slot::SendTensor, grid.rank(next), Slot::RecvTensor,
             GroupKind::Tensor);
  }
}

void add_reverse_pairs(const RankGrid& grid, Workload& workload) {
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    GridPosition before = grid.position(rank);
    if (before.pipeline == 0) continue;
    --before.pipeline;
    const RankId neighbour = grid.rank(before);
    add_pair(workload, rank, Slot::SendForwardReverse, neighbour, Slot::RecvForwardReverse);
    add_pair(workload, neighbour, Slot::SendBackwardReverse, rank, Slot::RecvBackwardReverse);
  }
}

void add_pipeline_pairs(const Parallelism& parallelism, const RankGrid& grid,
                        StagePlacement placement, Workload& workload) {
  const std::int64_t stages = parallelism.pipeline;
  if (stages == 1 || !parallelism.operator_devices.empty()) return;
  const bool wraps = parallelism.interleave > 1 && placement == StagePlacement::Wrap;
  // Room also for the groups that follow, at most one per replica, so that the vector is not
  // reallocated.
  workload.groups.reserve(workload.groups.size() + 2 * workload.ranks.size() +
                          static_cast<std::size_t>(parallelism.replicas()));
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    const GridPosition at = grid.position(rank);
    if (at.pipeline == stages - 1 && !wraps) continue;
    StagePeers peers = grid.peers(at, (at.pipeline + 1) % stages);
    for (std::int64_t piece = 0; piece < peers.count; ++piece, ++peers.first.tensor) {
      const RankId peer = grid.rank(peers.first);
      add_pair(workload, rank, piece_slot(PeerUse::SendForward, piece), peer,
               piece_slot(PeerUse::RecvForward, peers.number));
      add_pair(workload, peer, piece_slot(PeerUse::SendBackward, peers.number), rank,
               piece_slot(PeerUse::RecvBackward, piece));
    }
  }
  if (placement != StagePlacement::Wrap) add_reverse_pairs(grid, workload);
}

void add_embedding_groups(const Parallelism& parallelism, const RankGrid& grid,
                          Workload& workload) {
  if (parallelism.pipeline == 1) return;
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    GridPosition position = grid.position(rank);
    if (position.pipeline != 0) continue;
    position.pipeline = parallelism.pipeline - 1;
    add_pair(workload, rank, Slot::Embedding, grid.rank(position), Slot::Embedding,
             GroupKind::Other);
  }
}

// Each sharded copy of the model holds its part of an expert's replicas; the same as
// add_shard_groups.
void add_expert_shard_groups(const Parallelism& p, const ExpertGrid& grid, Workload& workload) {
  if (p.zero_stage == 0) return;
  if (p.copies() > 1) {
    const std::int64_t shards = p.expert_replicas() / p.copies();
    add_groups_by(workload, grid, GroupKind::Data, Slot::ExpertShard,
                  [shards](ExpertPosition at) { return at.replica -= at.replica % shards, at; });
    add_groups_by(workload, grid, GroupKind::Data, Slot::ExpertReplica,
                  [shards](ExpertPosition at) { return at.replica %= shards, at; });
  }
  const std::int64_t part = p.expert_reshard_size();
  if (p.zero_stage == 3 && part > 0) {
    add_groups_by(workload, grid, GroupKind::Data, Slot::ExpertReshard,
                  [part](ExpertPosition at) { return at.replica -= at.replica % part, at; });
  }
}

// The tensor group of the experts, the group among which they are divided, and their replicas.
void add_expert_groups(const Parallelism& p, StagePlacement placement, Workload& workload) {
  const ExpertGrid grid(p);
  add_groups_by(workload, grid, GroupKind::Expert, Slot::Expert,
                [](ExpertPosition at) { return at.expert = 0, at; });
  add_groups_by(workload, grid, GroupKind::Expert, Slot::ExpertTensor,
                [](ExpertPosition at) { return at.tensor = 0, at; });
  add_expert_shard_groups(p, grid, workload);
  if (placement != StagePlacement::Bidirectional) {
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

// Number of slots that every step has.
constexpr std::size_t kSlotsLeast = 8;

// Gives every rank the slots up to the last one that any rank uses.
void level_slots(Workload& workload) {
  std::size_t used = kSlotsLeast;
  for (const Rank& rank : workload.ranks) used = std::max(used, rank.slots.size());
  for (std::int64_t piece = 1; workload.slots.size() < used; ++piece)
    for (const char* use : {"send_forward", "recv_forward", "send_backward", "recv_backward"})
      workload.slots.push_back(fmt::format("{}_piece_{}", use, piece));
  workload.slots.resize(used);
  for (Rank& rank : workload.ranks) rank.slots.resize(used);
}

}  // namespace

bool divides_experts(const Parallelism& parallelism, const Architecture& architecture) {
  return architecture.has_experts() && parallelism.expert > 1;
}

std::vector<std::string> slot_names() {
  return {"tensor",
          "data",
          "send_forward",
          "recv_forward",
          "send_backward",
          "recv_backward",
          "embedding",
          "model",
          "send_forward_reverse",
          "recv_forward_reverse",
          "send_backward_reverse",
          "recv_backward_reverse",
          "data_mirror",
          "shard",
          "replica",
          "reshard",
          "context",
          "send_context",
          "recv_context",
          "send_context_back",
          "recv_context_back",
          "send_tensor",
          "recv_tensor",
          "expert",
          "expert_tensor",
          "expert_data",
          "expert_data_mirror",
          "expert_shard",
          "expert_replica",
          "expert_reshard",
          "host"};
}

void add_groups(const GroupOptions& options, Workload& workload) {
  const auto& [parallelism, architecture, placement, context, shares_embedding] = options;
  const RankGrid grid(parallelism);
  workload.slots = slot_names();
  workload.ranks.resize(static_cast<std::size_t>(grid.world()));
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    const GridPosition at = grid.position(rank);
    Rank& entry = workload.ranks[rank];
    entry.program =
        static_cast<std::uint32_t>(at.pipeline * context.programs + context.program_of(at.context));
    entry.gpu = gpu_of_rank(parallelism, rank);
    entry.slots.resize(kSlotsLeast);
    entry.label = parallelism.context == 1
                      ? fmt::format(FMT_COMPILE("dp{} pp{} tp{}"), at.data, at.pipeline, at.tensor)
                      : fmt::format(FMT_COMPILE("dp{} pp{} cp{} tp{}"), at.data, at.pipeline,
                                    at.context, at.tensor);
  }
  add_groups_by(workload, grid, GroupKind::Tensor, Slot::Tensor,
                [](GridPosition p) { return p.tensor = 0, p; });
  add_tensor_pairs(parallelism, grid, workload);
  add_context_groups(parallelism, context, grid, workload);
  add_data_groups(parallelism, grid, placement, workload);
  add_shard_groups(parallelism, grid, workload);
  add_pipeline_pairs(parallelism, grid, placement, workload);
  if (shares_embedding) add_embedding_groups(parallelism, grid, workload);
  if (architecture.has_experts()) add_expert_groups(parallelism, placement, workload);
  // With a distributed optimizer or divided experts, every rank has its own share of the norm, so
  // more ranks sum it. Otherwise replicas have equal shares.
  const bool everyone = divides_experts(parallelism, architecture);
  const std::int64_t shard = parallelism.zero_stage > 0 ? parallelism.shard_size() : 0;
  add_groups_by(workload, grid, GroupKind::Other, Slot::Model, [=](GridPosition p) {
    if (everyone) return GridPosition{};
    p.tensor = p.pipeline = 0;
    return shard > 0 ? first_of_copy(p, shard) : p;
  });
  level_slots(workload);
}

void add_peer_groups(const Parallelism& parallelism, const std::vector<PeerPair>& pairs,
                     Workload& workload) {
  const RankGrid grid(parallelism);
  workload.slots = slot_names();
  for (std::int64_t device = 0; device < parallelism.pipeline; ++device)
    for (const char* use :
         {"send_forward_to", "recv_forward_from", "send_backward_to", "recv_backward_from"})
      workload.slots.push_back(fmt::format("{}_{}", use, device));
  for (Rank& rank : workload.ranks) rank.slots.resize(workload.slots.size());
  for (const PeerPair& pair : std::set<PeerPair>(pairs.begin(), pairs.end())) {
    for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
      GridPosition position = grid.position(rank);
      if (position.pipeline != pair.from) continue;
      position.pipeline = pair.to;
      const RankId peer = grid.rank(position);
      add_pair(workload, rank, peer_slot(PeerUse::SendForward, pair.to), peer,
               peer_slot(PeerUse::RecvForward, pair.from));
      add_pair(workload, peer, peer_slot(PeerUse::SendBackward, pair.from), rank,
               peer_slot(PeerUse::RecvBackward, pair.to));
    }
  }
}

void add_host_groups(Workload& workload) {
  if (workload.slots.size() <= number(Slot::Host)) workload.slots = slot_names();
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    std::vector<SlotBinding>& slots = workload.ranks[rank].slots;
    slots.resize(workload.slots.size());
    slots[number(Slot::Host)] = {.group = static_cast<GroupId>(workload.groups.size()),
                                 .group_rank = 0};
    workload.groups.push_back({.kind = GroupKind::Host, .members = {rank}});
  }
}

}  // namespace trainyard
