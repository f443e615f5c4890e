// Does background traffic load the links of its pattern, for as long as its bytes take there?
#include "scenarios/jobs/traffic.hpp"

#include <gtest/gtest.h>

#include "sim/workload/workload.hpp"
#include "tests/agreement.hpp"
#include "tests/scenarios/jobs/shared_uplink.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

Json traffic_alone(const Json& traffic, int gpus = 4) {
  Json document = shared_uplink("10 GB/s");
  document["jobs"] = Json::array({{{"name", "traffic"}, {"gpus", gpus}, {"traffic", traffic}}});
  return document;
}

// A period is the time between messages, or what the messages take where that is more. In order of
// nodes: the ring's messages 1 -> 2 and 3 -> 0 have the uplinks to themselves; of the pairs 0 -> 2
// and 1 -> 3 share one; an all_to_all sends 2/3 of each node's bytes up; a server receives all.
TEST(Traffic, AMessageTakesWhatItsLinksGive) {
  struct Case {
    const char* pattern;
    double seconds;  // of 1 GB on links of 10 GB/s
  };
  for (const auto& [pattern, seconds] :
       {Case{"ring", 0.1}, Case{"pairs", 0.2}, Case{"all_to_all", 0.1 * 4.0 / 3.0},
        Case{"all_to_one", 0.3}, Case{"one_to_all", 0.3}}) {
    Json traffic = {{"pattern", pattern}, {"bytes", "1 GB"}, {"every", "1 ms"}};
    EXPECT_NEAR(simulated(traffic_alone(traffic)).jobs[0].alone_s, seconds, 1e-6 * seconds)
        << pattern;
    traffic["every"] = "1 s";
    EXPECT_NEAR(simulated(traffic_alone(traffic)).jobs[0].alone_s, 1.0, kAgreement) << pattern;
  }
}

// Two servers halve what each has to send.
TEST(Traffic, ClientsShareTheServers) {
  const Json traffic = {
      {"pattern", "all_to_one"}, {"bytes", "1 GB"}, {"every", "1 ms"}, {"servers", 2}};
  // Nodes 0 and 1 write to 2 and 3 over one uplink.
  EXPECT_NEAR(simulated(traffic_alone(traffic)).jobs[0].alone_s, 0.2, 1e-7);
}

TEST(Traffic, ItsWorkloadIsValid) {
  for (const TrafficPattern pattern :
       {TrafficPattern::Ring, TrafficPattern::Pairs, TrafficPattern::AllToAll,
        TrafficPattern::AllToOne, TrafficPattern::OneToAll}) {
    const Workload step = traffic_step(
        {.pattern = pattern, .bytes = Bytes{1e6}, .every = Seconds{1e-3}, .servers = 2},
        {3, 1, 4, 6, 5, 9});
    EXPECT_NO_THROW(validate(step, "traffic"));
    EXPECT_NO_THROW(check_progress(step, "traffic"));
  }
}

// Traffic of b bytes every t seconds takes its share of a job's uplink: a transfer that takes D
// alone meets it in each period.
TEST(Traffic, ItSlowsTheJobBesideIt) {
  Json document = shared_uplink();
  document["jobs"][1] = {
      {"name", "reads"},
      {"gpus", 2},
      {"placement", {{"nodes", {1, 3}}}},
      {"traffic", {{"pattern", "pairs"}, {"bytes", "100 GB"}, {"every", "1 s"}}}};
  document["jobs"][0]["steps"] = 3;
  const JobsResult result = simulated(document);
  // 100 GB at 50 to 100 GB/s last longer than three steps of 5 ms, so every transfer has half.
  const double alone_s = result.jobs[0].alone_s;
  double transfer_s = 0.0;
  for (const FlowSpan& flow : result.run.timeline.flows)
    if (flow.end_s - flow.start_s < 0.5)
      transfer_s = std::max(transfer_s, flow.end_s - flow.start_s);
  EXPECT_NEAR(result.jobs[0].together_s, alone_s + transfer_s / 2.0, kAgreement * alone_s);
}

// Traffic may run on the GPUs of a job, whose links it shares.
TEST(Traffic, ItRunsBesideAJob) {
  Json document = shared_uplink();
  document["jobs"][1] = {{"name", "checkpoint"},
                         {"placement", {{"with", "a"}}},
                         {"traffic", {{"pattern", "ring"}, {"bytes", "100 GB"}, {"every", "1 s"}}}};
  document["jobs"][0]["steps"] = 2;
  const JobsResult result = simulated(document);
  EXPECT_EQ(result.jobs[0].gpus, result.jobs[1].gpus);
  EXPECT_GT(result.jobs[0].slowdown(), 1.05);
}

}  // namespace
}  // namespace trainyard
