// The placement of ranks: relabellings that map the machine onto itself change nothing, others do,
// and the report shows which groups cross which links.
#include <gtest/gtest.h>

#include <numeric>

#include "models/rank_groups.hpp"
#include "runs.hpp"
#include "sim/report/communication.hpp"

namespace trainyard {
namespace {

// Rank = tp + 2*(dp + 4*pp): stage 0 on the first node, stage 1 on the second.
constexpr SmallShape kShape = {.tensor = 2, .pipeline = 2, .data = 4, .zero_stage = 1};

using GpuOf = std::function<std::int64_t(RankId)>;

ScenarioRun placed(const GpuOf& gpu_of, const std::string& fabric = "rail_optimized") {
  auto document = small_document(kShape);
  document["cluster"]["fabric"]["kind"] = fabric;
  auto& placement = document["parallelism"]["placement"] = nlohmann::ordered_json::array();
  for (RankId rank = 0; rank < 16; ++rank) placement.push_back(gpu_of(rank));
  return simulate(load(document), {});
}

std::int64_t itself(RankId rank) { return rank; }

// Does a permutation of replicas or nodes change nothing (oracle 79)?
TEST(Placement, PermutingReplicasOrNodesChangesNothing) {
  const RankGrid grid(Parallelism{.tensor = 2, .pipeline = 2, .data = 4});
  const double plain = placed(itself).timeline.makespan_s;
  EXPECT_NEAR(simulate(small_scenario(kShape), {}).timeline.makespan_s, plain, kAgreement * plain)
      << "rank r on GPU r is what happens without a placement";
  for (const std::vector<std::int64_t>& order :
       {std::vector<std::int64_t>{3, 2, 1, 0}, {1, 0, 2, 3}, {2, 3, 0, 1}}) {
    const auto permuted = [&](RankId rank) {
      GridPosition at = grid.position(rank);
      at.data = order[static_cast<std::size_t>(at.data)];
      return static_cast<std::int64_t>(grid.rank(at));
    };
    EXPECT_NEAR(placed(permuted).timeline.makespan_s, plain, kAgreement * plain);
  }
  const auto nodes_reversed = [](RankId rank) {
    return static_cast<std::int64_t>((rank + 8) % 16);
  };
  EXPECT_NEAR(placed(nodes_reversed).timeline.makespan_s, plain, kAgreement * plain);
}

const GroupSpan& row_of(const std::vector<GroupSpan>& rows, GroupKind kind) {
  return *std::find_if(rows.begin(), rows.end(),
                       [kind](const GroupSpan& row) { return row.kind == kind; });
}

// Are tensor groups across nodes slower, and is it reported?
TEST(Placement, TensorGroupsAcrossNodesAreSlowerAndTheReportSaysSo) {
  const ScenarioRun good = placed(itself);
  const auto apart = [](RankId rank) {
    return static_cast<std::int64_t>(rank % 2 == 0 ? rank / 2 : 8 + rank / 2);
  };
  const ScenarioRun bad = placed(apart);
  EXPECT_GT(bad.timeline.makespan_s, 1.05 * good.timeline.makespan_s);

  const std::vector<GroupSpan> rows = placement_summary(good.view());
  const GroupSpan& tensor = row_of(rows, GroupKind::Tensor);
  EXPECT_EQ(tensor.groups, 8U);
  EXPECT_EQ(tensor.nodes_most, 1U);
  EXPECT_EQ(tensor.per_node_most, 2U);
  EXPECT_EQ(tensor.switches_most, 0U);
  const GroupSpan& pipeline = row_of(rows, GroupKind::Pipeline);
  EXPECT_EQ(pipeline.nodes_least, 2U);
  EXPECT_EQ(pipeline.crossings, pipeline.neighbours);
  EXPECT_EQ(pipeline.switches_most, 1U) << "a rail is one switch";

  const std::vector<GroupSpan> worse = placement_summary(bad.view());
  EXPECT_EQ(row_of(worse, GroupKind::Tensor).nodes_least, 2U);
  EXPECT_EQ(row_of(worse, GroupKind::Tensor).crossings, 8U);
  EXPECT_EQ(row_of(worse, GroupKind::Tensor).per_node_most, 1U);
}

// Can the placement be in a file next to the scenario?
TEST(Placement, MayStandInAFileBesideTheScenario) {
  const TemporaryFolder folder;
  auto document = small_document(kShape);
  document["parallelism"]["placement"] = "order.json";
  std::vector<std::int64_t> order(16);
  std::iota(order.rbegin(), order.rend(), 0);
  (void)folder.write("order.json", nlohmann::ordered_json(order).dump());
  const Scenario scenario = load_scenario(folder.write("scenario.json", document.dump()), {});
  EXPECT_EQ(scenario.plan.parallelism.placement, order);
}

}  // namespace
}  // namespace trainyard
