// The bytes that one rank sends for weights and gradients in a step, for every kind of sharding
// (Rajbhandari et al. 2019, arXiv 1910.02054, section 7; oracles 43, 44, 46). Below d ranks hold P
// parameters, f = (d-1)/d, w_g and w_p are the bytes of a gradient and of a weight.
#include <gtest/gtest.h>

#include <map>

#include "sim/collectives/collective.hpp"
#include "step.hpp"

namespace trainyard {
namespace {

using namespace test;

// By operation, of one rank of the first stage.
std::map<std::string, double> bytes_by_name(const TrainingPlan& plan) {
  const Workload workload = lower(plan);
  std::map<std::string, double> bytes;
  for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
    if (view.op.kind != OpKind::Collective) return;
    const GroupId group = workload.ranks.front().slots.at(view.op.slot).group;
    if (workload.groups.at(group).kind != GroupKind::Data) return;
    const Call& call = workload.calls[view.op.payload];
    bytes[std::string(view.name)] += sent(call, std::ssize(workload.groups[group].members));
  });
  return bytes;
}

double bytes_of(const TrainingPlan& plan) {
  double sum = 0.0;
  for (const auto& [name, bytes] : bytes_by_name(plan)) sum += bytes;
  return sum;
}

constexpr double kParameters = 8'030'261'248.0;
constexpr double kRoot = 2.0 * 128'256.0 * 4096.0 + 4096.0;  // embedding, head, final norm

// Llama-3 8B, every tensor of which has rows that divide among 64 ranks: nothing is padded.
TrainingPlan llama(const Parallelism& parallelism, std::int64_t microbatches = 1) {
  TrainingPlan plan;
  plan.architecture = load_architecture("llama3-8b");
  plan.parallelism = parallelism;
  plan.parallelism.data = 64;
  plan.training.sequence_length = 8192;
  plan.training.global_batch_size = 64 * microbatches;
  plan.training.gradient_precision = DataType::Bf16;
  return plan;
}

constexpr double kShare = 63.0 / 64.0;  // f = (d-1)/d

// Is the volume of PyTorch's replicas 2fP w_g per step, for any number of microbatches?
TEST(ShardedVolume, PytorchsReplicas) {
  const Parallelism replicas{.gradient_buckets = BucketRule::Pytorch};
  EXPECT_EQ(bytes_of(llama(replicas)), 31'619'153'664.0);
  EXPECT_EQ(bytes_of(llama(replicas, 5)), 31'619'153'664.0) << "no_sync but for the last";
}

// Does every owner broadcast its share? There are as many broadcasts as owners, and (n-1)/n of the
// weights arrive at every rank.
TEST(ShardedVolume, BroadcastsOfEveryOwner) {
  const Workload workload =
      lower(llama({.zero_stage = 1, .weight_exchange = WeightExchange::Broadcast}));
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
  for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
    if (view.name != "parameter_broadcast") return;
    const Call& call = workload.calls[view.op.payload];
    EXPECT_EQ(op_of(call), CollectiveOp::Broadcast);
    ++calls;
    bytes += bytes_of(call);
  });
  EXPECT_EQ(calls, 64);
  EXPECT_EQ(bytes, 2 * 8'030'261'248);
}

// Does ZeRO 2 reduce in every microbatch unless it keeps gradients?
TEST(ShardedVolume, Zero2ReducesEveryMicrobatchUnlessItKeepsGradients) {
  const double gather = kShare * kParameters * 2.0;
  for (const std::int64_t a : {1, 3}) {
    TrainingPlan plan = llama({.zero_stage = 2}, a);
    plan.training.gradient_precision = DataType::Fp32;
    const double once = kShare * kParameters * 4.0;
    EXPECT_DOUBLE_EQ(bytes_of(plan), static_cast<double>(a) * once + gather);
    plan.parallelism.reduce_every_microbatch = false;
    EXPECT_DOUBLE_EQ(bytes_of(plan), once + gather);
  }
}

// Is the volume of ZeRO 3 fP(2 w_p + w_g) for every microbatch? It is less if weights or gradients
// stay whole.
TEST(ShardedVolume, Zero3) {
  for (const std::int64_t a : {1, 3}) {
    const auto times = static_cast<double>(a);
    const Parallelism always{.zero_stage = 3, .reshard_after_forward = Reshard::Always};
    EXPECT_EQ(bytes_of(llama(always, a)), 47'428'730'496.0 * times);
    const Parallelism root_stays{.zero_stage = 3};
    EXPECT_DOUBLE_EQ(bytes_of(llama(root_stays, a)),
                     times * (47'428'730'496.0 - kShare * kRoot * 2.0));
    const Parallelism never{.zero_stage = 3, .reshard_after_forward = Reshard::Never};
    EXPECT_DOUBLE_EQ(bytes_of(llama(never, a)), times * kShare * kParameters * 4.0);
    const Parallelism kept{.zero_stage = 3,
                           .reshard_after_forward = Reshard::Always,
                           .reduce_every_microbatch = false};
    EXPECT_DOUBLE_EQ(bytes_of(llama(kept, a)), kShare * kParameters * (2.0 * times * 2.0 + 2.0))
        << "2a gathers and one reduction";
  }
}

// Are weights gathered in the type that the recipe names? With one byte each, ZeRO 3 gathers fP
// bytes for the forward and for the backward, and ZeRO 1 once a step.
TEST(ShardedVolume, WeightsTravelInTheRecipesType) {
  TrainingPlan plan = llama({.zero_stage = 3, .reshard_after_forward = Reshard::Always});
  plan.recipe = load_recipe("fp8");
  EXPECT_EQ(bytes_by_name(plan).at("weight_all_gather"), 2.0 * 7'904'788'416.0);
  plan.parallelism.zero_stage = 1;
  EXPECT_EQ(bytes_by_name(plan).at("parameter_all_gather"), 7'904'788'416.0);
}

// Does ZeRO 3 send 1.5 times the volume of replicas (oracle 44)?
TEST(ShardedVolume, Zero3SendsHalfAsMuchAgainAsReplicas) {
  const Parallelism zero3{.zero_stage = 3, .reshard_after_forward = Reshard::Always};
  EXPECT_DOUBLE_EQ(bytes_of(llama(zero3)) / bytes_of(llama({})), 1.5);
}

// Do context ranks share weights? Ranks of one sequence hold the same weights: 32 replicas of 2 are
// 64.
TEST(ShardedVolume, ContextRanksShareWeights) {
  for (const std::int64_t zero : {0, 1, 3}) {
    TrainingPlan plan = llama({.zero_stage = zero, .reshard_after_forward = Reshard::Always});
    const double apart = bytes_of(plan);
    plan.parallelism.data = 32;
    plan.parallelism.context = 2;
    plan.training.global_batch_size = 32;
    EXPECT_EQ(bytes_of(plan), apart) << zero;
  }
}

// Do backward gathers stay within the 8 ranks that keep the weights?
TEST(ShardedVolume, PartlyResharded) {
  const Parallelism hpz{
      .zero_stage = 3, .reshard_after_forward = Reshard::Always, .reshard_group = 8};
  EXPECT_DOUBLE_EQ(bytes_of(llama(hpz)),
                   kShare * kParameters * 4.0 + 7.0 / 8.0 * kParameters * 2.0);
}

// Is the volume of r = 8 copies of s = 8 shards, reduced in fp32, correct? A gather sends
// (s-1)/s P w_p, the reduce_scatter (s-1)/s P w_g, the all_reduce 2(r-1)/r P/s w_g.
TEST(ShardedVolume, Hybrid) {
  TrainingPlan plan =
      llama({.zero_stage = 3, .shard = 8, .reshard_after_forward = Reshard::Always});
  plan.training.gradient_precision = DataType::Fp32;
  const auto bytes = bytes_by_name(plan);
  EXPECT_EQ(bytes.at("weight_all_gather"), 2.0 * 14'052'957'184.0);
  EXPECT_EQ(bytes.at("gradient_reduce_scatter"), 28'105'914'368.0);
  EXPECT_EQ(bytes.at("gradient_all_reduce"), 7'026'478'592.0);
}

// Are the limits of hybrid sharding correct (oracle 44): one copy is ZeRO 3, one shard is replicas?
TEST(ShardedVolume, TheEndsOfHybrid) {
  const Reshard always = Reshard::Always;
  EXPECT_EQ(bytes_of(llama({.zero_stage = 3, .shard = 64, .reshard_after_forward = always})),
            bytes_of(llama({.zero_stage = 3, .reshard_after_forward = always})));
  EXPECT_EQ(bytes_of(llama({.zero_stage = 3, .shard = 1, .reshard_after_forward = always})),
            bytes_of(llama({})));
}

// Is the volume of several distributed optimizers that of hybrid sharding with one gather
// (num_distributed_optimizer_instances of Megatron-LM
// core/distributed/distributed_data_parallel_config.py)?
TEST(ShardedVolume, SeveralDistributedOptimizers) {
  TrainingPlan plan = llama({.zero_stage = 1, .shard = 8});
  plan.training.gradient_precision = DataType::Fp32;
  const auto bytes = bytes_by_name(plan);
  EXPECT_EQ(bytes.at("parameter_all_gather"), 14'052'957'184.0);
  EXPECT_EQ(bytes.at("gradient_reduce_scatter"), 28'105'914'368.0);
  EXPECT_EQ(bytes.at("gradient_all_reduce"), 7'026'478'592.0);
}

// Are weights gathered and gradients reduced once per step in a pipeline? Weights stay whole
// through the step, and gradients are reduced once per chunk.
TEST(ShardedVolume, InAPipelineOnceAStep) {
  const auto bytes = [](std::int64_t microbatches) {
    return bytes_by_name(llama({.pipeline = 4, .zero_stage = 3}, microbatches));
  };
  EXPECT_EQ(bytes(4), bytes(16));
  EXPECT_DOUBLE_EQ(bytes(4).at("weight_all_gather"), bytes(4).at("gradient_reduce_scatter"));
}

// Is the volume of synchronous parameter servers that of the formula? Every worker pushes all its
// gradients and pulls as much; each of k servers on the workers' own GPUs receives and sends a k-th
// for each of the others.
TEST(ShardedVolume, ParameterServers) {
  TrainingPlan plan = llama({});
  plan.collectives.algorithm[GroupKind::Data][CollectiveOp::AllReduce] = "parameter_server:4";
  const Workload workload = lower(plan);
  std::vector<double> given(64);
  std::vector<double> taken(64);
  std::vector<std::uint32_t> gpus(64);
  for (std::uint32_t i = 0; i < 64; ++i) gpus[i] = i;
  const Cluster cluster = testing::star(64);
  for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
    if (view.op.slot != static_cast<std::uint16_t>(Slot::Data)) return;
    if (view.op.kind != OpKind::Collective) return;
    const Call& call = workload.calls[view.op.payload];
    EXPECT_EQ(algorithm_of(call), "parameter_server:4");
    const CollectiveAlgorithm* algorithm = find_algorithm(op_of(call), algorithm_of(call));
    const auto bytes = Bytes{static_cast<double>(bytes_of(call))};
    for (const Message& message : algorithm->messages({cluster, gpus}, bytes)) {
      given[message.from] += message.bytes;
      taken[message.to] += message.bytes;
    }
  });
  const double all = kParameters * 2.0;
  EXPECT_DOUBLE_EQ(given[63], all);
  EXPECT_DOUBLE_EQ(taken[63], all);
  EXPECT_DOUBLE_EQ(taken[0], 63.0 * all / 4.0 + 3.0 * all / 4.0);
  EXPECT_DOUBLE_EQ(given[0], taken[0]);
}

// Does one replica send nothing?
TEST(ShardedVolume, NothingForOneReplica) {
  for (const std::int64_t zero : {0, 1, 2, 3}) {
    TrainingPlan plan = plan_of(small_gpt(4), {.tensor = 2, .zero_stage = zero}, 4);
    EXPECT_EQ(bytes_of(plan), 0.0);
  }
}

}  // namespace
}  // namespace trainyard
