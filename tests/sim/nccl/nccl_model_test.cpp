// Calls of "nccl" on real clusters: alone they take the model's time, together they share links.
#include "sim/nccl/nccl_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.hpp"
#include "sim/engine/engine.hpp"
#include "tests/sim/collectives/engine_run.hpp"
#include "tests/sim/collectives/test_clusters.hpp"
#include "topologies/topology.hpp"

namespace trainyard::nccl {
namespace {

using namespace trainyard::testing;

// NICs at their nominal rate, on which NCCL counts.
Cluster nodes_of(const char* type, std::uint32_t nodes) {
  ClusterSpec spec;
  spec.node = load_node(type);
  spec.node.nic = spec.node.nic_nominal;
  spec.nodes = nodes;
  return build_cluster(spec);
}

double run(const Cluster& cluster, const Workload& workload,
           const CommunicationModel& communication, std::string_view engine) {
  const Partition partition = fold(cluster, workload, communication, {.enabled = true});
  const std::vector<double> kernel_seconds(workload.kernels.size(), 0.0);
  const EngineInput input{.cluster = cluster,
                          .workload = workload,
                          .partition = partition,
                          .kernel_seconds = kernel_seconds,
                          .progress = {}};
  return 1e6 * make_engine(engine)->run(input).makespan_s;
}

struct Case {
  const char* node;
  std::uint32_t nodes;
  std::uint32_t ranks;
  std::uint32_t stride;
};

// Times by NCCL's own model, which never assumes more than the capacity of the links.
void expect_model_times(const Case& a_case, CollectiveOp op, Options options) {
  options.machine = false;
  const Cluster cluster = nodes_of(a_case.node, a_case.nodes);
  const std::vector<std::uint32_t> gpus = gpus_of(a_case.ranks, a_case.stride);
  const NcclModel communication(cluster, options);
  for (const std::int64_t bytes : {1LL << 10, 1LL << 16, 1LL << 20, 1LL << 24, 1LL << 30}) {
    const Workload workload = one_collective(gpus, op, bytes, "nccl");
    const Choice choice = *communication.choice(workload.calls.front(), gpus);
    SCOPED_TRACE(std::string(a_case.node) + " " + std::string(to_string(op)) + " " +
                 to_text(choice) + " " + std::to_string(bytes));
    EXPECT_RELATIVE(run(cluster, workload, communication, "simgrid"),
                    choice.prediction.time_us(static_cast<double>(bytes)));
  }
}

// Does a call alone take the model's time?
TEST(NcclModel, ACallAloneTakesTheModelsTime) {
  for (const Case& a_case :
       {Case{"dgx_h100", 1, 8, 1}, Case{"dgx_h100", 1, 4, 2}, Case{"dgx_a100_80gb", 1, 8, 1},
        Case{"dgx_b200", 1, 8, 1}, Case{"dgx_h100", 4, 32, 1}, Case{"dgx_a100_80gb", 4, 32, 1},
        Case{"dgx_h100", 8, 8, 8}}) {
    for (const CollectiveOp op :
         {CollectiveOp::AllReduce, CollectiveOp::AllGather, CollectiveOp::ReduceScatter,
          CollectiveOp::Broadcast, CollectiveOp::Reduce})
      expect_model_times(a_case, op, {});
  }
}

// Does every method take the model's time?
TEST(NcclModel, EveryMethodTakesTheModelsTime) {
  for (const char* algorithm : {"Ring", "Tree"}) {
    for (const char* protocol : {"LL", "LL128", "Simple"}) {
      Options options;
      options.algorithms = parse_algorithms(algorithm);
      options.protocols = parse_protocols(protocol);
      expect_model_times({"dgx_h100", 1, 8, 1}, CollectiveOp::AllReduce, options);
      expect_model_times({"dgx_h100", 4, 32, 1}, CollectiveOp::AllReduce, options);
    }
  }
}

// Does every hop of a ring with a root carry the whole buffer? The seven hops of eight GPUs lead
// away from the root (broadcast) or towards it (reduce), each up to the NVSwitch and down from it.
TEST(NcclModel, EveryHopOfARootedRingCarriesTheBuffer) {
  const Cluster cluster = nodes_of("dgx_h100", 1);
  const auto gpus = gpus_of(8);
  const NcclModel communication(cluster, {.protocols = parse_protocols("Simple")});
  for (const CollectiveOp op : {CollectiveOp::Broadcast, CollectiveOp::Reduce}) {
    const CollectiveCall call{.op = op, .bytes = 1'000'000, .algorithm = "nccl"};
    const std::vector<double> bytes = bytes_on_links(cluster, communication.phases(call, gpus));
    double root_sends = 0.0;
    double root_receives = 0.0;
    double all = 0.0;
    for (const Link& link : cluster.links()) {
      all += bytes[link.id];
      if (link.from == cluster.gpus()[0]) root_sends += bytes[link.id];
      if (link.to == cluster.gpus()[0]) root_receives += bytes[link.id];
    }
    const bool away = op == CollectiveOp::Broadcast;
    EXPECT_NEAR(root_sends, away ? 1e6 : 0.0, 1e-3);
    EXPECT_NEAR(root_receives, away ? 0.0 : 1e6, 1e-3);
    EXPECT_NEAR(all, 2.0 * 7.0 * 1e6, 1e-3);
  }
}

// Does the machine model decide the time? Measured: 25 us at 1 MiB by Ring/LL, 1 092 us at 256 MiB
// by NVLS (2.29, nccl-tests).
TEST(NcclModel, TheMachineModelDecidesTheTime) {
  const Cluster cluster = nodes_of("dgx_h100", 1);
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const NcclModel communication(cluster, {.version = "2.29"});
  const Machine machine{.gpu = *machine_model(90), .messages = message_model(), .network = {}};
  for (const std::int64_t bytes : {1LL << 10, 1LL << 20, 1LL << 28}) {
    const Workload workload = one_collective(gpus, CollectiveOp::AllReduce, bytes, "nccl");
    const Choice choice = *communication.choice(workload.calls.front(), gpus);
    const auto size = static_cast<double>(bytes);
    const double expected =
        machine_time(machine, communication.communicator(gpus), choice, size).time_us(size);
    EXPECT_RELATIVE(run(cluster, workload, communication, "simgrid"), expected);
    EXPECT_RELATIVE(choice.prediction.time_us(size), expected);
  }
  for (const std::int64_t bytes : {1, 1 << 26}) {  // of one byte, a GPU sends less than a byte
    const Workload exchange = one_collective(gpus, CollectiveOp::AllToAll, bytes, "nccl");
    const auto size = static_cast<double>(bytes);
    EXPECT_RELATIVE(
        run(cluster, exchange, communication, "simgrid"),
        exchange_time(machine, communication.communicator(gpus), CollectiveOp::AllToAll, size)
            .time_us(size));
  }
}

// Does the machine model include the network?
TEST(NcclModel, TheMachineModelIncludesTheNetwork) {
  const Cluster cluster = build_cluster({.node = load_node("dgx_a100_80gb"), .nodes = 4});
  const std::vector<std::uint32_t> gpus = gpus_of(32);
  const NcclModel communication(cluster, {});
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const Machine machine{.gpu = *machine_model(80),
                        .messages = message_model(),
                        .network = network_of(placed, communication.communicator(gpus))};
  for (const CollectiveOp op : {CollectiveOp::AllGather, CollectiveOp::AllToAll}) {
    const Workload workload = one_collective(gpus, op, 1 << 28, "nccl");
    const auto choice = communication.choice(workload.calls.front(), gpus);
    const double size = 1 << 28;
    const Communicator& comm = communication.communicator(gpus);
    const Prediction expected = choice ? machine_time(machine, comm, *choice, size)
                                       : exchange_time(machine, comm, op, size);
    EXPECT_RELATIVE(run(cluster, workload, communication, "simgrid"), expected.time_us(size));
  }
}

// A second stream with an all_reduce of the same eight GPUs.
Workload two_collectives(const std::vector<std::uint32_t>& gpus, std::int64_t bytes) {
  Workload workload = one_collective(gpus, CollectiveOp::AllReduce, bytes, "nccl");
  workload.streams.push_back("more data");
  workload.slots.push_back("everyone again");
  workload.groups.push_back(workload.groups.front());
  Program& program = workload.programs.front();
  Operation second = program.operations[1];
  second.stream = 2;
  second.slot = 1;
  program.append(second);
  for (Rank& rank : workload.ranks)
    rank.slots.push_back({.group = 1, .group_rank = rank.slots.front().group_rank});
  return workload;
}

// The links of a node, all `factor` times as fast.
Cluster faster_links(const char* type, std::uint32_t nodes, double factor) {
  ClusterSpec spec;
  spec.node = load_node(type);
  spec.nodes = nodes;
  spec.node.nvlink = spec.node.nvlink * factor;
  spec.node.nvlink_nominal = spec.node.nvlink_nominal * factor;
  return build_cluster(spec);
}

// Compares the choice and the time on one cluster and on a faster one, call by call.
void expect_no_longer(const NcclModel& slower, const NcclModel& faster,
                      const std::vector<std::uint32_t>& gpus, std::size_t& compared) {
  for (const CollectiveOp op :
       {CollectiveOp::AllReduce, CollectiveOp::AllGather, CollectiveOp::ReduceScatter}) {
    for (std::int64_t bytes = 1 << 10; bytes <= 1LL << 30; bytes *= 2) {
      const CollectiveCall call{.op = op, .bytes = bytes, .algorithm = "nccl"};
      const Choice before = *slower.choice(call, gpus);
      const Choice after = *faster.choice(call, gpus);
      const auto size = static_cast<double>(bytes);
      EXPECT_EQ(to_text(after), to_text(before)) << to_string(op) << " " << bytes;
      EXPECT_LE(after.prediction.time_us(size), before.prediction.time_us(size) * (1.0 + 1e-9))
          << to_string(op) << " " << bytes << " " << to_text(after);
      ++compared;
    }
  }
}

// Do faster links never make a call longer? NCCL counts NVLinks and does not measure them: however
// fast they are, it chooses the same, and the chosen method takes no longer over faster links. (A
// faster link once moved the choice from LL to Simple, which takes 22 us instead of 13 for 2 MiB on
// two H100.)
TEST(NcclModel, FasterLinksTakeNoCallLonger) {
  std::size_t compared = 0;
  for (const Case& a_case :
       {Case{"dgx_a100_80gb", 1, 2, 1}, Case{"dgx_a100_80gb", 2, 16, 1}, Case{"dgx_h100", 1, 2, 1},
        Case{"dgx_h100", 1, 8, 1}, Case{"dgx_h100", 4, 32, 1}, Case{"hgx_h800", 1, 4, 1},
        Case{"hgx_h800", 2, 16, 1}, Case{"dgx_b200", 1, 8, 1}, Case{"dgx_b200", 4, 4, 8}}) {
    const std::vector<std::uint32_t> gpus = gpus_of(a_case.ranks, a_case.stride);
    for (const double factor : {0.3, 0.5, 0.75, 1.0, 1.05, 1.1, 1.5, 2.0}) {
      SCOPED_TRACE(std::string(a_case.node) + " " + std::to_string(factor));
      const Cluster slower = faster_links(a_case.node, a_case.nodes, factor);
      const Cluster faster = faster_links(a_case.node, a_case.nodes, factor * 1.25);
      expect_no_longer(NcclModel(slower, {}), NcclModel(faster, {}), gpus, compared);
    }
  }
  EXPECT_EQ(compared, 9U * 8U * 3U * 21U);
}

// Do large calls follow the rate of the link? Twice the rate halves everything except latency, also
// above the rates of the measured GPUs.
TEST(NcclModel, LargeCallsFollowTheLink) {
  const Cluster real = faster_links("dgx_h100", 1, 1.0);
  const Cluster twice = faster_links("dgx_h100", 1, 2.0);
  const CollectiveCall call{.op = CollectiveOp::AllReduce, .bytes = 1LL << 33, .algorithm = "nccl"};
  for (const bool machine : {true, false}) {
    Options options;
    options.machine = machine;
    options.algorithms = parse_algorithms("Ring");
    const auto time = [&](const Cluster& cluster) {
      return NcclModel(cluster, options).choice(call, gpus_of(8, 1))->prediction.time_us(8.6e9);
    };
    EXPECT_NEAR(time(twice) / time(real), 0.5, 0.05) << machine;
  }
}

// Do concurrent calls share the switch? Each NVLS needs 272 * 9/8 = 306 of a GPU's 370.8 GB/s;
// together each gets half of it.
TEST(NcclModel, ConcurrentCallsShareTheSwitch) {
  const Cluster cluster = nodes_of("dgx_h100", 1);
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const NcclModel communication(cluster, {.machine = false});
  const std::int64_t bytes = 1LL << 30;
  const Workload workload = two_collectives(gpus, bytes);
  EXPECT_EQ(communication.label(workload.calls.front(), gpus), "nccl: NVLS/Simple, 16 channels");
  const double shared = 25.0 + 2.0 * 9.0 / 8.0 * static_cast<double>(bytes) / 370800.0;
  EXPECT_RELATIVE(run(cluster, workload, communication, "simgrid"), shared);
  EXPECT_RELATIVE(run(cluster, workload, communication, "ideal"),
                  25.0 + static_cast<double>(bytes) / 272000.0);
}

// Does the fabric limit a call? A link with less than NCCL's assumption has an effect.
TEST(NcclModel, TheFabricLimitsACall) {
  ClusterSpec spec;
  spec.node = load_node("dgx_h100");
  spec.nodes = 4;
  spec.node.nic = BytesPerSecond{24e9};
  const Cluster cluster = build_cluster(spec);
  const std::vector<std::uint32_t> gpus = gpus_of(32);
  Options options{.machine = false};
  options.algorithms = parse_algorithms("Ring");
  const NcclModel communication(cluster, options);
  const Workload workload = one_collective(gpus, CollectiveOp::AllReduce, 1LL << 30, "nccl");
  EXPECT_RELATIVE(run(cluster, workload, communication, "simgrid"),
                  282.8 * 1.4 + 2.0 * 31.0 / 32.0 * kGibibyte / 8.0 / 24000.0);
}

// Are other algorithms those of the registry?
TEST(NcclModel, OtherAlgorithmsAreThoseOfTheRegistry) {
  const Cluster cluster = nodes_of("dgx_h100", 1);
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const NcclModel communication(cluster, {});
  const CollectiveCall call{
      .op = CollectiveOp::AllReduce, .bytes = 1 << 20, .algorithm = "two_shot"};
  EXPECT_EQ(communication.label(call, gpus), "two_shot");
  EXPECT_DOUBLE_EQ(time_of(cluster, communication.phases(call, gpus)),
                   time_of(cluster, AlgorithmModel(cluster).phases(call, gpus)));
  const std::vector<std::uint32_t> pair{0, 1};
  const TransferCall message{.bytes = 1 << 20, .algorithm = "nccl"};
  EXPECT_EQ(communication.label(message, pair), "nccl: 32 channels, 32 a peer");
  EXPECT_FALSE(communication.choice(message, pair).has_value());
  EXPECT_EQ(communication.phases(message, pair).size(), 1U);
  EXPECT_TRUE(
      communication.phases(CollectiveCall{.algorithm = "nccl"}, std::vector<std::uint32_t>{3})
          .empty());
}

// Are other GPUs refused unless a model is set?
TEST(NcclModel, OtherGpusAreRefusedUnlessAModelIsSet) {
  const Cluster cluster = nodes_of("mi300x", 1);
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const CollectiveCall call{.op = CollectiveOp::AllReduce, .bytes = 1 << 20, .algorithm = "nccl"};
  EXPECT_THROW((void)NcclModel(cluster, {}).phases(call, gpus), RunError);
  EXPECT_EQ(NcclModel(cluster, {.sm = 80}).phases(call, gpus).size(), 1U);
}

// Can algorithms of the registry replace NCCL on other GPUs? Eight MI300X, each pair joined: a tree
// for the smallest, rings for large calls.
TEST(NcclModel, OtherGpusMayTakeRegisteredAlgorithms) {
  const Cluster cluster = nodes_of("mi300x", 1);
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const NcclModel communication(cluster, {.allow_fallback = true});
  EXPECT_FALSE(communication.host().has_value());
  for (const std::int64_t bytes : {256LL, 1LL << 20, 1LL << 30}) {
    const CollectiveCall call{.op = CollectiveOp::AllReduce, .bytes = bytes, .algorithm = "nccl"};
    const double chosen = time_of(cluster, communication.phases(call, gpus));
    const std::string name = communication.selected_algorithm(call, gpus).algorithm;
    EXPECT_EQ(communication.label(call, gpus), name);
    EXPECT_EQ(communication.stepwise_name(call, gpus), name);
    double quickest = std::numeric_limits<double>::infinity();
    for (const char* other : {"ring", "tree"}) {
      const Call played = with_algorithm(call, other);
      quickest = std::min(quickest, time_of(cluster, communication.phases(played, gpus)));
    }
    EXPECT_DOUBLE_EQ(chosen, quickest) << bytes;
  }
  for (const auto& [op, name] :
       std::vector<std::pair<CollectiveOp, std::string>>{{CollectiveOp::AllGather, "ring"},
                                                         {CollectiveOp::Broadcast, "chain"},
                                                         {CollectiveOp::AllToAll, "direct"}})
    EXPECT_EQ(communication.selected_algorithm(make_call(op, 1 << 20, DataType::Bf16, "nccl"), gpus)
                  .algorithm,
              name);
}

// Two H100 nodes, of which some are of another type.
Cluster with_others(const char* type, std::vector<std::uint32_t> nodes) {
  ClusterSpec spec{.node = load_node("dgx_h100"), .nodes = 2};
  spec.others = {{.nodes = std::move(nodes), .node = load_node(type)}};
  return build_cluster(spec);
}

// Are the GPUs of a group those that count, and not the usual ones of the cluster? Eight A100 have
// no NVLS beside a node of H100 either.
TEST(NcclModel, TheGpusOfTheGroupCount) {
  const Cluster mixed = with_others("dgx_a100_80gb", {1});
  const Cluster a100 = build_cluster({.node = load_node("dgx_a100_80gb")});
  const Cluster h100 = build_cluster({.node = load_node("dgx_h100")});
  const NcclModel communication(mixed, {});
  const std::vector<std::uint32_t> other{8, 9, 10, 11, 12, 13, 14, 15};
  const CollectiveCall call{.bytes = 1 << 28, .algorithm = "nccl"};
  EXPECT_EQ(communication.label(call, gpus_of(8)), "nccl: NVLS/Simple, 16 channels");
  EXPECT_EQ(communication.label(call, other), "nccl: Ring/Simple, 24 channels");
  EXPECT_RELATIVE(time_of(mixed, communication.phases(call, gpus_of(8))),
                  time_of(h100, NcclModel(h100, {}).phases(call, gpus_of(8))));
  EXPECT_RELATIVE(time_of(mixed, communication.phases(call, other)),
                  time_of(a100, NcclModel(a100, {}).phases(call, gpus_of(8))));
}

// Does a group over unlike nodes go at the pace of the slower node, whichever is the first one? Its
// least compute capability is 80, also where that node has more members. Without LL128, which needs
// GPUs of one capability, both nodes of A100 take as long.
TEST(NcclModel, UnlikeNodesGoAtThePaceOfTheSlower) {
  const Cluster a100 = build_cluster({.node = load_node("dgx_a100_80gb"), .nodes = 2});
  const NcclModel slower(a100, {.protocols = parse_protocols("^LL128"), .cpu = CpuVendor::Intel});
  for (const std::uint32_t node : {0U, 1U}) {
    const Cluster mixed = with_others("dgx_a100_80gb", {node});
    const NcclModel communication(mixed, {});
    for (const CollectiveOp op :
         {CollectiveOp::AllReduce, CollectiveOp::AllGather, CollectiveOp::AllToAll}) {
      for (const std::int64_t bytes : {1LL << 10, 1LL << 20, 1LL << 28}) {
        const Call call = make_call(op, bytes, DataType::Bf16, "nccl");
        EXPECT_RELATIVE(time_of(mixed, communication.phases(call, gpus_of(16))),
                        time_of(a100, slower.phases(call, gpus_of(16))))
            << node << " " << to_string(op) << " " << bytes;
      }
    }
    std::vector<std::uint32_t> uneven = gpus_of(16);
    uneven.erase(uneven.begin() + (node == 0 ? 8 : 0), uneven.begin() + (node == 0 ? 12 : 4));
    EXPECT_EQ(communication.communicator(uneven).node.sm, 80U);
    EXPECT_FALSE(communication.communicator(gpus_of(16)).graphs.nvls.has_value());
  }
}

// Is only a group with GPUs of another maker refused, or replaced, in a cluster of H100?
TEST(NcclModel, OnlyGroupsWithOtherGpusAreRefused) {
  const Cluster mixed = with_others("mi300x", {1});
  const CollectiveCall call{.bytes = 1 << 20, .algorithm = "nccl"};
  const std::vector<std::uint32_t> other{8, 9, 10, 11, 12, 13, 14, 15};
  const NcclModel strict(mixed, {});
  EXPECT_EQ(strict.phases(call, gpus_of(8)).size(), 1U);
  EXPECT_THROW((void)strict.phases(call, other), RunError);
  EXPECT_THROW((void)strict.phases(call, gpus_of(16)), RunError);
  const NcclModel lenient(mixed, {.allow_fallback = true});
  EXPECT_EQ(lenient.label(call, gpus_of(8)), strict.label(call, gpus_of(8)));
  EXPECT_EQ(lenient.label(call, other), lenient.stepwise_name(call, other));
}

// Does the release decide? For 1 MiB on eight B200, 2.18 takes NVLS, and 2.30 a ring, which is
// quicker. A100's constants price an L40S, and none exist for a V100.
TEST(NcclModel, TheReleaseDecides) {
  const Cluster cluster = nodes_of("dgx_b200", 1);
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const CollectiveCall call{.bytes = 1 << 20, .algorithm = "nccl"};
  const auto choice = [&](const char* version) {
    return *NcclModel(cluster, {.version = version}).choice(call, gpus);
  };
  EXPECT_EQ(choice("2.18").method.algorithm, Algorithm::Nvls);
  EXPECT_EQ(choice("2.30").method, (Method{Algorithm::Ring, Protocol::LL}));
  EXPECT_GT(choice("2.18").prediction.time_us(1 << 20), choice("2.30").prediction.time_us(1 << 20));
  const auto priced_by = [&](std::uint32_t sm) {
    return NcclModel(cluster, {.sm = sm}).priced_by();
  };
  EXPECT_EQ(priced_by(103), PricedBy::ThisGpu);
  EXPECT_EQ(priced_by(89), PricedBy::ItsGeneration);
  EXPECT_EQ(priced_by(70), PricedBy::NoGpu);
}

// Is the selected algorithm of a call reported?
TEST(NcclModel, ReportsTheSelectedAlgorithm) {
  const Cluster cluster = nodes_of("dgx_h100", 1);
  const std::vector<std::uint32_t> gpus = gpus_of(8);
  const NcclModel communication(cluster, {});
  const SelectedAlgorithm large = communication.selected_algorithm(
      CollectiveCall{.bytes = 1LL << 30, .algorithm = "nccl"}, gpus);
  EXPECT_EQ(large.algorithm, "NVLS");
  EXPECT_EQ(large.protocol, "Simple");
  EXPECT_EQ(large.channels, 16U);
  EXPECT_EQ(large.label, "nccl: NVLS/Simple, 16 channels");
  const SelectedAlgorithm named = communication.selected_algorithm(
      CollectiveCall{.bytes = 1LL << 30, .algorithm = "ring"}, gpus);
  EXPECT_EQ(named.label, "ring");
  EXPECT_TRUE(named.protocol.empty());
  EXPECT_EQ(
      communication.stepwise_name(CollectiveCall{.bytes = 1 << 10, .algorithm = "nccl"}, gpus),
      "ring");
  EXPECT_EQ(
      communication.stepwise_name(CollectiveCall{.bytes = 1 << 30, .algorithm = "one_shot"}, gpus),
      "one_shot");
  EXPECT_EQ(
      communication.stepwise_name(CollectiveCall{.bytes = 1LL << 30, .algorithm = "nccl"}, gpus),
      "nvls");
}

// Which choices can the stepwise model play?
TEST(NcclModel, WhatCanBePlayedStepByStep) {
  const Choice ring{.op = CollectiveOp::AllReduce, .method = {Algorithm::Ring, Protocol::LL}};
  EXPECT_EQ(stepwise_algorithm(ring, false), "ring");
  const Choice root{.op = CollectiveOp::Reduce, .method = {Algorithm::Ring, Protocol::LL}};
  EXPECT_EQ(stepwise_algorithm(root, false), "chain");
  const Choice nvls{.op = CollectiveOp::AllReduce, .method = {Algorithm::Nvls, Protocol::Simple}};
  EXPECT_EQ(stepwise_algorithm(nvls, false), "nvls");
  EXPECT_EQ(stepwise_algorithm(nvls, true), "nvls_sharp");
}

}  // namespace
}  // namespace trainyard::nccl
