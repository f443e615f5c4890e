// Does a first scenario run on the GPUs that were asked for?
#include "tools/studies/start/first_scenario.hpp"

#include <gtest/gtest.h>

#include "scenarios/import/imported_node.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"
#include "topologies/cluster_reader.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

// The GPUs of the cluster that a scenario with these nodes has.
std::size_t gpus_of(const NodesOfGpus& nodes) {
  const Json document{{"cluster", {{"node", nodes.node}, {"nodes", nodes.nodes}}}};
  JsonFile file = JsonFile::parse("part.json", document.dump());
  const ClusterFacts facts = build_cluster(read_cluster(file.root().object("cluster"))).facts();
  return std::size_t{facts.nodes} * facts.gpus_per_node;
}

// Is every part of a node a cluster, also one whose GPUs do not fill its CPUs, switches and NICs?
TEST(NodesOfGpus, AnyPartOfANodeIsACluster) {
  for (const std::string& name : node_names()) {
    const std::string gpu = load_node(name).gpu;
    const std::int64_t whole = node_with_gpu(gpu, name).gpus;
    for (std::int64_t gpus = 1; gpus < whole; ++gpus)
      EXPECT_EQ(gpus_of(nodes_of_gpus(gpu, gpus)), static_cast<std::size_t>(gpus)) << gpu;
  }
}

// Does a model fit that needs its weights sharded? Llama 3 8B takes 18 bytes a parameter, 135 GiB,
// and three is no number of stages or tensor ranks that divides it.
TEST(FirstScenario, ShardsTheWeightsWhereNothingElseFits) {
  const NodesOfGpus nodes = nodes_of_gpus("h100", 3);
  const FirstScenario first = first_scenario({.node = nodes.node, .nodes = nodes.nodes});
  EXPECT_TRUE(first.fits);
  EXPECT_EQ(first.gpus, 3);
  EXPECT_EQ(first.document["parallelism"]["zero_stage"], first.layout.zero_stage);
  EXPECT_GT(first.layout.zero_stage, 1);
}

// Are sizes tried that are no powers of two? Llama 3 70B needs more than two stages on ten nodes of
// five GPUs, where only multiples of five divide both its 80 layers and the GPUs.
TEST(FirstScenario, TriesEveryDivisorOfTheGpus) {
  const FirstScenario first = first_scenario(
      {.model = "llama3-70b", .node = nodes_of_gpus("h100", 5).node, .nodes = 10, .batch = 50});
  EXPECT_EQ(first.layout.pipeline % 5, 0) << first.document.dump();
}

// Where nothing fits, is the guess one that runs, and does it say so?
TEST(FirstScenario, AGuessMayBeTooLarge) {
  const FirstQuestion question{.model = "gpt3-175b", .sequence = 2048, .batch = 8};
  const FirstScenario guess = first_guess(question);
  EXPECT_FALSE(guess.fits);
  EXPECT_GT(guess.step_time_s, 0.0);
  EXPECT_THROW((void)first_scenario(question), RunError);
}

}  // namespace
}  // namespace trainyard
