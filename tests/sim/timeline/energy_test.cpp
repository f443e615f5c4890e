// Do spans, energy and traces of a run written by hand have the values of a calculation on paper,
// and does every integral equal the same energy?
#include "sim/timeline/energy.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "sim/cluster/blueprint.hpp"
#include "tests/sim/timeline/hand_run.hpp"

namespace trainyard {
namespace {

Wire wire(LinkKind kind) {
  return {.kind = kind,
          .capacity = BytesPerSecond{1e9},
          .nominal = BytesPerSecond{1e9},
          .latency = Seconds{1e-6}};
}

// GPUs with a NIC each, whose NICs share a switch.
Cluster gpus(std::uint32_t nodes, std::uint32_t per_node) {
  Blueprint blueprint;
  const DeviceId leaf = blueprint.add({.kind = DeviceKind::LeafSwitch, .index = 0});
  std::vector<DeviceId> all, nics;
  for (std::uint32_t gpu = 0; gpu < nodes * per_node; ++gpu) {
    const auto node = static_cast<std::int32_t>(gpu / per_node);
    const auto index = static_cast<std::int32_t>(gpu % per_node);
    all.push_back(blueprint.add({.kind = DeviceKind::Gpu, .node = node, .index = index}));
    nics.push_back(blueprint.add({.kind = DeviceKind::Nic, .node = node, .index = index}));
    blueprint.cable(all.back(), nics.back(), wire(LinkKind::Pcie));
    blueprint.cable(nics.back(), leaf, wire(LinkKind::NicPort));
  }
  ClusterFacts facts;
  facts.nodes = nodes;
  facts.gpus_per_node = per_node;
  return Cluster(facts, std::move(blueprint).wiring(), all, nics);
}

PowerRates rates_for(std::size_t programs) {
  PowerRates rates;
  rates.gpus.assign(
      programs,
      {.idle_w = 100, .waiting_w = 250, .limit_w = 700, .traffic_j_per_byte = 100.0 / (1 << 20)});
  rates.kernel_w = {600, 500};
  rates.compute_bound = {true, false};
  rates.host_w = 1000;
  rates.nic_w = 50;
  rates.switch_w = 70;
  rates.fan_share = 0.1;
  rates.supply_loss = 0.02;
  rates.pue = 1.2;
  rates.nodes_per_rack = 2;
  rates.idle_gpu_w = 100;
  return rates;
}

// Rank 0: a GEMM for 2 s, waits 1 s, an all_reduce of 2 s, a memory-bound kernel of 1 s, idle 1 s.
// Rank 1: idle for 3 s, the same all_reduce, and a GEMM during its last second; then 1 s of GEMM.
HandRun two_ranks() {
  HandRun run(2);
  const auto first = run.compute({.end_s = 2});
  const auto sum =
      run.collective({.ready_s = 2, .start_s = 3, .end_s = 5, .stream = 1, .after = {first}});
  run.compute({.ready_s = 5, .end_s = 6, .after = {sum}, .payload = 1});
  run.collective({.ready_s = 3, .end_s = 5, .stream = 1}, 1);
  run.compute({.ready_s = 4, .end_s = 6}, 1);
  run.timeline.makespan_s = 7;
  return run;
}

// The all_reduce of 1 MiB over two ranks sends 1 MiB: 100 J in 2 s.
TEST(PowerSpans, HaveTheWattsAndKindOfEachState) {
  const HandRun run = two_ranks();
  const auto spans = power_spans(run.workload, run.partition, run.timeline, rates_for(2), 0);
  ASSERT_EQ(spans.size(), 5U);
  const double watts[] = {600, 250, 300, 500, 100};
  const PowerKind kinds[] = {PowerKind::Compute, PowerKind::Idle, PowerKind::Communication,
                             PowerKind::MemoryBound, PowerKind::Idle};
  const double ends[] = {2, 3, 5, 6, 7};
  for (std::size_t i = 0; i < spans.size(); ++i) {
    EXPECT_DOUBLE_EQ(spans[i].watts, watts[i]) << i;
    EXPECT_EQ(spans[i].kind, kinds[i]) << i;
    EXPECT_DOUBLE_EQ(spans[i].end_s, ends[i]) << i;
  }
}

TEST(PowerSpans, AKernelDuringACommunicationAddsItsTrafficUpToTheLimit) {
  const HandRun run = two_ranks();
  PowerRates rates = rates_for(2);
  const auto spans = power_spans(run.workload, run.partition, run.timeline, rates, 1);
  ASSERT_EQ(spans.size(), 5U);
  EXPECT_DOUBLE_EQ(spans[0].watts, 100);  // until its collective
  EXPECT_DOUBLE_EQ(spans[1].watts, 300);
  EXPECT_DOUBLE_EQ(spans[2].watts, 650);
  EXPECT_EQ(spans[2].kind, PowerKind::Compute);
  rates.gpus[1].limit_w = 620;
  EXPECT_DOUBLE_EQ(power_spans(run.workload, run.partition, run.timeline, rates, 1)[2].watts, 620);
}

TEST(Energy, OfAHandRunEqualsTheSumOnPaper) {
  const HandRun run = two_ranks();
  const PowerRates rates = rates_for(2);
  const Cluster cluster = gpus(2, 1);
  const Energy energy = run_energy(cluster, run.workload, run.partition, run.timeline, rates);
  EXPECT_NEAR(energy.of(PowerKind::Compute), 1200 + 650 + 600, 1e-9);
  EXPECT_NEAR(energy.of(PowerKind::MemoryBound), 500, 1e-9);
  EXPECT_NEAR(energy.of(PowerKind::Communication), 600 + 300, 1e-9);
  EXPECT_NEAR(energy.of(PowerKind::Idle), 250 + 100 + 300 + 100, 1e-9);
  const double gpus_j = 2450 + 500 + 900 + 750;
  const double fans_j = 0.1 * (gpus_j - 2 * 700);
  const double inside_j = gpus_j + 2 * 7 * 1050 + fans_j;
  EXPECT_NEAR(energy.of(PowerKind::Nic), 2 * 7 * 50, 1e-9);
  EXPECT_NEAR(energy.of(PowerKind::Host), 2 * 7 * 1000 + fans_j + 0.02 * inside_j, 1e-9);
  EXPECT_NEAR(energy.of(PowerKind::Switch), 490, 1e-9);
  EXPECT_NEAR(energy.of(PowerKind::Cooling), 0.2 * (1.02 * inside_j + 490), 1e-9);
  EXPECT_NEAR(energy.total(), 1.2 * (1.02 * inside_j + 490), 1e-9);
}

TEST(PowerTraces, IntegrateToTheEnergy) {
  const HandRun run = two_ranks();
  const PowerRates rates = rates_for(2);
  const Cluster cluster = gpus(4, 1);  // two nodes have no rank
  const Energy energy = run_energy(cluster, run.workload, run.partition, run.timeline, rates);
  const PowerTraces traces =
      power_traces(cluster, run.workload, run.partition, run.timeline, rates);
  EXPECT_NEAR(traces.cluster.joules() / energy.total(), 1.0, 1e-12);
  const auto sum = [](const std::vector<PowerSeries>& series,
                      const std::vector<PowerGroup>& groups) {
    double joules = 0.0;
    for (std::size_t i = 0; i < series.size(); ++i) joules += groups[i].count * series[i].joules();
    return joules;
  };
  EXPECT_EQ(traces.nodes.size(), 3U);  // the two without a rank are equal
  EXPECT_EQ(traces.racks.size(), 2U);
  const double computers_j = energy.total() / 1.2 - 490;
  EXPECT_NEAR(sum(traces.nodes, traces.node_groups) / computers_j, 1.0, 1e-12);
  EXPECT_NEAR(sum(traces.racks, traces.rack_groups) / computers_j, 1.0, 1e-12);
}

TEST(PowerTraces, AClassOfManyRanksEqualsTheRanksOneByOne) {
  HandRun one(1);
  one.compute({.end_s = 2});
  one.collective({.ready_s = 2, .start_s = 2.5, .end_s = 3, .stream = 1});
  HandRun four(4);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    four.compute({.end_s = 2}, rank);
    four.collective({.ready_s = 2, .start_s = 2.5, .end_s = 3, .stream = 1}, rank);
  }
  // The folded run has the groups of four, one class of four ranks and the program of the first.
  Workload folded = four.workload;
  Partition partition = four.partition;
  partition.ranks = {{.representative = 0, .members = 4, .program = 0}};
  partition.class_of_rank.assign(4, 0);
  Timeline timeline = four.timeline;
  timeline.classes.resize(1);
  const PowerRates rates = rates_for(4);
  const Cluster cluster = gpus(2, 2);
  const Energy all = run_energy(cluster, four.workload, four.partition, four.timeline, rates);
  const Energy few = run_energy(cluster, folded, partition, timeline, rates);
  for (std::size_t kind = 0; kind < kPowerKinds; ++kind)
    EXPECT_NEAR(few.joules[kind], all.joules[kind], 1e-9 * all.total()) << kind;
  EXPECT_NEAR(
      power_traces(cluster, folded, partition, timeline, rates).cluster.peak_w(),
      power_traces(cluster, four.workload, four.partition, four.timeline, rates).cluster.peak_w(),
      1e-9);
}

TEST(LargestChange, IsThatOfTwoInstantsWithinTheWindow) {
  const PowerSeries series{
      .at_s = {0, 1, 1.05, 3, 3.2}, .watts = {100, 400, 50, 200, 900}, .end_s = 4};
  EXPECT_DOUBLE_EQ(series.largest_change_w(0.01), 700);  // 200 to 900 at 3.2 s
  EXPECT_DOUBLE_EQ(series.largest_change_w(0.3), 850);   // 50 just before 3 s, 900 at 3.2 s
  EXPECT_DOUBLE_EQ(series.largest_change_w(10), 850);
  const PowerSeries falling{.at_s = {0, 1}, .watts = {500, 100}, .end_s = 2};
  EXPECT_DOUBLE_EQ(falling.largest_change_w(0.0), 400);
  const PowerSeries constant{.at_s = {0}, .watts = {500}, .end_s = 2};
  EXPECT_DOUBLE_EQ(constant.largest_change_w(1), 0.0);
}

// Does a part of a series begin and end at its dates, with the power between them?
TEST(Energy, APartOfASeriesHasItsPowerBetweenTwoDates) {
  const PowerSeries series{.at_s = {0, 1, 3}, .watts = {100, 400, 200}, .end_s = 4};
  const PowerSeries part = series.between(0.5, 3.5);
  EXPECT_EQ(part.at_s, (std::vector<double>{0.5, 1, 3}));
  EXPECT_EQ(part.watts, series.watts);
  EXPECT_DOUBLE_EQ(part.joules(), 0.5 * 100 + 2 * 400 + 0.5 * 200);
  EXPECT_EQ(series.between(1, 3).watts, (std::vector<double>{400}));
  EXPECT_DOUBLE_EQ(series.between(1.5, 2).joules(), 0.5 * 400);
  EXPECT_DOUBLE_EQ(series.between(0, 4).joules(), series.joules());
  EXPECT_DOUBLE_EQ(series.between(2, 2).peak_w(), 400);
}

}  // namespace
}  // namespace trainyard
