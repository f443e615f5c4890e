// The shape of a job from the script that launches it. The scripts in launch/ are written after the
// documentation of their launchers.
#include "scenarios/import/job_shape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/import/launch_arguments.hpp"
#include "scenarios/import/launch_script.hpp"
#include "scenarios/import/megatron.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string script(const std::string& name) {
  return read_file(std::string(TRAINYARD_SOURCE_DIRECTORY) + "/tests/scenarios/import/launch/" +
                   name);
}

// Nodes, processes of a node and processes of the job; 0: not stated.
using Numbers = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

Numbers numbers_of(const JobShape& shape) {
  const auto value = [](const std::optional<JobNumber>& number) {
    return number ? number->value : 0;
  };
  return {value(shape.nodes), value(shape.per_node), value(shape.world)};
}

std::string job_refusal(const std::string& text, const JobHints& hints = {}) {
  try {
    (void)sizes_of(job_shape(text, "job.sh", hints), "job.sh");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

// Is the shape of every launcher's script read?
TEST(JobShape, EveryLauncherStatesItsNodesAndProcesses) {
  struct Case {
    std::string file;
    std::string launcher;
    Numbers numbers;
  };
  const std::vector<Case> cases = {
      {"slurm_torchrun.sh", "torchrun", {4, 8, 0}},
      {"slurm_srun.sh", "srun", {2, 8, 16}},
      {"slurm_container.sh", "torchrun", {16, 8, 0}},
      {"torchrun_elastic.sh", "torchrun", {4, 8, 0}},
      {"mpirun_hosts.sh", "mpirun", {2, 8, 16}},
      {"mpirun_ppr.sh", "mpirun", {3, 4, 12}},
      {"horovodrun.sh", "horovodrun", {4, 8, 32}},
      {"deepspeed.sh", "deepspeed", {2, 4, 0}},
      {"deepspeed_include.sh", "deepspeed", {2, 4, 0}},
      {"accelerate.sh", "accelerate", {2, 8, 16}},
      {"ray_train.py", "Ray Train", {0, 0, 32}},
      {"header_only.sh", "sbatch", {16, 8, 0}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.file);
    const JobShape shape = job_shape(script(one.file), one.file);
    EXPECT_EQ(shape.launcher, one.launcher);
    EXPECT_EQ(numbers_of(shape), one.numbers);
    EXPECT_THAT(shape.contradictions, IsEmpty());
  }
  EXPECT_EQ(cases.size(), 12U);
}

// Does each number name the option and the line that state it?
TEST(JobShape, EachNumberNamesItsPlace) {
  const JobShape shape = job_shape(script("slurm_torchrun.sh"), "job.sh");
  EXPECT_EQ(shape.nodes->source, "torchrun --nnodes 4 (line 15)");
  EXPECT_EQ(shape.per_node->source, "torchrun --nproc_per_node 8 (line 15)");
  EXPECT_EQ(shape.gpu, "h100");
  EXPECT_EQ(job_shape(script("slurm_srun.sh"), "job.sh").gpu, "a100");
  EXPECT_EQ(job_shape(script("ray_train.py"), "train.py").gpu, "H100");
}

// Are choices that the job leaves to its launcher listed as assumptions?
TEST(JobShape, WhatTheLauncherChoosesIsAssumed) {
  EXPECT_THAT(job_shape(script("slurm_container.sh"), "job.sh").assumed,
              Contains(HasSubstr("--nodes 2-16 (line 2) lets Slurm choose")));
  EXPECT_THAT(job_shape(script("torchrun_elastic.sh"), "job.sh").assumed,
              Contains(HasSubstr("is elastic: all 4 nodes take part")));
  EXPECT_THAT(job_shape(script("mpirun_hosts.sh"), "job.sh").assumed,
              Contains(HasSubstr("16 processes take 2 of the 4 hosts")));
  EXPECT_THAT(job_shape(script("header_only.sh"), "job.sh").assumed,
              Contains(HasSubstr("the script names no launcher")));
}

// Is a hostfile read where the user gives it, and asked for where he does not?
TEST(JobShape, AHostfileComesFromTheUser) {
  EXPECT_THAT(
      job_refusal(script("mpirun_hostfile.sh")),
      HasSubstr("mpirun --hostfile hosts.txt (line 1) lists the hosts, and nothing else says "
                "how many (give that file, too: --hostfile FILE)"));
  const JobHints hosts{.defined = {}, .hosts = script("hosts.txt"), .hosts_file = "hosts.txt"};
  const JobShape shape = job_shape(script("mpirun_hostfile.sh"), "job.sh", hosts);
  EXPECT_EQ(numbers_of(shape), Numbers(3, 8, 24));
  EXPECT_EQ(shape.nodes->source, "hosts.txt");
  const JobHints none{.defined = {}, .hosts = "# nothing\n", .hosts_file = "hosts.txt"};
  EXPECT_THAT(job_refusal(script("mpirun_hostfile.sh"), none),
              HasSubstr("hosts.txt: lists no host"));
}

// Are contradictions between Slurm and torchrun reported with both places?
TEST(JobShape, ContradictionsNameBothPlaces) {
  EXPECT_THAT(
      job_refusal(script("contradiction.sh")),
      HasSubstr("#SBATCH --nodes 4 (line 2) says 4 nodes, torchrun --nnodes 2 (line 4) says "
                "2 (correct the script"));
  EXPECT_THAT(job_refusal(script("nested_tasks.sh")),
              HasSubstr("srun starts 8 tasks on each node (#SBATCH --ntasks-per-node 8 (line 3)), "
                        "and each of them starts torchrun (line 5)"));
  EXPECT_THAT(job_refusal("#SBATCH -N2\n#SBATCH --gpus-per-node=4\n"
                          "torchrun --nnodes=2 --nproc-per-node=8 train.py\n"),
              HasSubstr("#SBATCH --gpus-per-node 4 (line 2) says 4 GPUs or processes of a node, "
                        "torchrun --nproc-per-node 8 (line 3) says 8"));
  EXPECT_THAT(job_refusal("mpirun -np 20 -N 8 -H a:8,b:8,c:8 python train.py\n"),
              HasSubstr("mpirun -np 20 (line 1) says 20 processes, 3 nodes"));
  EXPECT_THAT(job_refusal("#SBATCH --nodes=4\nsrun --ntasks-per-node=1 torchrun --nproc-per-node=8 "
                          "train.py\n"),
              HasSubstr("torchrun without --nnodes (line 2) says 1"));
  EXPECT_THAT(job_refusal("#SBATCH -N2\n#SBATCH --gpus-per-node=4\n#SBATCH --gpus-per-task=8\n"
                          "srun python train.py\n"),
              HasSubstr("#SBATCH --gpus-per-task 8 (line 3) gives a task 8 GPUs, and #SBATCH "
                        "--gpus-per-node 4 (line 2) a node 4"));
}

// Do the GPUs of a whole job (--gpus) give what the job does not state: those of a node, the nodes,
// or the processes?
TEST(JobShape, GpusOfTheJobAreSpreadOverItsNodes) {
  const auto numbers = [](const std::string& text) {
    return numbers_of(job_shape(text, "job.sh"));
  };
  const std::string nodes = "#SBATCH -N 4\n#SBATCH --gpus=16\n";
  EXPECT_EQ(numbers(nodes + "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node=gpu train.py\n"),
            Numbers(4, 4, 0));
  EXPECT_EQ(numbers(nodes + "srun -N 2 python train.py\n"), Numbers(2, 4, 0));
  EXPECT_EQ(numbers(nodes + "srun -N 2 --gpus=4 python train.py\n"), Numbers(2, 2, 0));
  EXPECT_EQ(numbers(nodes + "mpirun python train.py\n"), Numbers(4, 4, 16));
  EXPECT_EQ(numbers("#SBATCH -G 16\n#SBATCH --gpus-per-node=8\nsrun python train.py\n"),
            Numbers(2, 8, 0));
  const std::string gpus = "#SBATCH --gpus=16\n";
  EXPECT_EQ(numbers(gpus + "srun python train.py\n"), Numbers(0, 0, 16));
  EXPECT_EQ(numbers(gpus + "srun -N 2 python train.py\n"), Numbers(2, 8, 0));
  EXPECT_EQ(numbers(gpus + "srun --gpus-per-task=2 python train.py\n"), Numbers(0, 0, 8));
  EXPECT_EQ(numbers(gpus + "torchrun --nnodes 2 --nproc-per-node gpu train.py\n"),
            Numbers(2, 8, 16));
  EXPECT_EQ(numbers("#SBATCH -N 3\n" + gpus + "srun python train.py\n"), Numbers(3, 0, 16));
}

// Are more processes than the job has GPUs a contradiction?
TEST(JobShape, GpusOfTheJobLimitItsProcesses) {
  EXPECT_THAT(
      job_refusal("#SBATCH -N 4\n#SBATCH --gpus=16\nsrun --ntasks-per-node=8 python t.py\n"),
      HasSubstr("#SBATCH --gpus 16 (line 2) and #SBATCH -N 4 (line 1) says 4 GPUs or "
                "processes of a node, srun --ntasks-per-node 8 (line 3) says 8"));
  EXPECT_THAT(job_refusal("#SBATCH --gpus=16\nsrun -n 32 python t.py\n"),
              HasSubstr("#SBATCH --gpus 16 (line 1) says 16 GPUs or processes of the job, srun -n "
                        "32 (line 2) says 32"));
  EXPECT_THAT(job_refusal("#SBATCH --gpus=16\ntorchrun --nnodes 4 --nproc-per-node 8 t.py\n"),
              HasSubstr("torchrun --nnodes 4 (line 2) and torchrun --nproc-per-node 8 (line 2) "
                        "says 32"));
}

// Are commands in variables, quotes and arrays understood, and those that only name a launcher not?
TEST(JobShape, CallsAreFoundWhereverAShellFindsThem) {
  const auto calls = [](const std::string& text) {
    std::vector<std::string> found;
    for (const LaunchCall& call : launch_calls(text, "job.sh"))
      found.push_back(call.launcher + ":" + call.program);
    return found;
  };
  EXPECT_THAT(calls("echo torchrun --nnodes 2; which mpirun\n# torchrun x.py\n"), IsEmpty());
  EXPECT_THAT(calls("if true; then exec torchrun --nnodes 2 a.py; fi"),
              ElementsAre("torchrun:a.py"));
  EXPECT_THAT(calls("X=\"--nnodes 2\"\nsrun -l bash -c 'torchrun $X a.py | tee log'"),
              ElementsAre("srun:bash", "torchrun:a.py"));
  EXPECT_THAT(calls("A=(--nnodes 2)\nA+=( --standalone )\ntorchrun \"${A[@]}\" a.py"),
              ElementsAre("torchrun:a.py"));
  EXPECT_THAT(calls("head=$(srun -N1 hostname)\n/usr/bin/python3 -m torch.distributed.launch a.py"),
              ElementsAre("torchrun:a.py"));
  EXPECT_THAT(calls("mpirun --mca a b -np 2 numactl --membind 0 ./train -n 20"),
              ElementsAre("mpirun:numactl"));
  EXPECT_THAT(calls("torchrun --nnodes 4 train.py --output_dir /data/deepspeed --launcher mpirun"),
              ElementsAre("torchrun:train.py"));
}

// Does a # in quotes belong to its word, and does one after them begin a comment?
TEST(JobShape, ANumberSignInQuotesBeginsNoComment) {
  const auto numbers = [](const std::string& text) {
    return numbers_of(job_shape(text, "job.sh"));
  };
  const std::string sizes = " --nnodes 4 --nproc_per_node 8 train.py";
  EXPECT_EQ(numbers("torchrun --log_dir \"logs/run #2\"" + sizes), Numbers(4, 8, 0));
  EXPECT_EQ(numbers("torchrun --log_dir 'a \" #2' \\\n" + sizes), Numbers(4, 8, 0));
  EXPECT_EQ(numbers("torchrun --log_dir \"a \\\" #2\"" + sizes), Numbers(4, 8, 0));
  EXPECT_EQ(numbers("torchrun --log_dir it\\'s" + sizes + " # 'a' --nnodes 2"), Numbers(4, 8, 0));
  // A script that is passed to another shell has comments of its own.
  EXPECT_EQ(numbers("srun bash -c '\n# torchrun --nnodes 2 a.py\ntorchrun" + sizes +
                    "\n' # a note\n# torchrun --nnodes 3 b.py\n"),
            Numbers(4, 8, 0));
  EXPECT_EQ(numbers("#SBATCH --comment=\"run #2\" --nodes=3 # --nodes=5\nsrun -n 24 a.out\n"),
            Numbers(3, 8, 24));
}

// Is it said which value holds where branches of a script set several, and the job changes by it?
TEST(JobShape, TheLastOfSeveralBranchesHoldsAndIsSaid) {
  const std::string text =
      "if [ -n \"$SMALL\" ]; then\n  NODES=2\n  PORT=1\nelse\n  NODES=16\n  PORT=2\nfi\n"
      "torchrun --nnodes $NODES --nproc_per_node 8 --master_port $PORT train.py\n";
  const JobShape shape = job_shape(text, "job.sh");
  EXPECT_EQ(numbers_of(shape), Numbers(16, 8, 0));
  EXPECT_THAT(shape.assumed, ElementsAre("NODES is 2 in line 2 and 16 in line 5: the last one "
                                         "holds, say which with --define NODES=VALUE"));
  const JobShape small = job_shape(text, "job.sh", {.defined = {{"NODES", "2"}}});
  EXPECT_EQ(numbers_of(small), Numbers(2, 8, 0));
  EXPECT_THAT(small.assumed, IsEmpty());
}

// Are sums and products of whole numbers computed, and nothing else?
TEST(JobShape, ExpressionsOfWholeNumbersAreComputed) {
  const std::map<std::string, std::string> names = {
      {"N", "4"}, {"M", "$N * 2"}, {"LOOP", "LOOP + LOOP"}, {"WIDE", "N N"}};
  EXPECT_EQ(whole_value("N * (8 + 2) - 7 % 4", names), 37);
  EXPECT_EQ(whole_value("M // 3", names), 2);
  for (const char* wrong :
       {"", "N N", "1 / 0", "LOOP", "WIDE", "x", "(1", "9999999999 * 9999999999", "N ** 2"})
    EXPECT_EQ(whole_value(wrong, names), std::nullopt) << wrong;
}

// Are numbers that only the shell knows replaced by others, or asked for?
TEST(JobShape, WhatOnlyTheShellKnowsIsTakenFromElsewhereOrAskedFor) {
  const JobShape shape = job_shape(
      "#SBATCH --nodes=2\n#SBATCH --gres=gpu:8\n"
      "torchrun --nnodes $(wc -l < hosts) --nproc-per-node $(nvidia-smi -L | wc -l) train.py\n",
      "job.sh");
  EXPECT_EQ(numbers_of(shape), Numbers(2, 0, 0));
  EXPECT_THAT(shape.assumed, Contains(HasSubstr("is known to the shell only")));
  EXPECT_THAT(job_refusal("torchrun --nnodes $N --nproc-per-node 8 train.py\n"),
              HasSubstr("torchrun --nnodes $N (line 1) is known to the shell only (say what a "
                        "variable is with --define NAME=VALUE"));
  EXPECT_EQ(numbers_of(job_shape("torchrun --nnodes $N --nproc-per-node 8 train.py\n", "job.sh",
                                 {.defined = {{"N", "3"}}})),
            Numbers(3, 8, 0));
  EXPECT_THAT(job_refusal("ScalingConfig(num_workers=args.workers, use_gpu=True)\n"),
              HasSubstr("say what it is: --define args.workers=16"));
  EXPECT_EQ(numbers_of(job_shape("c = ScalingConfig(num_workers=args.workers, use_gpu=True, "
                                 "resources_per_worker={'GPU': 2})\n",
                                 "t.py", {.defined = {{"args.workers", "4"}}})),
            Numbers(0, 0, 8));
}

// Are files that launch nothing refused: empty, binary, cut, of another tool?
TEST(JobShape, FilesThatLaunchNothingAreRefused) {
  const std::string nothing = "launches no job that is known, and has no #SBATCH line";
  EXPECT_THAT(job_refusal(""), HasSubstr(nothing));
  EXPECT_THAT(job_refusal(std::string("\x7f"
                                      "ELF\0\1\2\n\xff\xfe",
                                      10)),
              HasSubstr("is a binary file"));
  EXPECT_THAT(job_refusal("#!/bin/bash\necho hello\n"), HasSubstr(nothing));
  EXPECT_THAT(job_refusal("\tGPU0\tGPU1\nGPU0\tX\tNV18\n"), HasSubstr(nothing));
  EXPECT_THAT(job_refusal("x = ScalingConfig(num_workers=4,\n"), HasSubstr("has no end"));
  EXPECT_THAT(job_refusal(script("ray_submit.sh")), HasSubstr("its size is in the Python script"));
  EXPECT_THAT(job_refusal("torchrun --nnodes four --nproc-per-node 8 train.py\n"),
              HasSubstr("torchrun --nnodes four (line 1): \"four\" is not a number of 1 or more"));
  EXPECT_THAT(job_refusal("mpirun -np 0 python train.py\n"), HasSubstr("\"0\" is not a number"));
  EXPECT_THAT(job_refusal("#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --hetjob\n"),
              HasSubstr("is a heterogeneous job (line 3)"));
  EXPECT_THAT(job_refusal("accelerate launch --config_file c.yaml train.py\n"),
              HasSubstr("add --num_machines and --num_processes"));
}

// Does a script without a size in the launch's own arguments take the job's?
TEST(JobShape, AMegatronLaunchTakesTheSizeOfItsJob) {
  const std::string text =
      "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nsrun python pretrain_gpt.py --num-layers 4 "
      "--hidden-size 1024 --num-attention-heads 8 --seq-length 512 --micro-batch-size 1 "
      "--vocab-size 32000 --max-position-embeddings 512\n";
  const LaunchMachine machine{.node = "dgx_h100", .job = job_sizes(text, "run.sh")};
  const ImportedScenario launch =
      scenario_of_megatron(read_launch_arguments(text, "run.sh"), machine);
  EXPECT_EQ(launch.scenario["cluster"]["nodes"], 2);
  EXPECT_EQ(launch.scenario["parallelism"]["data"], 16);
  EXPECT_THAT(launch.assumed,
              Contains(HasSubstr("the number of nodes is that of the job's script")));
  EXPECT_FALSE(job_sizes("--num-layers 4", "run.sh").hosts);
}

}  // namespace
}  // namespace trainyard
