#include "sim/render/traces/chrome_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/render/traces/kineto.hpp"
#include "tests/sim/report/small_run.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
using Track = std::pair<std::uint64_t, std::uint64_t>;

struct Written {
  TraceCounts counts;
  Json json;
  std::string text;
};

Written write(const SmallRun& small, const TraceOptions& options = {},
              const std::string& name = "trace.json") {
  const auto file = std::filesystem::path(::testing::TempDir()) / ("trainyard_" + name);
  Written written;
  written.counts = write_chrome_trace(small.view(), file, options);
  written.text = read_file(file);
  written.json = parse_unchecked_json(written.text);
  std::filesystem::remove(file);
  return written;
}

std::int64_t ns(const Json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000.0);
}

// The [start, end] of the slices of every thread, in order of start.
std::map<Track, std::multimap<std::int64_t, std::int64_t>> tracks(const Json& trace) {
  std::map<Track, std::multimap<std::int64_t, std::int64_t>> result;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    result[{event["pid"], event["tid"]}].emplace(ns(event["ts"]),
                                                 ns(event["ts"]) + ns(event["dur"]));
  }
  return result;
}

std::vector<Json> events(const Json& trace, const std::string& phase) {
  std::vector<Json> result;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) result.push_back(event);
  }
  return result;
}

// Is the metadata before the events?
TEST(ChromeTrace, MetadataStandsBeforeTheEvents) {
  const Written trace = write(SmallRun());
  const auto at = [&](const char* key) { return trace.text.find(std::string("\"") + key + "\":"); };
  for (const char* key : {"schemaVersion", "deviceProperties", "distributedInfo", "displayTimeUnit",
                          "baseTimeNanoseconds"}) {
    EXPECT_LT(at(key), at("traceEvents")) << key;
  }
  EXPECT_EQ(trace.json["distributedInfo"]["world_size"], 2);
  EXPECT_EQ(trace.json["distributedInfo"]["pg_count"], 6);
  EXPECT_EQ(trace.json["traceName"], "trainyard_trace.json");
}

// Do slices of a thread never overlap?
TEST(ChromeTrace, SlicesOfAThreadNeverOverlap) {
  const Written trace = write(SmallRun());
  EXPECT_FALSE(tracks(trace.json).empty());
  for (const auto& [track, slices] : tracks(trace.json)) {
    std::int64_t free_at = 0;
    for (const auto& [start, end] : slices) {
      EXPECT_GE(start, free_at) << "pid " << track.first << " tid " << track.second;
      free_at = end;
    }
  }
}

// Do neighbouring slices touch with any rounding? The times are not whole nanoseconds, and rounding
// must not make neighbours overlap.
TEST(ChromeTrace, ConsecutiveSlicesTouchAfterRounding) {
  SmallRun small;
  small.run = HandRun(2);
  double now_s = 0.0;
  for (int i = 0; i < 3000; ++i) {
    const double end_s = now_s + 1e-6 / 7.0 + 1e-10 * i;
    small.run.compute({.ready_s = now_s, .end_s = end_s});
    now_s = end_s;
  }
  const Written trace = write(small);
  const auto slices = tracks(trace.json);
  ASSERT_EQ(slices.at({0, 7}).size(), 3000U);
  std::int64_t free_at = 0;
  for (const auto& [start, end] : slices.at({0, 7})) {
    EXPECT_EQ(start, free_at);
    free_at = end;
  }
}

// Do times have three decimals?
TEST(ChromeTrace, TimesHaveThreeDecimals) {
  const Written trace = write(SmallRun());
  EXPECT_THAT(trace.text, ::testing::HasSubstr(R"("ts":1250000.000,"dur":1500000.000)"));
  EXPECT_THAT(trace.text, ::testing::Not(::testing::ContainsRegex("[0-9]e[-+0-9]")));
}

// Are the counts those of the file?
TEST(ChromeTrace, CountsAreThoseOfTheFile) {
  const Written trace = write(SmallRun());
  std::int64_t slice_ns = 0;
  for (const Json& slice : events(trace.json, "X")) slice_ns += ns(slice["dur"]);
  EXPECT_EQ(events(trace.json, "X").size(), trace.counts.slices);
  EXPECT_EQ(slice_ns, trace.counts.slice_ns);
  EXPECT_EQ(events(trace.json, "C").size(), trace.counts.counters);
  EXPECT_EQ(events(trace.json, "s").size(), trace.counts.flows);
  EXPECT_EQ(trace.json["trainyard"]["slices"], trace.counts.slices);
  EXPECT_EQ(trace.json["trainyard"]["flows"], 2);
  // There are 12 operations, 2 steps, and 3 waits: two receives and the all_reduce of rank 0.
  EXPECT_EQ(trace.counts.slices, 12U + 2U + 3U);
}

// Does every thread and process have a name?
TEST(ChromeTrace, EveryThreadAndProcessHasAName) {
  const Written trace = write(SmallRun());
  std::map<std::string, std::string> names;
  std::map<Track, std::string> threads;
  for (const Json& event : events(trace.json, "M")) {
    if (event["name"] == "process_name") names[event["pid"].dump()] = event["args"]["name"];
    if (event["name"] == "thread_name")
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  EXPECT_EQ(names["0"], "rank 0 (node 0, gpu 0) pp0");
  EXPECT_EQ(names["1000000"], "links");
  for (const auto& [track, slices] : tracks(trace.json)) EXPECT_FALSE(threads[track].empty());
  EXPECT_EQ(threads[Track(0, 7)], "stream 7 compute");
}

// Do both ends of an arrow lie in slices, strictly before the end of the receive (oracle 83, Chrome
// part)?
TEST(ChromeTrace, FlowsBindToTheirSlices) {
  const Written trace = write(SmallRun());
  const auto slices = tracks(trace.json);
  std::map<int, std::vector<Json>> arrows;
  for (const Json& event : trace.json["traceEvents"]) {
    if (event["ph"] == "s" || event["ph"] == "f") arrows[event["id"]].push_back(event);
  }
  EXPECT_EQ(arrows.size(), 2U);
  for (const auto& [id, ends] : arrows) {
    ASSERT_EQ(ends.size(), 2U);
    EXPECT_EQ(ends[1]["bp"], "e");
    EXPECT_LE(ns(ends[0]["ts"]), ns(ends[1]["ts"]));
    for (const Json& end : ends) {
      bool inside = false;
      for (const auto& [from, to] : slices.at({end["pid"], end["tid"]})) {
        inside = inside || (from <= ns(end["ts"]) && ns(end["ts"]) < to);
      }
      EXPECT_TRUE(inside) << end;
    }
  }
  EXPECT_EQ(arrows.at(1)[0]["pid"], 0);
  EXPECT_EQ(arrows.at(1)[1]["pid"], 1);
}

// Do the compute slices of a rank add up to its FLOPs / throughput (oracle 83)?
TEST(ChromeTrace, ComputeSlicesAreFlopsOverThroughput) {
  SmallRun small;
  small.run = HandRun(2);
  constexpr double kFlopsPerSecond = 1024.0 * 1e6;  // a GEMM of 8^3 takes exactly 1 us
  double now_s = 0.0;
  for (int i = 0; i < 5; ++i) {
    const double end_s = now_s + flops(small.run.workload.kernels[0]).value() / kFlopsPerSecond;
    small.run.compute({.ready_s = now_s, .end_s = end_s});
    now_s = end_s;
  }
  const Written trace = write(small);
  double slice_s = 0.0;
  double work = 0.0;
  for (const Json& slice : events(trace.json, "X")) {
    if (slice["cat"] != "kernel") continue;
    slice_s += slice["dur"].get<double>() * 1e-6;
    work += slice["args"]["flops"].get<double>();
  }
  EXPECT_EQ(work, 5 * 1024.0);
  EXPECT_NEAR(slice_s, work / kFlopsPerSecond, 1e-9 * slice_s);
}

// Does communication have the names and arguments of Kineto?
TEST(ChromeTrace, CommunicationHasTheArgumentsOfKineto) {
  const Written trace = write(SmallRun());
  std::size_t slices = 0;
  for (const Json& slice : events(trace.json, "X")) {
    if (slice["args"].value("Collective name", "") != "allreduce") continue;
    EXPECT_EQ(slice["name"], "ncclDevKernel_AllReduce_Sum_bf16_RING_SIMPLE");
    EXPECT_EQ(slice["cat"], "kernel");
    EXPECT_EQ(slice["args"]["In msg nelems"], 1 << 19);
    EXPECT_EQ(slice["args"]["dtype"], "BFloat16");
    EXPECT_EQ(slice["args"]["Group size"], 2);
    EXPECT_EQ(slice["args"]["Process Group Description"], "data");
    EXPECT_EQ(slice["args"]["Process Group Ranks"], "[0, 1]");
    EXPECT_EQ(slice["args"]["stream"], 10);
    EXPECT_TRUE(slice["args"].contains("correlation"));
    ++slices;
  }
  EXPECT_GT(slices, 0U);
}

// Do the memory counters follow the memory curve?
TEST(ChromeTrace, MemoryCountersFollowTheCurve) {
  const Written trace = write(SmallRun());
  std::map<double, std::int64_t> totals;
  for (const Json& event : events(trace.json, "C")) {
    if (event["pid"] == 0) totals[event["ts"].get<double>() * 1e-6] = event["args"]["total"];
  }
  EXPECT_EQ(totals,
            (std::map<double, std::int64_t>{{0.0, 550}, {1.0, 600}, {1.25, 550}, {2.25, 500}}));
}

// Do the link counters rise and fall?
TEST(ChromeTrace, LinkCountersRiseAndFall) {
  const Written trace = write(SmallRun());
  double last = -1.0;
  double most = 0.0;
  for (const Json& event : events(trace.json, "C")) {
    if (event["pid"] != 1000000) continue;
    last = event["args"]["GB/s"];
    most = std::max(most, last);
  }
  EXPECT_EQ(last, 0.0);
  EXPECT_EQ(most, 0.002);  // 2^20 bytes in 0.5 s
}

// Can the caller choose the ranks that are shown?
TEST(ChromeTrace, ShowsTheRanksOfTheOptions) {
  const SmallRun small;
  const Written one = write(small, {.ranks = {1}});
  EXPECT_EQ(one.counts.flows, 0U);  // the sender is not shown
  EXPECT_EQ(one.counts.classes_left_out, 1U);
  EXPECT_EQ(one.json["distributedInfo"]["rank"], 1);
  EXPECT_THROW(write(small, {.ranks = {2}}), InputError);
}

// Does a run of too many classes show one rank of each program? Of 200 classes of two programs, the
// trace shows the lowest rank of each program, so that both stages are seen.
TEST(ChromeTrace, TooManyClassesShowOneRankOfEachProgram) {
  SmallRun small;
  for (RankId rank = 2; rank < 200; ++rank) {
    small.run.workload.ranks.push_back(small.run.workload.ranks[rank % 2]);
    small.run.partition.class_of_rank.push_back(rank);
    small.run.partition.ranks.push_back(
        {.representative = rank, .members = 1, .program = rank % 2});
    small.run.timeline.classes.push_back(small.run.timeline.classes[rank % 2]);
  }
  const Written trace = write(small);
  EXPECT_EQ(trace.counts.processes, 3U);  // and the links
  EXPECT_EQ(trace.counts.flows, 2U);
  EXPECT_EQ(trace.counts.classes_left_out, 198U);
}

// Do folded ranks show their class? Two ranks of one class show the same spans, each under its own
// process.
TEST(ChromeTrace, FoldedRanksShowTheirClass) {
  SmallRun small;
  small.run.workload.ranks.push_back(small.run.workload.ranks[0]);
  small.run.partition.class_of_rank.push_back(0);
  const auto slices = tracks(write(small, {.ranks = {0, 2}}).json);
  EXPECT_EQ(slices.at({0, 7}), slices.at({2, 7}));
}

// Is a compressed trace the same?
TEST(ChromeTrace, ACompressedTraceHoldsTheSameBytes) {
  const SmallRun small;
  std::string plain = write(small).text;
  std::string compressed = write(small, {}, "trace.json.gz").text;
  EXPECT_EQ(plain.substr(0, plain.find("traceName")),
            compressed.substr(0, compressed.find("traceName")));
}

// Does the directory hold one file per rank?
TEST(ChromeTrace, DirectoryHoldsOneFilePerRank) {
  const auto directory = std::filesystem::path(::testing::TempDir()) / "trainyard_hta";
  write_trace_directory(SmallRun().view(), directory, {});
  for (const char* name : {"rank_0.json.gz", "rank_1.json.gz"}) {
    EXPECT_FALSE(parse_unchecked_json(read_file(directory / name))["traceEvents"].empty()) << name;
  }
  std::filesystem::remove_all(directory);
}

// Do the numbers of elements follow the operation?
TEST(Kineto, ElementsFollowTheOperation) {
  const CollectiveCall gather{
      .op = CollectiveOp::AllGather, .bytes = 1024, .dtype = DataType::Bf16};
  EXPECT_EQ(message_elements(gather, 8).in, 64);
  EXPECT_EQ(message_elements(gather, 8).out, 512);
  const CollectiveCall scatter{
      .op = CollectiveOp::ReduceScatter, .bytes = 1024, .dtype = DataType::Fp32};
  EXPECT_EQ(message_elements(scatter, 8).in, 256);
  EXPECT_EQ(message_elements(scatter, 8).out, 32);
  EXPECT_EQ(nccl_kernel_name(gather, {.algorithm = "ring"}), "ncclDevKernel_AllGather_RING_SIMPLE");
  EXPECT_EQ(nccl_kernel_name(gather, {.algorithm = "NVLS", .protocol = "LL128", .channels = 16}),
            "ncclDevKernel_AllGather_NVLS_LL128");
  EXPECT_EQ(nccl_kernel_name(CollectiveCall{.op = CollectiveOp::AllToAll}, {.algorithm = "direct"}),
            "ncclDevKernel_SendRecv");
}

// Are the lists of long groups cut?
TEST(Kineto, ListsOfManyRanksAreShortened) {
  std::vector<RankId> members(100);
  EXPECT_THAT(process_group_ranks(members), ::testing::EndsWith("0, ...]"));
}

}  // namespace
}  // namespace trainyard
