#include "scenarios/run/memory_overheads.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "models/lower/program_builder.hpp"
#include "sim/timeline/memory.hpp"
#include "sim/workload/program_forms.hpp"

namespace trainyard {

namespace {

std::int64_t sum(const std::vector<std::int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

// What came and went, at its most.
std::int64_t dynamic_bytes(const Run& run, std::size_t rank_class) {
  const Program& program = run.workload.programs[run.partition.ranks[rank_class].program];
  return run.memory_peaks[rank_class].bytes - sum(resident_bytes(run.workload, program));
}

// What is held all along makes peaks higher, and moves none.
void hold(Run& run, std::uint32_t program, Category category, std::int64_t bytes) {
  if (bytes == 0) return;
  const auto index = static_cast<std::uint16_t>(category);
  run.workload.programs[program].resident.push_back({.category = index, .bytes = bytes});
  for (std::size_t rank_class = 0; rank_class < run.partition.ranks.size(); ++rank_class) {
    if (run.partition.ranks[rank_class].program != program) continue;
    run.memory_peaks[rank_class].bytes += bytes;
    run.memory_peaks[rank_class].by_category.at(index) += bytes;
  }
}

struct CallMade {
  std::uint16_t slot = 0;
  std::uint32_t call = 0;
  bool message = false;
  auto operator<=>(const CallMade&) const = default;
};

// What a program communicates, each once.
std::vector<CallMade> calls_made(const Program& program) {
  std::vector<CallMade> calls;
  std::array<CallMade, 8> recent{};  // microbatches make the same few in turn
  recent.fill({.slot = 0, .call = kNone, .message = false});
  std::size_t next = 0;
  for (const Operation& op : program.operations.written()) {
    const bool message = op.kind == OpKind::Send || op.kind == OpKind::Recv;
    if (!message && op.kind != OpKind::Collective) continue;
    const CallMade made{.slot = op.slot, .call = op.payload, .message = message};
    if (std::ranges::find(recent, made) != recent.end()) continue;
    calls.push_back(recent[next++ % recent.size()] = made);
  }
  std::ranges::sort(calls);
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  return calls;
}

std::int64_t communicator_bytes(const Run& run, std::size_t rank_class,
                                const std::vector<CallMade>& calls,
                                const FrameworkMemory& framework) {
  constexpr std::uint32_t kMessageChannels = 2;
  const RankClass& entry = run.partition.ranks[rank_class];
  const Rank& rank = run.workload.ranks[entry.representative];
  const RunView view = run.view();
  std::map<GroupId, std::int64_t> ends;  // channels times peers, by communicator
  for (const auto& [slot, call, message] : calls) {
    const GroupId group = rank.slots.at(slot).group;
    if (group == kNone || run.workload.groups[group].members.size() < 2) continue;
    const std::uint32_t channels = std::max(kMessageChannels, view.carrier(group, call).channels);
    const std::int64_t peers = message ? 1 : 2;
    ends[group] = std::max(ends[group], channels * peers);
  }
  std::int64_t bytes = 0;
  for (const auto& [group, count] : ends) bytes += count * framework.channel_bytes;
  return bytes;
}

}  // namespace

std::int64_t communicator_bytes(const Run& run, std::size_t rank_class,
                                const FrameworkMemory& framework) {
  const Program& program = run.workload.programs[run.partition.ranks[rank_class].program];
  return communicator_bytes(run, rank_class, calls_made(program), framework);
}

void add_memory_overheads(const FrameworkMemory& framework, Run& run) {
  std::map<std::uint32_t, std::pair<std::int64_t, std::int64_t>> by_program;
  const std::vector<std::uint32_t> forms = program_forms(run.workload.programs);
  std::map<std::uint32_t, std::vector<CallMade>> calls;  // by form
  run.memory_peaks.clear();
  for (std::size_t rank_class = 0; rank_class < run.partition.ranks.size(); ++rank_class) {
    const std::uint32_t program = run.partition.ranks[rank_class].program;
    auto& [buffers, dynamic] = by_program[program];
    const auto [made, fresh] = calls.try_emplace(forms[program]);
    if (fresh) made->second = calls_made(run.workload.programs[program]);
    buffers = std::max(buffers, communicator_bytes(run, rank_class, made->second, framework));
    run.memory_peaks.push_back(memory_peak(run.workload, run.partition, run.timeline, rank_class));
    dynamic = std::max(dynamic, dynamic_bytes(run, rank_class));
  }
  for (const auto& [program, held] : by_program) {
    hold(run, program, Category::Communication, held.first);
    const double reserved = framework.fragmentation * static_cast<double>(held.second);
    hold(run, program, Category::Fragmentation, std::llround(reserved));
  }
}

}  // namespace trainyard
