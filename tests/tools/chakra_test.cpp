// Chakra traces: an exported step that is imported again is the same step; traces of other programs
// are read by their conventions; errors name what does not match.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "scenarios/import/chakra/import.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/chakra/trace_file.hpp"
#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using chakra::Conventions;
using chakra::Node;
using chakra::NodeType;
using chakra::RankTrace;
using test::Outcome;
using test::Scratch;
using testing::HasSubstr;

class Chakra : public testing::Test {
 protected:
  void SetUp() override {
    try {
      chakra::refuse_unless_built_in("");
    } catch (const InputError&) {
      GTEST_SKIP() << "SKIPPED, NOT TESTED: Chakra traces need libprotobuf-dev, protobuf-compiler";
    }
  }
  // Writes the traces, one rank each, and reads them back as a workload.
  chakra::Imported imported(const std::vector<RankTrace>& traces, const Conventions& how = {}) {
    for (std::size_t rank = 0; rank < traces.size(); ++rank) {
      write_file(scratch.folder() / "et" / ("step." + std::to_string(rank) + ".et"),
                 chakra::to_bytes(traces[rank]));
    }
    return chakra::read_traces(scratch.folder() / "et", how);
  }
  std::string problem(const std::vector<RankTrace>& traces, const Conventions& how = {}) {
    try {
      static_cast<void>(imported(traces, how));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
  Scratch scratch;
};

Node collective(std::uint64_t id, std::int64_t type, std::int64_t bytes,
                const std::string& group = "") {
  return {.id = id,
          .name = "collective",
          .type = NodeType::Collective,
          .attributes = {{"comm_type", type}, {"comm_size", bytes}, {"pg_name", group}}};
}

Node message(std::uint64_t id, NodeType type, std::int32_t from, std::int32_t to,
             std::int32_t tag) {
  return {.id = id,
          .name = type == NodeType::Send ? "send" : "recv",
          .type = type,
          .attributes = {{"comm_size", std::int64_t{1024}},
                         {"comm_src", from},
                         {"comm_dst", to},
                         {"comm_tag", tag}}};
}

// Does a step take the same time after export and import?
TEST_F(Chakra, AStepThatGoesOutAndComesBackTakesTheSameTime) {
  struct Shipped {
    std::string scenario, sets;
  };
  for (const Shipped& one :
       {Shipped{"scenarios/first/two_gpus.json", ""},
        Shipped{"scenarios/what_if/tensor.json",
                " --set parallelism.pipeline=2 --set parallelism.tensor=2 --set "
                "training.global_batch_size=8"}}) {
    SCOPED_TRACE(one.scenario + one.sets);
    const std::string sets = one.sets;
    const Outcome run = scratch.sh("trainyard run " + one.scenario + sets +
                                   " --ideal --json a.json --chakra out && "
                                   "trainyard show topology " +
                                   one.scenario + " --format json > c.json");
    ASSERT_EQ(run.exit, 0) << run.err;
    for (const std::string convention : {"best", "recorded"}) {
      const Outcome back =
          scratch.sh("trainyard import chakra out -o w.json --durations " + convention +
                     " && trainyard run --workload w.json --cluster c.json "
                     "--json b.json");
      ASSERT_EQ(back.exit, 0) << back.err;
      const auto ours = parse_unchecked_json(scratch.read("a.json"));
      const auto theirs = parse_unchecked_json(scratch.read("b.json"));
      const double expected = ours.at("step_time_s");
      EXPECT_NEAR(theirs.at("step_time_s").get<double>(), expected, 1e-9 * expected) << convention;
    }
    ASSERT_EQ(scratch.sh("rm -r out").exit, 0);
  }
}

// Are the traces of other programs replayed by roofline and by record? protoc wrote these from
// text, in the layout of ASTRA-sim's generators. A100: 312 TFLOP/s bf16.
TEST_F(Chakra, TracesOfOthersAreReplayedByRooflineAndRecord) {
  const Outcome outcome = scratch.sh(
      "trainyard import chakra tests/tools/chakra_traces -o w.json && "
      "trainyard show topology scenarios/first/two_gpus.json --format json > c.json && "
      "trainyard run --workload w.json --cluster c.json --engine ideal --json r.json --trace "
      "t.json "
      "--trace-ranks 1");
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("computation: 0 by kernel, 1 as recorded, 2 by roofline, 0 "));
  std::map<std::string, double> seconds;
  const auto trace = parse_unchecked_json(scratch.read("t.json"));
  for (const auto& event : trace.at("traceEvents"))
    if (event.value("ph", "") == "X") seconds[event["name"]] = event["dur"].get<double>() * 1e-6;
  EXPECT_NEAR(seconds.at("layer"), 312e9 / 312e12, 1e-9);
  EXPECT_NEAR(seconds.at("next layer"), 250e-6, 1e-9);
  // They name no categories of memory; the software of a scenario brings its own.
  const Outcome with_software =
      scratch.sh("trainyard run scenarios/first/two_gpus.json --workload w.json");
  EXPECT_EQ(with_software.exit, 0) << with_software.err;
  EXPECT_THAT(with_software.out, HasSubstr("communication"));
}

// Do the sizes follow the convention?
TEST_F(Chakra, SizesFollowTheConvention) {
  const auto bytes = [&](std::int64_t type, const Conventions& how) {
    const RankTrace trace{.nodes = {collective(1, type, 100)}};
    return bytes_of(imported({trace, trace, trace, trace}, how).workload.calls.at(0));
  };
  constexpr std::int64_t kAllReduce = 0, kAllGather = 2, kReduceScatter = 7;
  EXPECT_EQ(bytes(kAllReduce, {}), 100);
  EXPECT_EQ(bytes(kAllGather, {}), 400) << "what a rank puts in, of four";
  EXPECT_EQ(bytes(kAllGather, {.all_gather_output = true}), 100);
  EXPECT_EQ(bytes(kReduceScatter, {}), 100);
  EXPECT_EQ(bytes(kReduceScatter, {.reduce_scatter_output = true}), 400);
}

// Do the dimensions choose among the ranks?
TEST_F(Chakra, DimensionsChooseAmongRanks) {
  Node along = collective(1, 0, 8);
  along.attributes["involved_dim"] = std::vector<std::int64_t>{0, 1};
  const RankTrace trace{.nodes = {along}};
  const std::vector<RankTrace> four(4, trace);
  EXPECT_THAT(problem(four), HasSubstr("rank 0 node 1 \"collective\" takes part in some of 2"));
  const Workload workload = imported(four, {.dimensions = {2, 2}}).workload;
  ASSERT_EQ(workload.groups.size(), 2U);
  EXPECT_THAT(workload.groups[0].members, testing::ElementsAre(RankId{0}, RankId{2}));
  EXPECT_THAT(workload.groups[1].members, testing::ElementsAre(RankId{1}, RankId{3}));
  EXPECT_EQ(workload.programs.size(), 1U) << "they all do the same";
}

// Do messages match by tag where orders differ?
TEST_F(Chakra, MessagesMeetByTagWhereOrdersDiffer) {
  const RankTrace sends{
      .nodes = {message(1, NodeType::Send, 0, 1, 7), message(2, NodeType::Send, 0, 1, 8)}};
  RankTrace takes{
      .nodes = {message(1, NodeType::Recv, 0, 1, 7), message(2, NodeType::Recv, 0, 1, 8)}};
  EXPECT_EQ(imported({sends, takes}).workload.groups.size(), 1U) << "one queue";
  std::swap(takes.nodes[0].attributes, takes.nodes[1].attributes);
  EXPECT_THAT(problem({sends, takes}), HasSubstr("deadlock"))
      << "a stream in order cannot take the second first";
}

// Does the error name what does not match?
TEST_F(Chakra, WhatDoesNotMatchIsNamed) {
  const RankTrace one{.nodes = {collective(1, 0, 8)}};
  const RankTrace other{.nodes = {collective(5, 0, 16)}};
  EXPECT_THAT(problem({one, other}),
              HasSubstr("call 1 of group \"\" of ranks 0, 1: rank 0 node 1 \"collective\" is "
                        "all_reduce of 8 B, rank 1 node 5 \"collective\" is all_reduce of 16 B"));
  EXPECT_THAT(
      problem({one, {}}),
      HasSubstr("rank 0 node 1 \"collective\" (all_reduce of 8 B) finds no partner on rank 1"));
  EXPECT_THAT(problem({{.nodes = {message(4, NodeType::Send, 0, 1, 7)}}, {}}),
              HasSubstr("call 1 of messages from rank 0 to rank 1"));
  EXPECT_THAT(problem({{.nodes = {collective(1, 3, 8)}}}),
              HasSubstr("is a collective of GATHER, which cannot be replayed"));
  EXPECT_THAT(problem({{.nodes = {collective(1, 0, 8, "12")}}}),
              HasSubstr("names group \"12\", which nothing defines"));
}

// Are ranks and sizes refused that exceed their types? Rank numbers of more than 32 bits are not
// truncated to existing ranks.
TEST_F(Chakra, RanksAndSizesBeyondTheirTypesAreRefused) {
  constexpr std::int64_t kBeyond = (1LL << 32) + 1;
  Node far = message(0, NodeType::Send, 0, 1, 0);
  far.attributes["comm_dst"] = kBeyond;
  EXPECT_THAT(problem({{.nodes = {far}}, {.nodes = {message(0, NodeType::Recv, 0, 1, 0)}}}),
              HasSubstr("a message from rank 0 to rank 4294967297"));
  const auto groups = scratch.folder() / "groups.json";
  write_file(groups, R"({"1": [0, 4294967296]})");
  EXPECT_THAT(problem({{.nodes = {collective(0, 0, 8, "1")}}, {}}, {.groups = groups}),
              HasSubstr("group \"1\" has rank 4294967296, of which there is no trace"));
  EXPECT_THAT(
      problem({{.nodes = {collective(0, 2, 1LL << 62)}}, {.nodes = {collective(0, 2, 1LL << 62)}}}),
      HasSubstr("has a comm_size of 4611686018427387904"));
}

// Are attributes refused that have another kind or size? The test gives every attribute that an
// import reads values of kinds and sizes that it cannot have.
TEST_F(Chakra, AttributesOfAnotherKindOrSizeAreRefused) {
  struct Attribute {
    std::string name;
    NodeType type;
    std::vector<chakra::Value> wrong;
  };
  const std::uint64_t beyond = 1ULL << 63U;
  const chakra::Value fraction = 1.5;
  const chakra::Value words = std::string("many");
  const chakra::Value list = std::vector<std::int64_t>{1};
  const chakra::Value negative = std::int64_t{-1};
  const std::vector<chakra::Value> no_number = {beyond, fraction, words, list};
  const std::vector<chakra::Value> no_amount = {beyond, fraction, words, list, negative};
  const chakra::Value texts = std::vector<std::string>{"a"};
  int refused = 0;
  for (const auto& [name, type, wrong] :
       {Attribute{"is_cpu_op", NodeType::Compute, no_number},
        Attribute{"stream", NodeType::Compute, no_number},
        Attribute{"num_ops", NodeType::Compute, no_amount},
        Attribute{"tensor_size", NodeType::MemLoad, no_amount},
        Attribute{"comm_size", NodeType::Collective, no_amount},
        Attribute{"comm_type", NodeType::Collective, no_number},
        Attribute{"comm_src", NodeType::Send, no_number},
        Attribute{"comm_dst", NodeType::Send, no_number},
        Attribute{"comm_tag", NodeType::Send, no_number},
        Attribute{"pg_name", NodeType::Collective, {fraction, list, texts, beyond}},
        Attribute{"involved_dim", NodeType::Collective, {fraction, words, texts, negative}},
        Attribute{"trainyard", NodeType::Compute, {fraction, list, texts, beyond}}}) {
    for (const chakra::Value& value : wrong) {
      Node node = type == NodeType::Send ? message(7, type, 0, 1, 0) : collective(7, 0, 8);
      node.type = type;
      node.attributes[name] = value;
      const std::string said = problem({{.nodes = {node}}, {}});
      EXPECT_THAT(said,
                  HasSubstr("step.0.et: node 7 \"" + node.name + "\" has \"" + name + "\": "));
      EXPECT_THAT(said, HasSubstr("it must be "));
      EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 0) << said;
      ++refused;
    }
  }
  EXPECT_EQ(refused, 51);
  EXPECT_THAT(problem({{.attributes = {{"trainyard", 1.5}}}}),
              HasSubstr("the trace has \"trainyard\""));
}

// Does the command refuse a wrong attribute in one line?
TEST_F(Chakra, ACommandRefusesAWrongAttributeInOneLine) {
  Node node = collective(7, 0, 8);
  node.attributes["comm_size"] = std::string("8");
  write_file(scratch.folder() / "et" / "step.0.et", chakra::to_bytes({.nodes = {node}}));
  const Outcome outcome = scratch.sh("trainyard import chakra et -o w.json");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_EQ(test::lines_of(outcome.err).size(), 1U) << outcome.err;
}

// Do missing attributes have a default, or are they refused?
TEST_F(Chakra, MissingAttributesHaveADefaultOrAreRefused) {
  const auto without = [&](Node node, const std::string& name) {
    node.attributes.erase(name);
    return problem({{.nodes = {node}}, {}});
  };
  EXPECT_THAT(without(collective(7, 0, 8), "comm_size"), HasSubstr("has no comm_size"));
  EXPECT_THAT(without(collective(7, 0, 8), "comm_type"), HasSubstr("has no comm_type"));
  EXPECT_THAT(without(message(7, NodeType::Send, 0, 1, 3), "comm_size"),
              HasSubstr("has no comm_size"));
  EXPECT_THAT(without(message(7, NodeType::Send, 0, 1, 3), "comm_dst"),
              HasSubstr("sends a message from rank 0 to rank 0"));
  EXPECT_THAT(without(message(7, NodeType::Send, 0, 1, 3), "comm_src"),
              HasSubstr("call 1 of messages from rank 0 to rank 1"))
      << "from itself";
  const Node work{.id = 1, .name = "work", .type = NodeType::Compute, .duration_us = 5};
  EXPECT_EQ(problem({{.nodes = {work}}}), "") << "a computation needs none";
}

// Is a trace refused that cannot have run?
TEST_F(Chakra, ATraceThatCannotHaveRunIsRefused) {
  const auto waits = [](std::uint64_t id, std::uint64_t before) {
    return Node{.id = id, .name = "work", .type = NodeType::Compute, .data = {before}};
  };
  EXPECT_THAT(
      problem({{.nodes = {waits(1, 2), waits(2, 1)}}}),
      HasSubstr("its nodes wait in a circle: node 1 \"work\" waits for node 2 \"work\" waits "
                "for node 1 \"work\""));
  EXPECT_THAT(problem({{.nodes = {waits(1, 9)}}}),
              HasSubstr("node 1 \"work\" waits for node 9, which is not in the trace"));
  write_file(scratch.folder() / "et" / "step.0.et", "no trace");
  EXPECT_THROW(static_cast<void>(chakra::read_traces(scratch.folder() / "et", {})), InputError);
}

}  // namespace
}  // namespace trainyard
