// A training step as a graph of operations: programs, the ranks that run them, the groups they meet
// in.
//
// Ranks that do the same thing share one Program. A program names its partners by *slot* ("my
// tensor group", "the stage after me"); each rank binds its slots to real groups. So 16 384 ranks
// with 16 pipeline stages have 16 programs. Folding (fold.hpp) later joins ranks; nothing here is
// folded.
//
// A Program is the list of operations in the order the host issues them: instances of blocks, so
// that microbatches that go alike are written once (operation_list.hpp). An operation starts when
//   - the operation before it *on the same stream* has ended (streams are in order, as in CUDA),
//   - every operation in its dependency list has ended (an event wait), and
//   - for a Collective, Send or Recv: all members of the group have reached their matching call.
//     The i-th call of a member of a group matches the i-th call of the
//     others.
//
// This file knows graphs and time, nothing of transformers.
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
  // Programs that differ only in the sizes of kernels and of memory share it
  // (program_templates.hpp).
  OperationList operations = {};
  // Each operation of a block names a range of them, which all instances of the block have.
  std::vector<MemoryEffect> effects = {};
  // Further effects of single operations, in issue order: no other instance of their block has
  // them.
  std::vector<std::pair<OpIndex, MemoryEffect>> more_effects = {};
  std::vector<ResidentMemory> resident = {};
  // The kernels that payloads of Compute operations stand for, by payload; empty: each for itself.
  std::vector<std::uint32_t> kernels = {};

  // Adds an operation at the end and returns its number. REQUIRES: the program is one block.
  OpIndex append(Operation op, std::span<const OpIndex> dependencies = {},
                 std::span<const MemoryEffect> its_effects = {});

  // Operations of this program, each before the one that waits for them.
  [[nodiscard]] Dependencies dependencies_of(OpIndex op) const {
    return operations.dependencies_of(op);
  }
  // The effects of its block come first, then further ones.
  [[nodiscard]] std::vector<MemoryEffect> effects_of(OpIndex op) const;
  // Calls visit(number, operation, effect) for all effects in issue order.
  template <class Visit>
  void for_each_effect(const Visit& visit) const;
  // Index into Workload::kernels. REQUIRES: the operation computes; the payload is of one that
  // does.
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
  auto further = more_effects.begin();
  OpIndex number = 0;
  for (const Operation& op : operations) {
    for (std::uint32_t i = op.effects_begin; i < op.effects_end; ++i) visit(number, op, effects[i]);
    for (; further != more_effects.end() && further->first == number; ++further)
      visit(number, op, further->second);
    ++number;
  }
}

// Kinds as the breakdown names them: exposed_{tensor,pipeline,data,expert,context,host,other}.
// Host: a rank and the memory of its CPU.
enum class GroupKind : std::uint8_t { Tensor, Pipeline, Data, Expert, Context, Host, Other };
[[nodiscard]] std::string_view to_string(GroupKind kind);

// Ranks that communicate. A member's group rank is its position; a Send is made by position 0 and
// the Recv by position 1 of a group of two.
struct Group {
  GroupKind kind = GroupKind::Other;
  std::vector<RankId> members = {};
};

struct SlotBinding {
  GroupId group =
      kNone;  // kNone: this rank has no such partner and its program never uses the slot
  std::uint32_t group_rank = 0;  // position in the group
  bool operator==(const SlotBinding&) const = default;
};

struct Rank {
  std::uint32_t program = 0;
  std::uint32_t gpu = 0;                // index into Cluster::gpus()
  std::vector<SlotBinding> slots = {};  // by slot number
  std::string label = {};               // "dp0 pp1 tp4", for traces
};

// The memory category that stands in the memory of a rank's CPU and not in its GPU's.
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
  // By slot and operation: the field of the scenario that chose the algorithm of such calls, as a
  // JSON pointer ("/collectives/data/all_reduce"). It stands beside the calls, so that equal calls
  // that are chosen in different places stay one.
  std::map<std::pair<std::uint16_t, CollectiveOp>, std::string> chosen_fields = {};
};

// The field that chose the algorithm of the group's call; empty where no scenario did.
[[nodiscard]] std::string chosen_field(const Workload& workload, GroupId group, const Call& call);

// Throws InputError naming the first few faults: an index out of range, a dependency on a later
// operation, members that call a group differently often or with different sizes, a missing rank.
// `file` is named in the problems (a workload read from a file) and may be empty.
void validate(const Workload& workload, const std::string& file);

// Throws InputError that names the cycle of a deadlock. Operations wait for the one before them on
// their stream, for their dependencies, and at rendezvous for the other members of the group; none
// of it depends on durations, so no engine is needed. Takes time and memory in proportion to ranks
// times operations, so it is for workloads read from files; lowered ones are legal by construction.
// REQUIRES: the workload is valid.
void check_progress(const Workload& workload, const std::string& file);

}  // namespace trainyard
