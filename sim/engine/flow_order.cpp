#include "sim/engine/flow_order.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <utility>

namespace trainyard {
namespace {

bool earlier(const FlowSpan& a, const FlowSpan& b) {
  if (a.start_s != b.start_s) return a.start_s < b.start_s;
  return std::tie(a.flow_class, a.end_s) < std::tie(b.flow_class, b.end_s);
}

// Merges runs [ends[i - 1], ends[i]) of `from` in pairs until one is left.
std::vector<FlowSpan> merged(std::vector<FlowSpan> from, std::vector<std::ptrdiff_t> ends) {
  std::vector<FlowSpan> into(from.size());
  while (ends.size() > 1) {
    std::vector<std::ptrdiff_t> joined;
    std::ptrdiff_t begin = 0;
    for (std::size_t run = 0; run < ends.size(); run += 2) {
      const std::ptrdiff_t middle = ends[run];
      const std::ptrdiff_t end = ends[std::min(run + 1, ends.size() - 1)];
      std::merge(from.begin() + begin, from.begin() + middle, from.begin() + middle,
                 from.begin() + end, into.begin() + begin, earlier);
      joined.push_back(begin = end);
    }
    ends = std::move(joined);
    from.swap(into);
  }
  return from;
}

}  // namespace

std::vector<FlowSpan> in_order_of_start(const Partition& partition, std::vector<FlowSpan> flows) {
  if (std::is_sorted(flows.begin(), flows.end(), earlier)) return flows;
  std::vector<std::ptrdiff_t> next(partition.groups.size() + 1, 0);
  for (const FlowSpan& span : flows) ++next[partition.flows[span.flow_class].group_class + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<FlowSpan> by_group(flows.size());
  for (const FlowSpan& span : flows)
    by_group[static_cast<std::size_t>(next[partition.flows[span.flow_class].group_class]++)] = span;
  std::vector<std::ptrdiff_t> ends;
  std::ptrdiff_t begin = 0;
  for (std::size_t group = 0; group < partition.groups.size(); ++group) {
    const std::ptrdiff_t end = next[group];
    if (end == begin) continue;
    if (!std::is_sorted(by_group.begin() + begin, by_group.begin() + end, earlier))
      std::sort(by_group.begin() + begin, by_group.begin() + end, earlier);
    ends.push_back(begin = end);
  }
  return merged(std::move(by_group), std::move(ends));
}

}  // namespace trainyard
