// What joining a workload with a cluster (joint_graph.hpp) needs of the cluster alone: which groups
// stand in places alike, and which links stand for others. It takes as long as lowering a plan, and
// can be found beside that.
//
//   JoinGround ground(cluster);
//   const JointGraph joint = join(cluster, workload, transport, &ground);
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/fold/alike_places.hpp"

namespace trainyard {

// Which links stand for others in shapes: of bundles and of rows one, of bundles alone, or none.
enum class Standing : std::uint8_t { BundlesAndRows, Bundles, None };

// As the JointGraph's fields of these names.
struct LinkStanding {
  std::vector<LinkId> bundle_of;
  std::vector<std::uint32_t> bundle_size;
  std::vector<LinkId> row_of;
};
[[nodiscard]] LinkStanding link_standing(const Cluster& cluster, Standing standing);

class JoinGround {
 public:
  // REQUIRES: the cluster outlives it.
  explicit JoinGround(const Cluster& cluster);

  [[nodiscard]] AlikePlaces& places() { return *places_; }
  // Of bundles and rows. REQUIRES: not taken before.
  [[nodiscard]] LinkStanding take_standing();

 private:
  std::optional<AlikePlaces> places_;
  std::optional<LinkStanding> standing_;
};

}  // namespace trainyard
