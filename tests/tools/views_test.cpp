// The views of the command that run no step: list, schema, version, topology, schedules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/schedules/schedule.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/engine/engine.hpp"
#include "sim/report/report.hpp"
#include "tests/tools/shell.hpp"
#include "topologies/topology.hpp"

namespace trainyard {
namespace {

using test::Outcome;
using test::Scratch;
using testing::ContainsRegex;
using testing::HasSubstr;

// Does list print every registry?
TEST(Views, ListPrintsEveryRegistry) {
  const Scratch scratch;
  const Outcome outcome = scratch.sh("trainyard list");
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  std::vector<std::string> names;
  for (const char* folder : {"models/data", "topologies/data", "kernels/profiles"}) {
    for (const std::string& name : data_names(folder)) names.push_back(name);
  }
  for (const auto& entry : fabrics()) names.emplace_back(entry.name);
  for (const auto& entry : engines()) names.emplace_back(entry.name);
  for (const auto& entry : reports()) names.emplace_back(entry.name);
  for (const Schedule* schedule : schedules()) names.emplace_back(schedule->name());
  for (const CollectiveAlgorithm* one : collective_algorithms()) {
    names.push_back(std::string(to_string(one->op())) + " " + std::string(one->name()));
  }
  ASSERT_GT(names.size(), 40U);
  for (const std::string& name : names) EXPECT_THAT(outcome.out, HasSubstr("\n  " + name));
}

// Does list of one kind print only that kind?
TEST(Views, ListOfOneKindPrintsThatKind) {
  const Scratch scratch;
  const std::string engines = scratch.sh("trainyard list engines").out;
  EXPECT_THAT(engines, HasSubstr("simgrid"));
  EXPECT_THAT(engines, testing::Not(HasSubstr("gpipe")));
}

// Is each schema the committed file, that of scenarios without a name, and another name refused?
TEST(Views, SchemasAreTheCommittedFiles) {
  const Scratch scratch;
  for (const std::string document : {"scenario", "jobs"}) {
    const Outcome outcome = scratch.sh("trainyard schema " + document);
    EXPECT_EQ(outcome.exit, 0);
    EXPECT_TRUE(outcome.out == scratch.read("scenarios/" + document + ".schema.json"))
        << document << ".schema.json is old: tools/bless, and review the difference";
  }
  EXPECT_EQ(scratch.sh("trainyard schema").out, scratch.sh("trainyard schema scenario").out);
  const Outcome unknown = scratch.sh("trainyard schema job");
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_THAT(unknown.err, HasSubstr("jobs"));
}

// Does the version name what it was built with?
TEST(Views, VersionNamesWhatItWasBuiltWith) {
  const Scratch scratch;
  const Outcome outcome = scratch.sh("trainyard --version");
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex("^trainyard [0-9.]+ \\(revision [0-9a-z]+, SimGrid [0-9.]+"));
}

// Is the matrix that of the machine? Each of eight H100s has its 18 NVLinks to the switches, as
// `nvidia-smi topo -m` prints there.
TEST(Views, TheMatrixIsThatOfTheMachine) {
  const Scratch scratch;
  const Outcome outcome =
      scratch.sh("trainyard show topology scenarios/llama3/llama3_8b_8xh100.json --format matrix");
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  std::size_t bonded = 0;
  for (std::size_t at = outcome.out.find("NV18"); at != std::string::npos;
       at = outcome.out.find("NV18", at + 1)) {
    ++bonded;
  }
  EXPECT_EQ(bonded, 8U * 7U);
}

// Does Graphviz read the DOT file?
TEST(Views, GraphvizReadsTheDot) {
  const Scratch scratch;
  if (!have(scratch, "dot")) {
    GTEST_SKIP()
        << "SKIPPED, NOT TESTED: whether Graphviz reads our DOT needs the package graphviz";
  }
  for (const std::string what : {"topology", "workload"}) {
    const Outcome drawn =
        scratch.sh("set -o pipefail; trainyard show " + what +
                   " scenarios/first/two_gpus.json --format dot | dot -Tsvg -o picture.svg");
    EXPECT_EQ(drawn.exit, 0) << drawn.err;
    EXPECT_EQ(drawn.err, "");
    EXPECT_THAT(scratch.read("picture.svg"), HasSubstr("</svg>"));
  }
}

// Do costs report their origin?
TEST(Views, CostsSayHowTheyAreKnown) {
  const Scratch scratch;
  const Outcome outcome = scratch.sh("trainyard show cost scenarios/first/two_gpus.json");
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("interpolated"));
  EXPECT_THAT(outcome.out, HasSubstr("gemm m4096 n1024 k1024"));
}

// Do costs show the factors that a run applies? A factor that is 1 for all kernels has no column.
TEST(Views, CostsShowTheFactorsThatARunApplies) {
  const Scratch scratch;
  const std::string show =
      "trainyard show cost scenarios/fsdp/llama3_8b_8xh100_fsdp.json --set stragglers=";
  const Outcome with = scratch.sh(show + "true");
  ASSERT_EQ(with.exit, 0) << with.err;
  EXPECT_THAT(with.out, HasSubstr("framework torchtitan"));
  EXPECT_THAT(with.out, ContainsRegex("time +profile +framework +replicas +known how +shape"));
  const Outcome without = scratch.sh(show + "false");
  EXPECT_THAT(without.out, ContainsRegex("time +profile +framework +known how +shape"));
}

// Can every schedule be drawn?
TEST(Views, EveryScheduleDraws) {
  const Scratch scratch;
  for (const Schedule* schedule : schedules()) {
    const PipelineShape shape{.stages = 4, .microbatches = 8, .chunks = 1, .group_size = 0};
    const std::string chunks = schedule->refusal(shape) ? " --chunks 2" : "";
    const Outcome outcome =
        scratch.sh("trainyard schedule " + std::string(schedule->name()) + chunks);
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("rank 3 |"));
  }
}

// Can the kernels that a run misses be measured, merged and used? A run lists the kernels that have
// not been measured; a profile with these rows supplies them.
TEST(ProfileCommand, WhatARunMissesIsMeasuredMergedAndUsed) {
  const test::Scratch scratch;
  const std::string run = "trainyard run scenarios/first/two_gpus.json ";
  ASSERT_EQ(scratch.sh(run + "--missing missing.json").exit, 0);
  const std::string rows = read_file(scratch.folder() / "missing.json");
  EXPECT_NE(rows.find("trainyard.kernel_shapes"), std::string::npos);
  const test::Outcome import = scratch.sh(
      "printf 'dtype,m,n,k,time_us\\nbf16,1024,1024,1024,50\\n' > t.csv; trainyard profile import "
      "t.csv --gpu A100 --source ours -o rows.json");
  EXPECT_EQ(import.exit, 0) << import.err;
  const test::Outcome merge =
      scratch.sh("trainyard profile merge rows.json --gpu a100_80gb -o mine.json");
  EXPECT_EQ(merge.exit, 0) << merge.err;
  EXPECT_EQ(scratch.sh("trainyard profile diff rows.json rows.json").exit, 0);
  const test::Outcome used = scratch.sh(run + "--set cluster.node.gpu=./mine.json");
  EXPECT_EQ(used.exit, 0) << used.err;
  const test::Outcome none = scratch.sh("trainyard profile judge .");
  EXPECT_EQ(none.exit, 2);
  EXPECT_NE(none.err.find("holds no table of a GPU known here"), std::string::npos);
}

}  // namespace
}  // namespace trainyard
