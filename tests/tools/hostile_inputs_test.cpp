// Files that were made to break the program, given to the real command: each ends with exit code 2
// and one message, within a minute of processor time and 6 GB of address space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using test::Outcome;
using test::Scratch;

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

struct Hostile {
  std::string file;  // written before the command runs
  std::string contents;
  std::string line;
  std::string message;  // a part of standard error
};

const std::string kRun = "trainyard run scenarios/first/two_gpus.json ";
const std::string kImport = " --node dgx_h100 --nodes 2 -o out.json";

std::vector<Hostile> hostile_files() {
  const std::string small =
      " --num-layers 4 --hidden-size 1024 --num-attention-heads 8 --seq-length 512 "
      "--micro-batch-size 1 --vocab-size 32000 ";
  std::string keys = "{";
  for (int i = 0; i < 50'000; ++i) keys += "\"key" + std::to_string(i) + "\": 1, ";
  return {
      {"topo.xml", "<system>" + repeated("<pci>", 40'000), "trainyard import nccl-topo topo.xml",
       "is nested deeper than 64 levels"},
      {"mine.xml", "<algo>" + repeated("<tb>", 40'000),
       "trainyard collective all_reduce --algorithms mine.xml", "is nested deeper than 64 levels"},
      {"run.sh", "# " + std::string(80'000, 'c') + "\n" + small + "--num-layers $X",
       "trainyard import megatron run.sh" + kImport, "--num-layers is \"$X\""},
      {"freq.sh", small + "--num-experts 8 --moe-layer-freq " + std::string(400, '9'),
       "trainyard import megatron freq.sh" + kImport, "--moe-layer-freq is"},
      {"byte.sh", small + "--recompute-granularity full --recompute-method \xff",
       "trainyard import megatron byte.sh" + kImport, "recompute_method"},
      {"deep.yaml", "model: " + repeated("[", 200'000),
       "trainyard import nanotron deep.yaml" + kImport, "deep.yaml: line 1: is nested deeper"},
      {"keys.toml", "[model]\nflavor = \"\xff\"\n",
       "trainyard import torchtitan keys.toml" + kImport, "model.flavor is"},
      {"deep.sh", "torchrun --nnodes " + repeated("$((", 100'000) + " x.py\n",
       "trainyard import launch deep.sh --node dgx_h100", "is known to the shell only"},
      {"array.sh",
       "A=(" + repeated("word ", 100'000) + ")\ntorchrun --nnodes=x " +
           repeated("${A[@]} ", 10'000),
       "trainyard import launch array.sh --node dgx_h100", "\"x\" is not a number of 1 or more"},
      {"ray.py", repeated("ScalingConfig(", 100'000), "trainyard import launch ray.py",
       "ScalingConfig in line 1 has no end"},
      {"fabric.txt", "Switch\t40 \"S-1\"\n" + repeated("[1]", 200'000),
       "trainyard import ib-fabric fabric.txt --node dgx_h100", "fabric.txt: line 2: \"[1][1]"},
      {"topo.txt", "\tGPU0\tGPU1\nGPU0\tX\tNV" + std::string(100'000, '9') + "\n",
       "trainyard import topo-m topo.txt --gpu h100", "topo.txt: line 2: GPU0 to GPU1 is"},
      {"log.json", "{\"results\": " + repeated("[", 200'000),
       "trainyard import nccl-tests log.json -o out.json", "is no JSON of nccl-tests"},
      {"trace.json", "{\"traceEvents\": " + repeated("[", 200'000),
       "trainyard import kineto trace.json --gpu h100 -o out.json", "trace.json: parse error"},
      {"dims.json",
       "{\"traceEvents\": [{\"ph\": \"X\", \"args\": {\"Input Dims\": " + repeated("[", 200'000),
       "trainyard import kineto dims.json --gpu h100 -o out.json", "dims.json: parse error"},
      {"report.sqlite", std::string("SQLite format 3\0", 16) + std::string(8192, '\xff'),
       "trainyard import nsys report.sqlite --gpu h100 -o out.json",
       "cannot be read as an SQLite database"},
      {"list.txt", "training.global_batch_size=\xff\n",
       "trainyard sweep scenarios/first/two_gpus.json --list list.txt --journal out.csv >&2",
       "/training/global_batch_size: must be a whole number"},
      {"keys.json", keys + "\"last\": 1}", "trainyard run keys.json",
       "keys.json: /key0: unknown key"},
      {"none", "", kRun + "--json " + std::string(300, 'a'), "File name too long"},
      {"none", "", "ln -s loop loop; " + kRun + "--json loop", "loop: Too many levels"},
      {"none", "", "ln -s loop loop; trainyard run loop", "loop: cannot be read: Too many levels"},
      {"none", "", "trainyard run /dev/zero", "/dev/zero: holds more than 1 GiB"},
      {"none", "", kRun + "--set cluster.nic='{\"usable\": \"1e-300 GB/s\"}'",
       "/cluster/nic/usable: must be at least 1 B/s, not \"1e-300 GB/s\""},
      {"none", "",
       "trainyard run scenarios/moe/deepseek_v3_2048xh800.json --set "
       "parallelism.rank_order=",
       "/parallelism/rank_order: must name each of tp, cp, ep, dp, pp once"},
  };
}

#ifdef __SANITIZE_ADDRESS__
const std::string kLimits = "ulimit -t 300; ";  // the sanitizer takes terabytes of addresses
const std::string kSearchSeconds = "60";        // and unoptimised code takes longer
#else
const std::string kLimits = "ulimit -v 6000000; ulimit -t 60; ";
const std::string kSearchSeconds = "3";
#endif

// Is each hostile file refused with a message?
TEST(HostileInputs, EachIsRefusedWithAMessage) {
  for (const Hostile& hostile : hostile_files()) {
    const Scratch scratch;
    test::write_quickly(scratch.folder() / hostile.file, hostile.contents);
    const Outcome outcome = scratch.sh(kLimits + hostile.line);
    EXPECT_EQ(outcome.exit, 2) << hostile.line.substr(0, 200) << "\n" << outcome.err.substr(0, 500);
    EXPECT_THAT(outcome.err.substr(0, 2000), testing::HasSubstr(hostile.message)) << hostile.line;
  }
}

// Do large groups have a result, or are they refused? Legal sizes have a result; others are refused
// with the number.
TEST(HostileInputs, LargeGroupsHaveAnAnswerOrAreRefused) {
  const Scratch scratch;
  const auto study = [&](const std::string& line) {
    return scratch.sh(kLimits + "trainyard collective " + line + " --sizes 1MiB");
  };
  for (const std::string algorithm : {"parameter_server", "multi_level", "halving_doubling"}) {
    const Outcome outcome = study("all_reduce --nodes 5000 --algorithms " + algorithm);
    EXPECT_EQ(outcome.exit, 0) << algorithm << outcome.err;
    EXPECT_THAT(outcome.out, testing::HasSubstr("all_reduce over 40000 ranks"));
  }
  EXPECT_EQ(study("all_gather --nodes 1000 --algorithms pat").exit, 0);
  EXPECT_EQ(study("broadcast --nodes 200 --algorithms tree").exit, 0);
  EXPECT_EQ(study("broadcast --nodes 1000 --algorithms chain").exit, 0);
  EXPECT_EQ(study("all_reduce --nodes 256 --algorithms one_shot,two_shot").exit, 0);
  struct Refused {
    std::string line, figure;
  };
  for (const auto& [line, figure] :
       {Refused{"broadcast --algorithms chain", "8 chains are 20479488 messages"},
        Refused{"reduce --algorithms tree", "2 trees are 5119872 messages"},
        Refused{"all_to_all --algorithms hierarchical", "are 1599960000 messages"},
        Refused{"all_to_all --algorithms node_limited", "are 1599960000 messages"},
        Refused{"all_gather --algorithms direct", "are 1599960000 messages"}}) {
    const Outcome outcome = study(line + " --nodes 5000");
    EXPECT_NE(outcome.exit, 0) << line;
    std::string said = outcome.out + outcome.err;
    std::ranges::replace(said, '\n', ' ');
    EXPECT_THAT(said, testing::HasSubstr(figure)) << line;
  }
}

// Does a search over thousands of values end within its time?
TEST(HostileInputs, ASearchOverThousandsOfValuesEndsInItsTime) {
  const Scratch scratch;
  std::string values = "1";
  for (int value = 2; value <= 3000; ++value) values += "," + std::to_string(value);
  Outcome outcome = scratch.sh(kLimits +
                               "trainyard search scenarios/llama3/llama3_8b_8xh100.json --over "
                               "training.global_batch_size=" +
                               values + " --seconds " + kSearchSeconds);
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  std::ranges::replace(outcome.out, '\n', ' ');
  EXPECT_THAT(outcome.out, testing::ContainsRegex("of 3000 combinations of values"));
}

// The output of `nvidia-smi topo -m` of a machine with this many GPUs, four per switch.
std::string topo_matrix(int gpus) {
  std::string text;
  for (int gpu = 0; gpu < gpus; ++gpu) text += "\tGPU" + std::to_string(gpu);
  for (int from = 0; from < gpus; ++from) {
    text += "\nGPU" + std::to_string(from);
    for (int to = 0; to < gpus; ++to)
      text += to == from ? "\tX" : to / 4 == from / 4 ? "\tPIX" : "\tSYS";
  }
  return text + "\n";
}

// Can a machine of two thousand GPUs be imported?
TEST(HostileInputs, AMachineOfTwoThousandGpusIsImported) {
  const Scratch scratch;
  const std::string import = "trainyard import topo-m topo.txt --gpu h100 -o out.json";
  write_file(scratch.folder() / "topo.txt", topo_matrix(2048));
  const Outcome outcome = scratch.sh(kLimits + import);
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  write_file(scratch.folder() / "topo.txt", topo_matrix(2049));
  EXPECT_THAT(scratch.sh(kLimits + import).err, testing::HasSubstr("2049 GPUs and NICs"));
}

// Does an enormous oversubscription leave one uplink? There is always at least one.
TEST(HostileInputs, AnOversubscriptionWithoutMeasureIsOneUplink) {
  const Scratch scratch;
  const Outcome outcome = scratch.sh(
      "trainyard show topology scenarios/llama3/llama3_8b_8xh100.json --set cluster.nodes=2 --set "
      "parallelism.data=8 --set cluster.fabric.kind=rail_optimized --set "
      "cluster.fabric.oversubscription=9223372036854775807");
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
}

// Does an error keep its exit code where standard error cannot be written?
TEST(HostileInputs, AnErrorKeepsItsExitCodeWhereNobodyCanBeTold) {
  const Scratch scratch;
  EXPECT_EQ(scratch.sh("trainyard run absent.json 2>&-").exit, 2);
  EXPECT_EQ(scratch.sh("trainyard run absent.json 2>/dev/full").exit, 2);
  EXPECT_EQ(scratch.sh("trainyard runn 2>&-").exit, 2);
  // The file does not take a descriptor of the standard streams, and nothing else is written into
  // it.
  EXPECT_EQ(scratch.sh(kRun + "--json out.json 2>&- >/dev/null").exit, 0);
}

}  // namespace
}  // namespace trainyard
