// Several groups at once: how they are named, how much they slow each other down, and which links
// they share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/base/error.hpp"
#include "tests/agreement.hpp"
#include "tests/topologies/clusters.hpp"
#include "tools/studies/collective/arguments.hpp"
#include "tools/studies/collective/interference.hpp"
#include "tools/studies/collective/report.hpp"
#include "tools/studies/collective/study.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::uint32_t> first_ranks(std::uint32_t count) {
  std::vector<std::uint32_t> ranks(count);
  for (std::uint32_t i = 0; i < count; ++i) ranks[i] = i;
  return ranks;
}

// Are ranks numbers and ranges?
TEST(Groups, RanksAreNumbersAndRanges) {
  EXPECT_THAT(parse_ranks("3,1", 8, "--ranks"), ElementsAre(3, 1));
  EXPECT_THAT(parse_ranks("0-3,7", 8, "--ranks"), ElementsAre(0, 1, 2, 3, 7));
  EXPECT_THAT(parse_ranks("0-16/8", 24, "--ranks"), ElementsAre(0, 8, 16));
  EXPECT_THAT(parse_ranks("3-5/4294967295", 8, "--ranks"), ElementsAre(3));
  for (const char* text : {"", "8", "-1", "1-", "3-1", "0-4/0", "0,0", "0-3,2", "a", "0-7/x", "1 "})
    EXPECT_THROW((void)parse_ranks(text, 8, "--ranks"), InputError) << text;
}

// Does a group's text name its operation, algorithm, ranks and size?
TEST(Groups, AGroupNamesWhatItDoes) {
  const CollectiveGroup group = parse_group("all_reduce/ring:0-8/8@64MiB", 16);
  EXPECT_EQ(group.op, CollectiveOp::AllReduce);
  EXPECT_EQ(group.algorithm, "ring");
  EXPECT_THAT(group.gpus, ElementsAre(0, 8));
  EXPECT_EQ(group.bytes, 64 << 20);
  EXPECT_EQ(parse_group("all_to_all/my/own.json:0-7", 8).algorithm, "my/own.json");
  EXPECT_EQ(parse_group("all_gather:0,1", 8).algorithm, "");
  EXPECT_FALSE(parse_group("all_gather:0,1", 8).bytes);
  for (const char* text : {"all_reduce", "all_redcue:0-7", "all_reduce:0", "send_recv:0-2",
                           "all_reduce:0-7@big", "all_reduce:0-8", ":0-7"})
    EXPECT_THROW((void)parse_group(text, 8), InputError) << text;
}

// Does the error about a size name the group's option? A group has one size, and the error names
// the option that contains it.
TEST(Groups, ASizeIsRefusedUnderTheGroupsName) {
  const auto said = [](const char* text) -> std::string {
    try {
      (void)parse_group(text, 8);
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(
      said("all_reduce:0-7@0"),
      "--group: \"0\" is not a whole number of bytes from 1 to 10^15 (the sizes of nccl-tests "
      "go from 8B to 8GiB)");
  EXPECT_EQ(said("all_reduce:0-7@"),
            "--group: \"\" is not a size (write a number with B, KiB, MiB or GiB, such as 64MiB)");
  EXPECT_EQ(said("all_reduce:0-7@8B"), "nothing");
  // A colon ends the operation's name, so that the parser does not take a range of sizes for one of
  // ranks.
  EXPECT_NE(said("all_reduce:0-7@8B:8GiB"), "nothing");
}

// Are groups studied once where all of them name their size? The sizes of the study are for groups
// without one; where all groups name theirs, there is one row per group.
TEST(Groups, ThatAllNameTheirSizeAreStudiedOnce) {
  const Cluster cluster = h100s(1);
  InterferenceQuestion question{
      .groups = {parse_group("all_reduce:0-3@1MiB", 8), parse_group("all_gather:4-7@2MiB", 8)},
      .sizes = {1 << 10, 1 << 20, 1 << 30}};
  const InterferenceStudy named = study_interference(cluster, question);
  ASSERT_EQ(named.rows.size(), 2U);
  EXPECT_EQ(named.rows[0].bytes, 1 << 20);
  EXPECT_EQ(named.rows[1].bytes, 2 << 20);
  question.groups.back().bytes.reset();
  EXPECT_EQ(study_interference(cluster, question).rows.size(), 6U);
}

// Are the splits those of parallel training?
TEST(Groups, SplitsAreThoseOfParallelTraining) {
  const std::vector<std::uint32_t> ranks = first_ranks(6);
  EXPECT_THAT(split_groups("tensor=3", ranks),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
  EXPECT_THAT(split_groups("data=3", ranks),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5)));
  for (const char* text :
       {"data=4", "data=6", "tensor=1", "data", "data=0", "expert=2", "tensor=x"})
    EXPECT_THROW((void)split_groups(text, ranks), InputError) << text;
}

// Do rings over separate rails not slow each other down? The 8 rings of 8 rails share nothing on a
// rail-optimised fabric.
TEST(Interference, RingsOverTheirOwnRailsDoNotSlowEachOther) {
  const Cluster cluster = h100s(4);
  InterferenceQuestion question{.sizes = {1 << 26}, .algorithm = "ring"};
  for (const std::vector<std::uint32_t>& gpus : split_groups("data=8", first_ranks(32)))
    question.groups.push_back({.gpus = gpus});
  const InterferenceStudy study = study_interference(cluster, question);
  std::uint32_t groups = 0;
  for (const GroupRow& row : study.rows) {
    groups += row.groups;
    EXPECT_NEAR(row.slowdown(), 1.0, kAgreement);
    const CollectiveStudy alone = study_collective(
        cluster, {.gpus = row.ranks, .algorithms = {"ring"}, .sizes = {row.bytes}});
    EXPECT_NEAR(row.alone_s, alone.algorithms[0].rows[0].time_s, kAgreement * row.alone_s);
  }
  EXPECT_EQ(groups, 8U);
}

// Do two messages on one link take twice the time of their bytes? Two messages from one GPU to two
// others on the node share its NVLink: each gets half of it.
TEST(Interference, TwoOnOneLinkTakeTwiceTheTimeOfTheirBytes) {
  const Cluster cluster = h100s(1);
  InterferenceQuestion question{.sizes = {1 << 30}, .algorithm = "direct"};
  question.groups = {parse_group("send_recv:0,1", 8), parse_group("send_recv:0,2", 8)};
  const InterferenceStudy study = study_interference(cluster, question);
  ASSERT_FALSE(study.rows.empty());
  const NodeSpec node = load_node("dgx_h100");
  const double bytes_s = double{1 << 30} / node.nvlink.value();
  for (const GroupRow& row : study.rows) {
    EXPECT_NEAR(row.together_s - row.alone_s, bytes_s, kAgreement * bytes_s);
    ASSERT_TRUE(row.shared);
    EXPECT_EQ(row.shared->groups, 2U);
    EXPECT_THAT(row.shared->name, HasSubstr("nvlink: node 0 gpu 0"));
    EXPECT_NEAR(row.shared->load, 2.0 * bytes_s / row.together_s, 1e-6);
  }
}

// Do different collectives on the same GPUs share them? For an all_to_all concurrent with an
// all_reduce on the same GPUs, neither is quicker than alone, and together they are no slower than
// one after the other.
TEST(Interference, DifferentCollectivesOnTheSameGpusShareThem) {
  const Cluster cluster = h100s(2);
  InterferenceQuestion question{.sizes = {1 << 28}};
  question.groups = {parse_group("all_reduce/ring:0-15", 16),
                     parse_group("all_to_all/direct:0-15@64MiB", 16)};
  const InterferenceStudy study = study_interference(cluster, question);
  ASSERT_EQ(study.rows.size(), 2U);
  double sum_s = 0.0, last_s = 0.0;
  for (const GroupRow& row : study.rows) {
    EXPECT_GE(row.slowdown(), 1.0 - kAgreement);
    EXPECT_TRUE(row.shared);
    sum_s += row.alone_s;
    last_s = std::max(last_s, row.together_s);
  }
  EXPECT_GT(study.rows[1].slowdown(), 1.01);
  EXPECT_LE(last_s, sum_s * (1.0 + kAgreement));
  EXPECT_EQ(study.rows[1].bytes, 64 << 20);
}

// Do the rows have the form that programs read?
TEST(Interference, RowsAreForPrograms) {
  const Cluster cluster = h100s(1);
  InterferenceQuestion question{.sizes = {1 << 20}, .algorithm = "ring"};
  question.groups = {{.gpus = {0, 1}}, {.gpus = {2, 3}}};
  const InterferenceStudy study = study_interference(cluster, question);
  const nlohmann::ordered_json rows = interference_json(study);
  ASSERT_EQ(rows.size(), study.rows.size());
  EXPECT_EQ(rows[0]["op"], "all_reduce");
  EXPECT_EQ(rows[0]["ranks"], (std::vector<int>{0, 1}));
  EXPECT_EQ(rows[0]["size_bytes"], 1 << 20);
  EXPECT_TRUE(rows[0]["shared_link"].is_null());
  EXPECT_THAT(interference_csv(study), HasSubstr("all_reduce,ring,"));
}

}  // namespace
}  // namespace trainyard
