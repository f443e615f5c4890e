#include "sim/engine/flow_order.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

namespace trainyard {
namespace {

bool earlier(const FlowSpan& a, const FlowSpan& b) {
  if (a.start_s != b.start_s) return a.start_s < b.start_s;
  return std::tie(a.flow_class, a.end_s) < std::tie(b.flow_class, b.end_s);
}

// Equal slices of the time in which flows start, one for a few flows. A later start is never in an
// earlier slice: rounding keeps order.
class Slices {
 public:
  explicit Slices(std::span<const FlowSpan> flows) : count_(flows.size() / 4 + 1) {
    const auto by_start = [](const FlowSpan& a, const FlowSpan& b) {
      return a.start_s < b.start_s;
    };
    const auto [first, last] = std::minmax_element(flows.begin(), flows.end(), by_start);
    begin_s_ = first->start_s;
    const double whole_s = last->start_s - begin_s_;
    if (whole_s > 0.0) per_s_ = static_cast<double>(count_ - 1) / whole_s;
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t of(const FlowSpan& flow) const {
    const auto slice = static_cast<std::size_t>((flow.start_s - begin_s_) * per_s_);
    return std::min(slice, count_ - 1);
  }

 private:
  std::size_t count_;
  double begin_s_ = 0.0;
  double per_s_ = 0.0;
};

// Most slices hold a few flows, nearly in order: for these std::sort() does too much.
void put_in_order(std::span<FlowSpan> flows) {
  constexpr std::size_t kFew = 16;
  if (flows.size() > kFew) return std::sort(flows.begin(), flows.end(), earlier);
  for (std::size_t i = 1; i < flows.size(); ++i) {
    if (!earlier(flows[i], flows[i - 1])) continue;
    const FlowSpan moved = flows[i];
    std::size_t place = i;
    for (; place > 0 && earlier(moved, flows[place - 1]); --place) flows[place] = flows[place - 1];
    flows[place] = moved;
  }
}

}  // namespace

std::vector<FlowSpan> in_order_of_start(std::vector<FlowSpan> flows) {
  if (std::is_sorted(flows.begin(), flows.end(), earlier)) return flows;
  const Slices slices(flows);
  std::vector<std::size_t> next(slices.count() + 1, 0);
  for (const FlowSpan& flow : flows) ++next[slices.of(flow) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<FlowSpan> ordered(flows.size());
  for (const FlowSpan& flow : flows) ordered[next[slices.of(flow)]++] = flow;
  std::size_t begin = 0;
  for (std::size_t slice = 0; slice < slices.count(); begin = next[slice++])
    put_in_order(std::span(ordered).subspan(begin, next[slice] - begin));
  return ordered;
}

}  // namespace trainyard
