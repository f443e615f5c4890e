// Studies of a collective: numbers against closed forms, the quickest algorithms, sizes, rows, the
// plot.
#include "tools/studies/collective/study.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "tests/agreement.hpp"
#include "tests/topologies/clusters.hpp"
#include "tools/studies/collective/arguments.hpp"
#include "tools/studies/collective/interference.hpp"
#include "tools/studies/collective/options.hpp"
#include "tools/studies/collective/plot.hpp"
#include "tools/studies/collective/report.hpp"
#include "topologies/custom_cluster.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::uint32_t> all_gpus(const Cluster& cluster) {
  std::vector<std::uint32_t> gpus;
  for (std::uint32_t gpu = 0; gpu < cluster.gpus().size(); ++gpu) gpus.push_back(gpu);
  return gpus;
}

void expect_near(double value, double expected) {
  EXPECT_NEAR(value, expected, kAgreement * std::abs(expected));
}

// Is the time of a ring on one node the closed form: launch + 2(n-1) steps + 2(n-1)/n S / B, for n
// ranks?
TEST(Study, RingOnOneNodeIsTheClosedForm) {
  const Cluster cluster = h100s(1);
  const NodeSpec node = load_node("dgx_h100");
  for (const std::string engine : {"ideal", "simgrid"}) {
    const CollectiveStudy study = study_collective(cluster, {.gpus = all_gpus(cluster),
                                                             .algorithms = {"ring"},
                                                             .sizes = parse_sizes("8B:8GiB:8"),
                                                             .engine = engine});
    ASSERT_EQ(study.algorithms.size(), 1U);
    ASSERT_EQ(study.algorithms[0].rows.size(), 11U);
    for (const CollectiveRow& row : study.algorithms[0].rows) {
      const auto bytes = static_cast<double>(row.bytes);
      const double latency = node.latency.launch.value() + 14.0 * node.latency.intra_step.value();
      const double carried = 14.0 / 8.0 * bytes;
      const double time = latency + carried / node.nvlink.value();
      SCOPED_TRACE(row.bytes);
      expect_near(row.time_s, time);
      expect_near(row.latency_s, latency);
      expect_near(row.algbw, bytes / time);
      expect_near(row.busbw, carried / time);
      ASSERT_TRUE(row.link);
      EXPECT_EQ(row.link->kind, LinkKind::NvLink);
      expect_near(row.link->load, carried / node.nvlink.value() / time);
      EXPECT_EQ(row.bottleneck(), latency >= time / 2 ? "latency" : "nvlink");
    }
  }
}

// Are many sizes at once the same as each size alone? Folding once and scaling must equal a study
// of one size, for every algorithm.
TEST(Study, ManySizesAtOnceAreEachSizeAlone) {
  const Cluster cluster = h100s(2);
  for (const CollectiveOp op : {CollectiveOp::AllReduce, CollectiveOp::AllGather,
                                CollectiveOp::AllToAll, CollectiveOp::Broadcast}) {
    CollectiveQuestion question{.op = op,
                                .gpus = all_gpus(cluster),
                                .algorithms = study_algorithms(op),
                                .sizes = {4096, 1 << 20, 1 << 28}};
    const CollectiveStudy together = study_collective(cluster, question);
    std::size_t rows = 0;
    for (std::size_t size = 0; size < together.sizes.size(); ++size) {
      question.sizes = {together.sizes[size]};
      const CollectiveStudy alone = study_collective(cluster, question);
      for (std::size_t i = 0; i < together.algorithms.size(); ++i) {
        SCOPED_TRACE(together.algorithms[i].algorithm);
        ASSERT_EQ(together.algorithms[i].refusal, alone.algorithms[i].refusal);
        if (together.algorithms[i].refusal) continue;
        const CollectiveRow& a = together.algorithms[i].rows[size];
        const CollectiveRow& b = alone.algorithms[i].rows[0];
        expect_near(a.time_s, b.time_s);
        ASSERT_EQ(a.link.has_value(), b.link.has_value());
        if (a.link) expect_near(a.link->load, b.link->load);
        ++rows;
      }
    }
    // Two algorithms of each operation or more refuse no group of this size.
    EXPECT_GE(rows, 2U * 3U);
  }
}

// Is send_recv one message?
TEST(Study, SendRecvIsOneMessage) {
  const Cluster cluster = h100s(2);
  const CollectiveStudy study = study_collective(
      cluster,
      {.op = CollectiveOp::SendRecv, .gpus = {0, 8}, .algorithms = {"direct"}, .sizes = {1 << 30}});
  const CollectiveRow& row = study.algorithms.at(0).rows.at(0);
  ASSERT_TRUE(row.link);
  EXPECT_EQ(row.busbw, row.algbw);
  EXPECT_EQ(row.bottleneck(), to_string(row.link->kind));
  expect_near(row.time_s - row.latency_s,
              static_cast<double>(1 << 30) / load_node("dgx_h100").pcie.value());
}

// Does a link that slows down during the call slow what is left of it? From 1 ms on, the sender has
// half of its rate.
TEST(Study, ALinkThatSlowsDownSlowsTheRest) {
  ClusterSpec spec = nodes_of("dgx_h100", 1);
  spec.faults = {{.part = Fault::Part::Device,
                  .device = "node 0 gpu 0",
                  .capacity_factor = 0.5,
                  .begins = Seconds{1e-3}}};
  const Cluster cluster = build_cluster(spec);
  const CollectiveStudy study = study_collective(
      cluster,
      {.op = CollectiveOp::SendRecv, .gpus = {0, 1}, .algorithms = {"direct"}, .sizes = {1 << 30}});
  const CollectiveRow& row = study.algorithms.at(0).rows.at(0);
  const double alone_s = double{1 << 30} / spec.node.nvlink.value();
  expect_near(row.time_s, 1e-3 + 2.0 * (alone_s - (1e-3 - row.latency_s)));
  InterferenceQuestion question{.sizes = {1 << 30}, .algorithm = "direct"};
  question.groups = {parse_group("send_recv:0,1", 8)};
  expect_near(study_interference(cluster, question).rows.at(0).alone_s, row.time_s);
}

// Does a group with a GPU that NCCL does not know have rows where NCCL does not choose?
TEST(Study, AMixedGroupExchangesMessages) {
  ClusterSpec spec = nodes_of("dgx_h100", 2);
  spec.others = {{.nodes = {1}, .node = load_node("mi300x")}};
  const Cluster cluster = build_cluster(spec);
  for (const auto& [op, gpus] :
       {std::pair(CollectiveOp::AllToAll, all_gpus(cluster)),
        std::pair(CollectiveOp::SendRecv, std::vector<std::uint32_t>{0, 8})}) {
    const CollectiveStudy study = study_collective(
        cluster, {.op = op, .gpus = gpus, .algorithms = {"nccl"}, .sizes = {1024}});
    ASSERT_EQ(study.algorithms.at(0).rows.size(), 1U);
    EXPECT_FALSE(study.algorithms[0].rows[0].spread);
  }
}

// Is a number of nodes refused for a cluster that lists its devices, unless it is the cluster's?
TEST(Study, ACustomClusterHasItsOwnNumberOfNodes) {
  const std::string file = testing::TempDir() + "trainyard_study_custom.json";
  write_file(file, to_custom_json(h100s(2)).dump());
  EXPECT_EQ(complaint([&] { (void)chosen_cluster({.cluster = file, .nodes = 4}); }),
            "--nodes: " + file +
                " lists the devices of 2 nodes (leave it out, or describe the "
                "cluster by a node type and a fabric)\n");
  EXPECT_EQ(chosen_cluster({.cluster = file, .nodes = 2}).nodes, 2U);
  std::filesystem::remove(file);
}

// Does the study report why a group cannot use an algorithm?
TEST(Study, SaysWhyAGroupCannotUseAnAlgorithm) {
  const Cluster cluster = build_cluster({.node = load_node("mi300x"), .nodes = 1});
  const CollectiveStudy study = study_collective(
      cluster, {.gpus = {0, 1, 2}, .algorithms = {"nccl", "ring"}, .sizes = {1024}});
  ASSERT_TRUE(study.algorithms[0].refusal);
  EXPECT_THAT(*study.algorithms[0].refusal, HasSubstr("no GPU of NVIDIA"));
  EXPECT_TRUE(study.algorithms[0].rows.empty());
  EXPECT_EQ(winners(study).at(0).algorithm, 1U);
  EXPECT_FALSE(winners(study).at(0).second);
}

// Does the study report NCCL's choice?
TEST(Study, NcclSaysWhatItChose) {
  const Cluster cluster = h100s(1);
  const CollectiveStudy study = study_collective(
      cluster, {.gpus = all_gpus(cluster), .algorithms = {"nccl"}, .sizes = {8, 1 << 30}});
  EXPECT_THAT(study.algorithms.at(0).rows.at(0).choice, HasSubstr("/LL, "));
  EXPECT_THAT(study.algorithms.at(0).rows.at(1).choice, HasSubstr("NVLS/Simple"));
  EXPECT_EQ(study.algorithms.at(0).rows.at(0).bottleneck(), "latency");
  EXPECT_EQ(study.algorithms.at(0).rows.at(1).bottleneck(), "protocol");
}

// Is the interval of a prediction of NCCL the spread of measured calls of its size and nodes, and
// has an algorithm by name none?
TEST(Study, PredictionsOfNcclHaveAnInterval) {
  const Cluster cluster = h100s(2);
  CollectiveStudy study = study_collective(
      cluster, {.gpus = all_gpus(cluster), .algorithms = {"nccl", "ring"}, .sizes = {8, 1 << 30}});
  const auto json = study_json(study);
  for (std::size_t i = 0; i < 2; ++i) {
    const CollectiveRow& row = study.algorithms[0].rows[i];
    const nccl::CallSpread& spread = nccl::spread_of(2, row.bytes);
    expect_near(json[i]["interval_us"][0], 1e6 * row.time_s * spread.low);
    expect_near(json[i]["interval_us"][1], 1e6 * row.time_s * spread.high);
    EXPECT_TRUE(json[2 + i]["interval_us"].is_null());
  }
  EXPECT_THAT(collective_text(study, "2 x dgx_h100"),
              HasSubstr("1 MiB and more on 2 to 8 nodes: nine of ten measured calls"));
  study.algorithms.erase(study.algorithms.begin());
  EXPECT_THAT(collective_text(study, "2 x dgx_h100"), testing::Not(HasSubstr("nine of ten")));
}

// Times 10 + S and 1 + 4 S are equal at S = 3; a third algorithm is never the best.
CollectiveStudy by_hand() {
  CollectiveStudy study{.ranks = 2, .sizes = {1, 2, 4, 8}};
  study.algorithms = {{.algorithm = "few"}, {.algorithm = "fast"}, {.algorithm = "far"}};
  for (const std::int64_t bytes : study.sizes) {
    const auto size = static_cast<double>(bytes);
    const double times[] = {1.0 + 4.0 * size, 10.0 + size, 100.0};
    for (std::size_t i = 0; i < 3; ++i)
      study.algorithms[i].rows.push_back(
          {.bytes = bytes, .time_s = times[i], .algbw = size / times[i], .busbw = size / times[i]});
  }
  return study;
}

// Does the comparison find the quickest algorithms and where they change?
TEST(Comparison, FindsTheWinnersAndWhereTheyChange) {
  const CollectiveStudy study = by_hand();
  std::vector<std::size_t> best;
  for (const Winner& winner : winners(study)) best.push_back(winner.algorithm);
  EXPECT_THAT(best, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(winners(study)[0].second, 1U);
  const std::vector<Crossover> at = crossovers(study);
  ASSERT_EQ(at.size(), 1U);
  EXPECT_EQ(at[0].from, 0U);
  EXPECT_EQ(at[0].to, 1U);
  EXPECT_EQ(at[0].below, 2);
  EXPECT_EQ(at[0].above, 4);
  expect_near(at[0].bytes, 3.0);
}

// Is the first of equal algorithms the quickest?
TEST(Comparison, TheFirstOfEqualsWins) {
  CollectiveStudy study = by_hand();
  study.algorithms[1] = study.algorithms[0];
  EXPECT_FALSE(winners(study).empty());
  for (const Winner& winner : winners(study)) EXPECT_EQ(winner.algorithm, 0U);
  EXPECT_TRUE(crossovers(study).empty());
}

// Are sizes read in the notation of nccl-tests?
TEST(Sizes, AreReadAsNcclTestsWritesThem) {
  EXPECT_THAT(parse_sizes("8B:64B"), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(parse_sizes("8:100:3"), ElementsAre(8, 24, 72));
  EXPECT_THAT(parse_sizes("1M:1GiB:32"), ElementsAre(1 << 20, 1 << 25, 1 << 30));
  EXPECT_THAT(parse_sizes("1.5KiB"), ElementsAre(1536));
  EXPECT_THAT(parse_sizes("1m,8k,4k:16k"), ElementsAre(4096, 8192, 16384, 1 << 20));
  EXPECT_THAT(parse_sizes("2KB"), ElementsAre(2000));
  EXPECT_EQ(parse_sizes("8B:8GiB").size(), 31U);
  EXPECT_THAT(parse_sizes("1MiB:1GiB:1000000000000000"), ElementsAre(1 << 20));
  EXPECT_EQ(size_text(1536), "1536B");
  EXPECT_EQ(size_text(1 << 20), "1MiB");
}

// Is text refused that is not a size?
TEST(Sizes, RefusesWhatIsNone) {
  for (const char* text : {"", "8X", "GiB", "0", "-8", "8B:4B", "8B:8GiB:1", "8B:8GiB:x", "1:2:3:4",
                           "nan", "inf", "1e400", "0.5B", "1:1T:1.0001"})
    EXPECT_THROW((void)parse_sizes(text), InputError) << text;
}

// Are the rows' keys those of the contract?
TEST(Rows, AreTheKeysOfTheContract) {
  CollectiveStudy study = by_hand();
  study.algorithms[0].rows[1].choice = "Ring/LL, 2 channels";
  const nlohmann::ordered_json rows = study_json(study);
  ASSERT_EQ(rows.size(), 12U);
  EXPECT_EQ(rows[1].dump(),
            R"({"op":"all_reduce","algorithm":"few","protocol":"Ring/LL, 2 channels","ranks":2,)"
            R"("size_bytes":2,"time_us":9000000.0,"algbw_GBps":2.2222222222222221e-10,)"
            R"("busbw_GBps":2.2222222222222221e-10,"bottleneck":"latency","interval_us":null})");
  EXPECT_TRUE(rows[0]["protocol"].is_null());
  EXPECT_THAT(study_csv(study), HasSubstr("all_reduce,few,\"Ring/LL, 2 channels\",2,2,0,"));
}

// Are elements counted as in nccl-tests?
TEST(Rows, CountElementsAsNcclTests) {
  EXPECT_EQ(element_count({.op = CollectiveOp::AllReduce, .ranks = 8}, 4096), 1024);
  EXPECT_EQ(element_count({.op = CollectiveOp::AllGather, .ranks = 8}, 4096), 128);
}

// Does the plot have a letter for each algorithm?
TEST(Plot, HasALetterForEachAlgorithm) {
  const CollectiveStudy study = by_hand();
  EXPECT_EQ(plot_letters(study), "far");
  const std::string text = plot_text(study, {.columns = 30, .lines = 8});
  EXPECT_THAT(text, HasSubstr("f  few"));
  EXPECT_THAT(text, HasSubstr("a  fast"));
  EXPECT_EQ(plot_text({}, {}), "");
}

// Are all_to_all sends of thousands of ranks studied or refused? Where all ranks send to all
// others, phases hold the messages alone: 1000 ranks are studied, and more than 2048 are refused
// with the number of their messages.
TEST(Study, AllToAllSendsOfThousandsOfRanksAreStudiedOrRefused) {
  const Cluster cluster = h100s(125);
  const CollectiveStudy study =
      study_collective(cluster, {.gpus = all_gpus(cluster),
                                 .algorithms = {"one_shot", "two_shot", "halving_doubling"},
                                 .sizes = {1 << 20}});
  EXPECT_EQ(study.algorithms.size(), 3U);
  for (const AlgorithmStudy& algorithm : study.algorithms) EXPECT_EQ(algorithm.rows.size(), 1U);
  const Cluster large = h100s(500);
  const CollectiveStudy refused = study_collective(
      large, {.gpus = all_gpus(large), .algorithms = {"two_shot"}, .sizes = {1 << 20}});
  ASSERT_TRUE(refused.algorithms[0].refusal);
  EXPECT_EQ(*refused.algorithms[0].refusal,
            "4000 ranks that all send to all others are 15996000 messages, more than 4194304");
}

}  // namespace
}  // namespace trainyard
