// NVLink slower than the rates of NCCL's search: it must be used at its rate, and a faster link
// must never be worse.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "sim/nccl/nccl_model.hpp"
#include "tests/sim/collectives/test_clusters.hpp"
#include "tests/topologies/clusters.hpp"
#include "topologies/topology.hpp"

namespace trainyard::nccl {
namespace {

using namespace trainyard::testing;

struct Nodes {
  const char* type;
  std::uint32_t nodes;
};

// A wire of one link, which represents all links of a GPU.
Cluster with_wires(const Nodes& some, double gigabytes) {
  ClusterSpec spec;
  spec.node = load_node(some.type);
  spec.nodes = some.nodes;
  spec.node.nvlinks = 1;
  spec.node.nvlink = spec.node.nvlink_nominal = BytesPerSecond{gigabytes * 1e9};
  return build_cluster(spec);
}

// The time of the phases alone on their links.
double time_us(const Cluster& cluster, const std::vector<Phase>& phases) {
  double time = 0.0;
  for (const Phase& phase : phases) {
    std::map<LinkId, double> loads;
    double longest = 0.0;
    for (const MultiLinkFlow& link_flow : phase.flows) {
      double most = 0.0;
      for (const LinkLoad& load : link_flow.loads) {
        most = std::max(most, load.bytes);
        loads[load.link] += load.bytes;
      }
      longest = std::max(longest, most / link_flow.rate_cap_bytes_per_s);
    }
    for (const auto& [link, bytes] : loads)
      longest = std::max(longest, bytes / cluster.link(link).capacity.value());
    time += phase.latency.value() + longest;
  }
  return 1e6 * time;
}

// Rates in steps of 5 %, and on both sides of the rates of NCCL's search.
std::vector<double> rates() {
  std::vector<double> all;
  for (double rate = 0.05; rate < 60.0; rate *= 1.05) all.push_back(rate);
  for (const double sought : {0.1, 0.12, 0.24, 1.2, 2.4, 3.0, 6.0, 11.0, 15.0, 18.0, 24.0, 40.0})
    for (const double factor : {1.0 - 1e-6, 1.0}) all.push_back(sought * factor);
  std::ranges::sort(all);
  return all;
}

constexpr Nodes kNodes[] = {{"dgx_a100_80gb", 1}, {"dgx_a100_80gb", 2}, {"dgx_a100_80gb", 4},
                            {"dgx_h100", 1},      {"dgx_h100", 2},      {"dgx_h100", 8},
                            {"dgx_b200", 1},      {"dgx_b200", 2}};

double all_reduce_us(const Nodes& some, double rate, bool machine, std::int64_t bytes) {
  const Cluster cluster = with_wires(some, rate);
  Options options;
  options.machine = machine;
  const NcclModel communication(cluster, options);
  const CollectiveCall call{.op = CollectiveOp::AllReduce, .bytes = bytes, .algorithm = "nccl"};
  return time_us(cluster, communication.phases(call, gpus_of(8 * some.nodes)));
}

// Do faster links never make a call longer? The rate of a wire once changed graphs and choice: at
// 2.4, 6 and 40 GB/s a slightly faster one took up to 1.7 times as long, on an H100 node and on
// several with NICs.
TEST(SlowLinks, FasterOnesTakeNoCallLonger) {
  std::size_t compared = 0;
  for (const Nodes& some : kNodes) {
    for (const bool machine : {true, false}) {
      for (const std::int64_t bytes : {1LL << 12, 1LL << 16, 1LL << 20, 1LL << 24, 1LL << 28}) {
        double before = std::numeric_limits<double>::infinity();
        for (const double rate : rates()) {
          const double time = all_reduce_us(some, rate, machine, bytes);
          EXPECT_LE(time, before * 1.01)
              << some.nodes << " x " << some.type << " " << rate << " GB/s " << bytes;
          before = time;
          ++compared;
        }
      }
    }
  }
  EXPECT_EQ(compared, 8U * 2U * 5U * rates().size());
}

// Are slow links used at their rate? A tenth of the rate takes ten times the time. (Below 2.4, 1.2
// and 0.24 GB/s half and a fifth of a wire were once used.) With NVLS a GPU sends every byte once,
// with a ring nearly twice.
TEST(SlowLinks, AreUsedAtTheirRate) {
  constexpr std::int64_t kBytes = 1LL << 28;
  for (const Nodes& some : kNodes) {
    for (const bool machine : {true, false}) {
      for (double rate = 0.05; rate < 3.0; rate *= 1.3) {
        const double time = all_reduce_us(some, rate, machine, kBytes);
        const double passes = time * rate * 1e3 / static_cast<double>(kBytes);
        EXPECT_GT(passes, 0.99) << some.nodes << " x " << some.type << " " << rate << " GB/s";
        EXPECT_LT(passes, 2.5) << some.nodes << " x " << some.type << " " << rate << " GB/s";
        EXPECT_NEAR(all_reduce_us(some, rate / 10.0, machine, kBytes) / time, 10.0, 0.3);
      }
    }
  }
}

// Four H100 nodes, where the links of one device carry three tenths.
Cluster with_slow(const std::string& device) {
  ClusterSpec spec{.node = load_node("dgx_h100"), .nodes = 4};
  spec.fabric.kind = fabric_named("rail_optimized");
  if (!device.empty())
    spec.faults = {{.part = Fault::Part::Device, .device = device, .capacity_factor = 0.3}};
  return build_cluster(spec);
}

double group_us(const Cluster& cluster, const NcclModel& communication, CollectiveOp op,
                const std::vector<std::uint32_t>& gpus) {
  const CollectiveCall call{.op = op, .bytes = 1LL << 28, .algorithm = "nccl"};
  return time_us(cluster, communication.phases(call, gpus));
}

std::vector<std::uint32_t> node_gpus(std::uint32_t node) {
  std::vector<std::uint32_t> gpus = gpus_of(8);
  for (std::uint32_t& gpu : gpus) gpu += 8 * node;
  return gpus;
}

// Does a slow NIC slow only the groups that use it? Each of two ranks sends half of 256 MiB through
// a NIC of 48.5 GB/s, in 2 767 us or more; at three tenths of the rate in 9 225 us or more.
TEST(SlowLinks, ASlowNicSlowsOnlyTheGroupsThatUseIt) {
  const std::vector<std::uint32_t> slow{0, 8};
  const std::vector<std::uint32_t> other{16, 24};
  const Cluster healthy = with_slow("");
  const double usual = group_us(healthy, NcclModel(healthy, {}), CollectiveOp::AllGather, other);
  EXPECT_GT(usual, (1 << 27) / 48.5e3);
  EXPECT_LT(usual, 1.2 * (1 << 27) / 48.5e3);
  for (const char* device : {"node 0 nic 0", "node 1 nic 0"}) {
    const Cluster cluster = with_slow(device);
    const NcclModel communication(cluster, {});
    const double slowed = group_us(cluster, communication, CollectiveOp::AllGather, slow);
    EXPECT_GT(slowed, (1 << 27) / (0.3 * 48.5e3));
    EXPECT_LT(slowed, 1.2 * (1 << 27) / (0.3 * 48.5e3));
    EXPECT_RELATIVE(group_us(cluster, communication, CollectiveOp::AllGather, other), usual);
  }
}

// Is a GPU with slow NVLink as slow in any place, and does it slow only its own group?
TEST(SlowLinks, ASlowGpuSlowsItsGroupAsMuchInAnyPlace) {
  constexpr CollectiveOp kOp = CollectiveOp::AllReduce;
  const Cluster healthy = with_slow("");
  const double usual = group_us(healthy, NcclModel(healthy, {}), kOp, gpus_of(8));
  const Cluster first = with_slow("node 0 gpu 0");
  const double slowed = group_us(first, NcclModel(first, {}), kOp, gpus_of(8));
  const auto predicted_us = [](const NcclModel& communication) {
    const CollectiveCall call{.op = kOp, .bytes = 1LL << 28, .algorithm = "nccl"};
    return communication.choice(call, gpus_of(32))->prediction.time_us(1LL << 28);
  };
  const double of_all_nodes = predicted_us(NcclModel(first, {}));
  EXPECT_GT(slowed, 2.0 * usual);
  for (const std::uint32_t node : {0U, 1U, 3U}) {
    for (const std::uint32_t gpu : {0U, 3U, 7U}) {
      SCOPED_TRACE(fmt::format("node {} gpu {}", node, gpu));
      const Cluster cluster = with_slow(fmt::format("node {} gpu {}", node, gpu));
      const NcclModel communication(cluster, {});
      for (std::uint32_t other = 4; other-- > 0;)
        EXPECT_RELATIVE(group_us(cluster, communication, kOp, node_gpus(other)),
                        other == node ? slowed : usual);
      EXPECT_RELATIVE(predicted_us(communication), of_all_nodes);
    }
  }
}

}  // namespace
}  // namespace trainyard::nccl
