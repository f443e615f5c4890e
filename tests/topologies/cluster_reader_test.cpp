// The "cluster" object of a scenario.
#include "topologies/cluster_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "tests/topologies/clusters.hpp"
#include "topologies/custom_cluster.hpp"
#include "topologies/node.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;

ClusterSpec read(const std::string& cluster, const std::filesystem::path& folder = {}) {
  JsonFile file = JsonFile::parse("s.json", "{\"cluster\": " + cluster + "}");
  ClusterSpec spec = read_cluster(file.root().object("cluster"), folder);
  file.finish();
  return spec;
}

std::string refusal(const std::string& cluster) {
  return complaint([&] { (void)read(cluster); });
}

// Is a node that is described by difference the named node with these parts?
TEST(ReadCluster, NodeByDifference) {
  const NodeSpec whole = read(R"({"node": "dgx_h100"})").node;
  const NodeSpec node = read(R"({"node": {"like": "dgx_h100", "gpus": 4,
      "nic": {"count": 4, "usable": "200 Gb/s"}}})")
                            .node;
  EXPECT_EQ(node.gpus, 4U);
  EXPECT_EQ(node.nics, 4U);
  EXPECT_EQ(node.nic, BytesPerSecond{25e9});
  EXPECT_EQ(node.nic_nominal, whole.nic_nominal);
  EXPECT_EQ(node.nvlink, whole.nvlink);
  EXPECT_EQ(node.name, "dgx_h100, changed");
}

// Are mistakes in a difference reported at their own path?
TEST(ReadCluster, MistakesInADifferenceHaveTheirPath) {
  EXPECT_THAT(refusal(R"({"node": {"like": "dgx_h10"}})"), HasSubstr("dgx_h100"));
  EXPECT_THAT(refusal(R"({"node": {"like": "dgx_h100", "gpuss": 4}})"),
              HasSubstr("/cluster/node/gpuss"));
  EXPECT_THAT(refusal(R"({"node": {"like": "dgx_h100", "nic": {"usable": 3}}})"),
              HasSubstr("/cluster/node/nic/usable"));
}

// Is a node read by its name?
TEST(ReadCluster, NodeByName) {
  const ClusterSpec spec = read(R"({"node": "dgx_h100", "nodes": 16,
      "fabric": {"kind": "rail_optimized", "nodes_per_unit": 8, "hop_latency": "300 ns"}})");
  EXPECT_EQ(spec.node.gpu, "h100");
  EXPECT_EQ(gpu_count(spec), 128U);
  const auto& fabric = std::get<RailOptimized>(spec.fabric.kind);
  EXPECT_EQ(fabric.nodes_per_unit, 8U);
  EXPECT_DOUBLE_EQ(fabric.hop_latency.value(), 3e-7);
}

// Does the error about a fabric without ports for its nodes name the file and the field?
TEST(ReadCluster, WhatCannotBeBuiltIsAProblemOfTheFile) {
  const ClusterSpec spec = nodes_of("dgx_h100", 64, {.kind = FatTree{.radix = 4}});
  JsonFile file = JsonFile::parse("s.json", "{}");
  check_cluster_builds(file, "/cluster", spec);
  EXPECT_THAT(complaint([&] { file.finish(); }), HasSubstr("s.json: /cluster"));

  JsonFile sound = JsonFile::parse("s.json", "{}");
  check_cluster_builds(sound, "/cluster", nodes_of("dgx_h100", 2));
  EXPECT_FALSE(sound.has_problems());
}

// Is an inline node read and written?
TEST(ReadCluster, NodeInlineAndBack) {
  NodeSpec node = load_node("dgx_h100");
  node.name = "quiet";
  node.nic = BytesPerSecond{12.5e9};
  ClusterSpec spec{.node = node, .nodes = 2, .fabric = {.kind = FatTree{.radix = 32}}};
  const Json written = to_json(spec);
  const ClusterSpec again = read(written.dump());
  EXPECT_EQ(to_json(again), written);
  EXPECT_EQ(again.node.nic, node.nic);
  EXPECT_EQ(again.node.name, "quiet");
}

// Does every fabric read back?
TEST(ReadCluster, EveryFabricReadsBack) {
  for (const FabricEntry& entry : fabrics()) {
    const ClusterSpec spec = nodes_of("dgx_b200", 4, {.kind = entry.defaults});
    const Json written = to_json(spec);
    EXPECT_EQ(written["node"], "dgx_b200");
    EXPECT_EQ(to_json(read(written.dump())), written);
  }
}

// Does every field of a fabric read back, and no other?
TEST(ReadCluster, EveryFieldOfAFabricReadsBackAndNoOther) {
  const std::map<std::string_view, Json> values = {
      {"hop_latency", "1 us"},
      {"dims", {2, 2}},
      {"dimensions", 2},
      {"routing", {{"kind", "ecmp"}, {"seed", 7}, {"flows_per_connection", 2}}}};
  const auto value = [&](std::string_view key) {
    const auto found = values.find(key);
    return found == values.end() ? Json(key.ends_with("oversubscription") ? Json(3.0) : Json(4))
                                 : found->second;
  };
  std::set<std::string_view> keys;
  for (const FabricEntry& entry : fabrics()) keys.insert(entry.keys.begin(), entry.keys.end());
  EXPECT_EQ(keys.size(), 12U);
  for (const FabricEntry& entry : fabrics()) {
    Json fabric = {{"kind", entry.name}};
    for (const std::string_view key : entry.keys) fabric[std::string(key)] = value(key);
    const Json cluster = {{"node", "dgx_b200"}, {"nodes", 4}, {"fabric", fabric}};
    EXPECT_EQ(to_json(read(cluster.dump()))["fabric"], fabric);
    std::size_t refused = 0;
    for (const std::string_view key : keys) {
      if (entry.has(key)) continue;
      Json other = cluster;
      other["fabric"][std::string(key)] = value(key);
      EXPECT_THAT(refusal(other.dump()), HasSubstr("has no such field"));
      ++refused;
    }
    EXPECT_EQ(refused, keys.size() - entry.keys.size());
  }
}

// Is a changed node written inline?
TEST(ReadCluster, ChangedNodeIsWrittenInline) {
  ClusterSpec spec = nodes_of("dgx_b200", 4);
  spec.node.nic = BytesPerSecond{1e9};
  EXPECT_TRUE(to_json(spec)["node"].is_object());
}

// Are files found next to the scenario?
TEST(ReadCluster, FilesAreFoundBesideTheScenario) {
  const std::filesystem::path folder = testing::TempDir() + "trainyard_reader_test";
  const Cluster cluster = build_cluster(nodes_of("dgx_h100", 2));
  write_file(folder / "mine.json", to_custom_json(cluster).dump());
  write_file(folder / "node.json", to_json(load_node("mi300x")).dump());
  const ClusterSpec spec = read(R"({"file": "mine.json"})", folder);
  ASSERT_TRUE(spec.custom.has_value());
  EXPECT_EQ(gpu_count(spec), 16U);
  EXPECT_EQ(build_cluster(spec).links().size(), cluster.links().size());
  EXPECT_EQ(read(R"({"node": "node.json"})", folder).node.gpu, "mi300x");
  // Once written out, a custom cluster no longer needs its file.
  EXPECT_EQ(to_json(read(to_json(spec).dump())), to_json(spec));
  std::filesystem::remove_all(folder);
}

// Do refusals name the field and a remedy?
TEST(ReadCluster, RefusesWithPlaceAndRemedy) {
  EXPECT_THAT(refusal(R"({"node": "dgx_h10O"})"),
              AllOf(HasSubstr("s.json: /cluster/node:"), HasSubstr("dgx_h100")));
  EXPECT_THAT(refusal(R"({"nodes": 2})"), HasSubstr("/cluster/node: is missing"));
  EXPECT_THAT(refusal(R"({"node": "dgx_h100", "nodes": 0})"), HasSubstr("/cluster/nodes"));
  EXPECT_THAT(refusal(R"({"node": "dgx_h100", "fabric": {"kind": "rail"}})"),
              HasSubstr("/cluster/fabric/kind"));
  EXPECT_THAT(
      refusal(R"({"node": "dgx_h100", "fabric": {"kind": "fat_tree", "nodes_per_unit": 4}})"),
      AllOf(HasSubstr("/cluster/fabric/nodes_per_unit: fat_tree has no such field")));
  EXPECT_THAT(
      refusal(R"({"node": "dgx_h100", "fabric": {"kind": "fat_tree", "oversubscription": 0.5}})"),
      HasSubstr("/cluster/fabric/oversubscription"));
  EXPECT_THAT(refusal(R"({"node": "dgx_h100", "nodes": 4, "fabric":
                       {"kind": "torus", "dims": [2, 2], "dimensions": 3}})"),
              HasSubstr("/cluster/fabric/dimensions: 3, and dims has 2 (leave one of them out)"));
  EXPECT_THAT(
      refusal(R"({"node": "dgx_h100", "nic": {"usable": "60 GB/s", "nominal": "50 GB/s"}})"),
      HasSubstr("/cluster/nic/nominal: 50 GB/s is less than the usable 60 GB/s (give what the NIC "
                "is sold as, at least what it delivers)"));
  EXPECT_THAT(refusal(R"({"node": "dgx_h100", "node_count": 3})"), HasSubstr("unknown key"));
  EXPECT_THAT(refusal(R"({"file": "nowhere.json"})"), HasSubstr("/cluster/file"));
}

// Is an inline node read strictly?
TEST(ReadCluster, InlineNodeIsReadStrictly) {
  Json node = to_json(load_node("dgx_h100"));
  node["nic"]["count"] = 3;
  node["pcie"]["speed"] = "fast";
  node["gpu_memory"]["usable"] = 80;
  const std::string text = refusal(Json{{"node", node}}.dump());
  EXPECT_THAT(text, HasSubstr("/cluster/node/nic: 3 NICs do not divide 8 GPUs"));
  EXPECT_THAT(text, HasSubstr("/cluster/node/pcie/speed: unknown key"));
  EXPECT_THAT(text, HasSubstr("/cluster/node/gpu_memory/usable: must be a size with its unit"));
}

// Are zero and text without a quantity one problem each? Zero memory would be read as unknown
// memory, in which everything fits.
TEST(ReadCluster, NothingAndNoQuantityAreOneProblemEach) {
  const auto problems = [](const char* part, const char* key, const char* value) {
    Json node = to_json(load_node("dgx_h100"));
    node[part][key] = value;
    return refusal(Json{{"node", node}}.dump());
  };
  EXPECT_EQ(problems("gpu_memory", "usable", "0 GiB"),
            "s.json: /cluster/node/gpu_memory/usable: must be more than zero (say what a job may "
            "have of it, such as \"80 GiB\")\n");
  EXPECT_EQ(problems("scale_up", "usable", "0 GB/s"),
            "s.json: /cluster/node/scale_up/usable: must be more than zero (leave out what the "
            "node does not have)\n");
  const std::string comma = problems("scale_up", "usable", "1,5 GB/s");
  EXPECT_THAT(comma,
              HasSubstr("must be a rate with its unit such as \"450 GB/s\", not \"1,5 GB/s\""));
  EXPECT_EQ(std::count(comma.begin(), comma.end(), '\n'), 1) << comma;
}

// Are other GPUs of a node read?
TEST(ReadCluster, OtherGpusOfANode) {
  Json node = to_json(load_node("dgx_a100_80gb"));
  node["other_gpus"] = parse_unchecked_json(
      R"([{"gpus": [6, 7], "gpu": "l40s", "gpu_memory": {"usable": "46068 MiB"},
           "pcie": {"usable": "12 GB/s"}}])");
  const ClusterSpec spec = read(Json{{"node", node}}.dump());
  const Cluster cluster = build_cluster(spec);
  EXPECT_EQ(cluster.gpu_kind(5).profile, "a100_80gb");
  EXPECT_EQ(cluster.gpu_kind(7).profile, "l40s");
  EXPECT_EQ(to_json(spec)["node"]["other_gpus"][0]["pcie"]["usable"], "12 GB/s");
  // Its own slot is slower; the switch above is the node's.
  const auto slowest = [&](std::uint32_t gpu) {
    double rate = 1e300;
    for (const RouteHop& hop : cluster.router().route_to_host(gpu))
      rate = std::min(rate, cluster.link(hop.link).capacity.value());
    return rate;
  };
  EXPECT_DOUBLE_EQ(slowest(5), 24e9);
  EXPECT_DOUBLE_EQ(slowest(6), 12e9);
}

// Are other GPUs read strictly?
TEST(ReadCluster, OtherGpusAreReadStrictly) {
  Json node = to_json(load_node("dgx_h100"));
  node["other_gpus"] = parse_unchecked_json(
      R"([{"gpus": [8], "gpu": "l40s", "gpu_memory": {"usable": "44 GiB"}},
          {"gpus": [1, 1], "gpu": "l40s"}, {"gpus": "all", "gpu": "l40s"}])");
  const std::string text = refusal(Json{{"node", node}}.dump());
  EXPECT_THAT(text, HasSubstr("/cluster/node/other_gpus/0/gpus: there is no GPU 8"));
  EXPECT_THAT(text, HasSubstr("/cluster/node/other_gpus/1/gpus: GPU 1 is named twice"));
  EXPECT_THAT(text, HasSubstr("/cluster/node/other_gpus/1/gpu_memory"));
  EXPECT_THAT(text, HasSubstr("/cluster/node/other_gpus/2/gpus: must be a list"));
}

}  // namespace
}  // namespace trainyard
