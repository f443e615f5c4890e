// An algorithm that its group cannot run is bad input, and the error names the field that chose it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runs.hpp"
#include "scenarios/reader/scenario.hpp"
#include "sim/base/error.hpp"

namespace trainyard {
namespace {

const std::string kOneNode =
    std::string(TRAINYARD_SOURCE_DIRECTORY) + "/scenarios/llama3/llama3_8b_8xh100.json";

// The problems of a scenario on two nodes with this choice of algorithms. Empty: it runs.
std::vector<Problem> said_of_choice(const Override& choice, const std::string& model) {
  const Scenario scenario = load_scenario(kOneNode, {{"cluster.nodes", "2"},
                                                     {"parallelism.data", "8"},
                                                     {"parallelism.zero_stage", "0"},
                                                     {"training.global_batch_size", "8"},
                                                     {"collective_model", model},
                                                     choice});
  try {
    (void)simulate(scenario, {});
  } catch (const InputError& refusal) {
    return refusal.problems();
  }
  return {};
}

std::vector<Problem> said_of(const std::string& algorithm, const std::string& model) {
  return said_of_choice({"collectives.data.all_reduce", algorithm}, model);
}

// Is the field named if NCCL has no algorithm left? A tree can only reduce: the reductions of
// replicas run, the gathers of the tensor ranks do not.
TEST(RefusedAlgorithms, AreNamedWhereNcclIsLeftNone) {
  for (const std::string model : {"fluid", "stepwise"}) {
    const std::vector<Problem> problems = said_of_choice({"collectives.nccl.algo", "Tree"}, model);
    ASSERT_EQ(problems.size(), 1U) << model;
    EXPECT_EQ(problems[0].file, kOneNode);
    EXPECT_EQ(problems[0].pointer, "/collectives/nccl");
    EXPECT_NE(problems[0].problem.find("has no algorithm left for "), std::string::npos);
  }
  EXPECT_TRUE(said_of_choice({"collectives.nccl.algo", "Ring"}, "fluid").empty());
}

// Is the field named that chose the algorithm?
TEST(RefusedAlgorithms, AreNamedWhereTheyWereChosen) {
  for (const std::string model : {"fluid", "stepwise"}) {
    const std::vector<Problem> problems = said_of("nvls", model);
    ASSERT_EQ(problems.size(), 1U) << model;
    EXPECT_EQ(problems[0].file, kOneNode);
    EXPECT_EQ(problems[0].pointer, "/collectives/data/all_reduce");
    EXPECT_NE(problems[0].problem.find("all_reduce of 8 ranks on GPUs 0, 2, "), std::string::npos)
        << problems[0].problem;
    EXPECT_NE(problems[0].problem.find("cannot use \"nvls\": nvls runs within one node"),
              std::string::npos);
    EXPECT_NE(problems[0].problem.find("choose one of: ring, "), std::string::npos);
  }
}

// Is nothing refused if the group can run the algorithm?
TEST(RefusedAlgorithms, AreNoneWhereTheGroupCanRunThem) {
  EXPECT_TRUE(said_of("nvls_tree", "fluid").empty());
  EXPECT_TRUE(said_of("ring", "stepwise").empty());
}

}  // namespace
}  // namespace trainyard
