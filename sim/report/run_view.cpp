#include "sim/report/run_view.hpp"

#include <algorithm>
#include <functional>

namespace trainyard {

namespace {

void add_to(std::vector<std::int64_t>& bytes, const std::vector<std::int64_t>& held) {
  std::ranges::transform(bytes, held, bytes.begin(), std::plus{});
}

}  // namespace

std::vector<std::int64_t> RunView::resident_bytes_of(std::uint32_t program) const {
  std::vector<std::int64_t> bytes = resident_bytes(workload, workload.programs[program]);
  if (!software_memory.empty()) add_to(bytes, software_memory[program]);
  return bytes;
}

std::vector<MemoryPoint> RunView::memory_curve_of(std::size_t rank_class) const {
  std::vector<MemoryPoint> curve = memory_curve(workload, partition, timeline, rank_class);
  if (software_memory.empty()) return curve;
  for (MemoryPoint& point : curve)
    add_to(point.by_category, software_memory[partition.ranks[rank_class].program]);
  return curve;
}

}  // namespace trainyard
