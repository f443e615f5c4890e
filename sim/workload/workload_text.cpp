#include "sim/workload/workload_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace trainyard {

namespace {

constexpr std::size_t kMostShown = 6;

// Maximal runs of consecutive ranks. REQUIRES: the ranks ascend.
std::vector<RankBlocks> runs(const std::vector<RankId>& ranks) {
  std::vector<RankBlocks> result;
  for (const RankId rank : ranks) {
    if (!result.empty() && rank == result.back().first + result.back().length) {
      ++result.back().length;
    } else {
      result.push_back({.first = rank});
    }
  }
  return result;
}

std::string span_text(RankId first, std::uint32_t length) {
  if (length == 1) return std::to_string(first);
  return fmt::format("{}-{}", first, first + length - 1);
}

std::string block_text(const RankBlocks& block) {
  const std::string text = span_text(block.first, block.length);
  if (block.times == 1) return text;
  const RankId last = block.first + (block.times - 1) * block.every;
  const std::string end = span_text(last, block.length);
  return block.times == 2 ? fmt::format("{}, {}", text, end)
                          : fmt::format("{} and every {} to {}", text, block.every, end);
}

std::string call_text(const Workload& workload, const Operation& op) {
  const Call& call = workload.calls[op.payload];
  return fmt::format("{} of {} on {}{}", to_string(op_of(call)),
                     to_text(Bytes{static_cast<double>(bytes_of(call))}), workload.slots[op.slot],
                     matrix_of(call).empty() ? "" : ", unevenly");
}

std::string work_text(const Workload& workload, const Program& program, const Operation& op) {
  if (op.kind == OpKind::Compute) return to_text(workload.kernels[program.kernel_of(op)]);
  if (op.kind == OpKind::Delay) return "a delay of " + to_text(workload.delays[op.payload]);
  return fmt::format("{} of {}", to_string(op.kind), call_text(workload, op));
}

// The kernel in the workload's table, whatever number a template gives it; for other kinds the
// payload.
std::uint32_t work_of(const Program& program, const Operation& op) {
  return op.kind == OpKind::Compute ? program.kernel_of(op) : op.payload;
}

bool same_place(const Program& a, const Operation& in_a, const Program& b, const Operation& in_b) {
  return in_a.kind == in_b.kind && in_a.stream == in_b.stream && in_a.slot == in_b.slot &&
         work_of(a, in_a) == work_of(b, in_b);
}

// Describes the difference of the operations with this index. REQUIRES: they differ.
std::string operation_difference(const Workload& workload, std::size_t index,
                                 const Program& program, const Program& than) {
  const Operation& op = program.operations[index];
  const Operation& other = than.operations[index];
  const std::string here = work_text(workload, program, op);
  const std::string there = work_text(workload, than, other);
  const std::string& name = workload.names[op.name];
  if (here != there) return fmt::format("operation {} ({}): {}, not {}", index, name, here, there);
  const bool differ = work_of(program, op) != work_of(than, other);
  const bool kernels = op.kind == OpKind::Compute && differ;
  const bool sizes = communicates(op.kind) && differ;
  return fmt::format("operation {} ({}, {}): {}", index, name, here,
                     kernels ? "on another kind of GPU"
                     : sizes ? "other bytes between its members"
                             : "on another stream");
}

using Effect = std::tuple<OpIndex, std::uint16_t, std::int64_t>;

std::vector<Effect> effects_in_order(const Program& program) {
  std::vector<Effect> effects;
  program.for_each_effect([&](OpIndex op, const Operation&, const MemoryEffect& effect) {
    effects.emplace_back(op, effect.category, effect.bytes);
  });
  return effects;
}

}  // namespace

// One pass over the runs. A run extends the last block if it has the same length and the block's
// distance; the first repetition sets that distance. 0-1, 8-9, 16-17 become one block of 2 ranks
// every 8, three times.
std::vector<RankBlocks> rank_blocks(const std::vector<RankId>& ranks) {
  std::vector<RankBlocks> result;
  for (const RankBlocks& run : runs(ranks)) {
    if (!result.empty() && result.back().length == run.length) {
      RankBlocks& last = result.back();
      // Extends the last block if the run has its length and its distance. Two runs define the
      // distance.
      const std::uint32_t distance = run.first - (last.first + (last.times - 1) * last.every);
      if (last.times == 1 || last.every == distance) {
        last.every = distance;
        ++last.times;
        continue;
      }
    }
    result.push_back(run);
  }
  return result;
}

std::string to_text(const std::vector<RankBlocks>& blocks) {
  std::string text;
  const std::size_t shown = std::min(blocks.size(), kMostShown);
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + block_text(blocks[i]);
  if (shown < blocks.size()) text += fmt::format(" and {} more blocks", blocks.size() - shown);
  return text;
}

// The first difference in this order: stage, operations and their dependencies, number of
// operations, memory.
std::string program_difference(const Workload& workload, std::uint32_t program,
                               std::uint32_t other) {
  const Program& here = workload.programs.at(program);
  const Program& there = workload.programs.at(other);
  if (here.stage != there.stage)
    return fmt::format("pipeline stage {}, not {}", here.stage, there.stage);
  const std::size_t both = std::min(here.operations.size(), there.operations.size());
  for (std::size_t i = 0; i < both; ++i) {
    const Operation& op = here.operations[i];
    const Operation& like = there.operations[i];
    if (!same_place(here, op, there, like)) return operation_difference(workload, i, here, there);
    const auto number = static_cast<OpIndex>(i);
    if (!std::ranges::equal(here.dependencies_of(number), there.dependencies_of(number)))
      return fmt::format("operation {} ({}) waits for others", i, workload.names[op.name]);
  }
  if (here.operations.size() != there.operations.size()) {
    return fmt::format("{} operations, not {}", here.operations.size(), there.operations.size());
  }
  const auto key = [](const auto& memory) { return std::pair(memory.category, memory.bytes); };
  const bool same_memory = std::ranges::equal(here.resident, there.resident, {}, key, key) &&
                           effects_in_order(here) == effects_in_order(there);
  return same_memory ? "nothing" : "other bytes in memory";
}

}  // namespace trainyard
