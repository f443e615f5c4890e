#include "sim/cluster/communication_model.hpp"

#include <algorithm>

namespace trainyard {

std::vector<LinkLoad> every_link(const Cluster& cluster, std::span<const LinkLoad> loads) {
  std::vector<LinkLoad> each;
  for (const LinkLoad& load : loads) {
    if (load.parallel_count == 1) each.push_back(load);
    if (load.parallel_count > 1)
      for (const std::uint32_t link : cluster.router().parallel_links().links(load.link))
        each.push_back({LinkId{link}, load.bytes});
  }
  // A stable sort adds the loads of a link in the order of `loads`, so that the sum is
  // deterministic.
  std::ranges::stable_sort(each, {}, &LinkLoad::link);
  std::vector<LinkLoad> result;
  for (const LinkLoad& load : each) {
    if (result.empty() || result.back().link != load.link) {
      result.push_back(load);
    } else {
      result.back().bytes += load.bytes;
    }
  }
  return result;
}

}  // namespace trainyard
