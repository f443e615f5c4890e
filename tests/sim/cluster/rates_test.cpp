// A cluster with links of other rates: which links change, and what stays.
#include <gtest/gtest.h>

#include "hand_cluster.hpp"
#include "sim/base/error.hpp"
#include "sim/cluster/fabric_figures.hpp"

namespace trainyard {
namespace {

using namespace test;

double faster_fabric(LinkKind kind) { return kind == LinkKind::LeafSpine ? 2.0 : 1.0; }

Cluster four_nodes(Routing::Kind kind) {
  const Cluster ideal =
      hand_cluster({.nodes = 4, .nodes_per_leaf = 2, .speed = {{{"leaf 0", "spine 1"}, 0.5}}});
  ClusterFacts facts = ideal.facts();
  facts.routing.kind = kind;
  return {facts, ideal.wiring(), ideal.gpus(), ideal.nic_of_gpu()};
}

std::vector<std::pair<LinkId, double>> hops_of(const Route& route) {
  std::vector<std::pair<LinkId, double>> hops;
  for (const RouteHop& hop : route) hops.emplace_back(hop.link, hop.fraction);
  return hops;
}

// Do only the rates of the given kind change?
TEST(Rates, ChangeOnlyLinksOfTheirKind) {
  const Cluster cluster = four_nodes(Routing::Kind::Ideal);
  const Cluster changed = cluster.with_rates(faster_fabric);
  std::size_t faster = 0;
  for (const Link link : cluster.links()) {
    const double factor = faster_fabric(link.kind);
    EXPECT_EQ(changed.link(link.id).capacity.value(), link.capacity.value() * factor);
    EXPECT_EQ(changed.link(link.id).nominal.value(), link.nominal.value() * factor);
    faster += factor > 1.0 ? 1 : 0;
  }
  EXPECT_EQ(faster, 8U);  // two leaves, two spines, both directions
}

// Do routes and latencies stay unchanged? No route is searched once more, and the existing routes
// equal those of a cluster drawn with these rates.
TEST(Rates, LeaveRoutesAndLatenciesAsTheyAre) {
  for (const Routing::Kind kind : {Routing::Kind::Ideal, Routing::Kind::Ecmp}) {
    const Cluster cluster = four_nodes(kind);
    const Cluster changed = cluster.with_rates(faster_fabric);
    const Cluster anew(changed.facts(), changed.wiring(), changed.gpus(), changed.nic_of_gpu());
    EXPECT_EQ(&changed.router(), &cluster.router());
    EXPECT_NE(&anew.router(), &cluster.router());
    std::size_t pairs = 0;
    for (std::uint32_t from = 0; from < 16; ++from) {
      for (std::uint32_t to = 0; to < 16; ++to, ++pairs) {
        EXPECT_EQ(hops_of(changed.router().route(from, to)),
                  hops_of(anew.router().route(from, to)));
        EXPECT_EQ(changed.latency().extra(from, to), anew.latency().extra(from, to));
      }
    }
    EXPECT_EQ(pairs, 256U);
    for (const Link link : changed.links())
      EXPECT_EQ(changed.router().parallel_links().of(link.id),
                anew.router().parallel_links().of(link.id));
  }
}

// Is a bisection of 6 TB/s counted whole? It is that of two GPUs whose links carry 20 times 300
// GB/s.
TEST(Rates, ABisectionOfSixTerabytesPerSecondIsCountedWhole) {
  const Cluster cluster = hand_cluster({.nodes = 1, .gpus_per_node = 2});
  EXPECT_DOUBLE_EQ(bisection_bandwidth(cluster.with_rates([](LinkKind) { return 20.0; })).value(),
                   6e12);
}

// Is a link without any rate refused?
TEST(Rates, RefuseALinkWithoutARate) {
  const Cluster cluster = four_nodes(Routing::Kind::Ideal);
  EXPECT_THROW((void)cluster.with_rates([](LinkKind) { return 0.0; }), InputError);
}

}  // namespace
}  // namespace trainyard
