// Link use over time, as counters of a trace: what one link of a class carries, in GB/s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/report/run_view.hpp"

namespace trainyard {

inline constexpr std::uint64_t kLinksProcess = 1'000'000;

// By link class: "nic node 0 nic 0 to leaf 0 (4 alike, 48.5 GB/s each)" for the `classes` that
// carry most, "" for the others.
[[nodiscard]] std::vector<std::string> shown_links(const RunView& view, std::size_t classes);

struct LinkPoint {
  std::uint32_t link_class = 0;
  std::int64_t at_ns = 0;
  double gigabytes_per_s = 0.0;  // in whole thousandths; a transfer counts with its mean rate
};
// The changes of the link classes with a name, in order of time.
void for_each_link_point(const RunView& view, const std::vector<std::string>& names,
                         const std::function<void(const LinkPoint&)>& visit);

}  // namespace trainyard
