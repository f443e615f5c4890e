// Bytes on the wire: tensor parallelism per layer (Shoeybi et al. 2019, arXiv 1909.08053, section
// 3; Korthikanti et al. 2022, arXiv 2205.05198, section 4.2), messages between stages (Narayanan et
// al. 2021, arXiv 2104.04473, sections 2.2 and 4.1), gradients and weights over the replicas
// (Rajbhandari et al. 2019, arXiv 1910.02054, section 7; oracles 2, 43, 46).
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/options.hpp"
#include "step.hpp"
#include "tests/models/architecture/kinds.hpp"

namespace trainyard {
namespace {

using namespace test;

using LayerOfMicrobatch = std::pair<std::int32_t, std::int32_t>;

// The bytes that one rank sends to its tensor group for each layer of each microbatch.
std::map<LayerOfMicrobatch, double> tensor_bytes(const TrainingPlan& plan) {
  const Workload workload = lower(plan);
  std::map<LayerOfMicrobatch, double> bytes;
  for (const Program& program : workload.programs) {
    for (const Operation& op : program.operations) {
      if (op.kind != OpKind::Collective || op.layer < 0) continue;
      if (op.stream != static_cast<std::uint8_t>(Stream::Tensor)) continue;
      bytes[{op.microbatch, op.layer}] += sent(workload.calls[op.payload], plan.parallelism.tensor);
    }
  }
  return bytes;
}

void expect_units(const TrainingPlan& plan, double units) {
  const double t = static_cast<double>(plan.parallelism.tensor);
  const double message = static_cast<double>(step_shape(plan).message);
  const auto bytes = tensor_bytes(plan);
  EXPECT_EQ(std::ssize(bytes), plan.microbatches() * plan.architecture.layers);
  for (const auto& [where, sum] : bytes) {
    EXPECT_DOUBLE_EQ(sum, units * (t - 1.0) / t * message) << where.first << " " << where.second;
  }
}

// Does tensor parallelism send eight units per layer, and ten with sequence parallelism?
TEST(TensorVolume, EightUnitsPlainAndTenWithSequenceParallelism) {
  for (const std::int64_t t : {2, 4, 8}) {
    for (const Architecture& model : {small_gpt(4), small_llama(4)}) {
      TrainingPlan plan = plan_of(model, {.tensor = t, .pipeline = 2}, 4);
      expect_units(plan, 8.0);
      plan.training.recompute = Recompute::Full;
      expect_units(plan, 12.0);
      plan.training.recompute = Recompute::None;
      plan.parallelism.sequence_parallel = true;
      expect_units(plan, 10.0);
      plan.training.recompute = Recompute::Full;
      expect_units(plan, 14.0);
      plan.training.recompute = Recompute::Selective;
      plan.training.attention = AttentionKind::Unfused;
      expect_units(plan, 10.0);
      plan.parallelism.overlap_tensor = false;
      expect_units(plan, 10.0);
    }
  }
}

// Are copied key-value heads gathered, and their gradients scattered? With twice as many ranks as
// key-value heads the output of the QKV GEMM for all heads (here as wide as two messages) is
// gathered in the forward, and its gradient is reduced and scattered in the backward.
TEST(TensorVolume, CopiedHeadsAreGatheredAndTheirGradientsScattered) {
  TrainingPlan plan = plan_of(small_llama(4), {.tensor = 16, .pipeline = 2}, 4);
  ASSERT_EQ(plan.architecture.query_width() + 2 * plan.architecture.kv_width(),
            2 * plan.architecture.hidden);
  expect_units(plan, 8.0 + 4.0);
  plan.training.recompute = Recompute::Full;
  expect_units(plan, 12.0 + 6.0);
  plan.training.recompute = Recompute::None;
  plan.parallelism.sequence_parallel = true;
  expect_units(plan, 10.0 + 4.0);
}

// Are the weights of copied heads not copied? The heads are on several ranks, but each weight and
// each gradient is on one.
TEST(TensorVolume, WeightsOfCopiedHeadsAreNotCopied) {
  const TrainingPlan whole = plan_of(small_llama(4), {.tensor = 1}, 4);
  const TrainingPlan cut = plan_of(small_llama(4), {.tensor = 16}, 4);
  const auto matrices = [](const TrainingPlan& plan) {
    std::int64_t sum = 0;
    for (const GradientEntry& entry :
         layer_entries(weight_options(plan).division, dense_layer(plan.architecture)))
      for (const Tensor& tensor : entry.tensors)
        if (tensor.columns > 1) sum += tensor.rows * tensor.columns;
    return sum;
  };
  EXPECT_EQ(16 * matrices(cut), matrices(whole));
}

// Are the operands of 8-bit GEMMs gathered in 8 bits? Six of the ten units with sequence
// parallelism are gathers: in the forward, of gradients, and once more for the weight gradients, of
// two GEMMs each. In 8 bits they are half as large; sums are not.
TEST(TensorVolume, OperandsOfProductsInEightBitsAreGatheredInThem) {
  TrainingPlan plan =
      plan_of(small_llama(4), {.tensor = 4, .sequence_parallel = true, .pipeline = 2}, 4);
  plan.recipe = load_recipe("fp8");
  expect_units(plan, 7.0);
  plan.recipe = load_recipe("fp8_blockwise");
  expect_units(plan, 10.0);
}

// Are the gradients of the norms of heads summed without sequence parallelism? Each tensor rank has
// other heads, and of all other norms the whole gradient. In fp32, of 4 layers, one gain of 16
// numbers for queries and one for keys.
TEST(TensorVolume, NormsOfHeadsAreSummedWithoutSequenceParallelism) {
  const auto summed = [](const TrainingPlan& plan) {
    const Workload workload = lower(plan);
    std::int64_t bytes = 0;
    for_each_operation(workload, workload.programs[0], [&](const OperationView& view) {
      if (view.name == "norm_gradient_all_reduce")
        bytes += bytes_of(workload.calls[view.op.payload]);
    });
    return bytes;
  };
  TrainingPlan plan = plan_of(small_llama(4), {.tensor = 2}, 1);
  EXPECT_EQ(summed(plan), 0);
  plan.architecture.qk_norm = true;
  EXPECT_EQ(summed(plan), 4 * 4 * 2 * 16);
  plan.parallelism.tensor = 1;
  EXPECT_EQ(summed(plan), 0);
}

// Is nothing sent without tensor parallelism?
TEST(TensorVolume, NothingWithoutTensorParallelism) {
  TrainingPlan plan = plan_of(small_llama(4), {.sequence_parallel = true, .pipeline = 2}, 4);
  EXPECT_TRUE(tensor_bytes(plan).empty());
}

// Do the links carry the bytes of the formula? s = h = 8192, b = 1, bf16, t = 8: an all_reduce
// sends 234 881 024 bytes per rank, an all_gather 117 440 512; all_gather and reduce_scatter
// together are an all_reduce.
TEST(TensorVolume, Llama70BOnTheLinks) {
  TrainingPlan plan;
  plan.architecture = load_architecture("llama3-70b");
  plan.parallelism.tensor = 8;
  plan.training.sequence_length = 8192;
  const std::int64_t message = step_shape(plan).message;
  EXPECT_EQ(message, 134'217'728);
  const Cluster cluster = testing::star(8);
  const AlgorithmModel communication(cluster);
  const auto gpus = testing::gpus_of(8);
  const std::map<CollectiveOp, double> wanted = {{CollectiveOp::AllReduce, 234'881'024.0},
                                                 {CollectiveOp::AllGather, 117'440'512.0},
                                                 {CollectiveOp::ReduceScatter, 117'440'512.0}};
  for (const auto& [op, bytes] : wanted) {
    const auto phases = communication.phases(CollectiveCall{.op = op, .bytes = message}, gpus);
    const auto loads = testing::bytes_on_links(cluster, phases);
    std::size_t links = 0;
    for (const Link& link : cluster.links()) {
      if (link.kind != LinkKind::NvLink) continue;
      EXPECT_DOUBLE_EQ(loads[link.id], bytes);
      ++links;
    }
    EXPECT_EQ(links, 2U * 8U) << "to the switch and back";
  }
}

// The bytes of every message of the step, and of the gathers that follow a scattered message.
struct Messages {
  std::set<std::int64_t> sizes;
  std::map<std::uint32_t, std::int64_t> sends;  // by program
  std::int64_t gathers = 0;
  std::int64_t gather_bytes = 0;
};
Messages messages_of(const TrainingPlan& plan) {
  const Workload workload = lower(plan);
  Messages messages;
  for (std::uint32_t program = 0; program < workload.programs.size(); ++program) {
    for_each_operation(workload, workload.programs[program], [&](const OperationView& view) {
      const auto bytes = [&] { return bytes_of(workload.calls[view.op.payload]); };
      if (view.op.kind == OpKind::Send || view.op.kind == OpKind::Recv) {
        messages.sizes.insert(bytes());
        messages.sends[program] += view.op.kind == OpKind::Send ? 1 : 0;
      } else if (view.name == "scatter_gather_all_gather") {
        ++messages.gathers;
        messages.gather_bytes = bytes();
      }
    });
  }
  return messages;
}

// Are the messages of Llama 405B as large as expected? b*s*h*2 = 256 MiB for 8192 tokens; each of 8
// tensor ranks sends 32 MiB.
TEST(PipelineMessages, Llama405B) {
  constexpr std::int64_t kMebibyte = 1 << 20;
  TrainingPlan plan;
  plan.architecture = load_architecture("llama3-405b");
  plan.architecture.layers = 4;
  plan.parallelism = {.tensor = 8, .pipeline = 2, .scatter_gather = false};
  plan.training.sequence_length = 8192;
  plan.training.global_batch_size = 3;
  const Messages whole = messages_of(plan);
  EXPECT_EQ(whole.sizes, std::set<std::int64_t>{256 * kMebibyte});
  EXPECT_EQ(whole.gathers, 0);
  EXPECT_EQ(whole.sends.at(0), 3);
  EXPECT_EQ(whole.sends.at(1), 3);

  plan.parallelism.scatter_gather = true;
  const Messages scattered = messages_of(plan);
  EXPECT_EQ(scattered.sizes, std::set<std::int64_t>{32 * kMebibyte});
  EXPECT_EQ(scattered.gathers, 6) << "one for each message received";
  EXPECT_EQ(scattered.gather_bytes, 256 * kMebibyte);

  plan.parallelism.sequence_parallel = true;
  const Messages parts = messages_of(plan);
  EXPECT_EQ(parts.sizes, std::set<std::int64_t>{32 * kMebibyte});
  EXPECT_EQ(parts.gathers, 0) << "a part is all that the next stage needs";
}

// Are learned positions added to all tokens of a sequence? Each rank then needs the whole sum of
// the embedding before it takes its part of the sequence, so that an all_reduce takes the place of
// the reduce_scatter. 128 tokens of 256 numbers in 16 bits: three times 64 KiB are added.
TEST(TensorVolume, LearnedPositionsAreAddedBeforeTheSequenceIsDivided) {
  for (const Architecture& model : {small_gpt(2), small_llama(2)}) {
    const TrainingPlan plan = plan_of(model, {.tensor = 4, .sequence_parallel = true}, 1);
    const bool learned = model.positions == Positions::Learned;
    const Workload workload = lower(plan);
    std::int64_t joins = 0;
    for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
      if (view.name != "embedding_join") return;
      ++joins;
      EXPECT_EQ(op_of(workload.calls[view.op.payload]),
                learned ? CollectiveOp::AllReduce : CollectiveOp::ReduceScatter);
    });
    EXPECT_EQ(joins, 1);
    EXPECT_EQ(traffic_of(workload, "position_embedding"),
              learned ? (Traffic{1, 3 * 64 * 1024}) : Traffic{})
        << model.name;
  }
}

// Does the loss reduce three numbers per token? Largest logit, target's logit and sum of
// exponentials are 12 bytes per token in any case, in two calls if the loss is fused (Megatron-LM
// core/tensor_parallel/cross_entropy.py and core/fusions/fused_cross_entropy.py).
TEST(TensorVolume, TheLossReducesThreeNumbersOfEveryToken) {
  for (const bool fused : {false, true}) {
    TrainingPlan plan = plan_of(small_llama(2), {.tensor = 4}, 3);
    plan.training.fused_loss = fused;
    const Workload workload = lower(plan);
    std::int64_t bytes = 0;
    std::int64_t calls = 0;
    for_each_operation(workload, workload.programs.front(), [&](const OperationView& view) {
      if (!view.name.starts_with("loss_")) return;
      bytes += bytes_of(workload.calls[view.op.payload]);
      ++calls;
    });
    EXPECT_EQ(bytes, 3 * 12 * 128);
    EXPECT_EQ(calls, fused ? 3 * 2 : 3 * 3);
  }
}

// Does each microbatch cross every border between virtual stages once forward and once backward?
TEST(PipelineMessages, InterleavingCrossesEveryBorder) {
  const std::int64_t p = 4;
  const std::int64_t v = 3;
  const std::int64_t m = 8;
  TrainingPlan plan = pipeline_plan({"interleaved_1f1b", p, m, v});
  std::int64_t sends = 0;
  for (const auto& [program, count] : messages_of(plan).sends) sends += count;
  EXPECT_EQ(sends, 2 * m * (p * v - 1));
}

// The bytes that one rank of the first stage sends over the data group in a step.
double data_bytes(const TrainingPlan& plan) {
  const Workload workload = lower(plan);
  double bytes = 0.0;
  for (const Operation& op : workload.programs.front().operations) {
    if (op.stream != static_cast<std::uint8_t>(Stream::Data)) continue;
    bytes += sent(workload.calls[op.payload], plan.parallelism.data);
  }
  return bytes;
}

// Are the bytes of 64 replicas of Llama 8B exact (oracle 43)? 8 030 261 248 parameters; every
// tensor is a multiple of 128 elements, so no bucket is padded.
TEST(DataVolume, Llama8BOn64Replicas) {
  TrainingPlan plan;
  plan.architecture = load_architecture("llama3-8b");
  plan.parallelism.data = 64;
  plan.training.sequence_length = 8192;
  plan.training.global_batch_size = 64;
  plan.training.gradient_precision = DataType::Bf16;
  for (const bool overlap : {true, false}) {
    plan.parallelism.overlap_grad_reduce = overlap;
    EXPECT_EQ(data_bytes(plan), 31'619'153'664.0) << "all_reduce of bf16 gradients";
  }
  plan.parallelism.zero_stage = 1;
  plan.training.gradient_precision = DataType::Fp32;
  for (const bool overlap : {true, false}) {
    plan.parallelism.overlap_param_gather = overlap;
    EXPECT_EQ(data_bytes(plan), 47'428'730'496.0) << "fp32 reduce_scatter and bf16 all_gather";
  }
}

// Are the bytes independent of gradient accumulation?
TEST(DataVolume, DoesNotDependOnAccumulation) {
  for (const std::int64_t zero : {0, 1}) {
    const auto bytes = [zero](std::int64_t microbatches) {
      return data_bytes(
          plan_of(small_gpt(4), {.pipeline = 2, .data = 4, .zero_stage = zero}, microbatches));
    };
    EXPECT_GT(bytes(2), 0.0);
    EXPECT_EQ(bytes(2), bytes(16));
  }
}

// Does one replica send nothing?
TEST(DataVolume, NothingForOneReplica) {
  EXPECT_EQ(data_bytes(plan_of(small_gpt(4), {.tensor = 2, .zero_stage = 1}, 4)), 0.0);
}

}  // namespace
}  // namespace trainyard
