#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_run.hpp"
#include "sim/base/error.hpp"
#include "sim/collectives/parameter_server_traffic.hpp"
#include "sim/collectives/symbolic_check.hpp"
#include "sim/workload/workload.hpp"
#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;
using ::testing::HasSubstr;

// One GPU per node, 25 GB/s, no latency.
Cluster machines(std::uint32_t count) {
  return make_cluster({.nodes = count, .gpus = 1, .nic = 25e9, .intra_us = 0.0, .inter_us = 0.0});
}

std::vector<std::uint32_t> range(std::uint32_t begin, std::uint32_t end) {
  std::vector<std::uint32_t> gpus;
  for (std::uint32_t i = begin; i < end; ++i) gpus.push_back(i);
  return gpus;
}

// Does the parameter server take its closed form?
TEST(ParameterServer, TakesItsClosedForm) {
  for (const std::uint32_t servers : {1U, 2U, 4U, 8U}) {
    const std::string name = "parameter_server:" + std::to_string(servers);
    const double closed = 1e6 * 2 * (5e-6 + 7 * kGibibyte / (servers * 1e11));
    EXPECT_RELATIVE(microseconds(star(8), CollectiveOp::AllReduce, name, gpus_of(8), kGibibyte),
                    closed);
    const Workload workload =
        one_collective(gpus_of(8), CollectiveOp::AllReduce, std::int64_t{1} << 30, name.c_str());
    EXPECT_RELATIVE(engine_us(star(8), workload, {.fold = {.enabled = true}}), closed);
    EXPECT_RELATIVE(engine_us(star(8), expand_collectives(workload, star(8)), {}), closed);
  }
  EXPECT_RELATIVE(
      microseconds(star(8), CollectiveOp::AllReduce, "parameter_server:4", gpus_of(8), kGibibyte),
      37590.963840);
}

// Do dedicated servers take their closed form, 2(alpha + (n-k) S/(k B))? The last k members only
// serve.
TEST(ParameterServer, DedicatedServersTakeTheirClosedForm) {
  const double size = 0.75 * kGibibyte;  // divisible by six
  for (const std::uint32_t servers : {1U, 2U, 4U, 6U}) {
    const std::string name = "parameter_server:" + std::to_string(servers) + "-dedicated";
    const double busiest = std::max((8.0 - servers) / servers, 1.0);  // a server's or a worker's
    const double closed = 1e6 * 2 * (5e-6 + busiest * size / 1e11);
    EXPECT_RELATIVE(microseconds(star(8), CollectiveOp::AllReduce, name, gpus_of(8), size), closed);
    const Workload workload =
        one_collective(gpus_of(8), CollectiveOp::AllReduce, std::int64_t{3} << 28, name.c_str());
    EXPECT_RELATIVE(engine_us(star(8), workload, {.fold = {.enabled = true}}), closed);
    EXPECT_RELATIVE(engine_us(star(8), expand_collectives(workload, star(8)), {}), closed);
  }
  EXPECT_RELATIVE(microseconds(star(8), CollectiveOp::AllReduce, "parameter_server:4-dedicated",
                               gpus_of(8), kGibibyte),
                  21484.836480);
}

// Do sixteen workers and four dedicated servers take the time of oracle 10? They push 4 GB in 0.64
// s and pull as long.
TEST(ParameterServer, SixteenWorkersAndFourDedicatedServers) {
  EXPECT_RELATIVE(microseconds(machines(20), CollectiveOp::AllReduce,
                               "parameter_server:4-dedicated", gpus_of(20), 4e9),
                  2.0 * 0.640e6);
}

// Does every rank end with the sum?
TEST(ParameterServer, EveryRankEndsWithTheSum) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 3});
  const auto gpus = gpus_of(6);
  for (const char* name : {"parameter_server", "parameter_server:2", "parameter_server:6",
                           "parameter_server:1-dedicated", "parameter_server:2-dedicated",
                           "parameter_server:5-dedicated"})
    EXPECT_EQ(symbolic_fault(*find_algorithm(CollectiveOp::AllReduce, name),
                             {.cluster = cluster, .gpus = gpus}, Bytes{6e6})
                  .value_or(""),
              "");
}

// Are the arguments read?
TEST(ParameterServer, ArgumentsAreRead) {
  const CollectiveAlgorithm* four = find_algorithm(CollectiveOp::AllReduce, "parameter_server:4");
  ASSERT_NE(four, nullptr);
  EXPECT_EQ(four->name(), "parameter_server:4");
  EXPECT_EQ(four, find_algorithm(CollectiveOp::AllReduce, "parameter_server:4"));
  const Cluster cluster = star(3);
  const auto gpus = gpus_of(3);
  EXPECT_EQ(four->refusal({.cluster = cluster, .gpus = gpus}),
            "4 servers need 4 ranks, here are 3");
  EXPECT_EQ(find_algorithm(CollectiveOp::AllReduce, "parameter_server:3-dedicated")
                ->refusal({.cluster = cluster, .gpus = gpus}),
            "3 servers need 4 ranks, here are 3");
  for (const char* wrong :
       {"parameter_server:0", "parameter_server:", "parameter_server:4x", "parameter_server:-1",
        "parameter_server:-dedicated", "parameter_server:2dedicated"})
    EXPECT_THROW(static_cast<void>(find_algorithm(CollectiveOp::AllReduce, wrong)), InputError)
        << wrong;
  EXPECT_EQ(find_algorithm(CollectiveOp::AllReduce, "ring:2"), nullptr);
  EXPECT_EQ(find_algorithm(CollectiveOp::AllReduce, "no_such:2"), nullptr);
  EXPECT_EQ(find_algorithm(CollectiveOp::AllGather, "parameter_server:2"), nullptr);
}

// Are dedicated servers the bottleneck (oracle 10)? Each server receives 16 times 1 GB, then sends
// as much.
TEST(ParameterServerTraffic, DedicatedServersAreTheBottleneck) {
  const Cluster cluster = machines(20);
  const Workload workload = parameter_server_traffic(
      {.workers = range(0, 16), .servers = range(16, 20), .bytes = 4'000'000'000});
  ASSERT_NO_THROW(validate(workload, ""));
  ASSERT_NO_THROW(check_progress(workload, ""));
  for (const bool folded : {false, true}) {
    const EngineRun run = run_engine(cluster, workload, {.fold = {.enabled = folded}});
    const Program& worker = workload.programs[workload.ranks[0].program];
    ASSERT_EQ(worker.operations.size(), 9U);
    for (OpIndex pull = 0; pull < 4; ++pull) EXPECT_RELATIVE(end_us(run, 0, pull), 0.640e6);
    for (OpIndex push = 5; push < 9; ++push) EXPECT_RELATIVE(end_us(run, 0, push), 1.280e6);
  }
}

// Do shared servers keep their own part?
TEST(ParameterServerTraffic, SharedServersKeepTheirOwnPart) {
  const Cluster cluster = machines(4);
  const Workload workload = parameter_server_traffic(
      {.workers = range(0, 4), .servers = {0, 1}, .bytes = 1'000'000'000, .steps = 3});
  ASSERT_NO_THROW(validate(workload, ""));
  ASSERT_NO_THROW(check_progress(workload, ""));
  // Each server serves half of the bytes to three others: 1.5 GB in and 1.5 GB out per step.
  EXPECT_RELATIVE(engine_us(cluster, workload, {}), 3 * 2 * 1e6 * 1.5e9 / 25e9);
  EXPECT_RELATIVE(engine_us(cluster, workload, {.fold = {.enabled = true}}),
                  engine_us(cluster, workload, {}));
}

// Three workers with the same pace and a slow one.
ParameterServerTraffic straggler(std::optional<std::uint32_t> staleness) {
  return {.workers = range(0, 4),
          .servers = {4},
          .bytes = 250'000,  // 10 us for one worker alone
          .steps = 10,
          .compute = {Seconds{1e-3}, Seconds{1e-3}, Seconds{1e-3}, Seconds{3e-3}},
          .staleness = staleness};
}

// When the compute of a step begins and ends in every worker, in us.
struct Step {
  double start = 0.0;
  double end = 0.0;
};
std::vector<std::vector<Step>> compute_steps(const Workload& workload, const EngineRun& run,
                                             std::uint32_t workers) {
  std::vector<std::vector<Step>> steps(workers);
  for (RankId rank = 0; rank < workers; ++rank) {
    const Program& program = workload.programs[workload.ranks[rank].program];
    for (OpIndex op = 0; op < program.operations.size(); ++op) {
      if (workload.names[program.operations[op].name] != "compute") continue;
      const OpTimes& times = run.timeline.classes[run.partition.class_of_rank[rank]];
      steps[rank].push_back({.start = 1e6 * times.start_s[op], .end = 1e6 * times.end_s[op]});
    }
  }
  return steps;
}

// Is no worker further ahead than the bound?
TEST(ParameterServerTraffic, NoWorkerIsFurtherAheadThanTheBound) {
  const Cluster cluster = machines(5);
  for (const std::uint32_t staleness : {0U, 1U, 3U}) {
    const Workload workload = parameter_server_traffic(straggler(staleness));
    ASSERT_NO_THROW(check_progress(workload, ""));
    const auto steps = compute_steps(workload, run_engine(cluster, workload, {}), 4);
    std::uint32_t most_ahead = 0;
    for (std::uint32_t step = 0; step < 10; ++step) {
      std::uint32_t done_by_slowest = 0;
      for (const Step& slow : steps[3])
        if (slow.end <= steps[0][step].start) ++done_by_slowest;
      most_ahead = std::max(most_ahead, step - std::min(step, done_by_slowest));
      EXPECT_LE(step, done_by_slowest + staleness) << "step " << step;
    }
    EXPECT_EQ(most_ahead, staleness);  // the bound is reached, so it is active
  }
}

// Does each worker end at its own time? The slow worker sets the pace of all if no worker may run
// ahead, and only its own without a bound.
TEST(ParameterServerTraffic, EachWorkerEndsAtItsOwnTime) {
  const Cluster cluster = machines(5);
  const auto ends = [&](std::optional<std::uint32_t> staleness) {
    const Workload workload = parameter_server_traffic(straggler(staleness));
    const auto steps = compute_steps(workload, run_engine(cluster, workload, {}), 4);
    return std::pair{steps[0].back().end, steps[3].back().end};
  };
  const auto [fast_together, slow_together] = ends(0);
  const auto [fast_bounded, slow_bounded] = ends(2);
  const auto [fast_alone, slow_alone] = ends({});
  EXPECT_GT(fast_together, 27e3 + 1e3);  // nine steps of the slow one, then its own
  EXPECT_LT(fast_bounded, fast_together - 3e3);
  EXPECT_LT(fast_alone, 12e3);
  EXPECT_GE(slow_alone, 30e3);
  EXPECT_LE(slow_alone, slow_together);
  EXPECT_NEAR(slow_bounded, slow_together, 1e3);
}

// Is folding exact?
TEST(ParameterServerTraffic, FoldingIsExact) {
  const Cluster cluster = machines(5);
  for (const std::optional<std::uint32_t> staleness :
       {std::optional(0U), std::optional(1U), std::optional<std::uint32_t>()}) {
    const Workload workload = parameter_server_traffic(straggler(staleness));
    const EngineRun folded = run_engine(cluster, workload, {.fold = {.enabled = true}});
    EXPECT_RELATIVE(1e6 * folded.timeline.makespan_s, engine_us(cluster, workload, {}));
  }
}

// Is the asynchronous throughput the sum of the rates? Three workers of 1000 steps per second and
// one of 333 take 100 / 3333 s for 100 steps.
TEST(ParameterServerTraffic, AsynchronousThroughputIsTheSumOfTheRates) {
  const Cluster cluster = machines(5);
  ParameterServerTraffic traffic = straggler({});
  traffic.bytes = 0;
  traffic.steps_of_worker = {30, 30, 30, 10};
  const Workload workload = parameter_server_traffic(traffic);
  ASSERT_NO_THROW(check_progress(workload, ""));
  const double rates = 3.0 / 1e-3 + 1.0 / 3e-3;
  for (const bool folded : {false, true}) {
    const EngineRun run = run_engine(cluster, workload, {.fold = {.enabled = folded}});
    EXPECT_RELATIVE(run.timeline.makespan_s, 100.0 / rates);
  }
}

// Is the asynchronous throughput limited by the servers? Workers that could make 1000 steps per
// second each share the server's port of 25 GB/s: all pull 250 MB in 40 ms, and push them in as
// long.
TEST(ParameterServerTraffic, AsynchronousThroughputEndsAtTheServersLimit) {
  const Cluster cluster = machines(5);
  ParameterServerTraffic traffic = straggler({});
  traffic.bytes = 250'000'000;
  traffic.compute.assign(4, Seconds{1e-3});
  EXPECT_RELATIVE(engine_us(cluster, parameter_server_traffic(traffic), {}),
                  10 * (2 * 4 * 10e3 + 1e3));
}

// Do the parts add up to the whole?
TEST(ParameterServerTraffic, PartsAddUpToTheWhole) {
  const Workload workload = parameter_server_traffic(
      {.workers = {0}, .servers = {1, 2, 3}, .bytes = 1000, .staleness = {}});
  std::int64_t pushed = 0;
  for (const Operation& op : workload.programs[workload.ranks[0].program].operations)
    if (op.kind == OpKind::Send) pushed += bytes_of(workload.calls[op.payload]);
  EXPECT_EQ(pushed, 1000);
}

// Is an impossible setup refused?
TEST(ParameterServerTraffic, ImpossibleSetupsAreRefused) {
  const auto build = [](const ParameterServerTraffic& traffic) {
    static_cast<void>(parameter_server_traffic(traffic));
  };
  EXPECT_THROW(build({.workers = {}, .servers = {1}}), InputError);
  EXPECT_THROW(build({.workers = {0}, .servers = {}}), InputError);
  EXPECT_THROW(build({.workers = {0, 0}, .servers = {1}}), InputError);
  EXPECT_THROW(build({.workers = {0, 1}, .servers = {2}, .compute = {Seconds{1.0}}}), InputError);
  EXPECT_THROW(build({.workers = {0, 1}, .servers = {2}, .steps_of_worker = {1}}), InputError);
  EXPECT_THROW(build({.workers = {0, 1}, .servers = {2}, .steps_of_worker = {1, 2}}), InputError);
  EXPECT_THROW(build({.workers = range(0, 300), .servers = {400}}), InputError);
  // A stream is one byte: two streams of its own leave a rank 254 for workers and servers.
  EXPECT_NO_THROW(build({.workers = range(0, 253), .servers = {400}}));
  EXPECT_THROW(build({.workers = range(0, 254), .servers = {400}}), InputError);
}

}  // namespace
}  // namespace trainyard
