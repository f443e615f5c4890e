// `import kineto`, `import nsys` and `validate --against`: do traces become profiles that a run
// uses, and are wrong ones refused?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/base/json_parse.hpp"
#include "tests/scenarios/import/trace_writer.hpp"
#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using test::Outcome;
using test::Scratch;
using testing::HasSubstr;
using testing::Not;
using PlainJson = nlohmann::ordered_json;

const std::string kKineto = "tests/scenarios/import/traces/kineto.json";
const std::string kTraceRun =
    "scenarios/fsdp/llama3_8b_8xh100_fsdp.json --set training.sequence_length=1024 "
    "--set training.micro_batch_size=1 --set training.global_batch_size=8 ";
const std::string kPlain = "--set cluster.node.gpu=h100 ";

std::filesystem::path nsys_export(const Scratch& scratch, const std::string& more_sql = "") {
  return test::database_of(
      read_file(Scratch::kTree / "tests/scenarios/import/traces/nsys.sql") + more_sql,
      scratch.folder() / "report.sqlite");
}

// The line of `show cost` about a kernel.
std::string cost_line(const Scratch& scratch, const std::string& more, const std::string& kernel) {
  const Outcome shown = scratch.sh("trainyard show cost " + kTraceRun + more);
  EXPECT_EQ(shown.exit, 0) << shown.err;
  for (const std::string& line : test::lines_of(shown.out))
    if (line.find(kernel) != std::string::npos) return line;
  return "";
}

// Does a run give a traced kernel its median time in the trace, without the framework's factor, and
// leave other shapes as they were?
TEST(ImportKineto, ARunTakesTheTimesOfTheTrace) {
  const Scratch scratch;
  const Outcome import = scratch.sh("SOURCE_DATE_EPOCH=86400 trainyard import kineto " + kKineto +
                                    " --gpu h100 -o mine.json");
  ASSERT_EQ(import.exit, 0) << import.err;
  for (const char* part : {"27 kernels in 3 steps, rank 0, NVIDIA H100 80GB HBM3, PyTorch 2.6.0",
                           "Without a shape: 1.3 %", "triton_poi_fused_mul_silu_0", "Assumed",
                           "median of its repetitions", "--set cluster.node.gpu=./mine.json"})
    EXPECT_THAT(import.out, HasSubstr(part));
  const PlainJson measured = parse_unchecked_json(scratch.read("mine.json"))["measured"];
  EXPECT_EQ(measured["rows"].size(), 6U);
  EXPECT_EQ(measured["provenance"]["date"], "1970-01-02");
  EXPECT_EQ(measured["provenance"]["traces"][0], kKineto);
  const std::string gemm = "gemm m1024 n14336 k4096 bf16 forward";
  const std::string other = "gemm m1024 n4096 k4096 bf16 forward";
  const std::string used = "--set cluster.node.gpu=./mine.json ";
  EXPECT_THAT(cost_line(scratch, used, gemm), HasSubstr("200 us"));
  EXPECT_THAT(cost_line(scratch, used, gemm), HasSubstr("measured"));
  EXPECT_THAT(cost_line(scratch, kPlain, gemm), Not(HasSubstr("200 us")));
  ASSERT_NE(cost_line(scratch, kPlain, other), "");
  EXPECT_EQ(cost_line(scratch, used, other), cost_line(scratch, kPlain, other));
  // The factor of torchtitan's GEMMs on Hopper is not applied to what its trace measured.
  EXPECT_THAT(cost_line(scratch, kPlain, gemm), HasSubstr(" 1.118 "));
  EXPECT_THAT(cost_line(scratch, used, gemm), Not(HasSubstr(" 1.118 ")));
}

// Does a second import keep the rows of the first, and replace those of the same kernels?
TEST(ImportKineto, ASecondImportCompletesTheProfile) {
  const Scratch scratch;
  ASSERT_EQ(scratch.sh("trainyard import kineto " + kKineto + " --gpu h100 -o one.json").exit, 0);
  test::TraceWriter trace;
  const std::string types = R"("Input type": ["c10::BFloat16", "c10::BFloat16"])";
  trace.operation("aten::mm", 0, 10, "[[1024, 4096], [4096, 14336]]", 1, types);
  trace.operation("aten::mm", 20, 10, "[[64, 64], [64, 64]]", 2, types);
  trace.kernel("gemm", 7, 100, 300, R"("External id": 1)");
  trace.kernel("gemm", 7, 500, 8, R"("External id": 2)");
  write_file(scratch.folder() / "two.json", trace.text());
  const Outcome import =
      scratch.sh("trainyard import kineto two.json --gpu ./one.json -o three.json");
  ASSERT_EQ(import.exit, 0) << import.err;
  std::map<std::int64_t, double> forward;
  const PlainJson measured = parse_unchecked_json(scratch.read("three.json"))["measured"];
  for (const PlainJson& row : measured["rows"])
    if (row["kernel"].value("pass", "") == "forward")
      forward[row["kernel"]["m"].get<std::int64_t>()] = row["time_us"].get<double>();
  EXPECT_EQ(measured["rows"].size(), 7U);
  EXPECT_EQ(forward, (std::map<std::int64_t, double>{{64, 8.0}, {1024, 300.0}}));
  EXPECT_EQ(measured["provenance"]["before"]["gpu"], "NVIDIA H100 80GB HBM3");
}

// Does `collective` use the collectives of a trace as measured?
TEST(ImportKineto, ACollectiveTakesTheTimeOfTheTrace) {
  const Scratch scratch;
  const Outcome import =
      scratch.sh("trainyard import kineto " + kKineto + " --collectives profile.json");
  ASSERT_EQ(import.exit, 0) << import.err;
  EXPECT_THAT(import.out, HasSubstr("includes waiting for ranks that arrived later"));
  const Outcome used = scratch.sh(
      "trainyard collective all_gather --node dgx_h100 --sizes 48MiB --profile profile.json");
  ASSERT_EQ(used.exit, 0) << used.err;
  EXPECT_THAT(used.out, HasSubstr("150.00"));
  EXPECT_THAT(used.out, HasSubstr("profile"));
}

// Does a log of nccl-tests narrow the interval of a run with its collectives, as the report says?
TEST(ImportNcclTests, ALogNarrowsTheIntervalOfARun) {
  const Scratch scratch;
  const Outcome import =
      scratch.sh("trainyard import nccl-tests tests/scenarios/import/h8.log -o profile.json");
  ASSERT_EQ(import.exit, 0) << import.err;
  const std::string run =
      "trainyard run scenarios/llama3/llama3_8b_8xh100.json --set parallelism.tensor=8 --set "
      "parallelism.data=1 --set parallelism.sequence_parallel=false --json result.json";
  const auto interval_of = [&](const std::string& options) {
    const Outcome outcome = scratch.sh(run + options);
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return parse_unchecked_json(read_file(scratch.folder() / "result.json")).at("interval");
  };
  const PlainJson modelled = interval_of("");
  EXPECT_EQ(modelled["parts"][0]["name"], "collectives within a node");
  EXPECT_THAT(modelled["parts"][0]["remedy"].get<std::string>(), HasSubstr("import nccl-tests"));
  const PlainJson measured = interval_of(" --set collectives.profile=profile.json");
  EXPECT_LT(measured["deviation"].get<double>(), 0.6 * modelled["deviation"].get<double>());
  for (const PlainJson& part : measured["parts"])
    EXPECT_NE(part["name"], "collectives within a node");
}

// Does an export of Nsight Systems do the same?
TEST(ImportNsys, AnExportBecomesProfiles) {
  const Scratch scratch;
  nsys_export(scratch);
  const Outcome import = scratch.sh(
      "trainyard import nsys report.sqlite --gpu a100_80gb -o mine.json --ranks 8 --collectives "
      "profile.json");
  ASSERT_EQ(import.exit, 0) << import.err;
  for (const char* part : {"12 kernels in 3 steps, NVIDIA A100-SXM4-80GB, Nsight Systems",
                           "groups have 8 ranks, as --ranks states", "146.80"})
    EXPECT_THAT(import.out, HasSubstr(part));
  EXPECT_EQ(parse_unchecked_json(scratch.read("mine.json"))["measured"]["rows"].size(), 3U);
  const Outcome diff = scratch.sh(
      "trainyard validate scenarios/first/two_gpus.json --against "
      "report.sqlite --step-range 'iteration 2'");
  ASSERT_EQ(diff.exit, 0) << diff.err;
  EXPECT_THAT(diff.out, HasSubstr("measured 1.20 ms"));
}

// Does `validate --against` compare several ranks, and write what it prints?
TEST(ValidateAgainst, ComparesEachRankWithItsTrace) {
  const Scratch scratch;
  write_file(scratch.folder() / "rank1.json", [] {
    std::string text = read_file(Scratch::kTree / kKineto);
    text.replace(text.find("\"rank\": 0"), 9, "\"rank\": 1");
    return text;
  }());
  const Outcome diff = scratch.sh(
      "trainyard validate scenarios/llama3/llama3_8b_8xh100.json "
      "--against " +
      kKineto + " --against rank1.json --json d.json");
  ASSERT_EQ(diff.exit, 0) << diff.err;
  EXPECT_THAT(diff.out, HasSubstr("Rank 1, rank1.json: step simulated"));
  const PlainJson json = parse_unchecked_json(scratch.read("d.json"));
  ASSERT_EQ(json["ranks"].size(), 2U);
  EXPECT_EQ(json["ranks"][1]["rank"], 1);
  EXPECT_NEAR(json["ranks"][0]["idle"]["measured_s"].get<double>(), 245e-6, 1e-9);
  double simulated = 0.0;
  for (const PlainJson& kind : json["ranks"][0]["kinds"])
    simulated += kind["simulated_s"].get<double>();
  EXPECT_GT(simulated, json["ranks"][0]["step"]["simulated_s"].get<double>() * 0.9);
  const Outcome far = scratch.sh("trainyard validate scenarios/first/two_gpus.json --against " +
                                 kKineto + " --rank 5");
  EXPECT_EQ(far.exit, 2);
  EXPECT_THAT(far.err, HasSubstr("5 is no rank of the run (it has ranks 0 to 1"));
}

// Are the keys of the differences those of their page?
TEST(ValidateAgainst, ThePageListsEveryKey) {
  const Scratch scratch;
  ASSERT_EQ(scratch
                .sh("trainyard validate scenarios/first/two_gpus.json --against " + kKineto +
                    " --json d.json")
                .exit,
            0);
  const std::string page = read_file(Scratch::kTree / "docs/reference/step_diff.md");
  const PlainJson rank = parse_unchecked_json(scratch.read("d.json"))["ranks"][0];
  std::size_t keys = 0;
  const auto expect_key = [&](const std::string& key) {
    EXPECT_THAT(page, HasSubstr("`ranks[]." + key + "`"));
    ++keys;
  };
  for (const auto& [key, value] : rank.items()) {
    if (value.is_object())
      for (const auto& [inner, number] : value.items()) expect_key(key + "." + inner);
    else if (key == "kinds")
      for (const auto& [inner, entry] : value[0].items()) expect_key(key + "[]." + inner);
    else
      expect_key(key + (value.is_array() ? "[]" : ""));
  }
  EXPECT_EQ(keys, 20U);
}

struct WrongTrace {
  std::string line;
  std::string message;  // a part of it
};

// Is each wrong trace refused with one line that names the file and the remedy?
TEST(ImportKineto, WrongTracesAreRefusedInOneLine) {
  const Scratch scratch;
  nsys_export(scratch);
  test::TraceWriter shapeless;
  shapeless.operation("aten::mm", 0, 10, "", 1);
  shapeless.kernel("gemm", 7, 100, 30, R"("External id": 1)");
  write_file(scratch.folder() / "shapeless.json", shapeless.text());
  write_file(scratch.folder() / "cut.json", read_file(Scratch::kTree / kKineto).substr(0, 9000));
  write_file(scratch.folder() / "none.json", R"({"traceEvents": []})");
  const std::string own =
      "trainyard run scenarios/first/two_gpus.json --trace own.json --trace-ranks 0 >/dev/null";
  ASSERT_EQ(scratch.sh(own).exit, 0);
  test::database_of("CREATE TABLE songs (id INTEGER);", scratch.folder() / "songs.sqlite");
  const std::string write = " --gpu h100 -o out.json";
  const std::string kineto = "trainyard import kineto ";
  const std::vector<WrongTrace> cases{
      {kineto + "shapeless.json" + write,
       "shapeless.json: has no shapes of operations (record with torch.profiler.profile("
       "record_shapes=True))"},
      {kineto + "cut.json" + write, "cut.json: parse error at line"},
      {kineto + "none.json" + write, "none.json: /traceEvents: holds no event of category"},
      {kineto + "own.json" + write, "own.json: is a trace that trainyard wrote"},
      {kineto + "report.sqlite" + write, "trainyard import nsys report.sqlite"},
      {kineto + kKineto + " --gpu a100_80gb -o out.json",
       "is of a GPU with 132 SMs (NVIDIA H100 80GB HBM3), and a100_80gb has 108"},
      {kineto + kKineto + " --gpu h100", "nothing says what to write"},
      {kineto + kKineto + " -o out.json", "-o needs --gpu"},
      {kineto + kKineto + " --gpu h100 --dtype bf61 -o out.json", "--dtype is \"bf61\""},
      {kineto + kKineto + " --gpu h1000 -o out.json", "h1000"},
      {kineto + kKineto + " --gpus-per-node 0 --collectives out.json", "--gpus-per-node is 0"},
      {"trainyard import nsys songs.sqlite" + write,
       "songs.sqlite: is an SQLite database of another"},
      {"trainyard import nsys " + kKineto + write, "is no SQLite database (give the export"},
      {"trainyard import nsys report.sqlite --collectives out.json",
       "has no collective with its size and ranks"},
      {"trainyard validate scenarios/first/two_gpus.json --against songs.sqlite",
       "songs.sqlite: is an SQLite database of another program"},
      {"trainyard validate scenarios/first/two_gpus.json --against cut.json",
       "cut.json: parse error"}};
  for (const WrongTrace& wrong : cases) {
    const Outcome outcome = scratch.sh(wrong.line);
    EXPECT_EQ(outcome.exit, 2) << wrong.line;
    EXPECT_EQ(outcome.out, "") << wrong.line;
    EXPECT_THAT(outcome.err, HasSubstr(wrong.message)) << wrong.line;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_FALSE(scratch.holds("out.json")) << wrong.line;
  }
}

}  // namespace
}  // namespace trainyard
