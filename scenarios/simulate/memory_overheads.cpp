#include "scenarios/simulate/memory_overheads.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>

#include "models/lower/step_shape.hpp"
#include "sim/base/check.hpp"
#include "sim/timeline/memory.hpp"
#include "sim/workload/call.hpp"
#include "sim/workload/program_templates.hpp"

namespace trainyard {

namespace {

std::int64_t sum(const std::vector<std::int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

// The names of the categories under which find_memory() files what it finds.
std::string name_of(Category category) {
  return category_names()[static_cast<std::size_t>(category)];
}

std::size_t index_of(const Workload& workload, Category category) {
  const auto found = std::ranges::find(workload.categories, name_of(category));
  TY_CHECK(found != workload.categories.end(), name_of(category));
  return static_cast<std::size_t>(found - workload.categories.begin());
}

// Returns the peak without resident memory.
std::int64_t dynamic_bytes(const RunView& view, std::size_t rank_class, const MemoryPeak& peak) {
  const Program& program = view.workload.programs[view.partition.ranks[rank_class].program];
  return peak.bytes - sum(resident_bytes(view.workload, program));
}

// A distinct call of a program.
struct CallMade {
  std::uint16_t slot = 0;
  std::uint32_t call = 0;
  bool message = false;
  auto operator<=>(const CallMade&) const = default;
};

// Returns the distinct calls of a program.
std::vector<CallMade> calls_made(const Program& program) {
  std::vector<CallMade> calls;
  // Microbatches repeat a few calls, which this cache filters out.
  std::array<CallMade, 8> recent{};
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

std::int64_t communicator_bytes(const RunView& view, std::size_t rank_class,
                                const std::vector<CallMade>& calls,
                                const FrameworkMemory& framework) {
  constexpr std::uint32_t kMessageChannels = 2;
  const RankClass& entry = view.partition.ranks[rank_class];
  const Rank& rank = view.workload.ranks[entry.representative];
  std::map<GroupId, std::int64_t> ends;  // channels times peers, by communicator
  for (const auto& [slot, call, message] : calls) {
    const GroupId group = rank.slots.at(slot).group;
    if (group == kNone || view.workload.groups[group].members.size() < 2) continue;
    if (bytes_of(view.workload.calls[call]) == 0) continue;  // no buffers to hold
    const std::uint32_t channels =
        std::max(kMessageChannels, view.selected_algorithm(group, call).channels);
    const std::int64_t peers = message ? 1 : 2;
    ends[group] = std::max(ends[group], channels * peers);
  }
  std::int64_t bytes = 0;
  for (const auto& [group, count] : ends) bytes += count * framework.channel_bytes;
  return bytes;
}

}  // namespace

std::int64_t communicator_bytes(const RunView& view, std::size_t rank_class,
                                const FrameworkMemory& framework) {
  const Program& program = view.workload.programs[view.partition.ranks[rank_class].program];
  return communicator_bytes(view, rank_class, calls_made(program), framework);
}

void add_overhead_categories(Workload& workload) {
  for (const Category category : {Category::Communication, Category::Fragmentation}) {
    const std::string name = name_of(category);
    if (std::ranges::find(workload.categories, name) == workload.categories.end())
      workload.categories.push_back(name);
  }
}

MemoryFound find_memory(const RunView& view, const FrameworkMemory& framework) {
  MemoryFound found{.software =
                        std::vector(view.workload.programs.size(),
                                    std::vector<std::int64_t>(view.workload.categories.size(), 0))};
  std::vector<std::int64_t> dynamic(view.workload.programs.size(), 0);
  const std::vector<std::uint32_t> templates = program_templates(view.workload.programs);
  // By template: programs of one template have equal calls.
  std::map<std::uint32_t, std::vector<CallMade>> calls;
  const std::size_t communication = index_of(view.workload, Category::Communication);
  const std::size_t fragmentation = index_of(view.workload, Category::Fragmentation);
  for (std::size_t rank_class = 0; rank_class < view.partition.ranks.size(); ++rank_class) {
    const std::uint32_t program = view.partition.ranks[rank_class].program;
    const auto [made, fresh] = calls.try_emplace(templates[program]);
    if (fresh) made->second = calls_made(view.workload.programs[program]);
    std::int64_t& buffers = found.software[program][communication];
    buffers = std::max(buffers, communicator_bytes(view, rank_class, made->second, framework));
    found.peaks.push_back(memory_peak(view.workload, view.partition, view.timeline, rank_class));
    dynamic[program] =
        std::max(dynamic[program], dynamic_bytes(view, rank_class, found.peaks.back()));
  }
  // The allocator's unused reserve is a fraction of the largest peak without resident memory.
  for (std::size_t program = 0; program < dynamic.size(); ++program)
    found.software[program][fragmentation] =
        std::llround(framework.fragmentation * static_cast<double>(dynamic[program]));
  // Memory that is held throughout raises every peak and moves none in time.
  for (std::size_t rank_class = 0; rank_class < found.peaks.size(); ++rank_class) {
    MemoryPeak& peak = found.peaks[rank_class];
    const auto& held = found.software[view.partition.ranks[rank_class].program];
    peak.bytes += sum(held);
    std::ranges::transform(peak.by_category, held, peak.by_category.begin(), std::plus{});
  }
  return found;
}

}  // namespace trainyard
