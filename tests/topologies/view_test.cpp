// What `show topology` prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.hpp"
#include "tests/topologies/clusters.hpp"
#include "topologies/views.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(TopologyTable, CountsWhatIsThere) {
  const std::string text =
      topology_table(build_cluster(nodes_of("dgx_h100", 32, {.kind = "rail_optimized"})));
  EXPECT_THAT(text, StartsWith("32 x dgx_h100, rail_optimized\n256 GPUs (h100, 79.65 GiB usable"));
  EXPECT_THAT(text, HasSubstr("gpu                256         8\n"));
  EXPECT_THAT(text, HasSubstr("spine                4         -\n"));
  EXPECT_THAT(text, HasSubstr("370.8 GB/s      450 GB/s     375 ns"));
  EXPECT_THAT(text, HasSubstr("bisection     6.144 TB/s each way"));
  EXPECT_THAT(text, HasSubstr("48 GB/s per GPU"));
  EXPECT_THAT(text, HasSubstr("node to leaf 256, leaf to spine 256, spine to core 0"));
}

TEST(TopologyMatrix, ReadsAsNvidiaSmiDoes) {
  const std::string text = topology_matrix(build_cluster(nodes_of("dgx_a100_80gb", 2)), 1);
  EXPECT_THAT(text, HasSubstr("GPU0       X  NV12  NV12  NV12  NV12  NV12  NV12  NV12"
                              "   PIX   PIX  NODE  NODE   SYS   SYS   SYS   SYS\n"));
  EXPECT_THAT(text, HasSubstr("NIC7     SYS   SYS   SYS   SYS  NODE  NODE   PIX   PIX"
                              "   SYS   SYS   SYS   SYS  NODE  NODE   PIX     X\n"));
  EXPECT_THAT(text, HasSubstr("  SYS  "));
}

TEST(TopologyMatrix, IsSymmetric) {
  for (const std::string& name : node_names()) {
    const std::string text = topology_matrix(build_cluster(nodes_of(name, 1)), 0);
    std::vector<std::vector<std::string>> rows;
    std::istringstream lines(text);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line) && !line.empty()) {
      std::istringstream words(line);
      rows.emplace_back(std::istream_iterator<std::string>(words),
                        std::istream_iterator<std::string>());
    }
    const std::size_t size = rows.size();
    ASSERT_GE(size, 16U);
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_EQ(rows[i].size(), size + 1) << name;
      for (std::size_t j = 0; j < size; ++j) {
        EXPECT_EQ(rows[i][j + 1] == "X", i == j) << name;
        EXPECT_EQ(rows[i][j + 1], rows[j][i + 1]) << name;
      }
    }
  }
}

TEST(TopologyMatrix, TellsSwitchlessAndCutOffPairs) {
  const std::string text = topology_matrix(build_cluster(nodes_of("gb200_nvl72", 1)), 0);
  EXPECT_THAT(text, HasSubstr("NV18"));
  EXPECT_THAT(text, HasSubstr("PHB   PHB   SYS   SYS     -"));  // own Grace, the tray's other, none
}

TEST(TopologyDot, DrawsEveryDeviceOfASmallCluster) {
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 2));
  const std::string text = topology_dot(cluster);
  EXPECT_THAT(text, StartsWith("graph G {"));
  EXPECT_THAT(text, HasSubstr("[label=\"node 1 gpu 7\", shape=box];"));
  std::size_t edges = 0;
  for (std::size_t at = text.find("--"); at != std::string::npos; at = text.find("--", at + 1)) {
    ++edges;
  }
  EXPECT_EQ(edges, cluster.links().size() / 2);
}

TEST(TopologyDot, CollapsesManyNodesAndSaysSo) {
  const std::string text =
      topology_dot(build_cluster(nodes_of("dgx_h100", 65, {.kind = "fat_tree"})));
  EXPECT_THAT(text, HasSubstr("each node is one box: there are more than 64"));
  EXPECT_THAT(text, HasSubstr("[label=\"node 64\", shape=box3d];"));
  EXPECT_THAT(text, Not(HasSubstr("gpu")));
  EXPECT_THAT(text, HasSubstr("8 x nic 48.5 GB/s"));
}

}  // namespace
}  // namespace trainyard
