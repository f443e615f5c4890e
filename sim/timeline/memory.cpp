#include "sim/timeline/memory.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

const Program& program_of(const Workload& workload, const Partition& partition,
                          std::size_t rank_class) {
  return workload.programs.at(partition.ranks.at(rank_class).program);
}

// Changes nearer than this are of one instant: the sums of durations that lead to them were rounded
// in different orders. A hundredth of a nanosecond, far below any kernel.
constexpr double kInstant_s = 1e-11;

// Applies the changes instant by instant. After each instant, `visit` receives the state, and the
// last operation that allocated then, or the last that freed if none allocated. States within an
// instant are not visited: frees therefore come before allocations even where rounding puts them a
// little later.
template <class Visit>
void play(std::vector<std::int64_t>& bytes, const std::vector<MemoryChange>& changes,
          const Visit& visit) {
  for (auto change = changes.begin(); change != changes.end();) {
    const double instant_s = change->time_s;
    std::pair<bool, OpIndex> last{false, 0};
    for (; change != changes.end() && change->time_s <= instant_s + kInstant_s; ++change) {
      bytes.at(change->category) += change->bytes;
      last = std::max(last, {change->bytes > 0, change->operation});
    }
    visit(instant_s, last.second);
  }
}

// By time; at one time, frees first.
bool earlier(const MemoryChange& a, const MemoryChange& b) {
  return a.time_s != b.time_s ? a.time_s < b.time_s : a.bytes <= 0 && b.bytes > 0;
}

// All effects of a rank class whose category `counts`, by time, frees first.
template <class Counts>
std::vector<MemoryChange> changes_of(const Workload& workload, const Partition& partition,
                                     const Timeline& timeline, std::size_t rank_class,
                                     const Counts& counts) {
  const Program& program = program_of(workload, partition, rank_class);
  const OpTimes& times = timeline.classes.at(rank_class);
  TY_CHECK(times.end_s.size() == program.operations.size(), times.end_s.size(),
           program.operations.size());
  std::vector<MemoryChange> changes;
  changes.reserve(program.effects.size());
  program.for_each_effect([&](OpIndex op, const Operation&, const MemoryEffect& effect) {
    if (!counts(effect.category)) return;
    changes.push_back({.time_s = effect.at_end ? times.end_s[op] : times.start_s[op],
                       .operation = op,
                       .category = effect.category,
                       .bytes = effect.bytes});
  });
  // A stable sort keeps program order among equals.
  std::ranges::stable_sort(changes, earlier);
  return changes;
}

// The index of kHostCategory among the categories; their number where there is none.
std::size_t host_category(const Workload& workload) {
  return static_cast<std::size_t>(std::ranges::find(workload.categories, kHostCategory) -
                                  workload.categories.begin());
}

}  // namespace

std::vector<MemoryChange> memory_changes(const Workload& workload, const Partition& partition,
                                         const Timeline& timeline, std::size_t rank_class) {
  return changes_of(
      workload, partition, timeline, rank_class,
      [host = host_category(workload)](std::size_t category) { return category != host; });
}

std::vector<std::int64_t> resident_bytes(const Workload& workload, const Program& program) {
  std::vector<std::int64_t> bytes(workload.categories.size(), 0);
  const std::size_t host = host_category(workload);
  for (const ResidentMemory& resident : program.resident)
    if (resident.category != host) bytes.at(resident.category) += resident.bytes;
  return bytes;
}

// The net effect of a step by category: zero where the program frees all that it allocates.
std::vector<std::int64_t> unreturned_bytes(const Workload& workload, const Program& program) {
  std::vector<std::int64_t> bytes(workload.categories.size(), 0);
  program.for_each_effect([&](OpIndex, const Operation&, const MemoryEffect& effect) {
    bytes.at(effect.category) += effect.bytes;
  });
  return bytes;
}

std::int64_t host_memory_peak(const Workload& workload, const Partition& partition,
                              const Timeline& timeline, std::size_t rank_class) {
  const std::size_t host = host_category(workload);
  if (host == workload.categories.size()) return 0;
  std::vector<std::int64_t> bytes(workload.categories.size(), 0);
  for (const ResidentMemory& held : program_of(workload, partition, rank_class).resident)
    if (held.category == host) bytes[host] += held.bytes;
  std::int64_t peak = bytes[host];
  play(bytes,
       changes_of(workload, partition, timeline, rank_class,
                  [host](std::size_t category) { return category == host; }),
       [&](double, OpIndex) { peak = std::max(peak, bytes[host]); });
  return peak;
}

MemoryPeak memory_peak(const Workload& workload, const Partition& partition,
                       const Timeline& timeline, std::size_t rank_class) {
  std::vector<std::int64_t> bytes =
      resident_bytes(workload, program_of(workload, partition, rank_class));
  const auto total = [&bytes] {
    return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  };
  // The resident memory is the peak until an operation exceeds it. Of equal peaks the first counts.
  MemoryPeak peak{.bytes = total(), .at_s = 0.0, .operation = kNone, .by_category = bytes};
  play(bytes, memory_changes(workload, partition, timeline, rank_class),
       [&](double time_s, OpIndex op) {
         if (total() > peak.bytes)
           peak = {.bytes = total(), .at_s = time_s, .operation = op, .by_category = bytes};
       });
  return peak;
}

std::vector<MemoryPoint> memory_curve(const Workload& workload, const Partition& partition,
                                      const Timeline& timeline, std::size_t rank_class) {
  std::vector<std::int64_t> bytes =
      resident_bytes(workload, program_of(workload, partition, rank_class));
  std::vector<MemoryPoint> curve{{.time_s = 0.0, .by_category = bytes}};
  play(bytes, memory_changes(workload, partition, timeline, rank_class),
       [&](double time_s, OpIndex) {
         // Two instants never have one date, so this is the first point: changes at 0 belong to it.
         if (time_s == curve.back().time_s) {
           curve.back().by_category = bytes;
         } else {
           curve.push_back({.time_s = time_s, .by_category = bytes});
         }
       });
  return curve;
}

}  // namespace trainyard
