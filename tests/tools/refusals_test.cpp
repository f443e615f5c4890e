// Wrong command lines: the command refuses each with its exit code, one clear message on standard
// error, and nothing on standard output. (Wrong scenarios are in tests/errors.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using test::Outcome;
using test::Scratch;

struct Refusal {
  std::string line;
  std::string message;  // all of standard error, without "trainyard: "
};

const std::string kTinyRun = "trainyard run scenarios/first/two_gpus.json ";

std::vector<Refusal> refusals() {
  return {
      {"trainyard show",
       "trainyard show what? topology, workload, cost (`trainyard show --help` shows what it "
       "takes)"},
      {"trainyard collective all_redcue",
       R"(there is no collective "all_redcue" (did you mean "all_reduce"?))"},
      {"trainyard collective all_reduce --algorithms rng",
       R"(--algorithms: there is no algorithm "rng" for all_reduce (did you mean "ring"?))"},
      {"trainyard collective all_reduce --sizes 8X",
       "--sizes: \"8X\" is not a size (write a number with B, KiB, MiB or GiB, such as 8B:8GiB or "
       "1MiB:1GiB:4)"},
      {"trainyard collective",
       "which collective? (trainyard collective all_reduce, or --group for several)"},
      {"trainyard collective all_reduce --ranks 0-8",
       "--ranks: \"8\" is not a rank of the cluster, which has 8 GPUs (use 0 to 7, or more nodes)"},
      {"trainyard collective all_reduce --split data=3",
       "--split: 3 does not divide 8 ranks (use a divisor of the ranks)"},
      {"trainyard collective --group all_reduce",
       "--group: \"all_reduce\" is not OP[/ALGORITHM]:RANKS[@SIZE] (write for example "
       "all_reduce:0-56/8 or all_to_all/pairwise:0-7@64MiB)"},
      {"trainyard collective send_recv --split tensor=4 --sizes 1MiB",
       "send_recv is between 2 ranks, not 4 (name the sender and the receiver: --ranks 0,1)"},
      {"trainyard collective --group all_reduce:0-7 --ranks 0-3",
       "--ranks: each --group has its own ranks (leave it out)"},
      {"trainyard collective --group all_reduce:0-7 --ranks-per-node 4",
       "--ranks-per-node: each --group has its own ranks (leave it out)"},
      {"trainyard collective --group all_reduce:0-7@1MiB --sizes 1GiB",
       "--sizes: each --group has its own size (leave it out)"},
      {"trainyard collective --group all_reduce/ring:0-7 --algorithms tree",
       "--algorithms: each --group has its own algorithm (leave it out)"},
      {"trainyard collective --group all_reduce/ring:0-7 --nccl-algo Tree",
       "--nccl-algo: no group runs nccl (leave it out, or add nccl)"},
      {"trainyard collective --group all_reduce:0-7 --plot",
       "--plot: draws the algorithms of one group (leave it out, or use --svg)"},
      {"trainyard collective all_gather --measured tests/scenarios/import/h8.log",
       "tests/scenarios/import/h8.log: measures all_reduce, not all_gather (compare like "
       "with like: name the collective of the log)"},
      {"trainyard collective all_reduce --nodes 2 --measured "
       "tests/scenarios/import/h8.log",
       "tests/scenarios/import/h8.log: measured 8 ranks on 1 nodes, and the group has 16 "
       "on 2 (describe the cluster that was measured: --node, --nodes, --ranks-per-node)"},
      {"trainyard collective all_reduce --nodes 4294967295",
       "--nodes: 4294967295 are more than 1048576 (use as many as there are in a cluster)"},
      {"trainyard collective all_reduce --nccl-min-nchannels 99",
       "--nccl-min-nchannels: 99 is not a number from 1 to 64 (`trainyard collective --help` shows "
       "what it takes)"},
      {"trainyard search scenarios/first/two_gpus.json --price nan",
       "--price: nan is no price, such as 2.5 (`trainyard search --help` shows what it takes)"},
      {"trainyard goodput scenarios/first/two_gpus.json --preset llama3",
       "how long is the run? (give either --days or --tokens)"},
      {"trainyard goodput scenarios/first/two_gpus.json --days 3",
       "scenarios/first/two_gpus.json: /reliability: the scenario does not say what fails (take a "
       "preset: --preset llama3; `trainyard list reliability` lists them)"},
      {"trainyard goodput scenarios/first/two_gpus.json --preset rsc1 --days 0.01",
       "scenarios/first/two_gpus.json: /reliability/checkpoint: an interval of 3600 s is longer "
       "than "
       "the run of 864 s (shorten the interval, or lengthen the run)"},
      {"trainyard run scenarios/first/two_gpus.json --batches 3",
       "scenarios/first/two_gpus.json: /documents: nothing in the scenario is drawn, so all "
       "batches "
       "are equal (draw lengths of documents: --set documents.preset=NAME)"},
      {"trainyard run --workload w.json --cluster c.json --batches 3",
       "--batches draws other batches of a scenario, and a --workload has none (leave one out)"},
      {"trainyard goodput",
       "which scenario? (give a scenario file, or a run's own log: trainyard goodput fit LOG)"},
      {"trainyard goodput fit scenarios/README.md",
       "scenarios/README.md: is no log that is known here (give a CSV with the columns time and "
       "event, the JSON of ml-goodput-measurement's entries, a log of NVIDIA's resiliency "
       "extension, or `sacct --parsable2` with its header; docs/how_to/fit_my_run_log.md describes "
       "them)"},
      {"trainyard goodput fit scenarios/run_logs/bloom_176b.csv --steps 100",
       "scenarios/run_logs/bloom_176b.csv: ends at step 94767, and the target is 100 (give the "
       "steps or tokens of the whole run, those of the log included)"},
      {"trainyard goodput fit scenarios/run_logs/bloom_176b.csv --tokens 1T",
       "scenarios/run_logs/bloom_176b.csv: does not tell the tokens of a step (write the line \"# "
       "tokens_per_step: 4194304\" into a CSV, or give --steps)"},
      {"trainyard goodput fit scenarios/run_logs/bloom_176b.csv --versus "
       "reliability.spares.nodes=8",
       "--versus is a variant of the replay (add --replay)"},
      {"trainyard goodput fit scenarios/run_logs/bloom_176b.csv --replay --versus "
       "'reliability.phases=[{\"from_tokens\": 1e9, \"global_batch_size\": 64}]'",
       "scenarios/run_logs/bloom_176b.csv: /reliability/phases: a log does not say how long the "
       "steps of other phases take (leave phases out, or use trainyard goodput SCENARIO)"},
      {"trainyard goodput scenarios/llama3/llama3_70b_64xh100.json --preset llama3 --days 30 --set "
       "'reliability.phases=[{\"from_tokens\": 1e9, \"global_batch_size\": 7}]'",
       "--set reliability.phases=[{\"from_tokens\": 1e9, \"global_batch_size\": 7}]: "
       "/reliability/phases/0/global_batch_size: 7 sequences do not divide into microbatches of 1 "
       "on 2 replicas (choose a multiple of 2)"},
      {"trainyard sweep scenarios/first/two_gpus.json --over training.micro_batch_size=1,2 --list "
       "lines.txt --heat-map map.svg",
       "--list: has a run of every combination in each of its lines, and --lines and --heat-map "
       "have room for one (use --html, which plots every field that varies, or --set in place of "
       "--list)"},
      {"trainyard import nccl-tests scenarios/README.md -o profile.json",
       "scenarios/README.md: holds no row of nccl-tests' table (give the output of all_reduce_perf "
       "and its siblings, or the JSON of their -J)"},
      {"trainyard import",
       "trainyard import what? accelerate, chakra, deepspeed, hf-config, ib-fabric, kineto, "
       "launch, "
       "maxtext, megatron, "
       "megatron-yaml, nanotron, nccl-tests, nccl-topo, nemo, nsys, topo-m, torchtitan (`trainyard "
       "import --help` shows what it takes)"},
      {"trainyard import --node dgx_h100",
       "--node requires --guess (`trainyard import --help` shows what it takes)"},
      {"trainyard import megatrn run.sh",
       R"("trainyard import megatrn" is not a command (did you mean "megatron"?))"},
      {"trainyard import torchtitan tests/scenarios/import/torchtitan/llama3_8b.toml README.md "
       "--node dgx_h100 -o made.json",
       "README.md: is one file too many: torchtitan reads 1"},
      {"trainyard import megatron tests/scenarios/import/pretrain_gpt.sh --node dgx_h100 --model "
       "llama3-8b -o made.json",
       "tests/scenarios/import/pretrain_gpt.sh: states its model itself (leave --model out)"},
      {"trainyard import megatron tests/scenarios/import/pretrain_gpt.sh --node dgx_h100 -o o.json "
       "--define HIDEN=4096",
       "--define HIDEN=4096: tests/scenarios/import/pretrain_gpt.sh has no variable HIDEN (correct "
       "the name, or leave it out)"},
      {"trainyard import launch tests/scenarios/import/launch/slurm_torchrun.sh --define NODE=2",
       "--define NODE=2: tests/scenarios/import/launch/slurm_torchrun.sh has no variable NODE "
       "(correct the name, or leave it out)"},
      {"trainyard import hf-config",
       "import hf-config takes a config.json (trainyard import hf-config "
       "tests/scenarios/import/hf/llama3_8b.json)"},
      {"trainyard import hf-config tests/scenarios/import/hf/jamba_v0_1.json --as lama",
       R"("lama" is not a model type whose parts are known here (did you mean "llama"?))"},
      {"printf '{\"model_type\": \"llama\", ' > c.json; trainyard import hf-config c.json",
       "c.json: line 1, column 25: syntax error while parsing object key - unexpected end of "
       "input; "
       "expected string literal (a bracket is not closed)"},
      {"trainyard import maxtext tests/scenarios/import/nemo/nemo1_gpt.yaml --node dgx_h100 -o "
       "m.json",
       "tests/scenarios/import/nemo/nemo1_gpt.yaml: has no setting by which a file of maxtext is "
       "known (it looks like nemo)"},
      {"trainyard import deepspeed scenarios/first/two_gpus.json tests/scenarios/import/deepspeed/"
       "train.sh --node dgx_h100 -o m.json",
       "scenarios/first/two_gpus.json: has no setting by which a file of deepspeed is known "
       "(`trainyard import --guess scenarios/first/two_gpus.json` finds the format)"},
      {"trainyard import launch tests/scenarios/import/launch/contradiction.sh --node dgx_h100",
       "tests/scenarios/import/launch/contradiction.sh: #SBATCH --nodes 4 (line 2) says 4 nodes, "
       "torchrun --nnodes 2 (line 4) says 2 (correct the script, or say how many nodes there are "
       "with --nodes)"},
      {"trainyard import launch tests/scenarios/import/launch/torchrun_elastic.sh",
       "tests/scenarios/import/launch/torchrun_elastic.sh: does not say which GPUs it runs on "
       "(name "
       "the node type: --node dgx_h100 (trainyard list nodes))"},
      {"trainyard import ib-fabric scenarios/README.md --node dgx_h100",
       "scenarios/README.md: is the output of neither ibnetdiscover nor iblinkinfo (give what one "
       "of them prints (iblinkinfo with or without -l))"},
      {"trainyard import topo-m tests/scenarios/import/topologies/h100_x8_topo_m.txt --gpu a100",
       "tests/scenarios/import/topologies/h100_x8_topo_m.txt: no node type in topologies/data has "
       "the GPU \"a100\" (did you mean \"a100_40gb\" or \"a100_80gb\"?)"},
      {"trainyard import nccl-topo tests/scenarios/import/topologies/h100_x8.xml --nic 200",
       "--nic: \"200\" is not the rate of a NIC (write it in bits as NICs are sold (400G, 400Gbps, "
       "\"400 Gb/s\") or in bytes (\"50 GB/s\"))"},
      {"trainyard runn x.json", R"("trainyard runn" is not a command (did you mean "run"?))"},
      {"trainyard show topo",
       R"("trainyard show topo" is not a command (known: topology, workload, cost))"},
      {"trainyard sweep a.json --out b", "--out is called --journal here"},
      {"trainyard show topology a.json --dot", "--dot is called --format dot here"},
      {"trainyard --verison", "there is no option --verison here (did you mean --version?)"},
      {kTinyRun + "--enigne ideal", "there is no option --enigne here (did you mean --engine?)"},
      {kTinyRun + "--bogus=3",
       "there is no option --bogus here (`trainyard run --help` shows the options)"},
      {kTinyRun + "two.json",
       R"("two.json" is one too many (`trainyard run --help` shows what it takes))"},
      {"trainyard run",
       "run takes a scenario, a --model, or a --workload and where it runs (trainyard run --model "
       "llama3-8b --gpus 8)"},
      {"trainyard run --model meta-llama/Llama-3.1-7B --gpus 64 --gpu h100",
       "--model: \"meta-llama/Llama-3.1-7B\" is not one of the models on Hugging Face known here "
       "(did you mean \"meta-llama/Llama-3.1-70B\"?; any other model runs by the path of its "
       "config.json)"},
      {"trainyard run absent.json", "absent.json: no such file"},
      {kTinyRun + "--json ''", "--json is empty (`trainyard run --help` shows what it takes)"},
      {"trainyard memory ''", "scenario is empty (`trainyard memory --help` shows what it takes)"},
      {kTinyRun + "--set description=$(printf 'caf\\351')",
       "--set is not UTF-8: \"description=caf\ufffd\" (rename the file, or write it in UTF-8)"},
      {"trainyard run scenarios", "scenarios: is a folder (name a file in it)"},
      {"trainyard memory absent.json", "absent.json: no such file"},
      {kTinyRun + "--set parallelism.tensor",
       "--set: \"parallelism.tensor\" is not PATH=VALUE (write for example --set "
       "parallelism.tensor=8)"},
      {kTinyRun + "--set =8",
       R"(--set: "=8" is not PATH=VALUE (write for example --set parallelism.tensor=8))"},
      {"trainyard sweep scenarios/first/two_gpus.json --over parallelism.tensor=",
       "--over: \"parallelism.tensor=\" has an empty value (write for example --over "
       "parallelism.tensor=2,4,8)"},
      {"trainyard sweep scenarios/first/two_gpus.json --zip parallelism.tensor",
       "--zip: \"parallelism.tensor\" is not PATH=VALUE (write for example --zip "
       "parallelism.tensor=8)"},
      {kTinyRun + "--set parallelism.tensr=2",
       R"(--set parallelism.tensr=2: /parallelism/tensr: unknown key (did you mean "tensor"?))"},
      {kTinyRun + "--set training.sequence_length=long",
       "--set training.sequence_length=long: /training/sequence_length: must be a whole number, "
       "not \"long\" (write it without quotes)"},
      {kTinyRun + "--trace-ranks 1", "--trace-ranks needs a trace (add --trace trace.json.gz)"},
      {kTinyRun + "--trace t.json --trace-ranks 99",
       "--trace-ranks: rank 99 does not exist (the run has ranks 0 to 1)"},
      {kTinyRun + "--trace t.json --trace-ranks 3-1",
       "--trace-ranks: \"3-1\" names no ranks (write ranks and ranges, as in 0,8-15, or all)"},
      {kTinyRun + "--trace t.json --trace-ranks some",
       "--trace-ranks: \"some\" names no ranks (write ranks and ranges, as in 0,8-15, or all)"},
      {"trainyard run --workload w.json",
       "--workload takes a --cluster, or a scenario for cluster and software, one of them "
       "(`trainyard show topology SCENARIO --format json` prints a cluster file)"},
      {kTinyRun + "--workload w.json --cluster c.json",
       "--workload takes a --cluster, or a scenario for cluster and software, one of them "
       "(`trainyard show topology SCENARIO --format json` prints a cluster file)"},
      {kTinyRun + "--cluster c.json",
       "--cluster is where a --workload runs (a scenario has its own: --set cluster.file=...)"},
      {"trainyard run --workload w.json --cluster c.json --set a=1",
       "--set changes a scenario, and there is none (change the workload file)"},
      {"trainyard collective all_reduce --node dgx_b200 --nodes 16 --algorithms one_shot --sizes "
       "1TiB",
       "a transfer of 112 TiB is more than the 4 TiB that SimGrid's engine counts (send less at "
       "once, or use the engine ideal)"},
      {"trainyard serve --set training.micro_batch_size=2",
       "--set changes a scenario, and there is none (name the scenario: trainyard serve "
       "scenario.json)"},
      {"trainyard serve --ideal",
       "--ideal changes a scenario, and there is none (name the scenario: trainyard serve "
       "scenario.json)"},
      {"trainyard sweep scenarios/first/two_gpus.json --over training.recompute=none,full --html "
       "page.html --metric step_time",
       "--metric: no run has the figure \"step_time\" (did you mean \"step_time_s\"?)"},
      {"trainyard schedule zigzag",
       R"(there is no schedule "zigzag" (`trainyard list schedules` shows them))"},
      {"trainyard schedule gpipee", R"(there is no schedule "gpipee" (did you mean gpipe?))"},
      {"trainyard schedule gpipe --stages 1000 --microbatches 60000",
       "the schedule has 120000000 steps, more than 1000000 (use fewer stages, microbatches or "
       "chunks)"},
      {"trainyard schedule gpipe --stages 0",
       "--stages: 0 is not a number from 1 to 1024 (`trainyard schedule --help` shows what it "
       "takes)"},
      {"trainyard schedule gpipe --forward nan",
       "--forward: nan is not a duration a chart can show (give seconds, at most 1000000)"},
      {"trainyard schedule gpipe --transfer -1",
       "--transfer: -1 is not a duration a chart can show (give seconds, at most 1000000)"},
      {"trainyard search scenarios/unequal/gpt_3p6b_a100_l40s_operators.json",
       "scenarios/unequal/gpt_3p6b_a100_l40s_operators.json: /parallelism/operator_devices: puts "
       "the operators on devices by hand, which leaves a search no layout to choose (take it out "
       "to search, `--set parallelism.operator_devices=null`, or compare splits with `trainyard "
       "compare`)"},
      {"trainyard calibrate tests/measured/published_runs.json --level-of moon --constants "
       "models/stragglers/replicas.json#/delay/value",
       "--level-of: \"moon\" is nothing that rows are grouped by (known: source, gpu, parallelism, "
       "precision, scale, framework, model, recompute, operation, size, group, replica, family, "
       "release)"},
      {"trainyard calibrate tests/measured/published_runs.json --leave-out moon --constants "
       "models/stragglers/replicas.json#/delay/value",
       "--leave-out: \"moon\" is nothing that rows are grouped by (known: source, gpu, "
       "parallelism, "
       "precision, scale, framework, model, recompute, operation, size, group, replica, family, "
       "release)"},
      {"trainyard calibrate tests/measured/published_runs.json --level-of replica --constants "
       "models/stragglers/replicas.json#/delay/value",
       "--constants: 2 rows with equal replica do not support 1 constants (each needs 10 "
       "rows)"},
      {"trainyard show topology",
       "show topology takes a scenario or --cluster FILE (trainyard show topology "
       "scenarios/llama3/llama3_8b_8xh100.json)"},
  };
}

// Does each wrong line print one message and exit with 2?
TEST(Refusals, OneMessageAndExitCodeTwo) {
  const Scratch scratch;
  for (const Refusal& refusal : refusals()) {
    SCOPED_TRACE(refusal.line);
    const Outcome outcome = scratch.sh(refusal.line);
    EXPECT_EQ(outcome.exit, 2);
    EXPECT_EQ(outcome.err, "trainyard: " + refusal.message + "\n");
    EXPECT_EQ(outcome.out, "");
  }
}

// Do studies of many runs refuse an output that cannot be written before they run? Their scenario
// is not there, which is found later.
TEST(Refusals, AnOutputThatCannotBeWrittenIsRefusedBeforeTheStudy) {
  const Scratch scratch;
  for (const std::string command :
       {"search absent.json --json", "search absent.json --csv", "search absent.json --html",
        "compare absent.json other.json --json", "compare absent.json other.json --csv",
        "compare absent.json other.json --html", "explain absent.json --json",
        "explain absent.json --csv", "sweep absent.json --csv", "sweep absent.json --html",
        "sweep absent.json --lines", "sweep absent.json --heat-map"}) {
    const Outcome outcome = scratch.sh("touch file; trainyard " + command + " file/x");
    EXPECT_EQ(outcome.exit, 2) << command;
    EXPECT_THAT(outcome.err, testing::HasSubstr("file is not a folder (write into another one)"))
        << command;
    EXPECT_EQ(outcome.out, "") << command;
  }
}

// Does the message about a choice name the possible values?
TEST(Refusals, AChoiceNamesWhatCanBeChosen) {
  const Scratch scratch;
  const std::pair<std::string, std::string> cases[] = {
      {"--engine real", "not in {s"},
      {"--report linkz",
       R"(there is no report "linkz" (did you mean "links"?; a page ends in .html))"},
      {"--report foo", R"(there is no report "foo" (known: summary, breakdown, )"}};
  for (const auto& [line, said] : cases) {
    const Outcome outcome = scratch.sh(kTinyRun + line);
    EXPECT_EQ(outcome.exit, 2);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, testing::HasSubstr(said)) << line;
    EXPECT_EQ(outcome.out, "");
  }
}

// Does a step that does not fit exit with 1? Exit code 1 means that the command is right and the
// result is negative.
TEST(Refusals, AStepThatDoesNotFitSaysNo) {
  const Scratch scratch;
  for (const std::string command : {"run", "memory"}) {
    const Outcome outcome = scratch.sh("trainyard " + command +
                                       " scenarios/first/two_gpus.json --set model.layers=400");
    EXPECT_EQ(outcome.exit, 1) << outcome.err;
    EXPECT_TRUE(outcome.out.starts_with("DOES NOT FIT: ")) << outcome.out;
    EXPECT_EQ(outcome.err, "");
  }
}

// Does the program report too little memory as such? The machine does not have the memory for a
// step, or for a second thread's stack.
TEST(Refusals, TooLittleMemoryIsNoFaultOfTheProgram) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "SKIPPED, NOT TESTED: the address sanitizer would have no memory for itself";
#endif
  const Scratch scratch;
  const Outcome outcome = scratch.sh(
      "ulimit -v 400000; trainyard run scenarios/megatron/gpt_1008b_3072xa100.json --no-search");
  EXPECT_EQ(outcome.exit, 1);
  EXPECT_TRUE(outcome.err.starts_with("trainyard: this takes more memory than ")) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

// Is a file that is not text refused among others, too?
TEST(Refusals, AFileThatIsNoTextIsRefusedAmongOthersToo) {
  const Scratch scratch;
  const Outcome outcome =
      scratch.sh("printf '\\377{' > bytes.json && trainyard sweep bytes.json --journal rows.jsonl");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.out, testing::HasSubstr("1 runs: 1 refused"));
  EXPECT_THAT(scratch.read("rows.jsonl"), testing::HasSubstr("\"status\":\"refused\""));
}

// Is a full standard output a failure?
TEST(Refusals, AStandardOutputThatIsFullIsNoSuccess) {
  const Scratch scratch;
  for (const std::string command : {"list", "schema", "run scenarios/first/two_gpus.json"}) {
    const Outcome outcome = scratch.sh("trainyard " + command + " > /dev/full");
    EXPECT_EQ(outcome.exit, 2) << command;
    EXPECT_THAT(outcome.err, testing::HasSubstr("standard output cannot be written"));
  }
}

}  // namespace
}  // namespace trainyard
