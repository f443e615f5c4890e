// Host lanes: a step waits for the CPU that issues its kernels exactly as long as the CPU needs.
#include "sim/engine/host_lane.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "builders.hpp"
#include "sim/timeline/breakdown.hpp"

namespace trainyard::test {
namespace {

Timeline run_with_hosts(Script& script, const Engine& engine, const std::vector<HostLane>& hosts,
                        const Partition& partition) {
  return engine.run({.cluster = script.cluster(),
                     .workload = script.workload(),
                     .partition = partition,
                     .kernel_seconds = script.kernel_seconds(),
                     .progress = {},
                     .compute_loss = {},
                     .hosts = hosts});
}

Timeline run_with_hosts(Script& script, const Engine& engine, const std::vector<HostLane>& hosts) {
  return run_with_hosts(script, engine, hosts, script.fold_it(true));
}

// One rank with kernels one after another.
Script flow_script(const std::vector<double>& kernels) {
  Script script({1e9, 1e9});
  const auto program = script.program("chain");
  for (const double seconds : kernels) script.compute(program, seconds);
  script.rank(program);
  return script;
}

HostLane every(double seconds, std::size_t operations) {
  HostLane lane;
  for (std::size_t op = 1; op <= operations; ++op)
    lane.issued_s.push_back(seconds * static_cast<double>(op));
  return lane;
}

// Does the slower one of host and GPU set the pace? The example of the header: kernels of 1 s,
// issued every 2 s and every half second.
TEST(HostLane, TheSlowerOfHostAndGpuSetsThePace) {
  for (const EngineEntry& entry : engines()) {
    Script script = flow_script({1.0, 1.0, 1.0});
    const auto engine = entry.make();
    const std::vector<double> slow =
        run_with_hosts(script, *engine, {every(2.0, 3)}).classes[0].end_s;
    EXPECT_EQ(slow, (std::vector{3.0, 5.0, 7.0})) << entry.name;
    const std::vector<double> fast =
        run_with_hosts(script, *engine, {every(0.5, 3)}).classes[0].end_s;
    EXPECT_EQ(fast, (std::vector{1.5, 2.5, 3.5})) << entry.name;
  }
}

// Does a sync remove the lead of the host? The host reads the result of the second kernel before it
// continues: at 2.5 s instead of 1 s.
TEST(HostLane, ASyncEndsTheLeadOfTheHost) {
  for (const EngineEntry& entry : engines()) {
    Script script = flow_script({1.0, 1.0, 1.0, 1.0});
    HostLane lane = every(0.5, 4);
    lane.syncs.push_back({.after = 1, .awaited = {1}});
    const Timeline timeline = run_with_hosts(script, *entry.make(), {lane});
    EXPECT_EQ(timeline.classes[0].end_s, (std::vector{1.5, 2.5, 4.0, 5.0})) << entry.name;
    // A sync on a kernel that has ended long before costs nothing.
    lane = every(3.0, 4);
    lane.syncs.push_back({.after = 2, .awaited = {0, 1}});
    EXPECT_EQ(run_with_hosts(script, *entry.make(), {lane}).classes[0].end_s,
              (std::vector{4.0, 7.0, 10.0, 13.0}));
  }
}

// A message that takes 1 s, to a rank that computes before it receives.
struct MessageScript {
  explicit MessageScript(double computes)
      : script({1e9, 1e9}), sender(script.program("sender")), receiver(script.program("receiver")) {
    const auto call = script.call(CollectiveOp::SendRecv, {phase(0.0, {link_flow({{0, 1e9}})})});
    script.communicate(sender, OpKind::Send, 0, call, {.stream = 1});
    before = script.compute(receiver, computes);
    message = script.communicate(receiver, OpKind::Recv, 0, call, {.stream = 1});
    const RankId from = script.rank(sender);
    const RankId to = script.rank(receiver);
    script.group({{from, 0}, {to, 0}});
  }
  Script script;
  std::uint32_t sender, receiver;
  OpIndex before = 0;
  OpIndex message = 0;
};

// Is communication issued by the host too? A send waits for the receive that its partner's host has
// not posted yet.
TEST(HostLane, CommunicationIsIssuedToo) {
  for (const EngineEntry& entry : engines()) {
    MessageScript sent(1.0);
    Script& script = sent.script;
    script.compute(sent.receiver, 1.0, {.stream = 0, .after = {sent.message}});
    const std::vector<HostLane> hosts = {every(0.25, 1), every(2.0, 3)};
    const Timeline timeline = run_with_hosts(script, *entry.make(), hosts);
    EXPECT_DOUBLE_EQ(timeline.classes[1].end_s[sent.before], 3.0);
    EXPECT_DOUBLE_EQ(timeline.classes[0].ready_s[0], 0.25);
    EXPECT_DOUBLE_EQ(timeline.classes[0].start_s[0], 4.0);
    EXPECT_DOUBLE_EQ(timeline.makespan_s, 7.0);  // issued at 6 s, after the message's end at 5 s
    const Partition partition = script.fold_it(true);
    const Breakdown shares = breakdown(script.workload(), partition, timeline, 1);
    EXPECT_DOUBLE_EQ(shares.of(TimeShare::Compute), 2.0);
    EXPECT_DOUBLE_EQ(shares.of(TimeShare::ExposedOther), 1.0);  // 4 .. 5 s
    EXPECT_DOUBLE_EQ(shares.of(TimeShare::Host), 4.0);          // 0..2, 3..4, 5..6 s
  }
}

// Is an operation that is issued ahead not delayed by a sync? The receiver's host waits at a sync
// for a kernel that needs the message, which is issued after the sync. Only a receive that was
// posted ahead lets it continue; two ranks that did this to each other would deadlock.
TEST(HostLane, OperationsIssuedAheadAreNotDelayedByASync) {
  for (const EngineEntry& entry : engines()) {
    MessageScript sent(4.0);
    HostLane waits = every(2.0, 2);
    waits.syncs.push_back({.after = sent.before, .awaited = {sent.before}});
    const auto received = [&] {
      return run_with_hosts(sent.script, *entry.make(), {every(0.25, 1), waits})
          .classes[1]
          .end_s[sent.message];
    };
    EXPECT_DOUBLE_EQ(received(), 9.0);  // the kernel ends at 6, and the receive is issued 2 s later
    waits.ahead = {false, true};
    EXPECT_DOUBLE_EQ(received(), 1.25);  // when its sender has issued it
  }
}

// Do random kernels follow the recurrence end = max(previous end, issued) + kernel? A sync that
// awaits kernel j moves everything that is issued after it.
TEST(HostLane, RandomFlowsFollowTheRecurrence) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> seconds(0.1, 2.0);
  std::size_t syncs = 0;
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<double> kernels;
    HostLane lane;
    std::vector<double> ends;
    double issued = 0.0;
    double host = 0.0;
    for (OpIndex op = 0; op < 40; ++op) {
      kernels.push_back(seconds(random));
      const double dispatch = seconds(random);
      issued += dispatch;
      host += dispatch;
      lane.issued_s.push_back(issued);
      ends.push_back(std::max(ends.empty() ? 0.0 : ends.back(), host) + kernels.back());
      if (random() % 5 != 0) continue;
      const auto awaited = static_cast<OpIndex>(random() % (op + 1));
      lane.syncs.push_back({.after = op, .awaited = {awaited}});
      host = std::max(host, ends[awaited]);
      ++syncs;
    }
    Script script = flow_script(kernels);
    for (const EngineEntry& entry : engines()) {
      const Timeline timeline = run_with_hosts(script, *entry.make(), {lane});
      for (std::size_t op = 0; op < ends.size(); ++op)
        EXPECT_NEAR(timeline.classes[0].end_s[op], ends[op], kAgreement * ends[op]);
      const Breakdown shares = breakdown(script.workload(), script.fold_it(true), timeline, 0);
      const double busy = std::accumulate(kernels.begin(), kernels.end(), 0.0);
      EXPECT_NEAR(shares.of(TimeShare::Host), ends.back() - busy, kAgreement * ends.back());
    }
  }
  EXPECT_GT(syncs, 0U);
}

// Do folded and unfolded runs agree?
TEST(HostLane, FoldedAndUnfoldedAgree) {
  Script script({1e9, 1e9});
  const auto call = script.call(CollectiveOp::AllReduce, {phase(0.1, {link_flow({{0, 0.7e9}})})});
  const auto program = script.program("both");
  const OpIndex first = script.compute(program, 0.2);
  script.communicate(program, OpKind::Collective, 0, call, {.stream = 1, .after = {first}});
  script.compute(program, 0.2);
  script.compute(program, 0.2);
  const RankId one = script.rank(program);
  const RankId two = script.rank(program);
  script.group({{one, 0}, {two, 0}});
  HostLane lane = every(0.3, 4);
  lane.syncs.push_back({.after = 2, .awaited = {1}});
  for (const EngineEntry& entry : engines()) {
    const auto engine = entry.make();
    const Timeline folded = run_with_hosts(script, *engine, {lane}, script.fold_it(true));
    const Timeline unfolded = run_with_hosts(script, *engine, {lane}, script.fold_it(false));
    EXPECT_EQ(folded.classes[0].end_s, unfolded.classes[0].end_s);
    EXPECT_EQ(folded.classes[0].end_s, unfolded.classes[1].end_s);
    EXPECT_NEAR(folded.makespan_s, 1.4 + 0.3 + 0.2, 1e-12);
  }
}

}  // namespace
}  // namespace trainyard::test
