// Logs of nccl-tests: the table of every release, other lines between the rows, and files that are
// not logs. All numbers are invented; only the formats are those of nccl-tests.
#include "scenarios/import/nccl_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kTitles =
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
    "time "
    "  algbw   busbw  #wrong \n";
const std::string kRow =
    "        1024           256     float     sum      -1    10.50    0.10    0.17       0    "
    "11.25    0.09    0.16       0\n";
const std::string kConcluded = "# Avg bus bandwidth    : 0.165 \n";

std::string devices(std::uint32_t ranks, std::uint32_t per_node) {
  std::string text = "# Using devices\n";
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    text += "#  Rank " + std::to_string(rank) + " Group  0 Pid  77 on host-" +
            std::to_string(rank / per_node) + " device " + std::to_string(rank % per_node) +
            " [0000:1b:00] NVIDIA H100 80GB HBM3\n";
  return text;
}

std::string all_reduce(const std::string& rows) {
  return "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 8 graph: 0\n" +
         devices(8, 8) + kTitles + rows;
}

std::vector<MeasuredRun> read(const std::string& text, const LogHints& hints = {}) {
  return read_nccl_log("run.log", text, hints);
}

std::string problem_of(const std::string& text, const std::string& file = "run.log") {
  try {
    (void)read_nccl_log(file, text, {});
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

// Is the table of current releases read?
TEST(NcclLog, ReadsTheTableOfToday) {
  const std::string file =
      std::string(TRAINYARD_SOURCE_DIRECTORY) + "/tests/scenarios/import/h8.log";
  const std::vector<MeasuredRun> runs = read_nccl_log("h8.log", read_file(file), {});
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].file, "h8.log");
  EXPECT_EQ(runs[0].op, CollectiveOp::AllReduce);
  EXPECT_EQ(runs[0].gpu, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(runs[0].ranks, 8U);
  EXPECT_EQ(runs[0].nodes, 1U);
  EXPECT_EQ(runs[0].nccl_version, "2.27.3");
  EXPECT_FALSE(runs[0].cuda_graph);
  EXPECT_THAT(runs[0].notes, IsEmpty());
  ASSERT_EQ(runs[0].rows.size(), 56U);  // 28 sizes, out of place and in place
  EXPECT_EQ(runs[0].rows[0].bytes, 8);
  EXPECT_EQ(runs[0].rows[0].dtype, "float");
  EXPECT_EQ(runs[0].rows[0].time_us, 8.97);
  EXPECT_FALSE(runs[0].rows[0].in_place);
  EXPECT_EQ(runs[0].rows[1].time_us, 8.94);
  EXPECT_TRUE(runs[0].rows[1].in_place);
  EXPECT_EQ(runs[0].rows[55].bytes, 1 << 30);
}

// Are tables before release 2.13 read? They have no root, a rounding error instead of #wrong, and a
// short bus number.
TEST(NcclLog, ReadsOldTables) {
  const std::vector<MeasuredRun> runs = read(
      "# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20\n"
      "#   Rank  0 Pid 201685 on node026 device  0 [0x3d] Tesla V100-PCIE-32GB\n"
      "#   Rank  1 Pid 201685 on node026 device  1 [0x3e] Tesla V100-PCIE-32GB\n"
      "#       size         count      type   redop     time   algbw   busbw  error     time   "
      "algbw   busbw  error\n"
      "           8             2     float     sum    13.25    0.00    0.00  1e-07    14.50    "
      "0.00    0.00  0e+00\n"
      "# Avg bus bandwidth    : 0\n",
      {.op = CollectiveOp::AllReduce});
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].ranks, 2U);
  EXPECT_EQ(runs[0].gpu, "Tesla V100-PCIE-32GB");
  ASSERT_EQ(runs[0].rows.size(), 2U);
  EXPECT_EQ(runs[0].rows[0].time_us, 13.25);
  EXPECT_EQ(runs[0].rows[1].time_us, 14.5);
}

// Are tables without a reduction read? all_gather of old releases has neither a reduction nor a
// root; broadcast has only a root.
TEST(NcclLog, ReadsTablesWithoutAReduction) {
  const std::string gather =
      "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw"
      "  error\n"
      "    4096    128   float   21.50    0.19    0.17  0e+00    22.00    0.19    0.16  0e+00\n";
  const std::vector<MeasuredRun> runs =
      read_nccl_log("all_gather_8.log", gather + kConcluded, {.ranks = 8, .nodes = 1});
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].op, CollectiveOp::AllGather);  // from the file's name
  EXPECT_EQ(runs[0].rows.at(0).time_us, 21.5);
  // A title for the reduction with empty cells.
  const std::vector<MeasuredRun> blank =
      read("# Collective test starting: broadcast_perf\n" + devices(8, 8) + kTitles +
           "  4096  1024   float      0   21.50    0.19    0.19  0   22.00    0.19    0.19  0\n");
  EXPECT_EQ(blank.at(0).op, CollectiveOp::Broadcast);
  EXPECT_EQ(blank.at(0).rows.at(1).time_us, 22.0);
}

// Are ranks and nodes counted?
TEST(NcclLog, CountsRanksAndNodes) {
  const std::vector<MeasuredRun> runs = read("# Collective test starting: sendrecv_perf\n" +
                                             devices(16, 8) + kTitles + kRow + kConcluded);
  EXPECT_EQ(runs.at(0).op, CollectiveOp::SendRecv);
  EXPECT_EQ(runs.at(0).ranks, 16U);
  EXPECT_EQ(runs.at(0).nodes, 2U);
}

// Are missing values, CUDA graphs and timestamps read?
TEST(NcclLog, ReadsWhatIsNotAvailableGraphsAndTimestamps) {
  const std::vector<MeasuredRun> runs = read(
      "NCCL version 2.19.4+cuda12.3\n# Collective test starting: alltoall_perf\n"
      "# nThread 1 nGpus 8 agg iters: 1 validation: 0 graph: 4\n" +
      devices(8, 8) +
      "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong timestamp\n"
      "  1024   32   float    none      -1    10.50    0.10    0.09    N/A    11.25    0.09    "
      "0.08    N/A  2026-01-31 10:00:00\n" +
      kConcluded);
  EXPECT_TRUE(runs.at(0).cuda_graph);
  EXPECT_EQ(runs.at(0).nccl_version, "2.19.4");
  ASSERT_EQ(runs.at(0).rows.size(), 2U);
  EXPECT_EQ(runs.at(0).rows[1].time_us, 11.25);
}

// Are the per-iteration columns of -T read? Newer releases have four more columns in each block.
TEST(NcclLog, ReadsPerIterationColumns) {
  const std::vector<MeasuredRun> runs = read(
      "# Collective test starting: reduce_scatter_perf\n" + devices(8, 8) +
      "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw "
      "busbw #wrong i_min i_max i_p99 i_cv%\n"
      "1024 32 float sum -1 10.50 0.10 0.09 0 10.1 12.0 11.9 3.00 11.25 0.09 0.08 0 11.0 12.5 12.0 "
      "4.00\n" +
      kConcluded);
  ASSERT_EQ(runs.at(0).rows.size(), 2U);
  EXPECT_EQ(runs[0].rows[0].busbw_GBps, 0.09);
  EXPECT_EQ(runs[0].rows[1].time_us, 11.25);
}

// Are labels of launchers and messages between rows ignored?
TEST(NcclLog, SeesThroughLabelsAndMessages) {
  std::string text;
  const std::string label = "[1,0]<stdout>:";
  for (const std::string& line :
       {std::string("# nThread 1 nGpus 1 graph: 0"),
        std::string("#  Rank  0 Group  0 Pid 6 on a device  0 [0000:04:00] NVIDIA A100-SXM4-80GB"),
        std::string("#  Rank  1 Group  0 Pid 7 on b device  0 [0000:04:00] NVIDIA A100-SXM4-80GB"),
        std::string("a:26:26 [0] NCCL INFO NCCL version 2.18.3+cuda12.1"),
        kTitles.substr(0, kTitles.size() - 1),
        std::string("a:26:67 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"),
        kRow.substr(0, kRow.size() - 1)})
    text += label + line + "\n";
  // A row that a message has split in two.
  text +=
      label + "        2048           512     float     sum      -1a:26:26 [0] NCCL INFO Launch\n";
  text += label + "   20.50    0.10    0.10       0    21.25    0.10    0.10       0\n";
  text += label + "# Avg bus bandwidth : 1\n";
  const std::vector<MeasuredRun> runs = read_nccl_log("all_reduce.txt", text, {});
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].nodes, 2U);
  EXPECT_EQ(runs[0].nccl_version, "2.18.3");
  ASSERT_EQ(runs[0].rows.size(), 4U);
  EXPECT_EQ(runs[0].rows[2].bytes, 2048);
  EXPECT_EQ(runs[0].rows[2].time_us, 20.5);
  EXPECT_EQ(runs[0].rows[3].time_us, 21.25);
  EXPECT_THAT(runs[0].notes, IsEmpty());
  // srun's label.
  EXPECT_EQ(read("0: " + kTitles + "0: " + kRow + "0: " + kConcluded,
                 {.op = CollectiveOp::AllReduce, .ranks = 8, .nodes = 1})
                .at(0)
                .rows.size(),
            2U);
}

// Do several tests in one log become several runs?
TEST(NcclLog, SeveralTestsOfOneLogAreSeveralRuns) {
  const std::vector<MeasuredRun> runs =
      read(all_reduce(kRow) + kConcluded + "# Collective test starting: all_gather_perf\n" +
           devices(16, 8) + kTitles + kRow + kConcluded);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].op, CollectiveOp::AllReduce);
  EXPECT_EQ(runs[0].ranks, 8U);
  EXPECT_EQ(runs[1].op, CollectiveOp::AllGather);
  EXPECT_EQ(runs[1].ranks, 16U);
}

// Are the complete rows of a cut log kept?
TEST(NcclLog, KeepsWhatACutLeaves) {
  for (std::size_t left = 1; left + 30 < kRow.size(); left += 7) {
    const std::vector<MeasuredRun> runs = read(all_reduce(kRow + kRow.substr(0, left)));
    ASSERT_EQ(runs.size(), 1U) << left;
    EXPECT_EQ(runs[0].rows.size(), 2U) << left;
    EXPECT_THAT(runs[0].notes.at(0), HasSubstr("ends before the test does"));
  }
}

// Are rows without the first block read?
TEST(NcclLog, ReadsRowsWithoutTheFirstBlock) {
  const std::vector<MeasuredRun> runs =
      read(all_reduce("        1024           256     float     sum      -1" +
                      std::string(32, ' ') + "    11.25    0.09    0.16       0\n") +
           kConcluded);
  ASSERT_EQ(runs.at(0).rows.size(), 1U);
  EXPECT_TRUE(runs[0].rows[0].in_place);
  EXPECT_EQ(runs[0].rows[0].time_us, 11.25);
}

// Are rows with wrong data left out?
TEST(NcclLog, LeavesOutWrongData) {
  std::string wrong = kRow;
  wrong.replace(wrong.find("       0"), 8, "      12");
  const std::vector<MeasuredRun> runs = read(all_reduce(wrong + kRow) + kConcluded);
  EXPECT_EQ(runs.at(0).rows.size(), 3U);
  EXPECT_THAT(runs.at(0).notes, ElementsAre(HasSubstr("1 times are left out")));
}

const std::string kJson = R"({"version":2,"start_time":"2026-01-31 10:00:00",
 "args":["./build/all_reduce_perf","-J","a.json"],"env":["HOME=\/x"],"nccl_version":22805,
 "config":{"nthreads":1,"ngpus":4,"graph":0,"devices":[
  {"rank":0,"group":0,"pid":1,"hostname":"a","device":0,"device_hex":"0000:04:00",
   "device_info":"NVIDIA B200"},
  {"rank":4,"group":0,"pid":2,"hostname":"b","device":0,"device_hex":"0000:04:00",
   "device_info":"NVIDIA B200"}]},
 "results":[
  {"size":1024,"count":256,"type":"float","redop":"sum","root":"    -1",
   "out_of_place":{"time":10.500000,"alg_bw":0.097524,"bus_bw":0.170667,"nwrong":0.000000},
   "in_place":{"time":11.250000,"alg_bw":0.091022,"bus_bw":0.159289,"nwrong":null}},
  {"size":2048,"count":512,"type":"float","redop":"sum","root":"    -1","out_of_place":null,
   "in_place":{"cpu_time":12.000000,"alg_bw":0.170667,"bus_bw":0.298667,"nwrong":0.000000}}],
 "out_of_bounds":{"count":0,"okay":"true"},"average_bus_bandwidth":{"bandwidth":0.2}})";

// Is the JSON of -J read?
TEST(NcclLog, ReadsJson) {
  const std::vector<MeasuredRun> runs = read_nccl_log("a.json", kJson, {});
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].op, CollectiveOp::AllReduce);
  EXPECT_EQ(runs[0].ranks, 8U);  // two processes of four GPUs
  EXPECT_EQ(runs[0].nodes, 2U);
  EXPECT_EQ(runs[0].gpu, "NVIDIA B200");
  EXPECT_EQ(runs[0].nccl_version, "2.28.5");
  ASSERT_EQ(runs[0].rows.size(), 3U);
  EXPECT_EQ(runs[0].rows[0].time_us, 10.5);
  EXPECT_TRUE(runs[0].rows[2].in_place);
  EXPECT_EQ(runs[0].rows[2].time_us, 12.0);
  EXPECT_THAT(runs[0].notes, IsEmpty());
}

// Are the complete rows of a cut JSON kept?
TEST(NcclLog, KeepsWhatACutOfJsonLeaves) {
  const std::size_t second = kJson.find("\"size\":2048");
  const std::vector<MeasuredRun> runs = read_nccl_log("a.json", kJson.substr(0, second + 20), {});
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].rows.size(), 2U);
  EXPECT_THAT(runs[0].notes.at(0), HasSubstr("ends before the test does"));
}

// Are files that are not logs refused?
TEST(NcclLog, RefusesWhatIsNoLog) {
  const std::string no_row =
      "run.log: holds no row of nccl-tests' table (give the output of all_reduce_perf and its "
      "siblings, or the JSON of their -J)";
  EXPECT_EQ(problem_of(""), no_row);
  EXPECT_EQ(problem_of("Dear reader,\n12 monkeys and 7 more\n"), no_row);
  EXPECT_EQ(problem_of(all_reduce("")), no_row);
  EXPECT_EQ(problem_of("1024 256 float sum -1 nan 0 0 0 inf 0 0 0\n"), no_row);
  EXPECT_THAT(problem_of("{\"model\": \"gpt\"}"), HasSubstr("has no list \"results\""));
  EXPECT_THAT(problem_of("{\"results\": [{\"size\": "), HasSubstr("has no list \"results\""));
}

// Does an error request the facts that the log does not contain?
TEST(NcclLog, AsksForWhatTheLogDoesNotSay) {
  EXPECT_EQ(problem_of(devices(8, 8) + kTitles + kRow),
            "run.log: the log does not say which collective it measured (name it: --op all_reduce "
            "(or all_gather, reduce_scatter, ...))");
  EXPECT_EQ(problem_of(kTitles + kRow, "all_reduce.log"),
            "all_reduce.log: the log does not list its ranks (\"#  Rank  0 ... device  0\") (say "
            "how many there were: --ranks 8 --nodes 1)");
  EXPECT_THAT(problem_of("# Collective test starting: hypercube_perf\n" + devices(8, 8) + kRow),
              HasSubstr("hypercube_perf measures no collective that is simulated"));
  EXPECT_THAT(problem_of("# Collective test starting: all_reduce_perf\n" + devices(1, 1) + kRow),
              HasSubstr("1 rank moves nothing"));
}

// Are NCCL's version numbers understood?
TEST(NcclLog, KnowsNcclsNumbersOfVersions) {
  EXPECT_EQ(nccl_version_text(22703), "2.27.3");
  EXPECT_EQ(nccl_version_text(21005), "2.10.5");
  EXPECT_EQ(nccl_version_text(2708), "2.7.8");
  EXPECT_EQ(nccl_version_text(0), "");
}

// Are impossible times left out? A denormal time would give infinite rates, and the fit would be
// NaN.
TEST(NcclLog, TimesThatNoClockMeasuresAreLeftOut) {
  const auto with_time = [](const std::string& time) {
    return "        2048           512     float     sum      -1    " + time +
           "    0.10    0.17       0    11.25    0.09    0.16       0\n";
  };
  for (const std::string time : {"1e-320", "1e-4", "1e300"}) {
    SCOPED_TRACE(time);
    const std::vector<MeasuredRun> runs = read(all_reduce(kRow + with_time(time) + kConcluded));
    ASSERT_EQ(runs.size(), 1U);
    EXPECT_EQ(runs[0].rows.size(), 3U);  // both of 1024 bytes, and in place of 2048
    EXPECT_FALSE(runs[0].notes.empty());
  }
}

}  // namespace
}  // namespace trainyard
