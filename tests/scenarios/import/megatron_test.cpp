// Scenarios from launches of Megatron-LM, against the scenarios that a person would write.
#include "scenarios/import/megatron.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kScript = TRAINYARD_SOURCE_DIRECTORY "/tests/scenarios/import/pretrain_gpt.sh";

ImportedScenario launch_of(const std::string& text,
                           const LaunchMachine& machine = {.node = "dgx_h100", .nodes = 2},
                           const std::map<std::string, std::string>& defined = {}) {
  return scenario_of_megatron(read_launch_arguments(text, "run.sh", defined), machine);
}

std::string refusal(const std::string& text,
                    const LaunchMachine& machine = {.node = "dgx_h100", .nodes = 2}) {
  try {
    (void)launch_of(text, machine);
  } catch (const InputError& error) {
    return error.what();
  }
  return "taken";
}

constexpr const char* kSmall =
    "--num-layers 4 --hidden-size 1024 --num-attention-heads 8 --seq-length 512 "
    "--micro-batch-size 1 --global-batch-size 16 --vocab-size 32000 ";

// Does a script give the scenario of its paper? It has the model and the split of
// scenarios/megatron/gpt3_175b_64xa100_selective.json.
TEST(Megatron, AScriptGivesTheScenarioOfThePaperItFollows) {
  const ImportedScenario launch = scenario_of_megatron(
      read_launch_arguments(read_file(kScript), kScript), {.node = "dgx_a100_80gb"});
  const Json paper = parse_unchecked_json(
      read_file(TRAINYARD_SOURCE_DIRECTORY "/scenarios/megatron/gpt3_175b_64xa100_selective.json"));
  EXPECT_EQ(launch.scenario["cluster"], paper["cluster"]);
  EXPECT_GE(paper["parallelism"].size(), 5U);
  for (const auto& [key, value] : paper["parallelism"].items())
    EXPECT_EQ(launch.scenario["parallelism"][key], value) << key;
  std::size_t settings = 0;
  for (const auto& [key, value] : paper["training"].items()) {
    EXPECT_EQ(launch.scenario["training"][key], value) << key;
    ++settings;
  }
  EXPECT_GE(settings, 5U);
  // These are defaults of Megatron-LM of 2022, which the scenario of the paper names.
  EXPECT_EQ(launch.scenario["training"]["attention"], "unfused");
  EXPECT_EQ(launch.scenario["training"]["gradient_check"], "off");
  EXPECT_EQ(launch.scenario["parallelism"]["data"], 1);
  EXPECT_EQ(launch.scenario["model"]["ffn"], 49152);
  EXPECT_EQ(launch.scenario["model"]["vocab"], 50257);
  EXPECT_EQ(launch.scenario["model"]["biases"], true);
  EXPECT_THAT(launch.not_looked_at, ElementsAre("--some-new-switch"));
}

// Does the list of arguments in a log give the same scenario?
TEST(Megatron, TheListOfArgumentsInALogSaysTheSame) {
  const std::string log =
      "------------------------ arguments ------------------------\n"
      "  bf16 ............................................ True\n"
      "  ffn_hidden_size ................................. 14336\n"
      "  global_batch_size ............................... 128\n"
      "  group_query_attention ........................... True\n"
      "  hidden_size ..................................... 4096\n"
      "  micro_batch_size ................................ 1\n"
      "  num_attention_heads ............................. 32\n"
      "  num_experts ..................................... None\n"
      "  num_layers ...................................... 32\n"
      "  num_query_groups ................................ 8\n"
      "  overlap_grad_reduce ............................. True\n"
      "  padded_vocab_size ............................... 128256\n"
      "  recompute_granularity ........................... selective\n"
      "  recompute_modules ............................... ['mlp', 'layernorm']\n"
      "  seq_length ...................................... 8192\n"
      "  swiglu .......................................... True\n"
      "  use_distributed_optimizer ....................... True\n";
  const ImportedScenario launch = launch_of(log);
  EXPECT_EQ(launch.scenario["model"]["kv_heads"], 8);
  EXPECT_EQ(launch.scenario["model"]["gated_ffn"], true);
  EXPECT_FALSE(launch.scenario["model"].contains("experts"));
  EXPECT_EQ(launch.scenario["parallelism"]["zero_stage"], 1);
  EXPECT_EQ(launch.scenario["parallelism"]["overlap_grad_reduce"], true);
  EXPECT_EQ(launch.scenario["training"]["precision"], "bf16");
  EXPECT_EQ(launch.scenario["training"]["recompute_modules"], Json({"mlp", "layernorm"}));
}

// Are options for gradients understood?
TEST(Megatron, WhatIsDoneToGradientsIsUnderstood) {
  const Json plain = launch_of(std::string(kSmall)).scenario["training"];
  EXPECT_FALSE(plain.contains("gradient_average"));
  EXPECT_FALSE(plain.contains("gradient_check"));
  const ImportedScenario launch = launch_of(
      std::string(kSmall) + "--ddp-average-in-collective --no-check-for-nan-in-loss-and-grad");
  EXPECT_EQ(launch.scenario["training"]["gradient_average"], "collective");
  EXPECT_EQ(launch.scenario["training"]["gradient_check"], "off");
  EXPECT_TRUE(launch.not_looked_at.empty());
}

// Are the recomputed modules read?
TEST(Megatron, ModulesThatAreComputedAgainAreRead) {
  const std::string script = std::string(kSmall) + "--recompute-granularity selective ";
  EXPECT_FALSE(launch_of(script).scenario["training"].contains("recompute_modules"));
  const ImportedScenario launch =
      launch_of(script + "--recompute-modules mlp layernorm mlp_act\necho done --bf16");
  EXPECT_EQ(launch.scenario["training"]["recompute"], "selective");
  EXPECT_EQ(launch.scenario["training"]["recompute_modules"], Json({"mlp", "layernorm"}));
  EXPECT_THAT(launch.assumed,
              testing::Contains("recomputation of mlp_act is not modelled: left out"));
  EXPECT_EQ(launch.scenario["training"]["precision"], "bf16");
  EXPECT_TRUE(launch.not_looked_at.empty());
  const Json none = launch_of(script + "--recompute-modules mlp_act --bf16").scenario["training"];
  EXPECT_EQ(none["recompute"], "none");
}

// Is data parallelism the rest of the world size?
TEST(Megatron, DataParallelismIsWhatTheWorldLeavesOver) {
  const Json plan = launch_of(std::string(kSmall) +
                                  "--nproc_per_node 8 --nnodes 4 --tensor-model-parallel-size 2 "
                                  "--pipeline-model-parallel-size 2 --context-parallel-size 2",
                              {.node = "dgx_h100"})
                        .scenario;
  EXPECT_EQ(plan["cluster"]["nodes"], 4);
  EXPECT_EQ(plan["cluster"]["node"], "dgx_h100");
  EXPECT_EQ(plan["parallelism"]["data"], 4);
}

// Is the default batch one microbatch per replica?
TEST(Megatron, TheBatchIsOneMicrobatchOfEachReplicaWhereNothingSaysIt) {
  const std::string line =
      "--num-layers 4 --hidden-size 1024 --num-attention-heads 8 --seq-length 512 "
      "--micro-batch-size 2 --vocab-size 32000 --nnodes 2 --nproc_per_node 8";
  EXPECT_EQ(launch_of(line, {.node = "dgx_h100"}).scenario["training"]["global_batch_size"], 32);
}

// Is the layout of a pipeline read, with repetitions, and is its interleaving?
TEST(Megatron, TheLayoutOfAPipelineGivesTheLayersOfItsStages) {
  const std::string script = std::string(kSmall) +
                             "--num-layers 8 --pipeline-model-parallel-size 2 "
                             "--pipeline-model-parallel-layout ";
  const Json plan = launch_of(script + "'Et|(tt|)*2t*3L'").scenario["parallelism"];
  EXPECT_EQ(plan["layers_per_stage"], Json({1, 2, 2, 3}));
  EXPECT_EQ(plan["interleave"], 2);
  const Json by_name = launch_of("LAYOUT=\"Et|(tt|)*2t*3L\"\n" + script + "$LAYOUT").scenario;
  EXPECT_EQ(by_name["parallelism"], plan);
  const Json plain = launch_of("ARGUMENTS=(" + script + "Et*4|t*4L)\n").scenario;
  EXPECT_EQ(plain["parallelism"]["layers_per_stage"], Json({4, 4}));
  const Json nested = launch_of(script + "\"Et*1|(t*2|)*2t*3L\"").scenario["parallelism"];
  EXPECT_EQ(nested, plan);
  const Json no_bars = launch_of(script + "'(t*2|)*3tt'").scenario["parallelism"];
  EXPECT_EQ(no_bars["layers_per_stage"], Json({2, 2, 2, 2}));
  EXPECT_THAT(refusal(script + "'(t*0|)*2t'"), HasSubstr("is \"(t*0|)*2t\""));
  EXPECT_THAT(refusal(script + "Et|tt|tL"), HasSubstr("has 3 stages, no multiple of 2 pipeline"));
  EXPECT_THAT(refusal(script + "Et|xL"),
              HasSubstr("--pipeline-model-parallel-layout is \"Et|xL\""));
  EXPECT_THAT(refusal(script + "t*999999999"), HasSubstr("is \"t*999999999\""));
  EXPECT_THAT(refusal(script + "t*"), HasSubstr("is \"t*\""));
}

// Do the layers of a virtual stage give the number of them? 30 layers, the embedding and the loss
// are 32 on 4 ranks, which with 4 in each make 2 chunks.
TEST(Megatron, TheLayersOfAVirtualStageGiveTheChunksOfARank) {
  const auto script = [](int layers, const std::string& flags) {
    return std::string(kSmall) + "--pipeline-model-parallel-size 4 --num-layers " +
           std::to_string(layers) + " --num-layers-per-virtual-pipeline-stage " + flags;
  };
  const auto chunks = [&](int layers, const std::string& flags) {
    return launch_of(script(layers, flags)).scenario["parallelism"]["interleave"];
  };
  const std::string embedding = " --account-for-embedding-in-pipeline-split";
  const std::string loss = " --account-for-loss-in-pipeline-split";
  EXPECT_EQ(chunks(32, "4"), 2);
  EXPECT_EQ(chunks(30, "4" + embedding + loss), 2);
  EXPECT_EQ(chunks(22, "2" + embedding + loss), 3);
  EXPECT_EQ(chunks(31, "4" + loss), 2);
  EXPECT_THAT(refusal(script(30, "4")),
              HasSubstr("--num-layers-per-virtual-pipeline-stage is 4, and 30 layers are no "
                        "multiple of 4 x 4 pipeline ranks (correct one of them)"));
  EXPECT_THAT(refusal(script(30, "4" + embedding)),
              HasSubstr("31 layers, embedding or loss among them, are no multiple"));
  EXPECT_THAT(refusal(script(32, "0")), HasSubstr("pipeline-stage is 0, and 32 layers"));
}

// Are sharding, exchange over context ranks, copies of the optimizer and its place read?
TEST(Megatron, ShardingAndThePlaceOfTheOptimizerAreRead) {
  const auto parallelism = [](const std::string& flags) {
    return launch_of(kSmall + flags).scenario["parallelism"];
  };
  EXPECT_EQ(parallelism("--use-megatron-fsdp --data-parallel-sharding-strategy "
                        "optim_grads_params")["zero_stage"],
            3);
  EXPECT_EQ(parallelism("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads "
                        "--use-distributed-optimizer")["zero_stage"],
            2);
  EXPECT_EQ(parallelism("--use-torch-fsdp2")["zero_stage"], 3);
  EXPECT_EQ(parallelism("--use-distributed-optimizer --num-distributed-optimizer-instances "
                        "2")["shard"],
            8);
  EXPECT_THAT(refusal(std::string(kSmall) + "--tensor-model-parallel-size 8 "
                                            "--use-distributed-optimizer "
                                            "--num-distributed-optimizer-instances 4"),
              HasSubstr("--num-distributed-optimizer-instances is 4, which does not divide 2 "
                        "replicas"));
  EXPECT_EQ(parallelism("--context-parallel-size 2 --cp-comm-type a2a")["context_exchange"], "a2a");
  EXPECT_THAT(refusal(std::string(kSmall) + "--context-parallel-size 2 --cp-comm-type ring"),
              HasSubstr("--cp-comm-type is \"ring\""));
  const ImportedScenario half =
      launch_of(std::string(kSmall) + "--optimizer-cpu-offload --optimizer-offload-fraction 0.5");
  EXPECT_EQ(half.scenario["offload"], Json({{"optimizer", "cpu"}}));
  EXPECT_THAT(half.assumed, testing::Contains("the whole optimizer is on the host, not 0.5 of it"));
}

// Are formats of fewer bits, moments in 16 bits and MTP layers read?
TEST(Megatron, FormatsOfFewerBitsAreRead) {
  const auto training = [](const std::string& flags) {
    return launch_of(kSmall + flags).scenario["training"];
  };
  EXPECT_EQ(training("--bf16 --fp8-format hybrid")["recipe"], "fp8_cached");
  EXPECT_EQ(training("--bf16 --fp8-format e4m3 --fp8-param-gather")["recipe"], "fp8");
  EXPECT_FALSE(training("--bf16 --fp8-format hybrid").contains("fp8_scaling"));
  EXPECT_EQ(training("--bf16 --fp8-format hybrid --fp8-recipe tensorwise")["fp8_scaling"],
            "current");
  EXPECT_EQ(training("--bf16 --fp4-format e2m1")["recipe"], "nvfp4");
  EXPECT_FALSE(training("--bf16").contains("recipe"));
  EXPECT_EQ(training("--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype "
                     "bf16")["optimizer"],
            "adam_16bit_moments");
  EXPECT_FALSE(
      training("--use-precision-aware-optimizer --exp-avg-dtype bf16").contains("optimizer"));
  EXPECT_EQ(training("--optimizer muon")["optimizer"], "muon");
  EXPECT_EQ(training("--mtp-num-layers 1")["mtp_layers"], 1);
}

// Is every argument that is understood off the list of those not looked at?
TEST(Megatron, AnArgumentThatIsUnderstoodIsLookedAt) {
  EXPECT_TRUE(launch_of(std::string(kSmall) + "--hidden-dropout 0.1 --attention-dropout 0.1")
                  .not_looked_at.empty());
}

// Are gradients stored in Megatron's precision?
TEST(Megatron, GradientsAreAsWideAsMegatronKeepsThem) {
  const auto precision = [](const std::string& flags) {
    return launch_of(kSmall + flags).scenario["training"].value("gradient_precision", "fp32");
  };
  EXPECT_EQ(precision("--bf16"), "fp32");
  EXPECT_EQ(precision("--bf16 --grad-reduce-in-bf16"), "bf16");
  EXPECT_EQ(precision("--fp16"), "fp16");
  EXPECT_EQ(precision("--fp16 --accumulate-allreduce-grads-in-fp32"), "fp32");
}

// Does a launch on part of a node use only a part of its NICs?
TEST(Megatron, ALaunchOnPartOfANodeTakesItsNicsToo) {
  const ImportedScenario launch =
      launch_of(std::string(kSmall) + "--nproc_per_node 4 --nnodes 2", {.node = "dgx_h100"});
  const Json& node = launch.scenario["cluster"]["node"];
  EXPECT_EQ(node["gpus"], 4);
  EXPECT_EQ(node["nic"]["count"], 4);
  EXPECT_EQ(launch.scenario["parallelism"]["data"], 8);
  EXPECT_THAT(launch.assumed, testing::Contains(HasSubstr("4 of a node's 8 GPUs run a process")));
}

// Can a rack hold several hosts?
TEST(Megatron, ARackHoldsSeveralHosts) {
  const auto nodes = [](const std::string& flags) {
    return launch_of(kSmall + flags, {.node = "gb200_nvl72"}).scenario["cluster"];
  };
  EXPECT_EQ(nodes("--nproc_per_node 4 --nnodes 18 --global-batch-size 72")["nodes"], 1);
  EXPECT_EQ(nodes("--nproc_per_node 4 --nnodes 36 --global-batch-size 144")["nodes"], 2);
  EXPECT_EQ(nodes("--nproc_per_node 4 --nnodes 8 --global-batch-size 32")["node"]["gpus"], 32);
}

// Are experts and latent attention understood?
TEST(Megatron, ExpertsAndLatentAttentionAreUnderstood) {
  const ImportedScenario launch = launch_of(
      std::string(kSmall) +
      "--num-experts 16 --moe-router-topk 4 --moe-ffn-hidden-size 512 --moe-layer-freq "
      "\"([0]*1+[1]*3)\" --expert-model-parallel-size 8 --moe-token-dispatcher-type alltoall "
      "--multi-latent-attention --q-lora-rank 256 --kv-lora-rank 128 --swiglu");
  const Json& model = launch.scenario["model"];
  EXPECT_EQ(model["experts"], 16);
  EXPECT_EQ(model["dense_layers"], 1);
  EXPECT_EQ(model["head_dim"], 192);
  EXPECT_EQ(model["ffn"], 1024 * 8 / 3 / 64 * 64);
  EXPECT_EQ(launch.scenario["experts"]["dispatcher"], "all_to_all");
  EXPECT_EQ(launch.scenario["parallelism"]["expert"], 8);
}

// Do variables come from the script, their defaults or the user?
TEST(Megatron, VariablesComeFromTheScriptTheirDefaultsOrTheUser) {
  const std::string script =
      "LAYERS=6\nexport WIDTH='2048'\nFOO --num-layers $LAYERS --hidden-size "
      "${WIDTH} --num-attention-heads ${HEADS:-16} --seq-length $SEQ "
      "--micro-batch-size 1 --global-batch-size 16 --vocab-size 32000\n";
  EXPECT_THAT(refusal(script), HasSubstr("--seq-length is \"$SEQ\", which only the shell could"));
  const ImportedScenario launch =
      launch_of(script, {.node = "dgx_h100", .nodes = 2}, {{"SEQ", "1024"}, {"LAYERS", "12"}});
  EXPECT_EQ(launch.scenario["model"]["layers"], 12);
  EXPECT_EQ(launch.scenario["model"]["hidden"], 2048);
  EXPECT_EQ(launch.scenario["model"]["heads"], 16);
  EXPECT_EQ(launch.scenario["training"]["sequence_length"], 1024);
}

// May a default hold another variable, and a script print dots?
TEST(Megatron, DefaultsNestAndPrintedDotsAreNoSettings) {
  const ImportedScenario launch = launch_of(
      "WORLD=4\nSLURM_NNODES=2\necho starting ... now\ntorchrun --nnodes "
      "${SLURM_NNODES:-${WORLD:-1}} --tensor-model-parallel-size ${TP:-${WORLD:-1}} " +
      std::string(kSmall));
  EXPECT_EQ(launch.scenario["cluster"]["nodes"], 2);
  EXPECT_EQ(launch.scenario["parallelism"]["tensor"], 4);
}

// Is the exchange of context parallelism read from a list, which must have one for all layers?
TEST(Megatron, TheExchangeOfContextParallelismMayBeAList) {
  const auto log = [](const std::string& context, const std::string& exchange) {
    std::string text;
    for (const auto& [name, value] : std::initializer_list<std::pair<std::string, std::string>>{
             {"num_layers", "4"},
             {"hidden_size", "1024"},
             {"num_attention_heads", "8"},
             {"seq_length", "512"},
             {"micro_batch_size", "1"},
             {"vocab_size", "32000"},
             {"context_parallel_size", context},
             {"cp_comm_type", exchange}})
      text += "  " + name + " ...................... " + value + "\n";
    return text;
  };
  for (const char* exchange : {"['a2a']", "['a2a', 'a2a']", "a2a"})
    EXPECT_EQ(launch_of(log("2", exchange)).scenario["parallelism"]["context_exchange"], "a2a");
  EXPECT_THAT(refusal(log("2", "['p2p', 'a2a']")),
              HasSubstr("--cp-comm-type is \"['p2p', 'a2a']\" (it may be p2p, all_gather, a2a or "
                        "a2a+p2p, the same for all layers)"));
  EXPECT_THAT(refusal(kSmall + std::string("--context-parallel-size 2 --cp-comm-type p2p a2a")),
              HasSubstr("--cp-comm-type is \"p2p a2a\""));
  const ImportedScenario alone = launch_of(log("1", "['p2p']"));
  EXPECT_FALSE(alone.scenario["parallelism"].contains("context_exchange"));
  EXPECT_THAT(alone.not_looked_at, testing::IsEmpty());
}

// Are all kinds of positions read, and those that are not simulated refused?
TEST(Megatron, EveryKindOfPositionIsReadOrRefused) {
  const auto positions = [](const std::string& flags) {
    return launch_of(kSmall + flags).scenario["model"]["positions"];
  };
  EXPECT_EQ(positions(""), "learned");
  EXPECT_EQ(positions("--use-rotary-position-embeddings"), "rotary");
  const std::string flag = "--position-embedding-type ";
  EXPECT_EQ(positions(flag + "learned_absolute"), "learned");
  for (const char* rotary : {"rope", "mrope", "yarn"})
    EXPECT_EQ(positions(flag + rotary), "rotary");
  EXPECT_EQ(positions(flag + "none"), "none");
  EXPECT_THAT(refusal(kSmall + flag + "relative"),
              HasSubstr("--position-embedding-type is \"relative\" (it may be learned_absolute, "
                        "rope, mrope, yarn or none)"));
}

// Are the microbatches of a group read by the name of the flag, and by that in a log?
TEST(Megatron, TheMicrobatchesOfAGroupAreReadByBothNames) {
  for (const char* name : {"--microbatch-group-size-per-virtual-pipeline-stage",
                           "--microbatch-group-size-per-vp-stage"})
    EXPECT_EQ(launch_of(kSmall + fmt::format("--pipeline-model-parallel-size 2 "
                                             "--num-layers-per-virtual-pipeline-stage 1 {} 4",
                                             name))
                  .scenario["parallelism"]["microbatch_group_size"],
              4)
        << name;
}

// Is an optimizer that is not simulated named?
TEST(Megatron, AnotherOptimizerCostsAsMuchAsAdam) {
  const std::string sentence = "the optimizer costs as much as Adam, although it is lion";
  EXPECT_THAT(launch_of(std::string(kSmall) + "--optimizer lion").assumed,
              testing::Contains(sentence));
  for (const char* known : {"adam", "sgd", "muon"})
    EXPECT_THAT(launch_of(std::string(kSmall) + "--optimizer " + known).assumed,
                testing::Not(testing::Contains(HasSubstr("costs as much as Adam"))));
}

// Does an error name the missing or wrong argument?
TEST(Megatron, WhatIsMissingOrWrongIsSaidWithItsName) {
  EXPECT_THAT(refusal("echo hello"), HasSubstr("run.sh: holds no argument of a launch"));
  EXPECT_THAT(refusal("--num-layers 4"), HasSubstr("--hidden-size is not there"));
  EXPECT_THAT(refusal(std::string(kSmall) + "--num-layers four"),
              HasSubstr("--num-layers is \"four\", which is no number"));
  EXPECT_THAT(refusal(kSmall, {.node = "dgx_h100"}), HasSubstr("on how many nodes"));
  EXPECT_THAT(refusal("--num-layers 4 --hidden-size 1024 --num-attention-heads 8 --seq-length 512"),
              HasSubstr("how large the vocabulary is"));
  EXPECT_THAT(refusal(std::string(kSmall) + "--num-experts 8 --moe-layer-freq [1,0]*2"),
              HasSubstr("--moe-layer-freq is"));
  EXPECT_THAT(
      refusal(std::string(kSmall) + "--num-experts 8 --moe-layer-freq " + std::string(60, '9')),
      HasSubstr("--moe-layer-freq is"));
  EXPECT_THAT(refusal(std::string(kSmall) + "--num-layers 1e300"),
              HasSubstr("--num-layers is 1e+300, more than 1000000000"));
  EXPECT_THAT(refusal(kSmall, {.node = "dgx_x", .nodes = 2}),
              HasSubstr("--node: \"dgx_x\" is not one of"));
  EXPECT_THAT(refusal(std::string(kSmall) + "--nproc_per_node 16 --nnodes 2"),
              HasSubstr("--nproc-per-node must be from 1 to 8, not 16"));
}

// Are variables that double in size refused?
TEST(Megatron, VariablesThatDoubleAreRefused) {
  std::string script = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) script += "A=$A$A\n";
  EXPECT_THAT(refusal(script + kSmall), HasSubstr("its variables make more than 16 MiB of text"));
}

// Are long comments and words read?
TEST(Megatron, LongCommentsAndWordsAreReadAsAnyOther) {
  const std::string script = "# " + std::string(1 << 20, 'c') + "\n" + kSmall + "# " +
                             std::string(1 << 20, ' ') + "\n--" + std::string(1 << 20, 'x') + "\n";
  const ImportedScenario launch = launch_of(script);
  EXPECT_EQ(launch.scenario["model"]["layers"], 4);
  EXPECT_EQ(launch.not_looked_at.size(), 1U);
}

// Is it said which value holds where branches of a script set several?
TEST(Megatron, TheLastOfSeveralBranchesHoldsAndIsSaid) {
  const std::string branches =
      "if [ $SIZE = 7 ]; then\n  HIDDEN_SIZE=4096\n  NAME=small\n"
      "elif [ $SIZE = 13 ]; then\n  HIDDEN_SIZE=5120\nelse\n  HIDDEN_SIZE=8192\n  NAME=large\nfi\n";
  const std::string use = kSmall + std::string("--hidden-size $HIDDEN_SIZE --save $NAME\n");
  const std::string sentence =
      "HIDDEN_SIZE is 4096 in line 2, 5120 in line 5 and 8192 in line 7: the last one holds, say "
      "which with --define HIDDEN_SIZE=VALUE";
  const ImportedScenario launch = launch_of(branches + use);
  EXPECT_EQ(launch.scenario["model"]["hidden"], 8192);
  EXPECT_THAT(launch.assumed, testing::Contains(sentence));
  EXPECT_THAT(launch.scenario["assumptions"], testing::Contains(sentence));
  const auto silent = testing::Not(testing::Contains(HasSubstr("the last one holds")));
  // Nothing of the scenario depends on the name of a folder.
  EXPECT_THAT(launch_of(branches + "HIDDEN_SIZE=1024\n" + use).assumed, silent);
  const ImportedScenario defined =
      launch_of(branches + use, {.node = "dgx_h100", .nodes = 2}, {{"HIDDEN_SIZE", "5120"}});
  EXPECT_EQ(defined.scenario["model"]["hidden"], 5120);
  EXPECT_THAT(defined.assumed, silent);
  EXPECT_THAT(launch_of("A=\"--bf16\"\nif true; then\n  A=\"$A --swiglu\"\nfi\n" +
                        std::string(kSmall) + "$A\n")
                  .assumed,
              silent);
  EXPECT_THAT(launch_of("A=\"--bf16\"\nif true; then\n  A=\"--bf16 --swiglu\"\nfi\n" +
                        std::string(kSmall) + "$A\n")
                  .assumed,
              testing::Contains(HasSubstr("A is --bf16 in line 1 and --bf16 --swiglu in line 3")));
}

// Can a variable have itself as default?
TEST(Megatron, AVariableMayHaveItselfAsDefault) {
  const std::string script =
      "BATCH=${BATCH:-32}\n" + std::string(kSmall) + "--global-batch-size $BATCH\n";
  EXPECT_EQ(launch_of(script).scenario["training"]["global_batch_size"], 32);
  EXPECT_EQ(launch_of(script, {.node = "dgx_h100", .nodes = 2}, {{"BATCH", "48"}})
                .scenario["training"]["global_batch_size"],
            48);
}

}  // namespace
}  // namespace trainyard
