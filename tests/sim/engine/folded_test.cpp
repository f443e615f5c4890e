// Folded and unfolded runs of symmetric workloads agree to 1e-9 (decision D1), with weights and
// without.
#include <gtest/gtest.h>

#include <random>

#include "tests/sim/engine/builders.hpp"

namespace trainyard::test {
namespace {

constexpr std::uint32_t kGpus = 8;
constexpr std::uint32_t kStarGpus =
    kGpus + 1;  // the links of the last one represent an uplink that all share

LinkId down(std::uint32_t gpu) { return LinkId{gpu}; }
LinkId up(std::uint32_t gpu) { return LinkId{kStarGpus + gpu}; }

// A ring over the group: the up and down links of every member, and a share of the common uplink.
PhasesByPlace ring(double latency_s, double bytes, double share_of_uplink) {
  return [=](std::span<const std::uint32_t> gpus) {
    std::vector<LinkLoad> loads;
    for (const std::uint32_t gpu : gpus) loads.push_back({down(gpu), bytes});
    if (share_of_uplink > 0.0) loads.push_back({down(kGpus), bytes * share_of_uplink});
    for (const std::uint32_t gpu : gpus) loads.push_back({up(gpu), bytes});
    std::sort(loads.begin(), loads.end(),
              [](const LinkLoad& a, const LinkLoad& b) { return a.link < b.link; });
    return std::vector<Phase>{phase(latency_s, {link_flow(std::move(loads))})};
  };
}

struct UplinkShares {
  double pair = 0.0;
  double reduction = 0.25;
};

// Two pipeline stages of four ranks: pairs within a stage, sends between stages, and a reduction
// over the stage on another stream, all concurrently on the same links.
Script two_stages(std::uint32_t seed, const UplinkShares& shares = {}) {
  std::mt19937 random(seed);
  const auto size = [&] { return 1e6 * std::floor(1.0 + static_cast<double>(random() % 200)); };
  Script script(std::vector<double>(std::size_t{2} * kStarGpus, 25e9));
  const auto pair = script.call_by_place(CollectiveOp::AllGather, ring(3e-6, size(), shares.pair));
  const auto reduction =
      script.call_by_place(CollectiveOp::AllReduce, ring(9e-6, size(), shares.reduction));
  const double message = size();
  const auto send =
      script.call_by_place(CollectiveOp::SendRecv, [=](std::span<const std::uint32_t> gpus) {
        return std::vector<Phase>{
            phase(5e-6, {link_flow({{down(gpus[1]), message}, {up(gpus[0]), message}})})};
      });
  for (const bool first : {true, false}) {
    const auto program = script.program(first ? "first" : "last");
    for (int microbatch = 0; microbatch < 6; ++microbatch) {
      const OpIndex received =
          first ? 0 : script.communicate(program, OpKind::Recv, 1, send, {.stream = 2});
      script.compute(program, 1e-4 * static_cast<double>(1 + random() % 9),
                     {.after = first ? std::vector<OpIndex>{} : std::vector<OpIndex>{received}});
      const OpIndex gathered = script.communicate(program, OpKind::Collective, 0, pair);
      if (first)
        script.communicate(program, OpKind::Send, 1, send, {.stream = 2, .after = {gathered}});
      script.communicate(program, OpKind::Collective, 2, reduction,
                         {.stream = 1, .after = {gathered}});
    }
    for (std::uint32_t rank = 0; rank < kGpus / 2; ++rank) script.rank(program);
  }
  for (const RankId rank : std::initializer_list<RankId>{0, 2, 4, 6})
    script.group({{rank, 0}, {rank + 1, 0}});
  for (const RankId rank : std::initializer_list<RankId>{0, 1, 2, 3})
    script.group({{rank, 1}, {rank + 4, 1}});
  for (const RankId rank : std::initializer_list<RankId>{0, 4})
    script.group({{rank, 2}, {rank + 1, 2}, {rank + 2, 2}, {rank + 3, 2}});
  return script;
}

void expect_equal_times(const Partition& folded, const Timeline& few, const Timeline& all) {
  ASSERT_NEAR(few.makespan_s, all.makespan_s, kAgreement * all.makespan_s);
  for (RankId rank = 0; rank < folded.class_of_rank.size(); ++rank) {
    const OpTimes& one = few.classes[folded.class_of_rank[rank]];
    for (std::size_t op = 0; op < one.end_s.size(); ++op) {
      const double end = all.classes[rank].end_s[op];
      ASSERT_NEAR(one.ready_s[op], all.classes[rank].ready_s[op], kAgreement * end);
      ASSERT_NEAR(one.start_s[op], all.classes[rank].start_s[op], kAgreement * end);
      ASSERT_NEAR(one.end_s[op], end, kAgreement * end);
    }
  }
}

// Do folded stages agree with their ranks?
TEST(Folded, StagesAgreeWithTheirRanks) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Script script = two_stages(seed);
    const Partition folded = script.fold_it(true);
    const Partition unfolded = script.fold_it(false);
    ASSERT_EQ(folded.ranks.size(), 2U);
    ASSERT_EQ(unfolded.ranks.size(), kGpus);
    for (const auto& engine :
         {make_engine("simgrid"), simgrid_without_components(), make_engine("ideal")}) {
      const Timeline few = script.run(*engine, folded);
      const Timeline all = script.run(*engine, unfolded);
      expect_equal_times(folded, few, all);
      EXPECT_EQ(few.counters.rounded_weights, 0U);
      for (std::size_t link = 0; link < unfolded.links.size(); ++link) {
        const LinkUse& one = few.links[folded.class_of_link[unfolded.links[link].representative]];
        ASSERT_NEAR(one.bytes, all.links[link].bytes, kAgreement * one.bytes);
        ASSERT_NEAR(one.busy_s, all.links[link].busy_s, kAgreement * one.busy_s);
        ASSERT_NEAR(one.peak_utilisation, all.links[link].peak_utilisation, kAgreement);
      }
    }
  }
}

// Do rounded weights agree too? Shares without a common unit are rounded per flow, so folding does
// not change them.
TEST(Folded, RoundedWeightsAgreeWithTheirRanks) {
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    const Script script = two_stages(seed, {.pair = 0.1234, .reduction = 0.3819});
    const Partition folded = script.fold_it(true);
    const Timeline few = script.run(*make_engine("simgrid"), folded);
    expect_equal_times(folded, few, script.run(*make_engine("simgrid"), script.fold_it(false)));
    EXPECT_EQ(few.counters.rounded_weights, 4U);  // pairs and reductions of both stages
  }
}

// Can an unfolded group have 65536 members? This is more than 16 bits can count, and each member is
// a separate participant if nothing is folded.
TEST(Folded, AnUnfoldedGroupMayHave65536Members) {
  constexpr std::uint32_t kMembers = 65'536;
  Script script({1e9});
  const std::uint32_t call =
      script.call(CollectiveOp::AllReduce, {{.latency = Seconds{2.0}, .flows = {}}});
  const std::uint32_t program = script.program("member");
  script.communicate(program, OpKind::Collective, 0, call);
  std::vector<Script::Member> members;
  for (std::uint32_t i = 0; i < kMembers; ++i)
    members.push_back({.rank = script.rank(program), .slot = 0});
  script.group(members);
  const Timeline timeline = script.run(*make_engine("ideal"), script.fold_it(false));
  ASSERT_EQ(timeline.classes.size(), kMembers);
  EXPECT_EQ(timeline.makespan_s, 2.0);
}

// Does a run repeat itself within a process?
TEST(Folded, RepeatsItselfWithinAProcess) {  // oracle 76
  const Script script = two_stages(7);
  const Partition folded = script.fold_it(true);
  const Timeline first = script.run(*make_engine("simgrid"), folded);
  const Timeline second = script.run(*make_engine("simgrid"), folded);
  EXPECT_EQ(first.counters.events, second.counters.events);
  EXPECT_EQ(first.counters.activities, second.counters.activities);
  // SimGrid's clock continues between runs: contributions to a date below 1e-16 of its value are
  // lost.
  expect_equal_times(folded, first, script.run(*make_engine("simgrid"), script.fold_it(false)));
  for (std::size_t rank_class = 0; rank_class < first.classes.size(); ++rank_class) {
    for (std::size_t op = 0; op < first.classes[rank_class].end_s.size(); ++op) {
      EXPECT_NEAR(first.classes[rank_class].end_s[op], second.classes[rank_class].end_s[op], 1e-12);
    }
  }
}

}  // namespace
}  // namespace trainyard::test
