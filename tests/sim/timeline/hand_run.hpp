// Workloads and timelines written by hand, small enough to check on paper.
//
//    HandRun run;
//    const auto a = run.compute({.end_s = 1.0});
//    run.compute({.ready_s = 1.5, .end_s = 2.0, .after = {a}});    // started when ready
//    run.done();
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/fold/fold.hpp"
#include "sim/timeline/timeline.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct Effect {
  bool at_end = false;
  std::int64_t bytes = 0;
  std::uint16_t category = 0;
};

struct HandOp {
  double ready_s = 0.0;
  std::optional<double> start_s{};  // empty: as soon as ready
  double end_s = 0.0;
  std::uint8_t stream = 0;
  std::vector<OpIndex> after{};
  GroupKind kind = GroupKind::Tensor;  // of a communication's group
  WorkClass work = WorkClass::Compute;
  std::vector<Effect> effects{};
  std::int32_t microbatch = -1;
  std::uint32_t payload = 0;
};

// A run whose ranks are separate classes unless `members` gives their sizes. Slot k of every rank
// is its group of GroupKind k; groups hold all ranks.
class HandRun {
 public:
  explicit HandRun(std::uint32_t ranks = 1) {
    workload.streams = {"compute", "tensor", "pipeline", "data"};
    workload.names = {"work"};
    workload.categories = {"weights", "activations"};
    workload.kernels = {Gemm{.m = 8, .n = 8, .k = 8}, MemoryBound{.bytes = 1000}};
    workload.calls = {CollectiveCall{.op = CollectiveOp::AllReduce, .bytes = 1 << 20},
                      TransferCall{.bytes = 1 << 10},
                      CollectiveCall{.op = CollectiveOp::AllGather, .bytes = 1 << 20}};
    workload.delays = {Seconds{1e-3}};
    for (std::uint16_t kind = 0; kind <= static_cast<std::uint16_t>(GroupKind::Other); ++kind) {
      workload.slots.emplace_back(to_string(static_cast<GroupKind>(kind)));
      Group group{.kind = static_cast<GroupKind>(kind), .members = {}};
      for (RankId rank = 0; rank < ranks; ++rank) group.members.push_back(rank);
      workload.groups.push_back(group);
    }
    for (RankId rank = 0; rank < ranks; ++rank) add_rank(rank);
    timeline.classes.resize(ranks);
  }

  OpIndex compute(const HandOp& op, std::uint32_t rank = 0) {
    return add(OpKind::Compute, op, rank);
  }
  OpIndex delay(const HandOp& op, std::uint32_t rank = 0) { return add(OpKind::Delay, op, rank); }
  OpIndex collective(const HandOp& op, std::uint32_t rank = 0) {
    return add(OpKind::Collective, op, rank);
  }
  OpIndex send(HandOp op, std::uint32_t rank = 0) {
    op.payload = 1;
    return add(OpKind::Send, op, rank);
  }
  OpIndex recv(HandOp op, std::uint32_t rank = 0) {
    op.payload = 1;
    return add(OpKind::Recv, op, rank);
  }

  void resident(std::int64_t bytes, std::uint16_t category = 0, std::uint32_t rank = 0) {
    workload.programs[rank].resident.push_back({.category = category, .bytes = bytes});
  }

  // Makes every slot a separate group class whose participants are the ranks; its calls have no
  // phases.
  void bind_groups() {
    const auto ranks = static_cast<std::uint32_t>(partition.ranks.size());
    const auto slots = static_cast<std::uint32_t>(workload.slots.size());
    partition.places.assign(ranks, std::vector<SlotTarget>(slots));
    partition.phases.assign(slots, std::vector<std::vector<FoldedPhase>>(workload.calls.size()));
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      GroupClass group{.representative = GroupId{slot}, .members = 1, .participants = {}};
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        group.participants.push_back(
            {.rank_class = rank, .slot = static_cast<std::uint16_t>(slot)});
        partition.places[rank][slot] = {.group_class = slot, .participant = rank};
      }
      partition.groups.push_back(std::move(group));
    }
  }

  Workload workload;
  Partition partition;
  Timeline timeline;

 private:
  void add_rank(RankId rank) {
    Rank member{.program = rank, .gpu = rank, .slots = {}, .label = "pp" + std::to_string(rank)};
    for (GroupId group = 0; group < workload.groups.size(); ++group) {
      member.slots.push_back({.group = group, .group_rank = rank});
    }
    workload.ranks.push_back(member);
    workload.programs.push_back({});
    workload.programs.back().name = "stage " + std::to_string(rank);
    workload.programs.back().stage = rank;
    partition.ranks.push_back({.representative = rank, .members = 1, .program = rank});
    partition.class_of_rank.push_back(rank);
  }

  OpIndex add(OpKind kind, const HandOp& op, std::uint32_t rank) {
    Program& program = workload.programs[rank];
    Operation made{.kind = kind,
                   .stream = op.stream,
                   .work = op.work,
                   .slot = static_cast<std::uint16_t>(op.kind),
                   .payload = op.payload,
                   .microbatch = op.microbatch};
    std::vector<MemoryEffect> effects;
    for (const Effect& effect : op.effects) {
      effects.push_back(
          {.category = effect.category, .at_end = effect.at_end, .bytes = effect.bytes});
    }
    program.append(made, op.after, effects);
    OpTimes& times = timeline.classes[rank];
    times.ready_s.push_back(op.ready_s);
    times.start_s.push_back(op.start_s.value_or(op.ready_s));
    times.end_s.push_back(op.end_s);
    timeline.makespan_s = std::max(timeline.makespan_s, op.end_s);
    ++timeline.counters.operations;
    return static_cast<OpIndex>(program.operations.size() - 1);
  }
};

}  // namespace trainyard
