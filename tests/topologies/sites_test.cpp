// Are sites separate fabrics with one line between each two?
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "topologies/cluster_reader.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

ClusterSpec sites(std::uint32_t count, std::uint32_t nodes, FabricKind fabric = SingleSwitch{}) {
  return {.node = load_node("dgx_a100_80gb"),
          .nodes = nodes,
          .fabric = {.kind = std::move(fabric)},
          .sites = Sites{.count = count, .rate = BytesPerSecond{100e9}, .latency = Seconds{6e-4}}};
}

std::uint32_t lines_on(const Cluster& cluster, std::uint32_t from, std::uint32_t to) {
  std::uint32_t lines = 0;
  for (const RouteHop hop : cluster.router().route(from, to))
    if (cluster.name(cluster.link(hop.link).from).starts_with("site ") &&
        cluster.name(cluster.link(hop.link).to).starts_with("site "))
      ++lines;
  return lines;
}

// Nodes are divided in order; only routes between sites cross a line, and they cross one.
TEST(Sites, RoutesBetweenSitesCrossOneLine) {
  for (const FabricKind& fabric :
       {FabricKind{SingleSwitch{}}, FabricKind{RailOptimized{}}, FabricKind{FatTree{.radix = 32}},
        FabricKind{FatTree3{.radix = 16}}}) {
    const Cluster cluster = build_cluster(sites(2, 8, fabric));
    for (std::uint32_t node = 1; node < 8; ++node)
      EXPECT_EQ(lines_on(cluster, 0, node * 8), node < 4 ? 0U : 1U) << node;
  }
  const Cluster three = build_cluster(sites(3, 6));
  EXPECT_EQ(lines_on(three, 0, 16), 1U);
  EXPECT_EQ(lines_on(three, 0, 32), 1U);
  EXPECT_EQ(lines_on(three, 16, 32), 1U);
}

// A step between sites takes the latency of the line more than one within a site.
TEST(Sites, AStepBetweenSitesTakesTheLatencyOfTheLine) {
  const Cluster cluster = build_cluster(sites(2, 4));
  const double within_s = cluster.latency().extra(0, 8).value();
  const double between_s = cluster.latency().extra(0, 16).value();
  EXPECT_GT(between_s - within_s, 6e-4);
  EXPECT_LT(between_s - within_s, 6.1e-4);
}

// Eight GPUs of each site send 1 GB each to the other site: 8 GB on a line of 100 GB/s take 80 ms.
TEST(Sites, ALineLimitsWhatCrossesIt) {
  const Cluster cluster = build_cluster(sites(2, 2));
  double bytes = 0.0;
  for (std::uint32_t gpu = 0; gpu < 8; ++gpu)
    for (const RouteHop hop : cluster.router().route(gpu, 8 + gpu)) {
      const Link link = cluster.link(hop.link);
      if (cluster.name(link.from) != "site 0" || cluster.name(link.to) != "site 1") continue;
      bytes += 1e9 * hop.fraction;
      EXPECT_DOUBLE_EQ(link.capacity.value(), 100e9);
    }
  EXPECT_DOUBLE_EQ(bytes, 8e9);
}

// Do messages over two lines of a site not slow each other? Each fills its line, and the links that
// they share have room for both.
TEST(Sites, MessagesOverTwoLinesDoNotSlowEachOther) {
  const Cluster cluster = build_cluster(sites(3, 3));
  std::map<LinkId, double> rates;
  for (std::uint32_t gpu = 0; gpu < 8; ++gpu)
    for (const std::uint32_t to : {8U, 16U})
      for (const RouteHop hop : cluster.router().route(gpu, to + gpu))
        rates[hop.link] += 100e9 / 8.0 * hop.fraction;
  double lines = 0.0;
  for (const auto& [id, rate] : rates) {
    const Link link = cluster.link(id);
    if (link.kind == LinkKind::Global) {
      EXPECT_LE(rate, link.capacity.value() * (1.0 + 1e-12));
    }
    if (cluster.name(link.from) == "site 0") lines += rate;
  }
  EXPECT_DOUBLE_EQ(lines, 200e9);
}

// Is the cluster that a file describes the one that is written?
TEST(Sites, AFileGivesThemBack) {
  const ClusterSpec spec = sites(4, 8, FatTree{.radix = 32});
  JsonFile file = JsonFile::parse("cluster.json", to_json(spec).dump());
  EXPECT_EQ(read_cluster(file.root()), spec);
  EXPECT_NO_THROW(file.finish());
  EXPECT_EQ(build_cluster(spec).facts().name, "8 x dgx_a100_80gb, fat_tree, 4 sites");
}

std::string refusal(const ClusterSpec& spec) {
  try {
    (void)build_cluster(spec);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(Sites, WhatCannotBeDividedIsRefused) {
  EXPECT_EQ(refusal(sites(3, 8)),
            "/sites/count: 8 nodes do not divide among 3 sites (all sites have equally many nodes, "
            "in order)");
  EXPECT_EQ(refusal(sites(2, 1)),
            "/sites: one node is in one place (leave them out, or give more nodes)");
  EXPECT_EQ(refusal(sites(2, 8, Torus{})),
            "/sites: cannot be joined where each has a fabric torus (take single_switch, "
            "rail_optimized, fat_tree or fat_tree3)");
}

}  // namespace
}  // namespace trainyard
