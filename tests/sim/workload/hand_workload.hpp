// Workloads made by hand: a builder of programs, and a symmetric training step built with it.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard::test {

template <class Value>
std::uint32_t interned(std::vector<Value>& table, const Value& value) {
  const auto known = std::find(table.begin(), table.end(), value);
  if (known != table.end()) return static_cast<std::uint32_t>(known - table.begin());
  table.push_back(value);
  return static_cast<std::uint32_t>(table.size() - 1);
}

class ProgramWriter {
 public:
  ProgramWriter(Workload& workload, std::string name, std::uint32_t stage = 0)
      : workload_(workload), index_(static_cast<std::uint32_t>(workload.programs.size())) {
    workload.programs.push_back({.name = std::move(name), .stage = stage});
  }
  [[nodiscard]] std::uint32_t index() const { return index_; }

  OpIndex compute(const std::string& name, std::int64_t m, std::vector<OpIndex> after = {}) {
    const Kernel kernel = Gemm{.m = m, .n = 1024, .k = 1024};
    return add({.kind = OpKind::Compute, .payload = interned(workload_.kernels, kernel)}, name,
               "compute", std::move(after));
  }
  OpIndex delay(const std::string& name, double seconds, std::vector<OpIndex> after = {}) {
    return add({.kind = OpKind::Delay, .payload = interned(workload_.delays, Seconds{seconds})},
               name, "compute", std::move(after));
  }
  OpIndex collective(const std::string& stream, const std::string& slot, Call call,
                     std::vector<OpIndex> after = {}) {
    return communicate(OpKind::Collective, stream, slot, std::move(call), std::move(after));
  }
  OpIndex send(const std::string& stream, const std::string& slot, std::int64_t bytes,
               std::vector<OpIndex> after = {}) {
    return communicate(OpKind::Send, stream, slot, TransferCall{.bytes = bytes}, std::move(after));
  }
  OpIndex receive(const std::string& stream, const std::string& slot, std::int64_t bytes,
                  std::vector<OpIndex> after = {}) {
    return communicate(OpKind::Recv, stream, slot, TransferCall{.bytes = bytes}, std::move(after));
  }

 private:
  OpIndex communicate(OpKind kind, const std::string& stream, const std::string& slot, Call call,
                      std::vector<OpIndex> after) {
    const std::string name(kind == OpKind::Collective ? to_string(op_of(call)) : to_string(kind));
    return add({.kind = kind,
                .slot = static_cast<std::uint16_t>(interned(workload_.slots, slot)),
                .payload = interned(workload_.calls, call)},
               name, stream, std::move(after));
  }

  OpIndex add(Operation op, const std::string& name, const std::string& stream,
              std::vector<OpIndex> after) {
    Program& program = workload_.programs[index_];
    op.stream = static_cast<std::uint8_t>(interned(workload_.streams, stream));
    op.name = static_cast<std::uint16_t>(interned(workload_.names, name));
    program.append(op, after);
    return static_cast<OpIndex>(program.operations.size() - 1);
  }

  Workload& workload_;
  std::uint32_t index_;
};

inline Workload empty_workload() {
  Workload workload;
  workload.streams = {"compute"};
  return workload;
}

// Adds a rank that runs the program. Ranks are on GPUs in order. REQUIRES: all programs are written
// (slots are known).
inline RankId add_rank(Workload& workload, std::uint32_t program, std::uint32_t gpu) {
  workload.ranks.push_back({.program = program,
                            .gpu = gpu,
                            .slots = std::vector<SlotBinding>(workload.slots.size()),
                            .label = "rank " + std::to_string(workload.ranks.size())});
  return static_cast<RankId>(workload.ranks.size() - 1);
}

// Adds a group whose members reach it through the given slots, one per member or one for all.
inline GroupId add_group(Workload& workload, GroupKind kind, const std::vector<RankId>& members,
                         const std::vector<std::string>& slots) {
  const auto group = static_cast<GroupId>(workload.groups.size());
  workload.groups.push_back({.kind = kind, .members = members});
  for (std::uint32_t group_rank = 0; group_rank < members.size(); ++group_rank) {
    const std::string& slot = slots.size() == 1 ? slots[0] : slots[group_rank];
    workload.ranks[members[group_rank]].slots[interned(workload.slots, slot)] = {
        .group = group, .group_rank = group_rank};
  }
  return group;
}

struct StepShape {
  std::uint32_t tensor = 1;
  std::uint32_t data = 1;
  std::uint32_t stages = 1;
  std::uint32_t microbatches = 2;
  std::uint32_t buckets = 1;  // gradient all_reduces
  std::string algorithm = "ring";
  std::vector<std::uint32_t> placement = {};  // GPU of each rank; empty: in order
};

// Writes one pipelined step: all forwards, all backwards, gradients. Rank = (stage * data +
// replica) * tensor + position; every stage has its own program.
class StepWriter {
 public:
  explicit StepWriter(StepShape shape) : shape_(std::move(shape)) {}

  Workload write() {
    for (std::uint32_t stage = 0; stage < shape_.stages; ++stage) write_program(stage);
    const std::uint32_t world = shape_.tensor * shape_.data * shape_.stages;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      add_rank(workload_, rank / (shape_.tensor * shape_.data),
               shape_.placement.empty() ? rank : shape_.placement[rank]);
    }
    bind();
    return std::move(workload_);
  }

 private:
  void write_program(std::uint32_t stage) {
    ProgramWriter program(workload_, "stage " + std::to_string(stage), stage);
    const bool first = stage == 0;
    const bool last = stage + 1 == shape_.stages;
    const CollectiveCall reduce{.op = CollectiveOp::AllReduce, .bytes = 8'000'000};
    for (const bool forward : {true, false}) {
      for (std::uint32_t i = 0; i < shape_.microbatches; ++i) {
        const std::string slot_in = forward ? "from previous" : "gradient from next";
        const std::string slot_out = forward ? "to next" : "gradient to previous";
        const std::string stream = forward ? "forward" : "backward";
        std::vector<OpIndex> after;
        if (!(forward ? first : last)) after = {program.receive(stream, slot_in, 4'000'000)};
        OpIndex op = program.compute(stream, 512 * (forward ? 1 : 2), after);
        if (shape_.tensor > 1) op = program.collective("compute", "tensor", reduce);
        if (!(forward ? last : first)) program.send(stream, slot_out, 4'000'000, {op});
      }
    }
    const auto done = static_cast<OpIndex>(workload_.programs[stage].operations.size() - 1);
    for (std::uint32_t bucket = 0; shape_.data > 1 && bucket < shape_.buckets; ++bucket) {
      program.collective("data", "data",
                         CollectiveCall{.op = CollectiveOp::AllReduce,
                                        .bytes = 64'000'000 + bucket * 1000,
                                        .algorithm = shape_.algorithm},
                         {done});
    }
  }

  void bind() {
    const std::uint32_t t = shape_.tensor;
    const std::uint32_t d = shape_.data;
    for (std::uint32_t stage = 0; stage < shape_.stages; ++stage) {
      const auto rank = [&](std::uint32_t replica, std::uint32_t position) {
        return RankId{(stage * d + replica) * t + position};
      };
      for (std::uint32_t replica = 0; replica < d; ++replica) {
        std::vector<RankId> members;
        for (std::uint32_t i = 0; i < t; ++i) members.push_back(rank(replica, i));
        if (t > 1) add_group(workload_, GroupKind::Tensor, members, {"tensor"});
      }
      for (std::uint32_t position = 0; position < t; ++position) {
        std::vector<RankId> members;
        for (std::uint32_t i = 0; i < d; ++i) members.push_back(rank(i, position));
        if (d > 1 && shape_.buckets > 0) add_group(workload_, GroupKind::Data, members, {"data"});
      }
      for (std::uint32_t i = 0; stage + 1 < shape_.stages && i < t * d; ++i) {
        const RankId here{stage * d * t + i};
        const RankId next = here + t * d;
        add_group(workload_, GroupKind::Pipeline, {here, next}, {"to next", "from previous"});
        add_group(workload_, GroupKind::Pipeline, {next, here},
                  {"gradient to previous", "gradient from next"});
      }
    }
  }

  StepShape shape_;
  Workload workload_ = empty_workload();
};

inline Workload training_step(StepShape shape) { return StepWriter(std::move(shape)).write(); }

}  // namespace trainyard::test
