// A fold with other rates must be the same with and without a memo that knows the previous fold.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <vector>

#include "sim/fold/fold.hpp"
#include "sim/workload/program_analysis.hpp"
#include "tests/sim/cluster/hand_cluster.hpp"
#include "tests/sim/workload/hand_workload.hpp"

namespace trainyard {
namespace {

using namespace test;

void expect_equal_flows(const FlowClass& a, const FlowClass& b) {
  EXPECT_EQ(a.group_class, b.group_class);
  EXPECT_EQ(a.call, b.call);
  EXPECT_EQ(a.phase, b.phase);
  EXPECT_EQ(a.members, b.members);
  EXPECT_EQ(a.payload_bytes, b.payload_bytes);
  EXPECT_EQ(a.rate_cap_bytes_per_s, b.rate_cap_bytes_per_s);
  EXPECT_EQ(a.rate_alone, b.rate_alone);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    EXPECT_EQ(a.weights[i].link_class, b.weights[i].link_class);
    EXPECT_EQ(a.weights[i].weight, b.weights[i].weight);
    EXPECT_EQ(a.weights[i].bytes, b.weights[i].bytes);
    EXPECT_EQ(a.weights[i].contended, b.weights[i].contended);
  }
}

void expect_equal(const Partition& a, const Partition& b) {
  EXPECT_EQ(a.class_of_rank, b.class_of_rank);
  EXPECT_EQ(a.class_of_group, b.class_of_group);
  EXPECT_EQ(a.class_of_link, b.class_of_link);
  ASSERT_EQ(a.flows.size(), b.flows.size());
  for (std::size_t i = 0; i < a.flows.size(); ++i) expect_equal_flows(a.flows[i], b.flows[i]);
  ASSERT_EQ(a.phases.size(), b.phases.size());
  for (std::size_t group = 0; group < a.phases.size(); ++group) {
    ASSERT_EQ(a.phases[group].size(), b.phases[group].size());
    for (std::size_t call = 0; call < a.phases[group].size(); ++call) {
      ASSERT_EQ(a.phases[group][call].size(), b.phases[group][call].size());
      for (std::size_t i = 0; i < a.phases[group][call].size(); ++i) {
        EXPECT_EQ(a.phases[group][call][i].latency_s, b.phases[group][call][i].latency_s);
        EXPECT_EQ(a.phases[group][call][i].flows, b.phases[group][call][i].flows);
      }
    }
  }
}

// Two workloads with other microbatches or other calls, and clusters whose kinds of links are
// slower or faster by factors that change which link is the narrowest and which links can never
// fill.
class FoldMemo : public testing::Test {
 protected:
  struct Step {
    std::shared_ptr<const Workload> workload;
    std::shared_ptr<ProgramAnalysis> analysis;
    explicit Step(StepShape shape)
        : workload(std::make_shared<const Workload>(training_step(std::move(shape)))),
          analysis(std::make_shared<ProgramAnalysis>(*workload)) {}
  };

  Partition expect_as_without_memo(const Step& step, const Cluster& cluster) {
    const RingModel communication(cluster);
    const FoldOptions fresh{.drop_uncontended = true};
    const FoldOptions known{.drop_uncontended = true,
                            .known = {.calls = {step.workload, step.analysis}, .memo = &memo_}};
    Partition found = fold(cluster, *step.workload, communication, known);
    expect_equal(found, fold(cluster, *step.workload, communication, fresh));
    return found;
  }

  Memo memo_;
};

constexpr std::array kKinds{LinkKind::NvLink, LinkKind::Pcie, LinkKind::NicPort,
                            LinkKind::LeafSpine};
constexpr std::array kFactors{0.25, 0.5, 0.77, 1.0, 1.3, 4.0};

// Do other rates fold as without a memo?
TEST_F(FoldMemo, OtherRatesFoldAsIfNothingWereKnown) {
  const std::vector<Step> steps{
      Step({.tensor = 4, .data = 6, .stages = 2, .buckets = 3, .algorithm = "two_rings"}),
      Step({.tensor = 4, .data = 12}), Step({.tensor = 2, .data = 6, .stages = 4})};
  std::mt19937 draw(7);
  std::size_t folds = 0;
  for (const HandCluster& shape :
       {HandCluster{.nodes = 12}, HandCluster{.nodes = 12, .speed = {{{"leaf 1", "spine 1"}, 0.5}}},
        HandCluster{.nodes = 12, .speed = {{{"node 4 nic 1", "leaf 1"}, 0.5}}}}) {
    const Cluster base = hand_cluster(shape);
    for (int i = 0; i < 20; ++i) {
      std::array<double, kKinds.size()> factors{};
      for (double& factor : factors) factor = kFactors.at(draw() % kFactors.size());
      const Cluster cluster = base.with_rates([&](LinkKind kind) {
        for (std::size_t k = 0; k < kKinds.size(); ++k)
          if (kKinds[k] == kind) return factors[k];
        return 1.0;
      });
      for (const Step& step : steps) {
        const Partition found = expect_as_without_memo(step, cluster);
        EXPECT_FALSE(found.flows.empty());
        ++folds;
      }
    }
  }
  EXPECT_EQ(folds, 180U);
}

// Do uniformly faster links add nothing to the memo? Results that do not depend on rates are
// computed once.
TEST_F(FoldMemo, LinksThatAreAllFasterAddNothingToTheMemo) {
  const Step step({.tensor = 4, .data = 6, .stages = 2, .buckets = 3});
  const Cluster base = hand_cluster({.nodes = 12});
  (void)expect_as_without_memo(step, base);
  const std::size_t bytes = memo_.bytes();
  EXPECT_GT(bytes, 0U);
  (void)expect_as_without_memo(step, base.with_rates([](LinkKind) { return 2.0; }));
  EXPECT_EQ(memo_.bytes(), bytes);
}

// Is another order of calls another workload? A workload with concurrent calls does not fold like
// the previous one without.
TEST_F(FoldMemo, AnotherOrderOfCallsIsAnotherWorkload) {
  const Cluster cluster = hand_cluster({.nodes = 12});
  const auto step = [](bool in_order) {
    Workload workload = training_step({.tensor = 4, .data = 12});
    Program& program = workload.programs[0];
    if (in_order)
      for (Operation& op : program.operations.edit()) op.stream = 0;
    return workload;
  };
  for (const bool in_order : {false, true, false}) {
    const auto workload = std::make_shared<const Workload>(step(in_order));
    const auto analysis = std::make_shared<ProgramAnalysis>(*workload);
    const RingModel communication(cluster);
    const FoldOptions known{.drop_uncontended = true,
                            .known = {.calls = {workload, analysis}, .memo = &memo_}};
    const Partition found = fold(cluster, *workload, communication, known);
    expect_equal(found, fold(cluster, *workload, communication, {.drop_uncontended = true}));
  }
}

}  // namespace
}  // namespace trainyard
