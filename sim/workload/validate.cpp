// The check for structural faults of a workload before a run (declared in workload.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/workload/call_sequences.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

namespace {

// The problems found so far. A faulty generator produces thousands of one kind, so only the first
// ten are reported.
class Faults {
 public:
  explicit Faults(std::string file) : file_(std::move(file)) {}

  void add(std::string pointer, std::string problem, std::string hint = "") {
    constexpr std::size_t kMost = 10;
    if (problems_.size() < kMost) {
      problems_.push_back({file_, std::move(pointer), std::move(problem), std::move(hint)});
    }
  }
  void throw_any() const {
    if (!problems_.empty()) throw InputError(problems_);
  }

 private:
  std::string file_;
  std::vector<Problem> problems_;
};

// Returns the hint for an index out of range.
std::string there_are(std::size_t count, std::string_view what) {
  return count == 0 ? fmt::format("there are no {}", what)
                    : fmt::format("{} are numbered 0 to {}", what, count - 1);
}

// Checks the operations of each block once, and then the bindings of all instances.
class OperationCheck {
 public:
  OperationCheck(const Workload& workload, std::size_t program, Faults& faults)
      : workload_(workload),
        program_(workload.programs[program]),
        pointer_(fmt::format("/programs/{}", program)),
        faults_(faults) {}

  void all() {
    const std::span<const Block> blocks = program_.operations.blocks();
    // Files give the operations of a program with one instance directly, without "blocks"
    // (workload_format.md), and pointers follow the file.
    const bool one_block = program_.operations.instances().size() == 1;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      block(blocks[i], one_block ? pointer_ : fmt::format("{}/blocks/{}", pointer_, i));
    for (std::size_t i = 0; i < program_.operations.instances().size(); ++i) bindings(i);
    for (std::size_t i = 0; i < program_.single_effects.size(); ++i) more_effect(i);
    for (std::size_t i = 0; i < program_.resident.size(); ++i) {
      index(fmt::format("{}/resident/{}/category", pointer_, i), program_.resident[i].category,
            workload_.categories.size(), "memory categories");
    }
  }

 private:
  void block(const Block& block, const std::string& pointer) {
    for (OpIndex place = 0; place < block.count; ++place) {
      const Operation& op = program_.operations.written()[block.begin + place];
      const std::string at = fmt::format("{}/operations/{}", pointer, place);
      index(at + "/stream", op.stream, workload_.streams.size(), "streams");
      index(at + "/name", op.name, workload_.names.size(), "names");
      payload(op, at);
      dependencies(op, block, place, at);
      effects(op, at);
    }
  }

  void bindings(std::size_t number) {
    const Instance& instance = program_.operations.instances()[number];
    for (const OpIndex before : program_.operations.bindings_of(instance)) {
      if (before < instance.first) continue;
      faults_.add(fmt::format("{}/instances/{}/inputs", pointer_, number),
                  fmt::format("operation {} is not of an earlier instance", before),
                  fmt::format("this one begins with operation {}", instance.first));
    }
  }

  void more_effect(std::size_t number) {
    const auto& [op, effect] = program_.single_effects[number];
    const std::string at = fmt::format("{}/memory/{}", pointer_, number);
    index(at + "/operation", op, program_.operations.size(), "operations");
    index(at + "/category", effect.category, workload_.categories.size(), "memory categories");
    if (number > 0 && program_.single_effects[number - 1].first > op)
      faults_.add(at, "is of an earlier operation than the one before", "give them in issue order");
  }

  void payload(const Operation& op, const std::string& at) {
    if (op.kind == OpKind::Compute) {
      const std::vector<std::uint32_t>& own = program_.kernels;
      if (own.empty() || index(at + "/kernel", op.payload, own.size(), "the program's kernels"))
        index(at + "/kernel", program_.kernel_of(op), workload_.kernels.size(), "kernels");
    } else if (op.kind == OpKind::Delay) {
      index(at + "/delay", op.payload, workload_.delays.size(), "delays");
    } else {
      index(at + "/slot", op.slot, workload_.slots.size(), "slots");
      if (index(at + "/call", op.payload, workload_.calls.size(), "calls")) call(op, at);
    }
  }

  // Sends and receives make send_recv calls, and no collective does.
  void call(const Operation& op, const std::string& at) {
    const CollectiveOp made = op_of(workload_.calls[op.payload]);
    if ((op.kind == OpKind::Collective) != (made == CollectiveOp::SendRecv)) return;
    faults_.add(at + "/call",
                fmt::format("a {} operation cannot make call {}, which is {}", to_string(op.kind),
                            op.payload, to_string(made)),
                "send and recv make send_recv calls, collective makes all others");
  }

  void dependencies(const Operation& op, const Block& block, OpIndex place, const std::string& at) {
    const std::span<const OpIndex> all = program_.operations.dependencies();
    if (!range(op.dependencies_begin, op.dependencies_end, all.size())) {
      faults_.add(at + "/after", "its range of dependencies is not inside the program's list");
      return;
    }
    for (std::uint32_t i = op.dependencies_begin; i < op.dependencies_end; ++i) {
      if (all[i] >= kBlockInput) {
        index(at + "/after", all[i] - kBlockInput, block.inputs, "inputs of the block");
      } else if (all[i] >= place) {
        faults_.add(at + "/after",
                    fmt::format("operation {} cannot wait for operation {}, which is not issued "
                                "before it",
                                place, all[i]),
                    "put the operation that is waited for earlier in the program");
      }
    }
  }

  void effects(const Operation& op, const std::string& at) {
    if (!range(op.effects_begin, op.effects_end, program_.effects.size())) {
      faults_.add(at + "/memory", "its range of memory effects is not inside the program's list");
      return;
    }
    for (std::uint32_t i = op.effects_begin; i < op.effects_end; ++i) {
      index(at + "/memory", program_.effects[i].category, workload_.categories.size(),
            "memory categories");
    }
  }

  static bool range(std::uint32_t begin, std::uint32_t end, std::size_t size) {
    return begin <= end && end <= size;
  }

  bool index(const std::string& at, std::size_t value, std::size_t count, std::string_view what) {
    if (value < count) return true;
    faults_.add(at, fmt::format("{} is out of range", value), there_are(count, what));
    return false;
  }

  const Workload& workload_;
  const Program& program_;
  std::string pointer_;
  Faults& faults_;
};

// Returns the bytes that the busiest member of a square matrix sends.
std::int64_t largest_row(const std::vector<std::int64_t>& matrix, std::size_t side) {
  std::int64_t largest = 0;
  for (std::size_t row = 0; row < side; ++row) {
    std::int64_t sum = 0;
    for (std::size_t column = 0; column < side; ++column) sum += matrix[row * side + column];
    largest = std::max(largest, sum);
  }
  return largest;
}

// Checks a byte matrix on its own. check_matrix_sizes() compares it with the groups that use it.
void check_matrix(const CollectiveCall& call, const std::string& at, Faults& faults) {
  const std::vector<std::int64_t>& matrix = call.matrix;
  if (call.op != CollectiveOp::AllToAll) {
    faults.add(at, fmt::format("{} has no byte matrix", to_string(call.op)),
               "only all_to_all may be uneven");
    return;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 48;  // 256 TiB: row sums do not overflow
  if (const auto wrong =
          std::ranges::find_if(matrix, [](auto bytes) { return bytes < 0 || bytes > kMost; });
      wrong != matrix.end()) {
    faults.add(fmt::format("{}/{}", at, wrong - matrix.begin()),
               fmt::format("{} bytes cannot be sent", *wrong));
    return;
  }
  const auto side = static_cast<std::size_t>(std::llround(std::sqrt(matrix.size())));
  if (side * side != matrix.size()) {
    faults.add(at, fmt::format("{} numbers are no square", matrix.size()),
               "give n*n bytes, those of member 0 to each member first");
    return;
  }
  if (const std::int64_t largest = largest_row(matrix, side); largest != call.bytes)
    faults.add(
        at, fmt::format("the busiest member sends {} bytes, but bytes is {}", largest, call.bytes),
        "bytes is the largest sum of a row, what a member keeps included");
}

// Checks the tables of calls and delays, which do not depend on programs.
void check_tables(const Workload& workload, Faults& faults) {
  for (std::size_t i = 0; i < workload.calls.size(); ++i) {
    const Call& call = workload.calls[i];
    if (bytes_of(call) < 0) {
      faults.add(fmt::format("/calls/{}/bytes", i),
                 fmt::format("{} bytes cannot be sent", bytes_of(call)));
    }
    if (!matrix_of(call).empty())
      check_matrix(std::get<CollectiveCall>(call), fmt::format("/calls/{}/matrix", i), faults);
  }
  for (std::size_t i = 0; i < workload.delays.size(); ++i) {
    const double delay = workload.delays[i].value();
    if (!std::isfinite(delay) || delay < 0.0) {
      faults.add(fmt::format("/delays/{}", i), fmt::format("a delay cannot be {} s", delay));
    }
  }
}

void check_groups(const Workload& workload, Faults& faults) {
  for (std::size_t i = 0; i < workload.groups.size(); ++i) {
    const std::string at = fmt::format("/groups/{}/members", i);
    const std::vector<RankId>& members = workload.groups[i].members;
    if (members.empty()) faults.add(at, "a group needs at least one member");
    std::set<RankId> seen;
    for (const RankId member : members) {
      if (member >= workload.ranks.size()) {
        faults.add(at, fmt::format("there is no rank {}", member),
                   there_are(workload.ranks.size(), "ranks"));
      } else if (!seen.insert(member).second) {
        faults.add(at, fmt::format("rank {} is listed twice", member));
      }
    }
  }
}

// A slot must name an existing group, and the rank must be the member that the slot states.
void check_binding(const Workload& workload, RankId rank, std::size_t slot, Faults& faults) {
  const auto [group, group_rank] = workload.ranks[rank].slots[slot];
  if (group == kNone) return;
  const std::string at = fmt::format("/ranks/{}/slots", rank);
  if (group >= workload.groups.size()) {
    faults.add(at, fmt::format("slot {} names group {}, which does not exist", slot, group),
               there_are(workload.groups.size(), "groups"));
    return;
  }
  const std::vector<RankId>& members = workload.groups[group].members;
  if (group_rank >= members.size() || members[group_rank] != rank) {
    faults.add(at, fmt::format("rank {} is not member {} of group {}", rank, group_rank, group),
               "list the rank among the group's members");
  }
}

// A slot that the program uses must be bound to a group. A Send needs member 0 of a group of two, a
// Recv member 1.
void check_use(const Workload& workload, RankId rank, const SlotUse& use, Faults& faults) {
  const std::vector<SlotBinding>& slots = workload.ranks[rank].slots;
  const std::string at = fmt::format("/ranks/{}/slots", rank);
  const auto& slot_name = workload.slots[use.slot];
  if (use.slot >= slots.size() || slots[use.slot].group == kNone) {
    faults.add(at,
               fmt::format("rank {} runs program {} but slot \"{}\", which {} uses, is not bound",
                           rank, workload.ranks[rank].program, slot_name,
                           describe(workload, workload.ranks[rank].program, use.first)),
               "bind the slot to a group");
    return;
  }
  const auto [group, group_rank] = slots[use.slot];
  if (group >= workload.groups.size()) return;
  const bool pair = workload.groups[group].members.size() == 2;
  const auto wrong = [&](bool used, std::uint32_t needed) {
    return used && (!pair || group_rank != needed);
  };
  if (!wrong(use.sends, 0) && !wrong(use.receives, 1)) return;
  faults.add(at,
             fmt::format("rank {} {} through slot \"{}\" as member {} of the {} ranks of group {}",
                         rank, use.sends ? "sends" : "receives", slot_name, group_rank,
                         workload.groups[group].members.size(), group),
             "a group that sends has two members: the sender, then the receiver");
}

// A byte matrix must have n*n numbers for a group of n members.
void check_matrix_sizes(const Workload& workload, RankId rank, Faults& faults) {
  const Rank& it = workload.ranks[rank];
  for (const Operation& op : workload.programs[it.program].operations) {
    if (op.kind != OpKind::Collective || matrix_of(workload.calls[op.payload]).empty()) continue;
    if (op.slot >= it.slots.size() || it.slots[op.slot].group_rank != 0)
      continue;  // member 0 checks for the whole group
    const GroupId group = it.slots[op.slot].group;
    if (group >= workload.groups.size()) continue;
    const std::size_t members = workload.groups[group].members.size();
    const std::size_t numbers = matrix_of(workload.calls[op.payload]).size();
    if (numbers == members * members) continue;
    faults.add(fmt::format("/calls/{}/matrix", op.payload),
               fmt::format("{} numbers for the {} members of group {}", numbers, members, group),
               fmt::format("give {} of them", members * members));
  }
}

// Checks what each rank binds and uses. The uses of a program are computed once for all of its
// ranks.
void check_ranks(const Workload& workload, Faults& faults) {
  std::vector<std::vector<SlotUse>> uses;
  for (const Program& program : workload.programs) uses.push_back(slot_uses(program));
  std::map<std::uint32_t, RankId> rank_on;
  if (workload.ranks.empty()) faults.add("/ranks", "there is no rank to run anything");
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    const Rank& it = workload.ranks[rank];
    const std::string at = fmt::format("/ranks/{}", rank);
    if (const auto [other, free] = rank_on.try_emplace(it.gpu, rank); !free) {
      faults.add(at + "/gpu", fmt::format("GPU {} already has rank {}", it.gpu, other->second));
    }
    if (it.slots.size() > workload.slots.size()) {
      faults.add(at + "/slots", fmt::format("{} slots are bound", it.slots.size()),
                 there_are(workload.slots.size(), "slots"));
    }
    for (std::size_t slot = 0; slot < it.slots.size(); ++slot) {
      check_binding(workload, rank, slot, faults);
    }
    if (it.program >= workload.programs.size()) {
      faults.add(at + "/program", fmt::format("there is no program {}", it.program),
                 there_are(workload.programs.size(), "programs"));
      continue;
    }
    for (const SlotUse& use : uses[it.program]) check_use(workload, rank, use, faults);
    check_matrix_sizes(workload, rank, faults);
  }
}

std::string described_call(const Workload& workload, RankId rank, OpIndex op) {
  const std::uint32_t program = workload.ranks[rank].program;
  const Operation& operation = workload.programs[program].operations[op];
  const Call& call = workload.calls[operation.payload];
  return fmt::format("rank {} makes {} of {} bytes ({}, {}) in {}", rank, to_string(op_of(call)),
                     bytes_of(call), to_string(dtype_of(call)), algorithm_of(call),
                     describe(workload, program, op));
}

// Reports the first call in which the members 0 and `other` of the group differ.
void report_mismatch(const Workload& workload, const CallSequences& sequences, GroupId group,
                     std::size_t other, Faults& faults) {
  const std::string at = fmt::format("/groups/{}", group);
  const RankId a = workload.groups[group].members[0];
  const RankId b = workload.groups[group].members[other];
  const std::vector<OpIndex>& of_a = sequences.operations(group, 0);
  const std::vector<OpIndex>& of_b = sequences.operations(group, other);
  std::size_t call = 0;
  while (call < std::min(of_a.size(), of_b.size()) &&
         sequences.same_call(a, of_a[call], b, of_b[call])) {
    ++call;
  }
  if (call < of_a.size() && call < of_b.size()) {
    faults.add(at,
               fmt::format("call {} of the group does not match: {}, but {}", call + 1,
                           described_call(workload, a, of_a[call]),
                           described_call(workload, b, of_b[call])),
               "all members make the same calls in the same order");
    return;
  }
  const bool a_has_more = call < of_a.size();
  const RankId more = a_has_more ? a : b;
  const RankId fewer = a_has_more ? b : a;
  faults.add(at,
             fmt::format("rank {} calls the group {} times and rank {} only {}: {} without it",
                         more, std::max(of_a.size(), of_b.size()), fewer, call,
                         described_call(workload, more, a_has_more ? of_a[call] : of_b[call])),
             "all members make the same calls in the same order");
}

// Compares every member of a group with member 0 and reports only the first that differs.
void check_matching(const Workload& workload, Faults& faults) {
  const CallSequences sequences(workload);
  for (GroupId group = 0; group < workload.groups.size(); ++group) {
    for (std::size_t member = 1; member < workload.groups[group].members.size(); ++member) {
      if (sequences.equal_sequences(group, 0, member)) continue;
      report_mismatch(workload, sequences, group, member, faults);
      break;
    }
  }
}

}  // namespace

void validate(const Workload& workload, const std::string& file) {
  Faults faults(file);
  // The checks run in stages, because each relies on indices that the earlier ones have validated.
  // A stage with faults ends the validation.
  check_tables(workload, faults);
  for (std::size_t program = 0; program < workload.programs.size(); ++program) {
    OperationCheck(workload, program, faults).all();
  }
  faults.throw_any();  // the checks below rely on valid indices in programs
  check_groups(workload, faults);
  check_ranks(workload, faults);
  faults.throw_any();
  check_matching(workload, faults);
  faults.throw_any();
}

}  // namespace trainyard
