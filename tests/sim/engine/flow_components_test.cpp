// Flow components: flows that start together and share links with no others. They must take the
// time that SimGrid gives them, and share links with flows that start later.
#include <gtest/gtest.h>

#include <random>

#include "tests/sim/engine/filling.hpp"

namespace trainyard::test {
namespace {

struct Moves {
  std::vector<double> capacities;
  std::vector<Transfer> transfers;
};

// Sixteen flows over one to three of ten links each, which start at one of three dates: some
// separate, some joined by links, some while others are running. All within about ten milliseconds,
// because all runs of a process share SimGrid's clock.
Moves random_moves(std::uint32_t seed) {
  std::mt19937 random(seed);
  Moves moves;
  for (int link = 0; link < 10; ++link)
    moves.capacities.push_back(3e10 * (1.0 + static_cast<double>(random() % 8)));
  for (int flow = 0; flow < 16; ++flow) {
    Transfer transfer{.start_s = 3e-3 * static_cast<double>(random() % 3), .link_flow = {}};
    const double bytes = 4e6 * (1.0 + static_cast<double>(random() % 100));
    for (std::size_t hop = 0; hop <= random() % 3; ++hop) {
      const LinkId link{static_cast<std::uint32_t>(random() % 10)};
      const bool listed =
          std::any_of(transfer.link_flow.loads.begin(), transfer.link_flow.loads.end(),
                      [link](const LinkLoad& load) { return load.link == link; });
      if (!listed)
        transfer.link_flow.loads.push_back(
            {link, bytes * static_cast<double>(1 + random() % 4) / 4.0});
    }
    if (random() % 3 == 0)
      transfer.link_flow.rate_cap_bytes_per_s = 1.5e10 * (1.0 + static_cast<double>(random() % 4));
    moves.transfers.push_back(std::move(transfer));
  }
  return moves;
}

// Do the flows end at the times of progressive filling?
TEST(FlowComponents, EndWhenProgressiveFillingSays) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const Moves moves = random_moves(seed);
    std::vector<FillingFlow> flows;
    for (const Transfer& transfer : moves.transfers)
      flows.push_back(filling_flow(transfer, moves.capacities.size()));
    const std::vector<double> expected = filled_ends(moves.capacities, flows);
    const std::vector<double> ends =
        ends_of(*make_engine("simgrid"), moves.capacities, moves.transfers);
    ASSERT_EQ(ends.size(), expected.size());
    for (std::size_t flow = 0; flow < ends.size(); ++flow)
      ASSERT_NEAR(ends[flow], expected[flow], kAgreement * expected[flow]) << "seed " << seed;
  }
}

// SimGrid's precision in seconds (docs/design/decisions.md, D4). Which of two events within it
// comes first depends on where SimGrid's objects lie in memory.
constexpr double kPrecision = 1e-12;

// Are links loaded as on SimGrid? Their bytes, busy times and peaks equal those of a run in which
// SimGrid prices every flow.
TEST(FlowComponents, LoadLinksAsSimGridDoes) {
  std::uint64_t activities = 0;
  std::uint64_t activities_without = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const Moves moves = random_moves(seed);
    Script script = transfers_script(moves.capacities, moves.transfers);
    const Partition partition = script.fold_it(false);
    const Timeline timeline = script.run(*make_engine("simgrid"), partition);
    const Timeline without = script.run(*make_simgrid_engine({.components = false}), partition);
    activities += timeline.counters.activities;
    activities_without += without.counters.activities;
    for (std::size_t link = 0; link < partition.links.size(); ++link) {
      const LinkUse& use = timeline.links[link];
      const LinkUse& other = without.links[link];
      ASSERT_DOUBLE_EQ(use.bytes, other.bytes) << "seed " << seed;
      ASSERT_NEAR(use.busy_s, other.busy_s, kAgreement * other.busy_s + kPrecision)
          << "seed " << seed;
      ASSERT_NEAR(use.peak_utilisation, other.peak_utilisation, kAgreement) << "seed " << seed;
    }
  }
  EXPECT_GT(activities, 0U);
  EXPECT_LT(activities, activities_without);
}

// Is a component split by a later flow? 1 and 3 GB over 2 GB/s take 1 and 2 s. A third flow of 1 GB
// that starts at 0.5 s takes a third of the link: the first has 0.5 GB left and ends at 1.25 s,
// when the third has 0.5 GB left and the second 2; at 1 GB/s each the third ends at 1.75 s, and the
// second, with 1.5 GB left at 2 GB/s, at 2.5 s.
TEST(FlowComponents, AreSplitByALaterFlow) {
  const std::vector<double> capacities{2e9};
  const Transfer first{.link_flow = link_flow({{0, 1e9}})};
  const Transfer second{.link_flow = link_flow({{0, 3e9}})};
  const Transfer third{.start_s = 0.5, .link_flow = link_flow({{0, 1e9}})};
  const auto engine = make_engine("simgrid");
  const std::vector<double> two = ends_of(*engine, capacities, {first, second});
  EXPECT_NEAR(two[0], 1.0, 1e-9);
  EXPECT_NEAR(two[1], 2.0, 1e-9);
  const std::vector<double> three = ends_of(*engine, capacities, {first, second, third});
  EXPECT_NEAR(three[0], 1.25, 1e-9);
  EXPECT_NEAR(three[1], 2.5, 1e-9);
  EXPECT_NEAR(three[2], 1.75, 1e-9);
}

// Does a flow end before one that starts at the same moment? The third starts exactly when the
// first ends: 2 GB of the second are left.
TEST(FlowComponents, EndBeforeAFlowThatStartsAtThatInstant) {
  const Transfer first{.link_flow = link_flow({{0, 1e9}})};
  const Transfer second{.link_flow = link_flow({{0, 3e9}})};
  const Transfer third{.start_s = 1.0, .link_flow = link_flow({{0, 1e9}})};
  const std::vector<double> ends = ends_of(*make_engine("simgrid"), {2e9}, {first, second, third});
  EXPECT_NEAR(ends[0], 1.0, 1e-9);
  EXPECT_NEAR(ends[1], 2.5, 1e-9);
  EXPECT_NEAR(ends[2], 2.0, 1e-9);
}

}  // namespace
}  // namespace trainyard::test
