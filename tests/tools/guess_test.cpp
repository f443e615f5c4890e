// `trainyard import --guess`: every format of import is found by its files alone, and imported
// where its options are there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using test::Outcome;
using test::Scratch;
using testing::HasSubstr;
using testing::StartsWith;

struct Case {
  const char* files;
  const char* format;
};
const std::string kFolder = "tests/scenarios/import/";

const std::vector<Case> kCases = {
    {"accelerate/fsdp.yaml tests/scenarios/import/accelerate/train.sh", "accelerate"},
    {"../../tools/chakra_traces", "chakra"},
    {"deepspeed/zero2_offload.json", "deepspeed"},
    {"deepspeed/zero3.json", "deepspeed"},
    {"h8.log", "nccl-tests"},
    {"hf/gpt2.json", "hf-config"},
    {"hf/llama4_scout.json", "hf-config"},
    {"ib_fabric/rails.txt", "ib-fabric"},
    {"ib_fabric/fat_tree_iblinkinfo.txt", "ib-fabric"},
    {"ib_fabric/fat_tree_iblinkinfo_l.txt", "ib-fabric"},
    {"launch/mpirun_ppr.sh", "launch"},
    {"launch/ray_train.py", "launch"},
    {"launch/slurm_torchrun.sh", "launch"},
    {"maxtext/experts.yml", "maxtext"},
    {"maxtext/llama3_70b.yml", "maxtext"},
    {"megatron_yaml/llama3_8b.yaml", "megatron-yaml"},
    {"nanotron/llama_8b.yaml", "nanotron"},
    {"nemo/bridge_llama3_70b.yaml", "nemo"},
    {"nemo/nemo1_gpt.yaml", "nemo"},
    {"nemo/nemo2_mixtral.yaml", "nemo"},
    {"pretrain_gpt.sh", "megatron"},
    {"topologies/a100_x8.xml", "nccl-topo"},
    {"topologies/virtual_switches_a100.xml", "nccl-topo"},
    {"traces/kineto.json", "kineto"},
    {"topologies/h100_x8_topo_m.txt", "topo-m"},
    {"torchtitan/llama3_70b_pipeline.toml", "torchtitan"},
    {"torchtitan/llama3_8b.toml", "torchtitan"},
};

// Is every format found, and its command printed?
TEST(Guess, EveryFormatIsFoundByItsFiles) {
  const Scratch scratch;
  std::set<std::string> formats;
  for (const Case& one : kCases) {
    const Outcome found = scratch.sh("trainyard import --guess " + kFolder + one.files);
    EXPECT_EQ(found.exit, 0) << one.files << ": " << found.err;
    EXPECT_THAT(found.out, StartsWith(std::string("Format  ") + one.format + "   ("));
    EXPECT_THAT(found.out,
                HasSubstr(std::string("trainyard import ") + one.format + " " + kFolder));
    formats.insert(one.format);
  }
  // A database, of which the first bytes suffice.
  const Outcome database =
      scratch.sh("printf 'SQLite format 3\\0' > a.sqlite && trainyard import --guess a.sqlite");
  EXPECT_THAT(database.out, StartsWith("Format  nsys   ("));
  formats.insert("nsys");
  // Each subcommand of import has a file here.
  const std::string help = scratch.sh("trainyard import --help").out;
  std::size_t listed = 0;
  for (const std::string& line : test::lines_of(help.substr(help.find("Subcommands:"))))
    if (line.starts_with("  ") && line.size() > 2 && line[2] != ' ' &&
        !line.starts_with("  train")) {
      EXPECT_TRUE(formats.contains(line.substr(2, line.find(' ', 2) - 2))) << line;
      ++listed;
    }
  EXPECT_EQ(listed, 17U);
  EXPECT_EQ(formats.size(), listed);
}

// Is a file imported where --output and the options of its format are there?
TEST(Guess, AFileIsImportedWhereItsOptionsAreThere) {
  const Scratch scratch;
  const std::string titan = "trainyard import --guess " + kFolder + "torchtitan/llama3_8b.toml ";
  const Outcome made = scratch.sh(titan + "-o made.json --node grand_teton_h100 --nodes 1");
  ASSERT_EQ(made.exit, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("assumed:\n"));
  EXPECT_THAT(made.out, HasSubstr("Scenario  made.json   (8 GPUs; trainyard run made.json)"));
  const Outcome direct = scratch.sh("trainyard import torchtitan " + kFolder +
                                    "torchtitan/llama3_8b.toml -o direct.json --node "
                                    "grand_teton_h100 --nodes 1");
  ASSERT_EQ(direct.exit, 0) << direct.err;
  EXPECT_EQ(scratch.read("made.json"), scratch.read("direct.json"));
  EXPECT_EQ(scratch.sh("trainyard run made.json").exit, 0);
  const Outcome lacks = scratch.sh(titan + "-o lacks.json");
  EXPECT_EQ(lacks.exit, 2);
  EXPECT_THAT(lacks.err, HasSubstr("--node is required"));
  EXPECT_EQ(lacks.out, "");
  EXPECT_FALSE(scratch.holds("lacks.json"));
  const Outcome matrix = scratch.sh("trainyard import --guess " + kFolder +
                                    "topologies/h100_x8_topo_m.txt --gpu h100 -o node.json");
  EXPECT_EQ(matrix.exit, 0) << matrix.err;
  const Outcome wrong =
      scratch.sh("trainyard import --guess " + kFolder + "h8.log --node dgx_h100 -o profile.json");
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.err, HasSubstr("there is no option --node here"));
}

// Does a file of no known format, or of several, get one error that lists what was tried?
TEST(Guess, OtherFilesAreRefusedWithWhatWasTried) {
  const Scratch scratch;
  const Outcome unknown = scratch.sh("trainyard import --guess scenarios/README.md");
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_EQ(unknown.out, "");
  EXPECT_THAT(
      unknown.err,
      StartsWith(
          "trainyard: scenarios/README.md: is of no known format; tried accelerate, chakra, "
          "deepspeed, hf-config, ib-fabric, kineto, launch, maxtext, megatron, "
          "megatron-yaml, nanotron, nccl-tests, nccl-topo, nemo, nsys, topo-m, torchtitan ("));
  const Outcome several = scratch.sh(
      "printf 'zero_optimization: {stage: 1}\\nremat_policy: full\\n' > both.yaml && trainyard "
      "import --guess both.yaml");
  EXPECT_EQ(several.exit, 2);
  EXPECT_THAT(several.err, HasSubstr("both.yaml: may be deepspeed or maxtext (say which: "));
  const Outcome syntax =
      scratch.sh("printf 'a: [1\\nb: 2\\n' > bad.yaml && trainyard import --guess bad.yaml");
  EXPECT_EQ(syntax.exit, 2);
  EXPECT_THAT(syntax.err, HasSubstr("bad.yaml: line 2"));
  EXPECT_THAT(scratch.sh("trainyard import --guess absent.toml").err,
              HasSubstr("absent.toml: no such file"));
}

}  // namespace
}  // namespace trainyard
