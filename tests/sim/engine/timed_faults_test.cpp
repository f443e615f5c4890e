// Faults with dates: what a slower GPU or link does from its date on, by hand, against SimGrid's
// own profiles of bandwidth, folded and not, in regions and not.
#include "sim/cluster/timed_faults.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>
#include <simgrid/kernel/ProfileBuilder.hpp>
#include <sstream>

#include "builders.hpp"
#include "sim/engine/simgrid/shim.hpp"

namespace trainyard::test {
namespace {

namespace s4u = simgrid_shim::s4u;

// Do faults of one part multiply, and end?
TEST(TimedFaults, OfOnePartMultiplyAndEnd) {
  ClusterFacts facts;
  facts.timed_faults = {{.gpu = 1, .rate_left = 0.5, .from_s = 1.0, .until_s = 3.0},
                        {.gpu = 1, .rate_left = 0.5, .from_s = 2.0},
                        {.gpu = 0, .rate_left = 0.1}};
  EXPECT_THAT(rates_of_gpu(facts, 1),
              testing::ElementsAre(RateStep{0.0, 1.0}, RateStep{1.0, 0.5}, RateStep{2.0, 0.25},
                                   RateStep{3.0, 0.5}));
  EXPECT_THAT(rates_of_gpu(facts, 0), testing::ElementsAre(RateStep{0.0, 0.1}));
  EXPECT_TRUE(rates_of_gpu(facts, 2).empty());
  EXPECT_FALSE(has_timed_links(facts));
}

// Two kernels of 1 s on a GPU, one after the other.
Script kernels_script() {
  Script script({1e9, 1e9, 1e9, 1e9});
  const auto program = script.program("kernels");
  script.compute(program, 1.0);
  script.compute(program, 1.0);
  script.rank(program);
  return script;
}

double makespan(Script& script, bool contract = true, bool folded = false) {
  const Partition partition = script.fold_it(folded);
  EngineInput input{.cluster = script.cluster(),
                    .workload = script.workload(),
                    .partition = partition,
                    .kernel_seconds = script.kernel_seconds(),
                    .contract = contract};
  return make_engine("simgrid")->run(input).makespan_s;
}

// Does a GPU compute slower from the date on? At half the speed from 0.5 s on: 0.5 s, then 1.5 s of
// work in 3 s. From 0.5 s to 1.5 s: 0.5 s of work in that second, and 1 s is left.
TEST(TimedFaults, AGpuIsSlowerBetweenTheDates) {
  for (const bool contract : {true, false}) {
    Script lasting = kernels_script();
    lasting.add_fault({.gpu = 0, .rate_left = 0.5, .from_s = 0.5});
    EXPECT_DOUBLE_EQ(makespan(lasting, contract), 3.5);
    Script passing = kernels_script();
    passing.add_fault({.gpu = 0, .rate_left = 0.5, .from_s = 0.5, .until_s = 1.5});
    EXPECT_DOUBLE_EQ(makespan(passing, contract), 2.5);
    Script always = kernels_script();
    always.add_fault({.gpu = 0, .rate_left = 0.8});
    EXPECT_DOUBLE_EQ(makespan(always, contract), 2.5);
    Script later = kernels_script();
    later.add_fault({.gpu = 0, .rate_left = 0.5, .from_s = 100.0});
    EXPECT_DOUBLE_EQ(makespan(later, contract), 2.0);
    Script elsewhere = kernels_script();
    elsewhere.add_fault({.gpu = 1, .rate_left = 0.5});
    EXPECT_DOUBLE_EQ(makespan(elsewhere, contract), 2.0);
  }
}

// Do communications take their share of the rate that is left? At 0.8 of the speed, of which a
// collective of 1 s takes half: 0.4 s of work in the first second, then 0.6 s of work in 0.75 s.
TEST(TimedFaults, CommunicationTakesAShareOfWhatIsLeft) {
  Script script({1e9, 1e9});
  const auto call = script.call(CollectiveOp::AllReduce, {phase(0.0, {link_flow({{0, 1e9}})})});
  const auto program = script.program("both");
  script.compute(program, 1.0);
  script.communicate(program, OpKind::Collective, 0, call, {.stream = 1});
  const RankId first = script.rank(program);
  const RankId second = script.rank(program);
  script.group({{first, 0}, {second, 0}});
  script.add_fault({.gpu = 0, .rate_left = 0.8});
  const Partition partition = script.fold_it(true);
  EXPECT_EQ(partition.ranks.size(), 1U);  // both ranks are on the only GPU
  const std::vector<std::vector<double>> loss(partition.groups.size(), {0.5});
  const Timeline timeline = make_engine("simgrid")->run({.cluster = script.cluster(),
                                                         .workload = script.workload(),
                                                         .partition = partition,
                                                         .kernel_seconds = script.kernel_seconds(),
                                                         .compute_loss = loss});
  EXPECT_NEAR(timeline.makespan_s, 1.75, 1e-9);
}

// The link from GPU 0 to the switch is link 2 of a star of two GPUs.
TimedFault link_fault(double rate_left, double from_s, double until_s) {
  return {.from = 1, .to = 0, .rate_left = rate_left, .from_s = from_s, .until_s = until_s};
}

// Does a link carry less from the date on, also for transfers that start while it is slow, and all
// of it afterwards? 1 GB at 1 GB/s; half from 0.5 s to 1 s; the second one starts at 0.75 s.
TEST(TimedFaults, ALinkIsSlowerBetweenTheDates) {
  Script alone = transfers_script({1e9, 1e9, 1e9, 1e9}, {{0.0, link_flow({{2, 1e9}})}});
  alone.add_fault(link_fault(0.5, 0.5, 1.0));
  EXPECT_NEAR(ends_of(alone.run(*make_engine("simgrid")))[0], 1.25, 1e-9);
  Script later = transfers_script({1e9, 1e9, 1e9, 1e9}, {{0.75, link_flow({{2, 1e9}})}});
  later.add_fault(link_fault(0.5, 0.5, 1.0));
  EXPECT_NEAR(ends_of(later.run(*make_engine("simgrid")))[0], 1.875, 1e-9);
  Script dead = transfers_script({1e9, 1e9, 1e9, 1e9}, {{0.0, link_flow({{2, 1e9}})}});
  dead.add_fault(link_fault(1e-9, 0.5, 4.5));
  EXPECT_NEAR(ends_of(dead.run(*make_engine("simgrid")))[0], 5.0, 1e-8);
}

// Is a slow rank in a class of its own, and the result that of no folding?
TEST(TimedFaults, FoldedRunsAgreeWithUnfoldedOnes) {
  Script script({1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9});
  const auto program = script.program("all alike");
  script.compute(program, 1.0);
  for (int i = 0; i < 4; ++i) script.rank(program);
  EXPECT_EQ(script.fold_it(true).ranks.size(), 1U);
  script.add_fault({.gpu = 2, .rate_left = 0.5, .from_s = 0.25});
  EXPECT_EQ(script.fold_it(true).ranks.size(), 2U);
  EXPECT_DOUBLE_EQ(makespan(script, true, true), 1.75);
  EXPECT_DOUBLE_EQ(makespan(script, true, false), 1.75);
}

// Some messages that start together on one link whose bandwidth changes.
struct ProfileCase {
  std::vector<double> bytes;
  std::vector<TimedFault> faults;  // one after the other
};

ProfileCase random_case(std::mt19937& random) {
  const auto draw = [&](double least, double most) {
    return std::uniform_real_distribution(least, most)(random);
  };
  ProfileCase made;
  const std::size_t messages = 1 + random() % 4;
  for (std::size_t i = 0; i < messages; ++i) made.bytes.push_back(std::round(draw(1e8, 2e9)));
  double from_s = 0.0;
  for (int i = 0; i < 3; ++i) {
    from_s += draw(0.1, 0.8);
    const double until_s = from_s + draw(0.1, 0.8);
    made.faults.push_back(link_fault(draw(0.05, 0.95), from_s, until_s));
    from_s = until_s;
  }
  return made;
}

// The arrivals according to SimGrid's own profile of the link.
std::vector<double> simgrid_arrivals(s4u::Engine& engine, const ProfileCase& given) {
  s4u::NetZone* zone = simgrid_shim::make_zone(engine, "world");
  s4u::Link* link = simgrid_shim::make_link(zone, "shared", 1e9, true);
  std::string profile;
  for (const TimedFault& fault : given.faults)
    profile +=
        fmt::format("{} {}\n{} {}\n", fault.from_s, 1e9 * fault.rate_left, fault.until_s, 1e9);
  link->set_bandwidth_profile(
      simgrid::kernel::profile::ProfileBuilder::from_string("changes", profile, -1.0));
  std::vector<std::pair<s4u::Host*, s4u::Host*>> ends;
  for (std::size_t i = 0; i < given.bytes.size(); ++i) {
    ends.emplace_back(simgrid_shim::make_host(zone, fmt::format("from {}", i)),
                      simgrid_shim::make_host(zone, fmt::format("to {}", i)));
    simgrid_shim::make_route(zone, ends.back().first, ends.back().second, {s4u::LinkInRoute(link)});
  }
  zone->seal();
  std::vector<double> arrivals(given.bytes.size(), 0.0);
  std::vector<s4u::CommPtr> comms;
  simgrid_shim::on_comm_completion([](const s4u::Activity& activity) {
    *activity.get_data<double>() = s4u::Engine::get_clock();
  });
  for (std::size_t i = 0; i < ends.size(); ++i) {
    comms.push_back(s4u::Comm::sendto_init(ends[i].first, ends[i].second));
    comms.back()->set_data(&arrivals[i]);
    comms.back()->set_payload_size(static_cast<std::uint64_t>(given.bytes[i]));
    comms.back()->start();
  }
  engine.run();
  return arrivals;
}

std::vector<double> engine_arrivals(const ProfileCase& given) {
  std::vector<Transfer> transfers;
  for (const double bytes : given.bytes) transfers.push_back({0.0, link_flow({{2, bytes}})});
  Script script = transfers_script({1e9, 1e9, 1e9, 1e9}, transfers);
  for (const TimedFault& fault : given.faults) script.add_fault(fault);
  return ends_of(script.run(*make_engine("simgrid")));
}

// Writes SimGrid's arrivals to standard error and ends the process.
[[noreturn]] void print_simgrid_arrivals(const ProfileCase& given) {
  s4u::Engine engine("profile");
  simgrid_shim::configure();
  for (const double arrival_s : simgrid_arrivals(engine, given))
    std::fprintf(stderr, "%.15g\n", arrival_s);
  std::_Exit(0);
}

std::vector<double> numbers_in(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<double>(in), {}};
}

// Do transfers end when they do with SimGrid's own profiles of bandwidth? SimGrid runs once in a
// process, so each case of its own runs in a new one (a "threadsafe" death test).
TEST(TimedFaults, LinksAgreeWithSimgridsProfiles) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::mt19937 random(7);
  std::vector<std::pair<ProfileCase, std::string>> cases;  // with what SimGrid printed
  for (int i = 0; i < 8; ++i) {
    auto& [given, printed] = cases.emplace_back(random_case(random), "");
    EXPECT_EXIT(print_simgrid_arrivals(given), testing::ExitedWithCode(0),
                testing::ResultOf([&](const std::string& text) { return printed = text; },
                                  testing::Not(testing::IsEmpty())));
  }
  for (const auto& [given, printed] : cases) {
    const std::vector<double> of_simgrid = numbers_in(printed);
    const std::vector<double> of_engine = engine_arrivals(given);
    ASSERT_EQ(of_simgrid.size(), of_engine.size()) << printed;
    for (std::size_t message = 0; message < of_engine.size(); ++message)
      EXPECT_NEAR(of_engine[message] / of_simgrid[message], 1.0, 1e-9) << message;
  }
}

}  // namespace
}  // namespace trainyard::test
