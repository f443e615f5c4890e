#include "sim/fold/join_ground.hpp"

#include <utility>

#include "sim/base/beside.hpp"
#include "sim/base/check.hpp"
#include "sim/fold/link_rows.hpp"

namespace trainyard {

LinkStanding link_standing(const Cluster& cluster, Standing standing) {
  const bool bundles = standing != Standing::None;
  const bool rows = standing == Standing::BundlesAndRows;
  LinkStanding result{
      .bundle_of = bundles ? cluster.router().bundles().of_each(cluster.wiring().link_count())
                           : each_link(cluster),
      .bundle_size = {},
      .row_of = rows ? link_rows(cluster) : each_link(cluster)};
  result.bundle_size.assign(result.bundle_of.size(), 0);
  for (const LinkId lowest : result.bundle_of) ++result.bundle_size[lowest];
  return result;
}

JoinGround::JoinGround(const Cluster& cluster) {
  beside(
      is_large(cluster), [&] { places_.emplace(cluster); },
      [&] { standing_ = link_standing(cluster, Standing::BundlesAndRows); });
}

LinkStanding JoinGround::take_standing() {
  TY_CHECK(standing_.has_value());
  return *std::exchange(standing_, std::nullopt);
}

}  // namespace trainyard
