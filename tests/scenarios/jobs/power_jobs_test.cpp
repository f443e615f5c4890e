// Which memory, power and energy do jobs take that run together?
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/timeline/energy.hpp"
#include "tests/agreement.hpp"
#include "tests/scenarios/jobs/shared_uplink.hpp"
#include "tools/studies/jobs/report.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Json with_power(Json document) {
  for (auto& job : document["jobs"])
    if (job.contains("scenario")) job["scenario"]["power"] = {{"pue", 1.2}, {"nodes_per_rack", 2}};
  return document;
}

// The scenario of job a on a cluster that is no larger than the job.
Json scenario_of_job_a(const Json& document) {
  Json scenario = document["jobs"][0]["scenario"];
  scenario["cluster"] = document["cluster"];
  scenario["cluster"]["nodes"] = 2;
  return scenario;
}

double gpus_j(const Energy& energy) {
  return energy.of(PowerKind::Compute) + energy.of(PowerKind::MemoryBound) +
         energy.of(PowerKind::Communication) + energy.of(PowerKind::Idle);
}

// Does a job that is alone take the energy and the memory of its scenario?
TEST(JobsPower, AJobAloneTakesTheEnergyAndMemoryOfItsScenario) {
  const Json document = with_power(shared_uplink());
  const Result run = simulate(load(scenario_of_job_a(document)));
  const double joules = gpus_j(energy_figures(run.view()).step);
  const JobResult job = simulated(document).jobs[0];
  EXPECT_NEAR(job.alone_j.value(), joules, kAgreement * joules);
  EXPECT_EQ(job.peak_bytes, std::ranges::max(run.memory_peaks, {}, &MemoryPeak::bytes).bytes);
}

// Two equal jobs that start together send for 2 D in place of D. The bytes take the same energy,
// and for the additional D each GPU draws what it draws while it waits.
TEST(JobsPower, AJobThatWaitsForALinkTakesTheWaitingPowerForTheAddedTime) {
  const JobsResult result = simulated(with_power(shared_uplink()));
  const double waiting_w = result.run.power->gpus[0].waiting_w;
  for (const JobResult& job : result.jobs) {
    const double added_s = job.together_s - job.alone_s;
    ASSERT_GT(added_s, 0.1 * job.alone_s);
    EXPECT_NEAR(job.together_j.value() - job.alone_j.value(), 2.0 * added_s * waiting_w,
                kAgreement * job.alone_j.value());
  }
}

// Is the energy of a job that of its own steps, where it ends while another goes on, or starts
// later?
TEST(JobsPower, AJobThatHasEndedTakesNoMoreEnergy) {
  Json document = with_power(shared_uplink());
  const JobsResult endless = simulated(document);
  document["jobs"][0]["steps"] = 2;
  document["jobs"][1]["steps"] = 5;
  const JobsResult counted = simulated(document);
  const double alone_j = *endless.jobs[0].alone_j, slow_j = *endless.jobs[0].together_j;
  EXPECT_NEAR(*counted.jobs[0].together_j, slow_j, kAgreement * slow_j);
  EXPECT_NEAR(*counted.jobs[1].together_j, (2.0 * slow_j + 3.0 * alone_j) / 5.0,
              kAgreement * slow_j);
  document["jobs"][1]["start"] = "1 s";
  EXPECT_NEAR(*simulated(document).jobs[1].together_j, alone_j, kAgreement * alone_j);
}

// Does the power of the cluster consist of its jobs' GPUs, hosts, fans, switches and cooling?
TEST(JobsPower, TheClusterDrawsWhatItsPartsDraw) {
  const JobsResult result = simulated(with_power(shared_uplink()));
  const PowerRates& rates = *result.run.power;
  const double idle_w = rates.gpus[0].idle_w;
  double nodes_w = 4.0 * (rates.host_w + rates.nic_w) * (1.0 + rates.supply_loss);
  for (const JobResult& job : result.jobs)
    nodes_w += rates.at_wall(*job.together_j / job.together_s, 2.0 * idle_w);
  EXPECT_NEAR(result.power->mean_w(), 1.2 * (nodes_w + rates.switch_w),
              kAgreement * result.power->mean_w());
  EXPECT_GT(result.power->peaks.cluster_w, result.power->mean_w());
}

// A message of one byte changes nothing. A GPU with two ranks is counted once.
TEST(JobsPower, TrafficBesideAJobAddsOnlyThePowerOfItsBytes) {
  Json document = with_power(shared_uplink());
  document["jobs"].erase(1);
  const JobsResult without = simulated(document);
  document["jobs"].push_back(
      {{"name", "messages"},
       {"placement", {{"with", "a"}}},
       {"traffic", {{"pattern", "pairs"}, {"bytes", "1 B"}, {"every", "1 ms"}}}});
  const JobsResult with = simulated(document);
  EXPECT_NEAR(with.power->mean_w(), without.power->mean_w(), 1e-3 * without.power->mean_w());
  document["jobs"][1]["traffic"] = {{"pattern", "pairs"}, {"bytes", "1 GB"}, {"every", "1 ms"}};
  const JobsResult busy = simulated(document);
  // The idle power of the GPUs is that of the job that computes on them.
  const PowerRates& rates = *busy.run.power;
  const double sent_j = 1e9 * rates.gpus.back().traffic_j_per_byte;
  EXPECT_NEAR(busy.jobs[1].alone_j.value(), sent_j, kAgreement * sent_j);
  EXPECT_GT(sent_j, 0.0);
}

// Does a job alone cost what its scenario costs, and one that waits so much more?
TEST(JobsCost, AJobAloneCostsWhatItsScenarioCosts) {
  Json document = with_power(shared_uplink());
  document["jobs"][0]["scenario"]["power"]["price_per_gpu_hour"] = 2.5;
  const Result run = simulate(load(scenario_of_job_a(document)));
  const double rent = *energy_figures(run.view()).cost_of_tokens(1e6)->rent;
  const JobsResult result = simulated(document);
  const JobResult& job = result.jobs[0];
  EXPECT_NEAR(job.cost_of_million_tokens(job.alone_s).value(), rent, kAgreement * rent);
  EXPECT_NEAR(job.cost_of_million_tokens(job.together_s).value(), rent * job.slowdown(),
              kAgreement * rent);
  EXPECT_GT(job.slowdown(), 1.1);
  EXPECT_FALSE(result.jobs[1].cost_of_million_tokens(1.0).has_value());
}

// Nodes 1 and 3, on which job b is placed, have H100s.
Json with_two_kinds(Json document) {
  Json node = document["cluster"]["node"];
  node["name"] = "one_h100";
  node["gpu"] = "h100";
  document["cluster"]["others"] = Json::array({{{"nodes", {1, 3}}, {"node", node}}});
  return document;
}

// Has a job the price of the nodes on which it is placed, and may it name the preset of their GPU?
TEST(JobsCost, AJobIsOfTheKindOfItsNodes) {
  Json document = with_power(with_two_kinds(shared_uplink()));
  Json& job = document["jobs"][1];
  job["scenario"]["power"]["price_preset"] = "aws_p5_on_demand";
  const JobsResult result = simulated(document);
  EXPECT_DOUBLE_EQ(result.jobs[1].gpu_hour_cost.value(), 12.29);
  EXPECT_LT(result.jobs[1].alone_s, result.jobs[0].alone_s);
}

TEST(JobsCost, AJobOnGpusThatItsScenarioIsNotOfIsRefused) {
  Json document = with_two_kinds(shared_uplink());
  document["jobs"][1].erase("placement");
  document["jobs"][0]["placement"] = {{"nodes", {0, 1}}};
  EXPECT_THAT(complaints_of_jobs(document),
              HasSubstr("/jobs/0/placement: gives it 1 a100_80gb and 1 h100, and its scenario "
                        "is of 2 a100_80gb"));
}

// Bought GPUs cost their capital. Electricity is that of the whole cluster, by the hour.
TEST(JobsCost, BoughtGpusCostTheirCapitalAndTheClusterItsElectricity) {
  Json document = with_power(shared_uplink());
  for (auto& job : document["jobs"]) {
    Json& power = job["scenario"]["power"];
    power["capital_per_gpu"] = 35064.0;  // over four years, 1 an hour
    power["capital_years"] = 4.0;
    power["price_per_kwh"] = 0.5;
    power["kg_co2_per_kwh"] = 0.25;
  }
  const JobsResult result = simulated(document);
  for (const JobResult& job : result.jobs) EXPECT_NEAR(job.gpu_hour_cost.value(), 1.0, 1e-12);
  const double kwh = result.power->mean_w() / 1e3;
  EXPECT_THAT(
      power_sentence(jobs_of(document), result),
      HasSubstr(fmt::format("An hour takes {:.4g} kWh, which cost {:.4g} and emit {:.4g} kg "
                            "of CO2.",
                            kwh, 0.5 * kwh, 0.25 * kwh)));
}

// Does a lower clock slow a job as it slows its scenario?
TEST(JobsPower, AJobRunsAtItsOwnClocks) {
  Json document = with_power(shared_uplink());
  const double full_s = simulated(document).jobs[0].alone_s;
  document["jobs"][0]["scenario"]["power"]["stage_clocks"] = {60};
  const JobsResult result = simulated(document);
  const double slow_s = simulate(load(scenario_of_job_a(document))).timeline.makespan_s;
  EXPECT_GT(slow_s, 1.05 * full_s);
  EXPECT_NEAR(result.jobs[0].alone_s, slow_s, kAgreement * slow_s);
  EXPECT_NEAR(result.jobs[1].alone_s, full_s, kAgreement * full_s);
}

// Does the report say why there is no power, or what there is?
TEST(JobsPower, TheReportSaysWhichJobHasNoPower) {
  Json document = shared_uplink();
  const auto text = [&] { return jobs_text(jobs_of(document), simulated(document)); };
  EXPECT_THAT(text(), testing::Not(HasSubstr("POWER")));
  EXPECT_THAT(text(), testing::Not(HasSubstr("kW")));
  document["jobs"][0]["scenario"]["power"] = Json::object();
  EXPECT_THAT(text(),
              HasSubstr("POWER AND ENERGY ARE NOT REPORTED: job b has no block \"power\"."));
  document["jobs"][1]["scenario"]["power"] = Json::object();
  EXPECT_THAT(text(), HasSubstr("kW on average"));
  const JobsResult result = simulated(document);
  const Json json = jobs_json(jobs_of(document), result);
  EXPECT_EQ(json["power"]["mean_w"]["cluster"], result.power->mean_w());
  EXPECT_EQ(json["jobs"][1]["together_j"], *result.jobs[1].together_j);
}

// On the shared uplink, of which the second job uses x alone, then both 2 (D - x), and then the
// other x alone: are these the spans that the page draws?
TEST(LinkStates, TheSpansOfTwoJobsAreThoseOfTheClosedForm) {
  Json document = shared_uplink();
  document["jobs"][1]["start"] = "0.4 ms";
  const JobsResult result = simulated(document);
  const LinkSharing& uplink = result.sharing.at(0);
  const auto spans = link_states(result.parts, *result.run.partition, result.run.timeline,
                                 uplink.link_class, result.begin_s, result.end_s);
  ASSERT_EQ(spans.size(), 2U);
  for (std::size_t job = 0; job < 2; ++job) {
    double alone_s = 0.0, shared_s = 0.0, at_s = result.begin_s;
    for (const LinkStateSpan& span : spans[job]) {
      EXPECT_EQ(span.start_s, at_s);
      at_s = span.end_s;
      if (span.state == LinkState::OwnFlows) alone_s += span.end_s - span.start_s;
      if (span.state == LinkState::SharedFlows) shared_s += span.end_s - span.start_s;
    }
    EXPECT_EQ(at_s, result.end_s);
    EXPECT_NEAR(alone_s, 0.4e-3, 1e-9);
    EXPECT_NEAR(shared_s, uplink.shared_s, 1e-9);
    EXPECT_GT(shared_s, 1e-4);
  }
}

}  // namespace
}  // namespace trainyard
