#include "sim/fold/link_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "sim/fold/joint_graph.hpp"
#include "tests/sim/cluster/hand_cluster.hpp"
#include "tests/sim/workload/hand_workload.hpp"

namespace trainyard {
namespace {

using test::hand_cluster;
using test::HandCluster;
using test::RingTransport;
using test::training_step;

// GPU to NIC (64 GB/s) and NIC to leaf (50 GB/s), both ways, for each of 8 GPUs.
TEST(LinkRows, ThePortStandsForTheWayToIt) {
  const Cluster cluster = hand_cluster({.nodes = 2});
  const std::vector<LinkId> stands = link_rows(cluster);
  std::size_t behind = 0;
  for (const Link link : cluster.links()) {
    if (stands[link.id] == link.id) continue;
    ++behind;
    EXPECT_EQ(link.kind, LinkKind::Pcie);
    const Link port = cluster.link(stands[link.id]);
    EXPECT_EQ(port.kind, LinkKind::NicPort);
    EXPECT_TRUE(link.to == port.from || port.to == link.from);
  }
  EXPECT_EQ(behind, 16U);
}

// A port of 50 GB/s behind 20 GB/s of PCIe on the way out; on the way in it stays the narrowest.
TEST(LinkRows, TheNarrowestStands) {
  HandCluster shape{.nodes = 2};
  shape.speed = {{{"node 0 gpu 1", "node 0 nic 1"}, 0.3125}};
  const Cluster cluster = hand_cluster(shape);
  const std::vector<LinkId> stands = link_rows(cluster);
  std::size_t ports = 0;
  for (const Link link : cluster.links()) {
    if (link.kind != LinkKind::NicPort || stands[link.id] == link.id) continue;
    ++ports;
    EXPECT_EQ(cluster.name(link.from), "node 0 nic 1");
    EXPECT_EQ(cluster.name(cluster.link(stands[link.id]).from), "node 0 gpu 1");
  }
  EXPECT_EQ(ports, 1U);
}

// One whose ways begin and end at NICs.
class FromNics final : public Transport {
 public:
  explicit FromNics(const Cluster& cluster) : cluster_(cluster), ring_(cluster) {}
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override {
    std::vector<Phase> phases = ring_.phases(call, gpus);
    for (Phase& phase : phases)
      for (Chain& chain : phase.chains)
        std::erase_if(chain.loads, [&](const LinkLoad& load) {
          return cluster_.link(load.link).kind == LinkKind::Pcie;
        });
    return phases;
  }

 private:
  const Cluster& cluster_;
  RingTransport ring_;
};

std::size_t behind_others(const JointGraph& joint) {
  std::size_t behind = 0;
  for (LinkId link = 0; link < joint.row_of.size(); ++link)
    if (joint.row_of[link] != link) ++behind;
  return behind;
}

TEST(LinkRows, HoldOnlyWhileLoadedAlike) {
  const Cluster cluster = hand_cluster({.nodes = 12});
  const Workload workload = training_step({.tensor = 4, .data = 12});
  EXPECT_EQ(behind_others(join(cluster, workload, RingTransport(cluster))), 96U);
  const JointGraph without = join(cluster, workload, FromNics(cluster));
  EXPECT_EQ(behind_others(without), 0U);
  // Bundles are left as they are: only PCIe is loaded by none.
  EXPECT_NE(without.bundle_of, each_link(cluster));
}

}  // namespace
}  // namespace trainyard
