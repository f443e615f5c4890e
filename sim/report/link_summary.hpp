// How much the links of each class carried. Links are joined by kind and capacity, so that a
// cluster of thousands reads as a few rows.
//
//   for (const LinkSummary& row : link_summary(view)) row.peak_utilisation;
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

struct LinkSummary {
  LinkKind kind = LinkKind::NvLink;
  std::uint64_t links = 0;            // that carried anything
  double capacity_bytes_per_s = 0.0;  // of one link, one direction
  double bytes = 0.0;                 // of all of them together
  double busiest_bytes = 0.0;         // of the link that carried most
  double busy_fraction = 0.0;         // of the step, mean over the links
  double busiest_fraction = 0.0;      // the same of the busiest link
  double mean_utilisation = 0.0;      // bytes / (capacity * step), mean over the links
  double peak_utilisation = 0.0;      // largest share of a link's capacity in use at an instant
};

// By kind, then by capacity.
[[nodiscard]] std::vector<LinkSummary> link_summary(const RunView& view);

}  // namespace trainyard
