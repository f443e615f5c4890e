// The use of links over time, as counters of a trace: the GB/s that one link of a class carries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/report/run_view.hpp"

namespace trainyard {

// The process number of the link counters, above the numbers of ranks.
inline constexpr std::uint64_t kLinksProcess = 1'000'000;

// Returns names by link class: "nic node 0 nic 0 to leaf 0 (4 alike, 48.5 GB/s each)" for the
// `classes` classes that carry most, and "" for the others.
[[nodiscard]] std::vector<std::string> shown_links(const RunView& view, std::size_t classes);

struct LinkPoint {
  std::uint32_t link_class = 0;
  std::int64_t at_ns = 0;
  double gigabytes_per_s = 0.0;  // in whole thousandths; a flow counts with its mean rate
};
// Visits the changes of the named link classes, in order of time.
void for_each_link_point(const RunView& view, const std::vector<std::string>& names,
                         const std::function<void(const LinkPoint&)>& visit);

}  // namespace trainyard
