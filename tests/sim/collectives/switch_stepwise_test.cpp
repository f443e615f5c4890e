// In-network reduction, message by message against its fluid form. A switch forwards data while it
// arrives, so a pass is one flow, and the two agree if no part waits for another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine_run.hpp"
#include "sim/collectives/algorithms/nvls.hpp"
#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;

struct Times {
  double fluid_us = 0.0;
  double stepwise_us = 0.0;
};

Times times_of(const Cluster& cluster, const std::vector<std::uint32_t>& gpus, CollectiveOp op,
               std::int64_t bytes, const char* name) {
  const Workload workload = one_collective(gpus, op, bytes, name);
  return {.fluid_us = engine_us(cluster, workload, {}),
          .stepwise_us = engine_us(cluster, expand_collectives(workload, cluster), {})};
}

constexpr std::int64_t kSizes[] = {std::int64_t{1} << 10, std::int64_t{1} << 26,
                                   std::int64_t{1} << 33};

// Do gathers and scatters agree?
TEST(SwitchStepwise, GathersAndScattersAgree) {
  for (const std::uint32_t n : {2U, 4U, 8U}) {
    const Cluster cluster = make_cluster({.gpus = n, .nvlink = 370.8e9, .launch_us = 8.4});
    for (const std::int64_t bytes : kSizes) {
      for (const CollectiveOp op : {CollectiveOp::AllGather, CollectiveOp::ReduceScatter}) {
        const Times times = times_of(cluster, gpus_of(n), op, bytes, "nvls");
        EXPECT_NEAR(times.stepwise_us, times.fluid_us, 1e-9 * times.fluid_us)
            << to_string(op) << ", " << n << " ranks, " << bytes << " bytes";
      }
    }
  }
}

// Is the stepwise all_reduce longer by one chunk? It adds the read of the first chunk and the write
// of the last, (n-1) c/B, and nothing else.
TEST(SwitchStepwise, AllReduceIsLongerByOneChunk) {
  for (const std::int64_t bytes : {std::int64_t{1} << 20, std::int64_t{1} << 22}) {
    const Cluster cluster = make_cluster({.gpus = 8, .nvlink = 370.8e9, .intra_us = 0.0});
    const Times times = times_of(cluster, gpus_of(8), CollectiveOp::AllReduce, bytes, "nvls");
    const double chunks = nccl::nvls_chunks(8, Bytes{static_cast<double>(bytes)});
    const double fill_us = 1e6 * 7.0 * (static_cast<double>(bytes) / 8 / chunks) / 370.8e9;
    EXPECT_NEAR(times.stepwise_us, times.fluid_us + fill_us, 1e-6 * times.fluid_us) << bytes;
  }
}

// Does an all_reduce of a GiB agree within 0.1 % (oracle 9)?
TEST(SwitchStepwise, AllReduceOfAGibibyteAgrees) {
  const auto cluster = [](std::uint32_t n) {
    return make_cluster({.gpus = n, .nvlink = 370.8e9, .intra_us = 0.0});
  };
  const Workload whole =
      one_collective(gpus_of(8), CollectiveOp::AllReduce, std::int64_t{1} << 30, "nvls");
  EXPECT_RELATIVE(engine_us(cluster(8), whole, {}), 3257.711845);
  // Message by message with a thousand chunks; eight GPUs have four times the operations of four.
  const std::uint32_t n = std::getenv("TRAINYARD_FULL") == nullptr ? 4 : 8;
  const Times times =
      times_of(cluster(n), gpus_of(n), CollectiveOp::AllReduce, std::int64_t{1} << 30, "nvls");
  EXPECT_NEAR(times.stepwise_us, times.fluid_us, 1e-3 * times.fluid_us);
}

// Does SHARP agree?
TEST(SwitchStepwise, SharpAgrees) {
  const Cluster cluster = make_cluster({.nodes = 4,
                                        .gpus = 8,
                                        .nvlink = 370.8e9,
                                        .nic = 48.5e9,
                                        .launch_us = 8.4,
                                        .intra_us = 3.4,
                                        .inter_us = 14.0,
                                        .reduces = true});
  for (const std::int64_t bytes : kSizes) {
    const Times all = times_of(cluster, gpus_of(32), CollectiveOp::AllReduce, bytes, "sharp");
    EXPECT_NEAR(all.stepwise_us, all.fluid_us, 1e-9 * all.fluid_us) << bytes << " bytes";
    const Times rail = times_of(cluster, gpus_of(4, 8), CollectiveOp::AllReduce, bytes, "sharp");
    EXPECT_NEAR(rail.stepwise_us, rail.fluid_us, 1e-9 * rail.fluid_us) << bytes << " bytes";
  }
}

// Do gathers and scatters of SHARP agree? Each is half of an all_reduce: the same steps in the
// node, one direction through the switches.
TEST(SwitchStepwise, SharpGathersAndScattersAgree) {
  const Cluster cluster = make_cluster({.nodes = 4,
                                        .gpus = 4,
                                        .nvlink = 370.8e9,
                                        .nic = 48.5e9,
                                        .launch_us = 8.4,
                                        .intra_us = 3.4,
                                        .inter_us = 14.0,
                                        .reduces = true});
  for (const CollectiveOp op : {CollectiveOp::AllGather, CollectiveOp::ReduceScatter}) {
    for (const std::int64_t bytes : kSizes) {
      const Times times = times_of(cluster, gpus_of(16), op, bytes, "sharp");
      EXPECT_NEAR(times.stepwise_us, times.fluid_us, 1e-9 * times.fluid_us)
          << to_string(op) << ", " << bytes << " bytes";
    }
  }
}

// Do pipelines keep the bound of their algorithm, with and without latencies?
TEST(SwitchStepwise, PipelinesKeepTheirBound) {
  for (const double latency : {0.0, 1.0}) {
    const Cluster nodes = make_cluster({.nodes = 4,
                                        .gpus = 2,
                                        .nvlink = 370.8e9,
                                        .nic = 48.5e9,
                                        .intra_us = 3.4 * latency,
                                        .inter_us = 14.0 * latency,
                                        .reduces = true});
    const Cluster one = make_cluster({.gpus = 8, .nvlink = 370.8e9, .intra_us = 3.4 * latency});
    for (const char* name : {"nvls", "nvls_tree", "nvls_sharp"}) {
      const Cluster& cluster = name == std::string_view("nvls") ? one : nodes;
      const auto gpus = gpus_of(static_cast<std::uint32_t>(cluster.gpus().size()));
      const double bound = find_algorithm(CollectiveOp::AllReduce, name)
                               ->fluid_bound({.cluster = cluster, .gpus = gpus})
                               .relative;
      EXPECT_TRUE(latency == 0.0 || bound <= 0.3) << name;
      for (const std::int64_t bytes : {1 << 16, 1 << 21, 1 << 23}) {
        const Times times = times_of(cluster, gpus, CollectiveOp::AllReduce, bytes, name);
        EXPECT_NEAR(times.stepwise_us, times.fluid_us, bound * times.fluid_us)
            << name << ", " << bytes << " bytes, latencies x " << latency;
      }
    }
  }
}

// Does a tree over nodes with different numbers of ranks keep its bound? Twelve ranks on nodes of
// eight are common for replicas of a pipeline.
TEST(SwitchStepwise, ATreeOverNodesOfUnequalSizesKeepsItsBound) {
  const Cluster cluster = make_cluster(
      {.nodes = 2, .gpus = 8, .nvlink = 370.8e9, .nic = 48.5e9, .intra_us = 3.4, .inter_us = 14.0});
  const auto gpus = gpus_of(12);
  const double bound = find_algorithm(CollectiveOp::AllReduce, "nvls_tree")
                           ->fluid_bound({.cluster = cluster, .gpus = gpus})
                           .relative;
  for (const std::int64_t bytes : {1 << 16, 1 << 23}) {
    const Times times = times_of(cluster, gpus, CollectiveOp::AllReduce, bytes, "nvls_tree");
    EXPECT_NEAR(times.stepwise_us, times.fluid_us, bound * times.fluid_us) << bytes << " bytes";
  }
}

// Is a pass one call of its members? Messages that are combined in a switch are one operation of
// the ranks they join.
TEST(SwitchStepwise, APassIsOneCallOfItsMembers) {
  const Cluster cluster = star(4);
  const Workload made = expand_collectives(
      one_collective(gpus_of(4), CollectiveOp::ReduceScatter, 4000, "nvls"), cluster);
  std::size_t passes = 0;
  for (const Operation& op : made.programs[0].operations) {
    if (op.kind != OpKind::Collective) continue;
    ++passes;
    const auto& call = std::get<RelayCall>(made.calls[op.payload]);
    EXPECT_EQ(call.op, CollectiveOp::Reduce);
    EXPECT_EQ(call.hops.size(), 5U);
    EXPECT_EQ(call.bytes, 1000);
  }
  EXPECT_EQ(passes, 4U);
  EXPECT_EQ(made.ranks.size(), 4U);
}

}  // namespace
}  // namespace trainyard
