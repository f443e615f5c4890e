// A training step as a graph of operations: programs, the ranks that run them, and the groups in
// which they communicate.
//
// Ranks with the same operations share one Program. A program refers to its partners by *slot* ("my
// tensor group", "the stage after me"), and each rank binds its slots to groups. For example,
// 16 384 ranks with 16 pipeline stages have 16 programs. Folding (fold.hpp) later merges ranks;
// nothing in this file is folded.
//
// A Program is the list of operations in the order in which the host issues them. It consists of
// instances of blocks, so that equal microbatches are stored once (operation_list.hpp). An
// operation starts when
// - the previous operation *on the same stream* has ended (streams are in order, as in CUDA),
// - every operation in its dependency list has ended (an event wait), and
// - for a Collective, Send or Recv: all members of the group have reached the matching call. The
//   i-th call of a member of a group matches the i-th call of every other member.
//
// This file describes operations and time only. It has no notion of transformers.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/id.hpp"
#include "sim/base/units.hpp"
#include "sim/workload/call.hpp"
#include "sim/workload/kernel.hpp"
#include "sim/workload/operation_list.hpp"

namespace trainyard {

using RankId = Id<struct RankTag>;
using GroupId = Id<struct GroupTag>;

// Bytes allocated (positive) or freed (negative) when the operation starts or ends.
struct MemoryEffect {
  std::uint16_t category = 0;  // index into Workload::categories
  bool at_end = false;
  std::int64_t bytes = 0;
  bool operator==(const MemoryEffect&) const = default;
};

// Memory held for the whole step.
struct ResidentMemory {
  std::uint16_t category = 0;
  std::int64_t bytes = 0;
};

struct Program {
  std::string name = {};    // "stage 3"
  std::uint32_t stage = 0;  // pipeline stage, for reports
  // Programs that differ only in the sizes of kernels and memory share the list
  // (program_templates.hpp).
  OperationList operations = {};
  // Memory effects of blocks. Each operation of a block has a range of them, in all instances.
  std::vector<MemoryEffect> effects = {};
  // Additional effects of single operations, in issue order. Other instances of the block do not
  // have them.
  std::vector<std::pair<OpIndex, MemoryEffect>> single_effects = {};
  std::vector<ResidentMemory> resident = {};
  // The kernel index for each payload of Compute operations. Empty: a payload is its kernel index.
  std::vector<std::uint32_t> kernels = {};

  // Appends an operation and returns its index. REQUIRES: the program is one block.
  OpIndex append(Operation op, std::span<const OpIndex> dependencies = {},
                 std::span<const MemoryEffect> its_effects = {});

  // Returns the operations that `op` depends on. All are earlier in the program.
  [[nodiscard]] Dependencies dependencies_of(OpIndex op) const {
    return operations.dependencies_of(op);
  }
  // Returns the effects from its block, then the additional ones.
  [[nodiscard]] std::vector<MemoryEffect> effects_of(OpIndex op) const;
  // Calls visit(index, operation, effect) for all effects in issue order.
  template <class Visit>
  void for_each_effect(const Visit& visit) const;
  // Returns an index into Workload::kernels. REQUIRES: the operation is a Compute operation, or the
  // payload belongs to one.
  [[nodiscard]] std::uint32_t kernel_of(const Operation& op) const { return kernel_of(op.payload); }
  [[nodiscard]] std::uint32_t kernel_of(std::uint32_t payload) const {
    return kernels.empty() ? payload : kernels[payload];
  }
  [[nodiscard]] bool same_template(const Program& other) const {
    return operations.shares_with(other.operations);
  }
};

template <class Visit>
void Program::for_each_effect(const Visit& visit) const {
  auto further = single_effects.begin();
  OpIndex number = 0;
  for (const Operation& op : operations) {
    for (std::uint32_t i = op.effects_begin; i < op.effects_end; ++i) visit(number, op, effects[i]);
    for (; further != single_effects.end() && further->first == number; ++further)
      visit(number, op, further->second);
    ++number;
  }
}

// The breakdown names these kinds exposed_{tensor,pipeline,data,expert,context,host,other}. Host is
// a rank and the memory of its CPU.
enum class GroupKind : std::uint8_t { Tensor, Pipeline, Data, Expert, Context, Host, Other };
[[nodiscard]] std::string_view to_string(GroupKind kind);

// Ranks that communicate. A member's group rank is its index in `members`. In a group of two,
// member 0 makes the Sends and member 1 the Recvs.
struct Group {
  GroupKind kind = GroupKind::Other;
  std::vector<RankId> members = {};
};

struct SlotBinding {
  GroupId group =
      kNone;  // kNone: the rank has no such partner, and its program does not use the slot
  std::uint32_t group_rank = 0;  // index in Group::members
  bool operator==(const SlotBinding&) const = default;
};

struct Rank {
  std::uint32_t program = 0;
  std::uint32_t gpu = 0;                // index into Cluster::gpus()
  std::vector<SlotBinding> slots = {};  // by slot number
  std::string label = {};               // "dp0 pp1 tp4", for traces
};

// The memory category that is in the memory of a rank's CPU, not of its GPU.
inline constexpr std::string_view kHostCategory = "host_memory";

struct Workload {
  std::vector<std::string> streams = {};     // names; [0] = "compute"
  std::vector<std::string> names = {};       // operation names
  std::vector<std::string> categories = {};  // memory categories
  std::vector<std::string> slots = {};       // slot names, by slot number
  std::vector<Kernel> kernels = {};
  std::vector<Call> calls = {};
  std::vector<Seconds> delays = {};
  std::vector<Group> groups = {};
  std::vector<Program> programs = {};
  std::vector<Rank> ranks = {};
  // The field of the scenario that chose the algorithm of such calls, by slot and operation, as a
  // JSON pointer ("/collectives/data/all_reduce"). It is not part of a Call, so that equal calls
  // that were chosen in different fields remain one call.
  std::map<std::pair<std::uint16_t, CollectiveOp>, std::string> chosen_fields = {};
};

// Returns the field that chose the algorithm of the group's call; empty if no scenario chose it.
[[nodiscard]] std::string chosen_field(const Workload& workload, GroupId group, const Call& call);

// Throws InputError with the first few faults: an index out of range, a dependency on a later
// operation, members of a group with different numbers or sizes of calls, a missing rank. `file`
// appears in the messages (for a workload from a file) and may be empty.
void validate(const Workload& workload, const std::string& file);

// Throws InputError with the cycle of operations if the workload deadlocks. Operations wait for the
// previous one on their stream, for their dependencies, and at a rendezvous for the other members
// of the group. None of this depends on durations, so the check needs no engine. Time and memory
// are proportional to ranks times operations, so it is meant for workloads from files; lowered
// workloads are free of deadlock by construction. REQUIRES: the workload is valid.
void check_progress(const Workload& workload, const std::string& file);

}  // namespace trainyard
