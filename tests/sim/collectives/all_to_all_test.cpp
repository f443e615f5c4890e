// all_to_all: closed forms of the even one, and the uneven one with a byte matrix: phases against
// messages, and folded against unfolded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "engine_run.hpp"
#include "sim/cluster/blueprint.hpp"
#include "sim/collectives/symbolic_check.hpp"
#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;

constexpr const char* kNames[] = {"pairwise", "direct", "hierarchical"};

using Matrix = std::vector<std::int64_t>;

// Random byte counts with some zeros, and one member that sends nothing.
Matrix random_matrix(std::uint32_t ranks, std::uint32_t seed) {
  std::mt19937 random(seed);
  Matrix matrix(std::size_t{ranks} * ranks);
  for (std::int64_t& bytes : matrix) {
    const auto drawn = static_cast<std::int64_t>(random() % 100'000'000);
    bytes = random() % 4 == 0 ? 0 : drawn;
  }
  for (std::uint32_t to = 0; to < ranks; ++to) matrix[(seed % ranks) * ranks + to] = 0;
  return matrix;
}

std::int64_t row_sum(const Matrix& matrix, std::uint32_t ranks, std::uint32_t from) {
  std::int64_t sum = 0;
  for (std::uint32_t to = 0; to < ranks; ++to) sum += matrix[from * ranks + to];
  return sum;
}

CollectiveCall uneven_call(const Matrix& matrix, std::uint32_t ranks, const char* name) {
  CollectiveCall call{.op = CollectiveOp::AllToAll, .algorithm = name, .matrix = matrix};
  for (std::uint32_t from = 0; from < ranks; ++from)
    call.bytes = std::max(call.bytes, row_sum(matrix, ranks, from));
  return call;
}

Workload uneven(const std::vector<std::uint32_t>& gpus, const Matrix& matrix, const char* name) {
  Workload workload = one_collective(gpus, CollectiveOp::AllToAll, 0, name);
  workload.calls = {uneven_call(matrix, static_cast<std::uint32_t>(gpus.size()), name)};
  return workload;
}

// Does the two-level algorithm take its closed form (oracle 8: (g-1)(a_i + S/(g B_i)) + (N-1)(a_e +
// S/(N B_e)))?
TEST(AllToAll, TwoLevelsTakeTheClosedForm) {
  const double time =
      microseconds(four_nodes(), CollectiveOp::AllToAll, "hierarchical", gpus_of(32), kGibibyte);
  const double closed =
      1e6 * (7 * (4e-6 + kGibibyte / (8 * 370.8e9)) + 3 * (14e-6 + kGibibyte / (4 * 48.5e9)));
  EXPECT_RELATIVE(time, closed);
  EXPECT_RELATIVE(time, 19208.030889);
}

// Does the two-level algorithm agree step by step?
TEST(AllToAll, TwoLevelsAgreeStepByStep) {
  const Cluster cluster = four_nodes();
  const Workload workload =
      one_collective(gpus_of(32), CollectiveOp::AllToAll, std::int64_t{1} << 30, "hierarchical");
  for (const char* engine : {"ideal", "simgrid"}) {
    EXPECT_RELATIVE(engine_us(cluster, workload, {.engine = engine}), 19208.030889) << engine;
    EXPECT_RELATIVE(engine_us(cluster, expand_collectives(workload, cluster), {.engine = engine}),
                    19208.030889)
        << engine;
  }
}

// Does the two-level algorithm send fewer and larger messages between nodes? It has (N-1) messages
// per GPU on the fabric instead of (N-1) g.
TEST(AllToAll, TwoLevelsSendFewerAndLargerMessagesBetweenNodes) {
  const Cluster cluster = four_nodes();
  const std::vector<std::uint32_t> gpus = gpus_of(32);
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
  const auto member_on_other_node = [&](const char* name) {
    std::size_t count = 0;
    for (const Message& message :
         find_algorithm(CollectiveOp::AllToAll, name)->messages(placed, Bytes{32e6}))
      if (cluster.node_of(message.from) != cluster.node_of(message.to)) ++count;
    return count;
  };
  EXPECT_EQ(member_on_other_node("hierarchical"), 32U * 3U);
  EXPECT_EQ(member_on_other_node("direct"), 32U * 3U * 8U);
}

// Are uneven nodes refused?
TEST(AllToAll, TwoLevelsRefuseUnevenNodes) {
  const Cluster cluster = four_nodes();
  const std::vector<std::uint32_t> gpus{0, 1, 2, 8, 9};
  EXPECT_EQ(find_algorithm(CollectiveOp::AllToAll, "hierarchical")
                ->refusal({.cluster = cluster, .gpus = gpus}),
            "hierarchical needs the same number of ranks on every node, here 2 to 3");
}

// Is a star limited by its ports (oracle 26)? n nodes that each send S to each other take (n-1) S /
// B.
TEST(AllToAll, AStarTakesItsPorts) {
  for (const std::uint32_t n : {4U, 8U, 16U}) {
    const Cluster cluster = make_cluster({.gpus = n, .intra_us = 0.0});
    for (const char* name : kNames)
      EXPECT_RELATIVE(
          microseconds(cluster, CollectiveOp::AllToAll, name, gpus_of(n), n * kGibibyte),
          1e6 * (n - 1) * kGibibyte / 1e11)
          << name;
  }
}

// One GPU per node on a ring of switches, whose links are the only bottleneck.
Cluster ring_of_switches(std::uint32_t n) {
  Blueprint blueprint;
  std::vector<DeviceId> gpus;
  std::vector<DeviceId> nics;
  std::vector<DeviceId> switches;
  const auto add = [&](DeviceKind kind, std::int32_t node, std::uint32_t index) {
    return blueprint.add({.kind = kind, .node = node, .index = static_cast<std::int32_t>(index)});
  };
  const auto wire = [&](DeviceId a, DeviceId b, LinkKind kind, double rate) {
    blueprint.cable(
        a, b, {.kind = kind, .capacity = BytesPerSecond{rate}, .nominal = BytesPerSecond{rate}});
  };
  for (std::uint32_t i = 0; i < n; ++i) {
    gpus.push_back(add(DeviceKind::Gpu, static_cast<std::int32_t>(i), 0));
    nics.push_back(add(DeviceKind::Nic, static_cast<std::int32_t>(i), 0));
    switches.push_back(add(DeviceKind::LeafSwitch, -1, i));
    wire(gpus[i], nics[i], LinkKind::Pcie, 1e15);
    wire(nics[i], switches[i], LinkKind::NicPort, 1e15);
  }
  for (std::uint32_t i = 0; i < n; ++i)
    wire(switches[i], switches[(i + 1) % n], LinkKind::LeafSpine, 1e11);
  ClusterFacts facts;
  facts.nodes = n;
  facts.gpus_per_node = 1;
  return Cluster(facts, std::move(blueprint).wiring(), gpus, nics);
}

// Is a ring limited by its links (oracle 26)? On shortest paths half of the traffic to the far side
// takes each direction, so every directed link carries n^2 S / 8.
TEST(AllToAll, ARingTakesItsLinks) {
  for (const std::uint32_t n : {4U, 8U}) {
    const Cluster cluster = ring_of_switches(n);
    const std::vector<std::uint32_t> gpus = gpus_of(n);
    const PlacedGroup placed{.cluster = cluster, .gpus = gpus};
    const double each = 1e9;
    const auto phases =
        find_algorithm(CollectiveOp::AllToAll, "direct")->phases(placed, Bytes{n * each});
    const std::vector<double> bytes = bytes_on_links(cluster, phases);
    std::size_t links = 0;
    for (const Link& link : cluster.links()) {
      if (link.kind != LinkKind::LeafSpine) continue;
      EXPECT_RELATIVE(bytes[link.id], n * n * each / 8) << n;
      ++links;
    }
    EXPECT_EQ(links, 2U * n) << "both ways round";
    const Workload workload =
        one_collective(gpus, CollectiveOp::AllToAll, static_cast<std::int64_t>(n * each), "direct");
    EXPECT_RELATIVE(engine_us(cluster, workload, {}), 1e6 * n * n * each / 8 / 1e11) << n;
  }
}

// Does a matrix of equal blocks equal the even all_to_all?
TEST(UnevenAllToAll, EqualBlocksTakeTheTimeOfAnEvenAllToAll) {
  const Cluster cluster = four_nodes();
  const auto gpus = gpus_of(32);
  const PlacedGroup even{.cluster = cluster, .gpus = gpus};
  const Matrix matrix(32 * 32, 1'000'000);
  const PlacedGroup listed{.cluster = cluster, .gpus = gpus, .matrix = matrix};
  for (const char* name : kNames) {
    const CollectiveAlgorithm& algorithm = *find_algorithm(CollectiveOp::AllToAll, name);
    EXPECT_RELATIVE(time_of(cluster, algorithm.phases(listed, Bytes{32e6})),
                    time_of(cluster, algorithm.phases(even, Bytes{32e6})))
        << name;
  }
}

// Do three members take the times computed by hand? 100 GB/s ports, 5 us; member 0 sends 10 and 30
// GB, member 1 sends 20 GB to 2, member 2 sends nothing.
TEST(UnevenAllToAll, ThreeMembersByHand) {
  constexpr std::int64_t kGigabyte = 1'000'000'000;
  const Matrix matrix{0, 10 * kGigabyte, 30 * kGigabyte, 0, 0, 20 * kGigabyte, 0, 0, 0};
  const Cluster cluster = star(3);
  // Rounds of 20 GB (0 to 1 concurrent with 1 to 2) and 30 GB.
  EXPECT_RELATIVE(engine_us(cluster, uneven(gpus_of(3), matrix, "pairwise"), {}),
                  1e6 * (2 * 5e-6 + 0.2 + 0.3));
  // All at once, a flow per sender: member 2's port gives both one rate r, 3/4 r + r = 100 GB/s,
  // until member 1 has sent its 20 GB; then member 0 sends the other 20 of its 40 GB at 100 GB/s.
  EXPECT_RELATIVE(engine_us(cluster, uneven(gpus_of(3), matrix, "direct"), {}),
                  1e6 * (5e-6 + 20 * 1.75 / 100 + 0.2));
}

// Does every block arrive, and is no empty block sent?
TEST(UnevenAllToAll, EveryBlockArrivesAndZerosAreNotSent) {
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    for (const Shape& shape : {Shape{.nodes = 1, .gpus = 6}, Shape{.nodes = 3, .gpus = 2}}) {
      const Cluster cluster = make_cluster(shape);
      const auto gpus = gpus_of(6);
      const Matrix matrix = random_matrix(6, seed);
      const PlacedGroup placed{.cluster = cluster, .gpus = gpus, .matrix = matrix};
      const auto bytes = static_cast<double>(uneven_call(matrix, 6, "direct").bytes);
      for (const char* name : kNames) {
        const CollectiveAlgorithm& algorithm = *find_algorithm(CollectiveOp::AllToAll, name);
        EXPECT_EQ(symbolic_fault(algorithm, placed, Bytes{bytes}).value_or(""), "") << name;
        for (const Message& message : algorithm.messages(placed, Bytes{bytes}))
          EXPECT_GT(message.bytes, 0.0) << name;
      }
    }
  }
}

// Is a missing message detected?
TEST(UnevenAllToAll, AMissingMessageIsDetected) {
  const Cluster cluster = star(3);
  const auto gpus = gpus_of(3);
  const Matrix matrix{0, 5, 5, 5, 0, 0, 5, 5, 0};
  const PlacedGroup placed{.cluster = cluster, .gpus = gpus, .matrix = matrix};
  auto messages = find_algorithm(CollectiveOp::AllToAll, "direct")->messages(placed, Bytes{10.0});
  ASSERT_EQ(messages.size(), 5U);
  const SymbolicCase claim{
      .op = CollectiveOp::AllToAll, .ranks = 3, .pieces = 9, .bytes = 10.0, .matrix = matrix};
  EXPECT_EQ(symbolic_fault(claim, messages).value_or(""), "");
  messages.pop_back();
  EXPECT_THAT(symbolic_fault(claim, messages).value_or(""),
              ::testing::HasSubstr("ends with the wrong contributions"));
}

// Does an all_to_all without bytes take only the launch?
TEST(UnevenAllToAll, WithoutBytesItTakesTheLaunch) {
  const Cluster cluster = make_cluster({.gpus = 4, .launch_us = 8.0});
  const Workload workload = uneven(gpus_of(4), Matrix(16, 0), "pairwise");
  EXPECT_RELATIVE(engine_us(cluster, workload, {}), 8.0);
  EXPECT_RELATIVE(engine_us(cluster, expand_collectives(workload, cluster), {}), 8.0);
}

// Do the bytes of the steps add up to the matrix? Every byte that is sent is also received.
TEST(UnevenAllToAll, StepsCarryTheMatrix) {
  const Cluster cluster = star(5);
  const Matrix matrix = random_matrix(5, 9);
  const Workload stepwise = expand_collectives(uneven(gpus_of(5), matrix, "pairwise"), cluster);
  ASSERT_NO_THROW(validate(stepwise, ""));
  for (RankId rank = 0; rank < 5; ++rank) {
    std::int64_t sent = 0;
    std::int64_t received = 0;
    for (const Operation& op : stepwise.programs[rank].operations) {
      if (op.kind == OpKind::Send) sent += bytes_of(stepwise.calls[op.payload]);
      if (op.kind == OpKind::Recv) received += bytes_of(stepwise.calls[op.payload]);
    }
    std::int64_t column = 0;
    for (std::uint32_t from = 0; from < 5; ++from)
      if (from != rank) column += matrix[from * 5 + rank];
    EXPECT_EQ(sent, row_sum(matrix, 5, rank) - matrix[rank * 5 + rank]);
    EXPECT_EQ(received, column);
  }
}

// Do the rounds of the fluid form bound the steps? A round ends with its largest message, while the
// stepwise form treats each pair separately; neither can beat the busiest port.
TEST(UnevenAllToAll, RoundsBoundTheSteps) {
  const Cluster cluster = make_cluster({.gpus = 8, .intra_us = 0.0});
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    const Matrix matrix = random_matrix(8, seed);
    const Workload workload = uneven(gpus_of(8), matrix, "pairwise");
    std::int64_t busiest = 0;
    for (std::uint32_t rank = 0; rank < 8; ++rank) {
      std::int64_t in = 0;
      for (std::uint32_t other = 0; other < 8; ++other)
        if (other != rank) in += matrix[other * 8 + rank];
      busiest = std::max({busiest, in, row_sum(matrix, 8, rank) - matrix[rank * 9]});
    }
    const double fluid = engine_us(cluster, workload, {});
    const double stepwise = engine_us(cluster, expand_collectives(workload, cluster), {});
    EXPECT_GE(fluid, stepwise * (1 - 1e-9)) << seed;
    EXPECT_GE(stepwise, 1e6 * static_cast<double>(busiest) / 1e11 * (1 - 1e-9)) << seed;
  }
}

// Every member sends sixteen units of an individual size to random members. Its load on a link is a
// multiple of a sixteenth, which the engine need not round.
Matrix sixteenths(std::uint32_t ranks, std::uint32_t seed) {
  std::mt19937 random(seed);
  Matrix matrix(std::size_t{ranks} * ranks, 0);
  for (std::uint32_t from = 0; from < ranks; ++from) {
    const std::int64_t unit = 1'000'000 * static_cast<std::int64_t>(1 + random() % 3);
    for (int i = 0; i < 16; ++i) {
      const auto ahead = static_cast<std::uint32_t>(1 + random() % (ranks - 1));
      matrix[from * ranks + (from + ahead) % ranks] += unit;
    }
  }
  return matrix;
}

// Is folding exact for members that send differently? They must not be in one class: folded times
// equal unfolded ones, whichever links are left out.
TEST(UnevenAllToAll, FoldingIsExact) {
  const Cluster cluster = star(8);
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    for (const char* name : kNames) {
      const Workload workload = uneven(gpus_of(8), sixteenths(8, seed), name);
      const EngineRun plain = run_engine(cluster, workload, {});
      ASSERT_EQ(plain.timeline.counters.rounded_weights, 0U);
      for (const bool drop : {false, true}) {
        const RunWay folded{.fold = {.enabled = true, .drop_uncontended = drop}};
        EXPECT_RELATIVE(engine_us(cluster, workload, folded), 1e6 * plain.timeline.makespan_s)
            << name << ", seed " << seed << ", drop " << drop;
      }
      const Workload steps = expand_collectives(workload, cluster);
      EXPECT_RELATIVE(engine_us(cluster, steps, {.fold = {.enabled = true}}),
                      engine_us(cluster, steps, {}))
          << name << ", seed " << seed;
    }
  }
}

// Does folding change nothing for any byte counts? The engine rounds them (and counts this),
// equally in folded and unfolded runs.
TEST(UnevenAllToAll, FoldingAnyBytesChangesNothing) {
  const Cluster cluster = make_cluster({.nodes = 2, .gpus = 4, .nic = 2e10});
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    for (const char* name : kNames) {
      const Workload workload = uneven(gpus_of(8), random_matrix(8, seed), name);
      for (const bool drop : {false, true}) {
        const RunWay folded{.fold = {.enabled = true, .drop_uncontended = drop}};
        const RunWay unfolded{.fold = {.enabled = false, .drop_uncontended = drop}};
        EXPECT_RELATIVE(engine_us(cluster, workload, folded),
                        engine_us(cluster, workload, unfolded))
            << name << ", seed " << seed << ", drop " << drop;
        const RunWay ideal{.engine = "ideal", .fold = folded.fold};
        EXPECT_RELATIVE(engine_us(cluster, workload, ideal),
                        engine_us(cluster, workload, {.engine = "ideal"}))
            << name << ", seed " << seed << ", drop " << drop;
      }
    }
  }
}

// Do members with equal sends still fold? With two kinds of members the light ones fold separately
// from the heavy ones.
TEST(UnevenAllToAll, MembersThatSendEquallyFold) {
  const Cluster cluster = star(8);
  Matrix matrix(64, 1'000'000);
  for (std::uint32_t i = 0; i < 8; ++i) matrix[i * 9] = 0;
  const Workload even = uneven(gpus_of(8), matrix, "direct");
  const auto links = [&](const Workload& workload) {
    return run_engine(cluster, workload, {.fold = {.enabled = true}}).partition.links.size();
  };
  EXPECT_EQ(links(even), 2U);  // up and down
  for (std::uint32_t to = 1; to < 8; ++to) matrix[to] = 3'000'000;
  EXPECT_EQ(links(uneven(gpus_of(8), matrix, "direct")), 4U);  // and those of member 0
}

}  // namespace
}  // namespace trainyard
