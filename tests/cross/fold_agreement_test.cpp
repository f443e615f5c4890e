// Folded runs against unfolded runs. Every span of every rank must agree to 1e-9, on clusters of
// real node types, with random workloads, a rank that does more than the others, ranks on swapped
// GPUs, uneven all_to_alls and a slow link. Without contention the two engines must agree as well.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "random_workload.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/engine/engine.hpp"
#include "sim/workload/workload.hpp"
#include "tests/sim/fold/slow_fold.hpp"
#include "tests/topologies/clusters.hpp"

namespace trainyard {
namespace {

using namespace test;

constexpr double kAgreement = 1e-9;

bool agree(double a, double b) {
  return std::abs(a - b) <= kAgreement * std::max(std::abs(a), std::abs(b)) + 1e-15;
}

Cluster with_slow_link(const Cluster& cluster, LinkId slow, double factor) {
  Wiring wiring = cluster.wiring();
  wiring.rewire([&](const Link& link) {
    Wire wire = wire_of(link);
    if (link.id == slow) wire.capacity *= factor;
    return wire;
  });
  return {cluster.facts(), std::move(wiring), cluster.gpus(), cluster.nic_of_gpu()};
}

// A cluster of 16 or 32 GPUs on one of the fabrics.
Cluster random_cluster(std::uint32_t seed, std::uint32_t nodes) {
  std::mt19937 random(seed);
  const std::vector<std::string> fabrics = {"single_switch", "rail_optimized", "fat_tree",
                                            "fat_tree3",     "multi_plane",    "dual_tor",
                                            "torus",         "dragonfly"};
  const std::vector<std::string> node_types = {"dgx_a100_80gb", "dgx_h100"};
  ClusterSpec spec;
  spec.node = load_node(node_types[random() % node_types.size()]);
  spec.nodes = nodes;
  const std::string& fabric = fabrics[random() % fabrics.size()];
  spec.fabric.kind = fabric_named(fabric, 16, random() % 2 == 0 ? 1.0 : 3.0);
  // Every fifth seed has flows that a hash routes over one path, every seventh a dead or slow NIC.
  if (seed % 5 == 3) {
    spec.fabric.routing = {
        .kind = Routing::Kind::Ecmp, .seed = seed, .flows_per_connection = 1 + seed % 2};
  }
  if (seed % 7 == 5) {
    spec.faults = {{.part = Fault::Part::Device,
                    .device = "node 1 nic 2",
                    .capacity_factor = seed % 2 == 0 ? 0.0 : 0.5}};
  }
  return build_cluster(spec);
}

std::vector<double> kernel_times(const Workload& workload) {
  std::vector<double> seconds;
  for (const Kernel& kernel : workload.kernels) {
    seconds.push_back(1e-6 * static_cast<double>(std::get<Gemm>(kernel).m));
  }
  return seconds;
}

// The number of seeds that every check runs.
constexpr std::uint32_t kSample = 50;
constexpr std::uint32_t kSeeds = 545;  // all seeds: 500, and those whose weights the engine rounds

struct Replay {
  Partition partition;
  Timeline timeline;
};

// Unfolded classes keep every link and every load. The other two must give the same result.
enum class Classes : std::uint8_t {
  Unfolded,
  UnfoldedWithoutUncontended,
  Folded,
  FoldedWithoutUncontended
};

Replay replay(std::string_view engine, const Cluster& cluster, const Workload& workload,
              Classes classes) {
  const bool folded = classes == Classes::Folded || classes == Classes::FoldedWithoutUncontended;
  const bool drop = classes == Classes::UnfoldedWithoutUncontended ||
                    classes == Classes::FoldedWithoutUncontended;
  Partition partition = fold(cluster, workload, AlgorithmModel(cluster),
                             {.enabled = folded, .drop_uncontended = drop});
  const std::vector<double> seconds = kernel_times(workload);
  Timeline timeline = make_engine(engine)->run({.cluster = cluster,
                                                .workload = workload,
                                                .partition = partition,
                                                .kernel_seconds = seconds,
                                                .progress = {}});
  return {std::move(partition), std::move(timeline)};
}

// The number of spans of all ranks that differ between the two runs.
std::size_t differing_spans(const Workload& workload, const Replay& a, const Replay& b) {
  std::size_t differing = 0;
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    const OpTimes& x = a.timeline.classes[a.partition.class_of_rank[rank]];
    const OpTimes& y = b.timeline.classes[b.partition.class_of_rank[rank]];
    EXPECT_EQ(x.end_s.size(), y.end_s.size());
    for (std::size_t op = 0; op < x.end_s.size(); ++op) {
      const bool equal = agree(x.ready_s[op], y.ready_s[op]) &&
                         agree(x.start_s[op], y.start_s[op]) && agree(x.end_s[op], y.end_s[op]);
      differing += equal ? 0 : 1;
    }
  }
  return differing;
}

// The largest difference in seconds between the ends of the same operation in the two runs.
double furthest_spans_s(const Workload& workload, const Replay& a, const Replay& b) {
  double furthest = 0.0;
  for (RankId rank = 0; rank < workload.ranks.size(); ++rank) {
    const OpTimes& x = a.timeline.classes[a.partition.class_of_rank[rank]];
    const OpTimes& y = b.timeline.classes[b.partition.class_of_rank[rank]];
    for (std::size_t op = 0; op < y.end_s.size(); ++op) {
      furthest = std::max(furthest, std::abs(x.end_s.at(op) - y.end_s[op]));
    }
  }
  return furthest;
}

// Every workload of these tests uses at least eight links: at least four ranks send over NVLink,
// and four receive.
constexpr std::size_t kLeastLinks = 8;

void expect_equal_link_bytes(const Cluster& cluster, const Replay& a, const Replay& b) {
  std::size_t links = 0;
  for (LinkId link = 0; link < cluster.links().size(); ++link) {
    if (b.partition.class_of_link[link] == kNone) continue;
    const double x = a.timeline.links[a.partition.class_of_link[link]].bytes;
    const double y = b.timeline.links[b.partition.class_of_link[link]].bytes;
    EXPECT_NEAR(x, y, kAgreement * std::max(x, y)) << "link " << link;
    ++links;
  }
  EXPECT_GE(links, kLeastLinks);
}

// Compares busy times relative to the makespan, because a busy time is a sum of many differences.
void expect_equal_busy_times(const Cluster& cluster, const Replay& a, const Replay& b) {
  std::size_t links = 0;
  for (LinkId link = 0; link < cluster.links().size(); ++link) {
    if (b.partition.class_of_link[link] == kNone) continue;
    const double x = a.timeline.links[a.partition.class_of_link[link]].busy_s;
    const double y = b.timeline.links[b.partition.class_of_link[link]].busy_s;
    EXPECT_NEAR(x, y, kAgreement * b.timeline.makespan_s) << "link " << link;
    ++links;
  }
  EXPECT_GE(links, kLeastLinks);
}

class FoldAgreement : public testing::TestWithParam<std::uint32_t> {
 protected:
  // The workload and the cluster of a seed. Odd seeds break no symmetry on purpose.
  void SetUp() override {
    const std::uint32_t seed = GetParam();
    const std::uint32_t nodes = seed % 3 == 0 ? 4 : 2;
    workload_ = random_workload({.seed = seed,
                                 .ranks = nodes * 8,
                                 .events = 24,
                                 .odd_rank = seed % 4 == 2,
                                 .swaps = seed % 8 == 4 ? 1U : 0U,
                                 .exchanges = seed % 6 == 4 ? 3U : 0U});
    cluster_ = std::make_unique<Cluster>(random_cluster(seed, nodes));
    if (seed % 8 != 0) return;
    const auto links = static_cast<std::uint32_t>(cluster_->links().size());
    *cluster_ = with_slow_link(*cluster_, LinkId{(seed * 7919U) % links}, 0.5);
  }

  // Checks that enough seeds are compared to every digit: 500 if all seeds are run.
  static void TearDownTestSuite() {
    if (seeds_exact + seeds_rounded < kSeeds) return;  // only some tests were selected
    std::cout << seeds_exact << " seeds compared to 1e-9, " << seeds_rounded << " to 1/32\n";
    EXPECT_GE(seeds_exact, 500U);
  }

  static inline std::uint32_t seeds_exact = 0;
  static inline std::uint32_t seeds_rounded = 0;
  Workload workload_;
  std::unique_ptr<Cluster> cluster_;
};

// Is the partition of a random workload equitable by the slow definition?
TEST_P(FoldAgreement, ThePartitionIsEquitable) {
  ASSERT_NO_THROW(validate(workload_, ""));
  ASSERT_NO_THROW(check_progress(workload_, ""));
  const AlgorithmModel communication(*cluster_);
  check_equitable(*cluster_, workload_, communication,
                  fold(*cluster_, workload_, communication, {}));
}

// Does every span agree between folded and unfolded runs on the ideal engine?
TEST_P(FoldAgreement, EverySpanAgreesWithoutContention) {
  const Replay unfolded = replay("ideal", *cluster_, workload_, Classes::Unfolded);
  for (const Classes classes : {Classes::Folded, Classes::FoldedWithoutUncontended}) {
    const Replay folded = replay("ideal", *cluster_, workload_, classes);
    EXPECT_EQ(differing_spans(workload_, folded, unfolded), 0U);
    expect_equal_link_bytes(*cluster_, folded, unfolded);
  }
}

// Does every span agree between folded and unfolded runs on SimGrid? If link weights are not a
// ratio of small integers, the engine rounds them by up to 1/32 of a flow's payload (and counts
// them), differently for other classes. The times of such seeds agree only to that tolerance.
TEST_P(FoldAgreement, EverySpanAgreesWithContention) {
  const Replay unfolded = replay("simgrid", *cluster_, workload_, Classes::Unfolded);
  const std::uint64_t weights_rounded = unfolded.timeline.counters.rounded_weights;
  // the sample of every check needs no rounding
  const bool rounded = weights_rounded > 0 && GetParam() >= kSample;
  ++(rounded ? seeds_rounded : seeds_exact);
  for (const Classes classes : {Classes::Folded, Classes::FoldedWithoutUncontended}) {
    const Replay folded = replay("simgrid", *cluster_, workload_, classes);
    if (rounded) {
      EXPECT_LE(furthest_spans_s(workload_, folded, unfolded), unfolded.timeline.makespan_s / 32.0);
      continue;
    }
    EXPECT_EQ(differing_spans(workload_, folded, unfolded), 0U)
        << folded.partition.ranks.size() << " classes, rounded weights "
        << folded.timeline.counters.rounded_weights << " and " << weights_rounded;
    expect_equal_link_bytes(*cluster_, folded, unfolded);
    expect_equal_busy_times(*cluster_, folded, unfolded);
  }
}

// Is the makespan of the ideal engine a lower bound of SimGrid's?
TEST_P(FoldAgreement, TheIdealEngineIsALowerBound) {
  const Replay ideal = replay("ideal", *cluster_, workload_, Classes::Folded);
  const Replay simgrid = replay("simgrid", *cluster_, workload_, Classes::Folded);
  EXPECT_LE(ideal.timeline.makespan_s, simgrid.timeline.makespan_s * (1.0 + kAgreement));
}

// The number of seeds. `tools/check full` runs many more.
std::uint32_t seeds_of(std::uint32_t sample, std::uint32_t full) {
  return std::getenv("TRAINYARD_FULL") == nullptr ? sample : full;
}

// The cluster with a slower GPU and a slower NIC port in the middle third of a run.
Cluster with_timed_faults(const Cluster& cluster, double makespan_s) {
  ClusterFacts facts = cluster.facts();
  const double from_s = makespan_s / 3.0;
  const double until_s = 2.0 * from_s;
  facts.timed_faults = {{.gpu = 3, .rate_left = 0.5, .from_s = from_s, .until_s = until_s}};
  for (const Link link : cluster.links()) {
    if (link.from != cluster.nic_of_gpu()[1] || link.kind != LinkKind::NicPort) continue;
    facts.timed_faults.push_back({.from = link.from,
                                  .to = link.to,
                                  .rate_left = 0.25,
                                  .from_s = from_s,
                                  .until_s = until_s});
  }
  return {std::move(facts), cluster.wiring(), cluster.gpus(), cluster.nic_of_gpu()};
}

// Do folded runs agree with unfolded ones where parts have timed faults, and do these cost time?
TEST(FoldAgreementSeeds, AgreeWithTimedFaults) {
  std::uint32_t longer = 0;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Workload workload = random_workload({.seed = seed, .ranks = 16});
    const Cluster whole = random_cluster(seed, 2);
    const double makespan_s =
        replay("simgrid", whole, workload, Classes::Folded).timeline.makespan_s;
    const Cluster cluster = with_timed_faults(whole, makespan_s);
    const Replay unfolded = replay("simgrid", cluster, workload, Classes::Unfolded);
    const Replay folded = replay("simgrid", cluster, workload, Classes::Folded);
    EXPECT_EQ(differing_spans(workload, folded, unfolded), 0U) << seed;
    if (unfolded.timeline.makespan_s > 1.01 * makespan_s) ++longer;
  }
  EXPECT_GE(longer, 10U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FoldAgreement, testing::Range(0U, seeds_of(kSample, kSeeds)));

// Are the random cases of the tests above meaningful: do they fold, and do their flows share links?
TEST(FoldAgreementSeeds, FoldAndContend) {
  std::uint32_t halved = 0;
  std::uint32_t contended = 0;
  for (std::uint32_t seed = 0; seed < 80; seed += 2) {
    const Workload workload = random_workload({.seed = seed, .ranks = 16});
    const Cluster cluster = random_cluster(seed, 2);
    const Replay ideal = replay("ideal", cluster, workload, Classes::Folded);
    const Replay simgrid = replay("simgrid", cluster, workload, Classes::Folded);
    if (ideal.partition.ranks.size() <= workload.ranks.size() / 2) ++halved;
    if (simgrid.timeline.makespan_s > 1.01 * ideal.timeline.makespan_s) ++contended;
  }
  EXPECT_GE(halved, 20U);
  EXPECT_GE(contended, 8U);
}

// Eight nodes, two on each leaf switch. Rings over nodes cross leaves at every other node, so the
// fabric carries uneven loads under ranks that are otherwise isomorphic. Without oversubscription
// the fabric never fills and is dropped; with oversubscription it may fill and is kept.
class LeafBorders : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    const std::uint32_t seed = GetParam();
    ClusterSpec spec;
    spec.node = load_node(seed % 2 == 0 ? "dgx_a100_80gb" : "dgx_h100");
    spec.nodes = 8;
    oversubscription_ = seed % 4 < 2 ? 1.0 : 3.0;
    spec.fabric.kind = fabric_named(seed % 3 == 0 ? "fat_tree3" : "fat_tree",
                                    oversubscription_ > 1.0 ? 22 : 32, oversubscription_);
    cluster_ = std::make_unique<Cluster>(build_cluster(spec));
    workload_ = random_workload({.seed = seed, .ranks = 64, .events = 16});
  }

  // Whether the fabric limits any flow.
  [[nodiscard]] bool fabric_is_priced(const Partition& partition) const {
    for (const FlowClass& flow : partition.flows) {
      for (const FlowClass::Weight& weight : flow.weights) {
        const LinkId link = partition.links[weight.link_class].representative;
        if (weight.contended && cluster_->link(link).kind == LinkKind::LeafSpine) return true;
      }
    }
    return false;
  }

  double oversubscription_ = 1.0;
  std::unique_ptr<Cluster> cluster_;
  Workload workload_;
};

// Do ranks at the border of a leaf fold with the others if the fabric cannot fill?
TEST_P(LeafBorders, AreNoBordersWhereTheFabricCannotFill) {
  Replay unfolded = replay("simgrid", *cluster_, workload_, Classes::Unfolded);
  // Rounded weights make the plain run a little slower than the exact result.
  if (unfolded.timeline.counters.rounded_weights > 0) {
    unfolded = replay("simgrid", *cluster_, workload_, Classes::UnfoldedWithoutUncontended);
  }
  const Replay folded = replay("simgrid", *cluster_, workload_, Classes::FoldedWithoutUncontended);
  EXPECT_EQ(differing_spans(workload_, folded, unfolded), 0U)
      << folded.partition.ranks.size() << " classes, rounded weights "
      << folded.timeline.counters.rounded_weights << " and "
      << unfolded.timeline.counters.rounded_weights;
  expect_equal_link_bytes(*cluster_, folded, unfolded);
  expect_equal_busy_times(*cluster_, folded, unfolded);
  if (oversubscription_ == 1.0) {
    EXPECT_FALSE(fabric_is_priced(folded.partition));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LeafBorders, testing::Range(0U, seeds_of(40, 200)));

// Do these cases fold into fewer classes, and is the fabric still contended in some of them?
TEST(LeafBordersSeeds, FoldFurtherAndStillContend) {
  std::uint32_t fewer = 0;
  std::uint32_t priced = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    ClusterSpec spec;
    spec.node = load_node("dgx_a100_80gb");
    spec.nodes = 8;
    // A distance would separate the ranks at a border from the others, whatever the links carry.
    spec.fabric.kind = FatTree{.radix = seed % 2 == 0 ? 32U : 22U,
                               .oversubscription = seed % 2 == 0 ? 1.0 : 3.0,
                               .hop_latency = {}};
    const Cluster cluster = build_cluster(spec);
    const Workload workload = random_workload({.seed = seed, .ranks = 64, .events = 16});
    const AlgorithmModel communication(cluster);
    const Partition all = fold(cluster, workload, communication, {});
    const Partition contended = fold(cluster, workload, communication, {.drop_uncontended = true});
    if (contended.ranks.size() < all.ranks.size()) ++fewer;
    for (const FlowClass& flow : contended.flows) {
      const bool on_fabric = std::ranges::any_of(flow.weights, [&](const auto& weight) {
        const LinkId link = contended.links[weight.link_class].representative;
        return weight.contended && cluster.link(link).kind == LinkKind::LeafSpine;
      });
      if (!on_fabric) continue;
      ++priced;
      break;
    }
  }
  EXPECT_GE(fewer, 5U);
  EXPECT_GE(priced, 5U);
}

// Do both engines agree if there is no contention? Rings run over all ranks, one at a time on one
// stream, on nodes whose NVLinks carry all eight rails at full rate, so no flow slows another one.
TEST(EngineAgreement, WithoutContentionTheEnginesAreOne) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    ClusterSpec spec;
    spec.node = load_node("dgx_a100_80gb");
    spec.nodes = 2;
    spec.fabric.kind = fabric_named(seed % 2 == 0 ? "rail_optimized" : "fat_tree");
    const Cluster cluster = build_cluster(spec);
    Workload workload = empty_workload();
    ProgramWriter program(workload, "everyone");
    const std::vector<CollectiveOp> ops = {CollectiveOp::AllReduce, CollectiveOp::AllGather,
                                           CollectiveOp::ReduceScatter};
    for (int i = 0; i < 30; ++i) {
      std::vector<OpIndex> after;
      if (i > 0 && random() % 2 == 0)
        after = {static_cast<OpIndex>(random() % static_cast<unsigned>(i))};
      if (random() % 2 == 0) {
        program.compute("kernel", 64 + static_cast<std::int64_t>(random() % 1000), after);
      } else {
        program.collective(
            "network", "all",
            CollectiveCall{.op = ops[random() % ops.size()],
                           .bytes = 1 + static_cast<std::int64_t>(random() % 100'000'000)},
            after);
      }
    }
    std::vector<RankId> everyone;
    for (std::uint32_t gpu = 0; gpu < 16; ++gpu) everyone.push_back(add_rank(workload, 0, gpu));
    add_group(workload, GroupKind::Data, everyone, {"all"});
    for (const Classes classes :
         {Classes::Unfolded, Classes::Folded, Classes::FoldedWithoutUncontended}) {
      const Replay ideal = replay("ideal", cluster, workload, classes);
      const Replay simgrid = replay("simgrid", cluster, workload, classes);
      EXPECT_EQ(differing_spans(workload, ideal, simgrid), 0U) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace trainyard
