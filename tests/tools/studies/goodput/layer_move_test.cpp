// How long layers take to move between stages: by hand, on two and four nodes of eight H100.
#include "tools/studies/goodput/layer_move.hpp"

#include <gtest/gtest.h>

#include "sim/base/json_parse.hpp"
#include "tests/scenarios/sample.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
using Layers = std::vector<std::int64_t>;

// A stage on each node, and each tensor rank of a stage on a rail of its own: 48 GB/s of the 50 of
// a NIC of 400 Gb/s are data.
Json document_of_stages(std::int64_t pipeline, std::int64_t nodes) {
  Json document = parse_unchecked_json(R"({
    "model": { "name": "small", "layers": 8, "hidden": 1024, "heads": 8, "ffn": 4096, "vocab": 8192,
               "max_positions": 512 },
    "cluster": { "node": "dgx_h100", "fabric": { "kind": "rail_optimized" } },
    "parallelism": { "tensor": 8 },
    "training": { "sequence_length": 512, "global_batch_size": 32 } })");
  document["cluster"]["nodes"] = nodes;
  document["parallelism"]["pipeline"] = pipeline;
  document["parallelism"]["data"] = nodes / pipeline;
  return document;
}
Scenario stages(std::int64_t pipeline, std::int64_t nodes) {
  return load(document_of_stages(pipeline, nodes));
}

double move_s(const Scenario& scenario, const Layers& before, const Layers& after) {
  return layer_move_s(scenario.plan, *shared_cluster(scenario.cluster), before, after);
}

// On one of eight tensor ranks a layer has 16 h^2 / 8 parameters of matrices (four of h x h in
// attention, three of h x 4h in a gated feed-forward) and 2 h of norms, of 14 bytes each: bf16
// weights, fp32 weights, two moments.
constexpr double kParameters = 16.0 * 1024 * 1024 / 8 + 2.0 * 1024;
constexpr double kRail = 48e9;
constexpr double kLayerMove = 14.0 * kParameters / kRail;

TEST(LayerMove, TakesTheStateOfALayerOverTheRail) {
  const Scenario scenario = stages(2, 2);
  EXPECT_EQ(move_s(scenario, {4, 4}, {4, 4}), 0.0);
  EXPECT_NEAR(move_s(scenario, {4, 4}, {5, 3}), kLayerMove, 1e-12);
  EXPECT_NEAR(move_s(scenario, {4, 4}, {1, 7}), 3.0 * kLayerMove, 1e-12);
}

// Stages that pass a layer along send and receive at the same time.
TEST(LayerMove, OfNeighboursRunsAtTheSameTime) {
  const Scenario scenario = stages(4, 4);
  EXPECT_NEAR(move_s(scenario, {2, 2, 2, 2}, {3, 2, 2, 1}), kLayerMove, 1e-12);
  // The second stage sends its first layer to the first, and its second layer to the third.
  EXPECT_NEAR(move_s(scenario, {2, 2, 2, 2}, {3, 1, 2, 2}), kLayerMove, 1e-12);
  EXPECT_NEAR(move_s(scenario, {2, 3, 1, 2}, {3, 1, 2, 2}), 2.0 * kLayerMove, 1e-12);
}

// With ZeRO 1 two replicas share 12 of the 14 bytes, and each moves its half.
TEST(LayerMove, MovesTheShardsOfTheOptimizerOfEachReplica) {
  Scenario scenario = stages(2, 4);
  EXPECT_NEAR(move_s(scenario, {4, 4}, {5, 3}), kLayerMove, 1e-12);
  scenario.plan.parallelism.zero_stage = 1;
  EXPECT_NEAR(move_s(scenario, {4, 4}, {5, 3}), kLayerMove * 8.0 / 14.0, 1e-12);
}

// From eight tensor ranks to four, two ranks send over the rail of one; back, one rank sends twice
// as much in two halves. Either way the rank of the four has the state of two of the eight: its
// norms once from each sender, or its own in two halves.
TEST(LayerMove, BetweenStagesOfUnequalSizeLoadsTheRailsOfTheSmallerOne) {
  Json document = document_of_stages(2, 3);
  document["parallelism"] = {{"tensor_per_stage", {8, 4}}, {"pipeline", 2}, {"data", 2}};
  const Scenario scenario = load(document);
  const double matrices = 14.0 * 16.0 * 1024 * 1024 / 4;
  const double norms = 14.0 * 2.0 * 1024;
  EXPECT_NEAR(move_s(scenario, {4, 4}, {5, 3}), (matrices + norms) / kRail, 1e-12);
  EXPECT_NEAR(move_s(scenario, {4, 4}, {3, 5}), (matrices + 2.0 * norms) / kRail, 1e-12);
}

}  // namespace
}  // namespace trainyard
