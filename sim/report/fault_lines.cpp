#include "sim/report/fault_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/render/text_table.hpp"

namespace trainyard {

namespace {

std::string dates(const TimedFault& fault) {
  if (std::isinf(fault.until_s))
    return fault.from_s > 0.0 ? fmt::format(" from {} on", to_text(Seconds{fault.from_s})) : "";
  return fmt::format(" from {} to {}", to_text(Seconds{fault.from_s}),
                     to_text(Seconds{fault.until_s}));
}

// A rate this low stands for a link that is dead.
constexpr double kDead = 1e-6;

std::string fault_text(const TimedFault& fault) {
  if (fault.rate_left < kDead)
    return fmt::format("nothing moves over {}{}, until the transport sends again", fault.part,
                       dates(fault));
  return fmt::format("{} has {} of its {}{}", fault.part, percent(fault.rate_left),
                     fault.gpu ? "speed" : "rate", dates(fault));
}

// Time that a rank of the class waits for other ranks.
double waiting_s(const RunView& view, std::uint32_t rank_class) {
  const Breakdown parts = breakdown(view.workload, view.partition, view.timeline, rank_class);
  return parts.of(TimeShare::Waiting) + parts.of(TimeShare::Bubble);
}

std::string waiter(const RunView& view, std::uint32_t rank_class, double seconds) {
  const RankClass& ranks = view.partition.ranks[rank_class];
  return fmt::format("rank {}{} {}", ranks.representative,
                     ranks.members > 1 ? fmt::format(" (one of {})", ranks.members) : "",
                     to_text(Seconds{seconds}));
}

std::string waits_text(const RunView& view) {
  std::vector<double> waits;
  for (std::uint32_t i = 0; i < view.partition.ranks.size(); ++i)
    waits.push_back(waiting_s(view, i));
  const auto [least, most] = std::ranges::minmax_element(waits);
  const auto number = [&](auto place) { return static_cast<std::uint32_t>(place - waits.begin()); };
  return fmt::format("for other ranks, most: {}, least: {}", waiter(view, number(most), *most),
                     waiter(view, number(least), *least));
}

}  // namespace

std::vector<SetupLine> fault_lines(const RunView& view) {
  std::vector<SetupLine> lines;
  for (const TimedFault& fault : view.cluster.facts().timed_faults)
    lines.push_back({"fault", fault_text(fault)});
  if (!lines.empty() && !view.timeline.classes.empty())
    lines.push_back({"waits", waits_text(view)});
  return lines;
}

}  // namespace trainyard
