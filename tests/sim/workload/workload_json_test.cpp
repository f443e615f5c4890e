#include "sim/workload/workload_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "hand_workload.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

// The example of workload_format.md, extracted from the page so that the page cannot become
// outdated.
std::string example() {
  const std::string page = read_file(std::filesystem::path(TRAINYARD_SOURCE_DIRECTORY) /
                                     "sim/workload/workload_format.md");
  const std::size_t begin = page.find("    {\n");
  const std::string end = "\n    }\n";
  return page.substr(begin, page.find(end, begin) + end.size() - begin);
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t place = text.find(what);
  EXPECT_NE(place, std::string::npos) << what;
  return text.replace(place, what.size(), with);
}

std::string problems_in(const std::string& json) {
  try {
    static_cast<void>(parse_workload("step.json", json));
  } catch (const InputError& error) {
    std::string text;
    for (const Problem& problem : error.problems()) text += to_text(problem) + "\n";
    return text;
  }
  return "";
}

// Does the example of the page parse?
TEST(WorkloadJson, ReadsTheExampleOfThePage) {
  const Workload workload = parse_workload("step.json", example());
  ASSERT_EQ(workload.programs.size(), 1U);
  const Program& program = workload.programs[0];
  ASSERT_EQ(program.operations.size(), 3U);
  EXPECT_EQ(workload.kernels[0], Kernel(Gemm{.m = 4096, .n = 4096, .k = 4096}));
  EXPECT_EQ(workload.kernels[1],
            Kernel(MemoryBound{.kind = MemoryBoundKind::Optimizer, .bytes = 268435456}));
  EXPECT_EQ(workload.calls[0],
            (Call{CollectiveCall{.op = CollectiveOp::AllReduce, .bytes = 33554432}}));
  EXPECT_EQ(program.operations[1].stream, 1U);
  EXPECT_THAT(program.dependencies_of(1), ElementsAre(0U));
  EXPECT_THAT(program.dependencies_of(2), ElementsAre(1U));
  EXPECT_EQ(program.operations[2].work, WorkClass::Optimizer);
  ASSERT_EQ(program.effects_of(2).size(), 1U);
  EXPECT_EQ(program.effects_of(2)[0].bytes, -33554432);
  EXPECT_TRUE(program.effects_of(2)[0].at_end);
  EXPECT_EQ(workload.ranks[1].slots[0].group, 0U);
  EXPECT_EQ(workload.ranks[1].slots[0].group_rank, 1U);
  EXPECT_EQ(workload.ranks[1].label, "dp1");
}

// How many memory categories may there be? Their numbers have 16 bits, so 65 536.
TEST(WorkloadJson, MemoryCategoriesAreNumberedWithSixteenBits) {
  for (const std::size_t count : {65'536U, 65'537U}) {
    std::string names;
    for (std::size_t i = 0; i < count; ++i)
      names += (i > 0 ? ",\"c" : "\"c") + std::to_string(i) + '"';
    const std::string problems = problems_in("{\"memory_categories\": [" + names + "]}");
    EXPECT_EQ(problems.find("/memory_categories: 65537 entries") != problems.npos, count == 65'537)
        << count;
  }
}

// Three instances of a block with one input, after an operation.
constexpr const char* kBlocks = R"({
  "streams": ["compute", "network"], "memory_categories": ["gradients"],
  "kernels": [{"kind": "gemm", "m": 1, "n": 1, "k": 1}],
  "programs": [{
    "blocks": [
      {"operations": [{"kind": "compute", "name": "first", "kernel": 0}]},
      {"operations": [
        {"kind": "delay", "name": "load", "stream": "network", "delay": "1 us", "microbatch": 0,
         "after": [{"input": 0}]},
        {"kind": "compute", "name": "gemm", "kernel": 0, "microbatch": 0, "after": ["load"],
         "memory": [{"category": "gradients", "bytes": 8, "when": "start"}]}]}],
    "instances": [{"block": 0}, {"block": 1, "inputs": [0]},
                  {"block": 1, "microbatch": 2, "inputs": [0]}],
    "memory": [{"operation": 4, "category": "gradients", "bytes": -16, "when": "end"}]}],
  "ranks": [{"program": 0, "gpu": 0}]})";

// Does the reader accept instances of blocks?
TEST(WorkloadJson, ReadsInstancesOfBlocks) {
  const Workload workload = parse_workload("blocks.json", kBlocks);
  const Program& program = workload.programs.at(0);
  ASSERT_EQ(program.operations.size(), 5U);
  EXPECT_EQ(program.operations.written().size(), 3U);
  EXPECT_EQ(program.operations[3].microbatch, 2);
  EXPECT_THAT(program.dependencies_of(3), ElementsAre(0U));
  EXPECT_THAT(program.dependencies_of(4), ElementsAre(3U));
  EXPECT_EQ(program.effects_of(2).size(), 1U);
  ASSERT_EQ(program.effects_of(4).size(), 2U);
  EXPECT_EQ(program.effects_of(4)[1].bytes, -16);
  const std::string json = to_json(workload);
  EXPECT_EQ(to_json(parse_workload("again.json", json)), json);
}

// Are all operations of two instances written, where no operation has an effect on memory of its
// own? One of the first block and two of the second are three.
TEST(WorkloadJson, WritesBothOfTwoInstances) {
  std::string two = replaced(
      kBlocks, ",\n                  {\"block\": 1, \"microbatch\": 2, \"inputs\": [0]}", "");
  two = replaced(two, R"({"operation": 4, "category": "gradients", "bytes": -16, "when": "end"})",
                 "");
  const Workload again = parse_workload("again.json", to_json(parse_workload("two.json", two)));
  EXPECT_EQ(again.programs.at(0).operations.size(), 3U);
  EXPECT_TRUE(again.programs.at(0).single_effects.empty());
}

// Are instances refused that do not fit?
TEST(WorkloadJson, RefusesInstancesThatDoNotFit) {
  const auto problems_in = [](const std::string& text) {
    try {
      (void)parse_workload("blocks.json", text);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const auto problems = [&](std::string_view of, std::string_view by) {
    std::string text = kBlocks;
    text.replace(text.find(of), of.size(), by);
    return problems_in(text);
  };
  EXPECT_THAT(problems("\"microbatch\": 2, \"inputs\": [0]", "\"microbatch\": 2"),
              HasSubstr("/programs/0/instances/2/block: is no block of the program with as many"));
  EXPECT_THAT(problems("{\"block\": 1, \"inputs\": [0]}", "{\"block\": 2, \"inputs\": [0]}"),
              HasSubstr("/programs/0/instances/1/block: is no block of the program with as many"));
  EXPECT_THAT(
      problems("\"microbatch\": 2, \"inputs\": [0]", "\"inputs\": [3]"),
      HasSubstr("/programs/0/instances/2/inputs: operation 3 is not of an earlier instance"));
  EXPECT_THAT(problems("[{\"input\": 0}]", "[1]"),
              HasSubstr("/programs/0/blocks/1/operations/0/after: 1 is not an earlier operation"));
  std::string many;  // instances of a block of 50,000 operations: more than 10^9
  for (int i = 0; i < 20'001; ++i) many += "{\"block\": 2}, ";
  std::string operations = "{\"kind\": \"compute\", \"name\": \"x\", \"kernel\": 0}";
  std::string block = operations;
  for (int i = 1; i < 50'000; ++i) block += ", " + operations;
  std::string text = kBlocks;
  const std::string end = "\"when\": \"start\"}]}]}],";
  text.replace(text.find(end), end.size(),
               "\"when\": \"start\"}]}]}, {\"operations\": [" + block + "]}],");
  const std::string begin = "\"instances\": [";
  text.insert(text.find(begin) + begin.size(), many);
  EXPECT_THAT(problems_in(text), HasSubstr("makes more than 1000000000 operations"));
  EXPECT_THAT(problems("\"operation\": 4", "\"operation\": 5"),
              HasSubstr("/programs/0/memory/0/operation: 5 is out of range"));
}

void expect_equal_programs(const Program& a, const Program& b) {
  ASSERT_EQ(a.operations.size(), b.operations.size());
  for (std::size_t i = 0; i < a.operations.size(); ++i) {
    const Operation& x = a.operations[i];
    const Operation& y = b.operations[i];
    EXPECT_EQ(x.kind, y.kind);
    EXPECT_EQ(x.stream, y.stream);
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.slot, y.slot);
    EXPECT_EQ(x.payload, y.payload);
    EXPECT_EQ(x.microbatch, y.microbatch);
    EXPECT_EQ(x.layer, y.layer);
    EXPECT_EQ(x.part, y.part);
    const auto before_x = a.dependencies_of(static_cast<OpIndex>(i));
    const auto before_y = b.dependencies_of(static_cast<OpIndex>(i));
    EXPECT_TRUE(std::equal(before_x.begin(), before_x.end(), before_y.begin(), before_y.end()));
  }
}

// Does a workload round-trip to the last bit?
TEST(WorkloadJson, RoundTripsToTheLastBit) {
  Workload workload = training_step({.tensor = 2, .data = 2, .stages = 2});
  // A delay without a short decimal form, every kind of kernel, tags and memory.
  workload.delays = {Seconds{0.1 + 0.2}, Seconds{1e-300}, Seconds{0.0}};
  workload.kernels.push_back(GroupedGemm{.rows = {1, 0, 7},
                                         .n = 8,
                                         .k = 9,
                                         .dtype = DataType::Fp8,
                                         .pass = GemmPass::WeightGrad,
                                         .accumulate_fp32 = true,
                                         .per_expert = true});
  workload.kernels.push_back(Attention{.query_heads = 4,
                                       .kv_heads = 2,
                                       .query_length = 16,
                                       .kv_length = 16,
                                       .head_dim_qk = 64,
                                       .head_dim_v = 64,
                                       .pairs = 136,
                                       .backward = true,
                                       .longest_keys = 12,
                                       .of_ring = true});
  workload.kernels.push_back(MemoryBound{.kind = MemoryBoundKind::GradNorm, .bytes = 1LL << 60U});
  workload.kernels.push_back(Copy{.kind = CopyKind::HostToDevice, .bytes = 3});
  workload.kernels.push_back(Gemm{.m = 1, .n = 2, .k = 3, .pass = GemmPass::WeightGrad});
  workload.categories = {"a \"quoted\" one", "gradients"};
  Program& program = workload.programs[0];
  program.operations.edit()[0].microbatch = 3;
  program.operations.edit()[0].part = StepPart::Forward;
  program.operations.edit()[1].microbatch = 0;
  program.operations.edit()[1].layer = 0;
  program.operations.edit()[0].effects_end = program.operations[0].effects_begin + 1;
  program.effects = {{.category = 1, .at_end = true, .bytes = -(1LL << 61U)}};
  program.resident = {{.category = 0, .bytes = 12}};
  const std::string json = to_json(workload);
  const Workload again = parse_workload("again.json", json);
  EXPECT_EQ(to_json(again), json);
  EXPECT_EQ(again.kernels, workload.kernels);
  EXPECT_EQ(again.calls, workload.calls);
  EXPECT_EQ(again.delays, workload.delays);
  EXPECT_EQ(again.names, workload.names);
  EXPECT_EQ(again.streams, workload.streams);
  ASSERT_EQ(again.programs.size(), workload.programs.size());
  for (std::size_t i = 0; i < again.programs.size(); ++i) {
    expect_equal_programs(workload.programs[i], again.programs[i]);
  }
}

// Does the reader read files, and do errors name them?
TEST(WorkloadJson, ReadsFilesAndNamesThem) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "hand_step.json";
  write_file(file, example());
  EXPECT_EQ(read_workload(file).ranks.size(), 2U);
  EXPECT_THROW(static_cast<void>(read_workload("no/such/step.json")), InputError);
}

// Are unknown keys and words refused?
TEST(WorkloadJson, RefusesUnknownKeysAndWords) {
  EXPECT_THAT(
      problems_in(replaced(example(), "\"stream\": \"network\"", "\"stream\": \"networks\"")),
      HasSubstr("/programs/0/operations/1/stream"));
  EXPECT_THAT(problems_in(replaced(example(), "\"label\": \"dp0\"", "\"lable\": \"dp0\"")),
              HasSubstr("/ranks/0/lable: unknown key"));
  EXPECT_THAT(problems_in(replaced(example(), "\"all_reduce\"", "\"allreduce\"")),
              HasSubstr("/programs/0/operations/1/call/op"));
}

// Is waiting for a missing operation refused?
TEST(WorkloadJson, RefusesADependencyThatDoesNotExist) {
  EXPECT_THAT(problems_in(replaced(example(), "\"after\": [\"reduce\"]", "\"after\": [\"adam\"]")),
              HasSubstr("/programs/0/operations/2/after: \"adam\" is not an earlier operation"));
  EXPECT_THAT(problems_in(replaced(example(), "\"after\": [\"reduce\"]", "\"after\": [2]")),
              HasSubstr("2 is not an earlier operation"));
  const std::string twins = replaced(example(), "\"name\": \"reduce\"", "\"name\": \"backward\"");
  EXPECT_THAT(problems_in(replaced(twins, "\"after\": [\"reduce\"]", "\"after\": [\"backward\"]")),
              HasSubstr("\"backward\" is not the name of only one operation"));
}

// Are numbers out of range refused?
TEST(WorkloadJson, RefusesNumbersOutOfRange) {
  EXPECT_THAT(
      problems_in(replaced(example(), "\"program\": 0, \"gpu\": 1", "\"program\": 3, \"gpu\": 1")),
      HasSubstr("/ranks/1/program: there is no program 3"));
  EXPECT_THAT(problems_in(replaced(example(), "\"data\": 0", "\"data\": 4")),
              HasSubstr("/ranks/0/slots/data: rank 0 is not a member of group 4"));
  EXPECT_THAT(problems_in(replaced(example(), "\"32 MiB\", \"when\"", "\"0.3 B\", \"when\"")),
              HasSubstr("is not a whole number"));
}

// Are all problems reported together?
TEST(WorkloadJson, ReportsAllProblemsTogether) {
  std::string json = replaced(example(), "\"m\": 4096", "\"m\": 0");
  json = replaced(json, "\"gpu\": 1", "\"gpu\": -1");
  const std::string text = problems_in(json);
  EXPECT_THAT(text, HasSubstr("/programs/0/operations/0/kernel/m"));
  EXPECT_THAT(text, HasSubstr("/ranks/1/gpu"));
}

// Is a byte matrix written and read?
TEST(WorkloadJson, WritesAndReadsAByteMatrix) {
  const std::string uneven = replaced(
      example(), R"({"op": "all_reduce", "bytes": "32 MiB", "algorithm": "ring"})",
      R"({"op": "all_to_all", "bytes": 30, "algorithm": "direct", "matrix": [0, 30, 10, 5]})");
  const Workload workload = parse_workload("step.json", uneven);
  EXPECT_THAT(matrix_of(workload.calls[0]), ElementsAre(0, 30, 10, 5));
  const std::string written = to_json(workload);
  EXPECT_THAT(written, HasSubstr("\"matrix\":[0,30,10,5]"));
  EXPECT_EQ(parse_workload("again.json", written).calls, workload.calls);
  EXPECT_THAT(problems_in(replaced(uneven, "[0, 30, 10, 5]", "[0, \"many\"]")),
              HasSubstr("call/matrix: \"many\" is not a whole number of bytes"));
  EXPECT_THAT(problems_in(replaced(uneven, "[0, 30, 10, 5]", "[]")), HasSubstr("has no numbers"));
}

// Are sizes refused whose sums and products would exceed 64 bits, each at its field?
TEST(WorkloadJson, RefusesSizesThatCannotBeCounted) {
  const std::string whole = example();
  EXPECT_EQ(problems_in(whole), "");
  EXPECT_THAT(
      problems_in(replaced(whole, "\"bytes\": 268435456", "\"bytes\": 9223372036854775807")),
      HasSubstr("/bytes: must be between 0 and 2305843009213693952"));
  EXPECT_THAT(problems_in(replaced(whole, "\"m\": 4096", "\"m\": 4611686018427387904")),
              HasSubstr("/kind: a gemm of"));
  // Each effect can be counted, but not all together.
  std::string effects;
  for (int i = 0; i < 4; ++i)
    effects += R"({"category": "weights", "when": "end", "bytes": 2305843009213693952},)";
  effects.pop_back();
  EXPECT_THAT(problems_in(R"({"memory_categories": ["weights"], "programs": [{"operations": [
      {"kind": "delay", "name": "x", "delay": "1 s", "memory": [)" +
                          effects + R"(]}]}], "ranks": [{"program": 0, "gpu": 0}]})"),
              HasSubstr("/programs/0/operations: allocate and free more than 2^63 bytes"));
}

// Does each kind of call keep its keyword? A host copy, a step of a collective and a relay by
// switches are different kinds of call; their keyword is under "algorithm".
TEST(WorkloadJson, EachKindOfCallKeepsItsWord) {
  const Workload workload = parse_workload("step.json", R"({"calls": [
      {"op": "host_copy", "bytes": 8, "algorithm": "from_host"},
      {"op": "send_recv", "bytes": 4, "algorithm": "step_on"},
      {"op": "reduce", "bytes": 2, "algorithm": "relay_on",
       "relay": [{"from": 0, "to": 9, "bytes": 2}]}],
      "programs": [{"operations": []}], "ranks": [{"program": 0, "gpu": 0}]})");
  EXPECT_THAT(workload.calls,
              ElementsAre(Call{HostCopyCall{.direction = HostDirection::FromHost, .bytes = 8}},
                          Call{TransferCall{.bytes = 4, .kind = MessageKind::FollowingStep}},
                          Call{RelayCall{.op = CollectiveOp::Reduce,
                                         .bytes = 2,
                                         .hops = {{.from = 0, .to = 9, .bytes = 2}},
                                         .follows = true}}));
  EXPECT_EQ(parse_workload("again.json", to_json(workload)).calls, workload.calls);
}

// Does a host copy need its direction?
TEST(WorkloadJson, AHostCopySaysItsDirection) {
  try {
    (void)parse_workload("step.json",
                         R"({"calls": [{"op": "host_copy", "bytes": 8, "algorithm": "ring"}]})");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/calls/0/algorithm"));
    EXPECT_THAT(error.what(), HasSubstr("to_host, from_host"));
  }
}

}  // namespace
}  // namespace trainyard
