#include "sim/report/link_summary.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {

std::vector<LinkSummary> link_summary(const RunView& view) {
  TY_CHECK(view.timeline.links.size() == view.partition.links.size(), view.timeline.links.size(),
           view.partition.links.size());
  const double step_s = view.timeline.makespan_s;
  std::map<std::pair<LinkKind, double>, LinkSummary> rows;
  for (std::size_t index = 0; index < view.partition.links.size(); ++index) {
    const LinkClass& links = view.partition.links[index];
    const LinkUse& use = view.timeline.links[index];
    const Link& link = view.cluster.link(links.representative);
    const auto members = static_cast<double>(links.members);
    const double busy = step_s > 0.0 ? use.busy_s / step_s : 0.0;
    LinkSummary& row = rows[{link.kind, link.capacity.value()}];
    row.kind = link.kind;
    row.capacity_bytes_per_s = link.capacity.value();
    row.links += links.members;
    row.bytes += members * use.bytes;
    row.busy_fraction += members * busy;  // a sum until all are in, then a mean
    row.busiest_bytes = std::max(row.busiest_bytes, use.bytes);
    row.busiest_fraction = std::max(row.busiest_fraction, busy);
    row.peak_utilisation = std::max(row.peak_utilisation, use.peak_utilisation);
  }
  std::vector<LinkSummary> result;
  for (auto& [key, row] : rows) {
    const auto links = static_cast<double>(row.links);
    row.busy_fraction /= links;
    const double room = row.capacity_bytes_per_s * step_s * links;
    row.mean_utilisation = room > 0.0 ? row.bytes / room : 0.0;
    result.push_back(row);
  }
  return result;
}

}  // namespace trainyard
