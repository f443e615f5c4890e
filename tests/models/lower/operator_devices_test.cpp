// Models that are split by hand, operator by operator: the devices of operators, the messages, and
// that no work of the model is lost or repeated.
#include "models/operator_devices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "models/layers/layer_memory.hpp"
#include "models/lower/options.hpp"
#include "sim/base/error.hpp"
#include "sim/timeline/memory.hpp"
#include "step.hpp"
#include "tests/agreement.hpp"
#include "tests/models/architecture/kinds.hpp"

namespace trainyard {
namespace {

using namespace test;
using ::testing::HasSubstr;

using Rules = std::vector<OperatorRule>;

TrainingPlan split_plan(const Architecture& model, const Rules& rules, std::int64_t devices = 2,
                        std::int64_t data = 1) {
  TrainingPlan plan = plan_of(
      model, {.pipeline = devices, .data = data, .schedule = "naive", .operator_devices = rules},
      3);
  plan.training.gradient_clipping = false;
  return plan;
}

const Rules kAttentionApart = {
    {"embedding", 0}, {"attention_block", 0}, {"mlp_block", 1}, {"head_block", 0}};
const Rules kAllApart = {{"embedding", 0}, {"attention_norm", 1}, {"attention", 2}, {"mlp_norm", 2},
                         {"mlp", 0},       {"final_norm", 1},     {"head", 0},      {"loss", 2}};

// No two kernels take equally long, so an equal sum has equal parts.
double seconds_of(const Kernel& kernel) {
  const auto* bound = std::get_if<MemoryBound>(&kernel);
  return bound != nullptr ? 1e-6 + 1e-12 * static_cast<double>(bound->bytes)
                          : 1e-5 + 1e-12 * flops(kernel).value();
}

CallModel linear_model() {
  return CallModel(
      [](const Call& call) { return 1e-6 + 1e-9 * static_cast<double>(bytes_of(call)); });
}

Step run(const TrainingPlan& plan, const Replay& how = {}) {
  return replay(lower(plan), linear_model(), seconds_of, how);
}

std::string refusal(const Rules& rules, const Architecture& model = small_llama(4)) {
  try {
    (void)operator_split(split_plan(model, rules));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Are the segments and their messages correct?
TEST(OperatorSplit, SegmentsAndWhatTravels) {
  const OperatorSplit split = operator_split(split_plan(small_llama(2), kAttentionApart));
  ASSERT_EQ(split.segments.size(), 6U);
  EXPECT_EQ(
      split.segments[1],
      (Segment{
          .device = 0, .layer = 0, .first = Operator::AttentionNorm, .last = Operator::Attention}));
  EXPECT_EQ(
      split.segments[5],
      (Segment{.device = 0, .layer = -1, .first = Operator::FinalNorm, .last = Operator::Loss}));
  // Forward and back in each layer.
  ASSERT_EQ(split.transfers.size(), 4U);
  for (const Transfer& transfer : split.transfers) EXPECT_TRUE(transfer.output.stream);
  EXPECT_EQ(split.gradient_sums, (std::vector<std::int64_t>(6, 0)));
}

// Is the residual sent twice to a norm on another device? It goes to the norm, and past it to the
// attention on a third device.
TEST(OperatorSplit, ANormApartNeedsTheStreamTwice) {
  const OperatorSplit split = operator_split(split_plan(small_llama(1), kAllApart, 3));
  std::vector<std::tuple<std::int64_t, std::int64_t, bool>> ways;
  for (const Transfer& transfer : split.transfers)
    ways.emplace_back(transfer.from, transfer.to, transfer.output.stream);
  const std::vector<std::tuple<std::int64_t, std::int64_t, bool>> expected = {
      {0, 1, true},  {0, 2, true}, {1, 2, false}, {2, 0, true},
      {2, 0, false}, {0, 1, true}, {1, 0, false}, {0, 2, false}};
  EXPECT_EQ(ways, expected);
  // Norm and attention produce gradients of the embedding's output; the MLP's norm and the MLP
  // those of the attention's output.
  EXPECT_EQ(split.gradient_sums, (std::vector<std::int64_t>{1, 0, 1, 0, 0, 0, 0}));
  EXPECT_TRUE(split.carries_logits(split.transfers.back()));
  EXPECT_FALSE(split.carries_logits(split.transfers.front()));
}

// Are rules for unknown operators, layers and devices refused?
TEST(OperatorSplit, RefusesWhatIsNotThere) {
  EXPECT_THAT(refusal({{"embeding", 0}}), HasSubstr("there is no operator \"embeding\""));
  EXPECT_THAT(refusal({{"layer 2-9", 0}}), HasSubstr("\"2-9\" is no range of layers"));
  EXPECT_THAT(refusal({{"head 0", 0}}), HasSubstr("head is of no layer"));
  EXPECT_THAT(refusal({{"layer", 2}}), HasSubstr("there is no device 2"));
  EXPECT_THAT(refusal({{"layer 0-2", 0}, {"mlp 2", 1}}),
              HasSubstr("mlp 2 is placed by \"layer 0-2\" already"));
  EXPECT_THAT(refusal({{"layer", 0}, {"embedding", 1}}),
              HasSubstr("3 operators have no device: final_norm, head, loss"));
  EXPECT_THAT(refusal({{"layer", 0}, {"embedding", 0}, {"head_block", 0}}),
              HasSubstr("device 1 of 2 holds nothing"));
  EXPECT_THAT(refusal({{"experts", 0}}), HasSubstr("has no such layer"));
  EXPECT_THAT(refusal({{"experts 1", 0}}), HasSubstr("layer 1 has mlp in this place"));
  EXPECT_THAT(refusal({{"layer", 0}, {"embedding", 0}, {"head_block", 1}}, small_gpt(4)),
              HasSubstr("one table for embedding and head"));
}

struct Case {
  std::string name;
  TrainingPlan plan;
};
std::vector<Case> cases() {
  TrainingPlan selective = split_plan(small_llama(3), kAttentionApart);
  selective.training.recompute = Recompute::Selective;
  const Rules mixed = {{"embedding", 1},   {"layer 0", 0},    {"attention_block 1-2", 1},
                       {"mlp_block 1", 0}, {"mlp_norm 2", 1}, {"mlp 2", 0},
                       {"head_block", 1}};
  return {{"attention apart", split_plan(small_llama(3), kAttentionApart)},
          {"tied", split_plan(small_gpt(3), kAttentionApart)},
          {"latent", split_plan(with_latents(small_llama(3)), kAttentionApart)},
          {"all apart", split_plan(small_llama(3), kAllApart, 3)},
          {"mixed", split_plan(small_llama(3), mixed)},
          {"selective", selective}};
}

TrainingPlan on_one_device(TrainingPlan plan) {
  plan.parallelism.operator_devices.clear();
  plan.parallelism.pipeline = 1;
  return plan;
}

std::int64_t resident(const Workload& workload, Category category) {
  std::int64_t sum = 0;
  for (const Program& program : workload.programs)
    for (const ResidentMemory& held : program.resident)
      if (held.category == static_cast<std::uint16_t>(category)) sum += held.bytes;
  return sum;
}

// Do all devices together hold the model and execute its FLOPs?
TEST(OperatorSplit, DevicesTogetherAreTheModel) {
  for (const auto& [name, plan] : cases()) {
    SCOPED_TRACE(name);
    const Workload split = lower(plan);
    const Workload whole = lower(on_one_device(plan));
    EXPECT_NEAR(executed_flops(split).value() / executed_flops(whole).value(), 1.0, 1e-12);
    for (const Category category :
         {Category::Weights, Category::Gradients, Category::OptimizerState})
      EXPECT_EQ(resident(split, category), resident(whole, category));
    validate(split, "");
    for (const Program& program : split.programs)
      for (const std::int64_t bytes : unreturned_bytes(split, program)) EXPECT_EQ(bytes, 0);
  }
}

std::int64_t peak(const Step& step, std::size_t rank) {
  return memory_peak(step.workload, step.partition, step.timeline,
                     step.partition.class_of_rank[rank])
      .bytes;
}

// Is a split layer by layer the naive pipeline? Whole layers are stages, with the messages, times
// and memory of the naive schedule.
TEST(OperatorSplit, LayerByLayerIsTheNaivePipeline) {
  for (const Recompute recompute : {Recompute::None, Recompute::Selective}) {
    TrainingPlan by_hand = split_plan(
        small_llama(8),
        {{"embedding", 0}, {"layer 0-2", 0}, {"layer 3-6", 1}, {"layer 7", 2}, {"head_block", 2}},
        3, 2);
    by_hand.training.recompute = recompute;
    by_hand.training.gradient_clipping = true;
    TrainingPlan stages = by_hand;
    stages.parallelism.operator_devices.clear();
    stages.parallelism.layers_per_stage = {3, 4, 1};
    for (const char* engine : {"ideal", "simgrid"}) {
      const Step a = run(by_hand, {.engine = engine});
      const Step b = run(stages, {.engine = engine});
      EXPECT_NEAR(a.timeline.makespan_s / b.timeline.makespan_s, 1.0, kAgreement);
      for (std::size_t rank = 0; rank < a.workload.ranks.size(); ++rank)
        EXPECT_EQ(peak(a, rank), peak(b, rank));
    }
  }
}

// Is the step the sum of its parts? One device works at a time, so the step is the sum of all
// computation and all messages; the optimizer of the other device overlaps the end of it.
TEST(OperatorSplit, TheStepIsTheSumOfItsParts) {
  const TrainingPlan plan = split_plan(small_llama(3), kAttentionApart);
  const Step step = run(plan);
  double sum = 0.0;
  for (std::size_t device = 0; device < 2; ++device) {
    for (const Operation& op : step.workload.programs[device].operations) {
      const bool of_both = op.part == StepPart::Forward || op.part == StepPart::Backward;
      if (op.kind == OpKind::Compute && (of_both || device == 0))
        sum += seconds_of(step.workload.kernels[op.payload]);
    }
  }
  const auto bytes = static_cast<double>(128 * plan.architecture.hidden * 2);
  const double message = 1e-6 + 1e-9 * bytes;
  sum += 3 * 2 * 6 * message;  // microbatches, both directions, transfers
  EXPECT_NEAR(step.timeline.makespan_s / sum, 1.0, kAgreement);
}

// Do both engines, and folded and unfolded runs, agree?
TEST(OperatorSplit, EnginesAndFoldingAgree) {
  for (const auto& [name, plan] : cases()) {
    SCOPED_TRACE(name);
    TrainingPlan replicas = plan;
    replicas.parallelism.data = 2;
    replicas.training.global_batch_size *= 2;
    replicas.parallelism.zero_stage = 1;
    const double ideal = run(replicas).timeline.makespan_s;
    EXPECT_NEAR(run(replicas, {.fold = false}).timeline.makespan_s / ideal, 1.0, kAgreement);
    EXPECT_NEAR(run(replicas, {.engine = "simgrid"}).timeline.makespan_s / ideal, 1.0, kAgreement);
  }
}

// Does each device reduce the gradients of its own operators?
TEST(OperatorSplit, ReplicasReduceDeviceByDevice) {
  const TrainingPlan plan = split_plan(small_llama(3), kAttentionApart, 2, 2);
  const Workload workload = lower(plan);
  std::map<std::uint32_t, std::int64_t> reduced;
  for (const Program& program : workload.programs)
    for (const Operation& op : program.operations)
      if (op.kind == OpKind::Collective &&
          op_of(workload.calls[op.payload]) == CollectiveOp::AllReduce)
        reduced[program.stage] += bytes_of(workload.calls[op.payload]);
  const std::int64_t mlp = 3 * (3 * 256 * 512 + 256);  // gate, up, down and the norm
  const std::int64_t attention = 3 * (256 * (256 + 2 * 128) + 256 * 256 + 256);
  EXPECT_EQ(reduced[1], 4 * mlp);
  EXPECT_EQ(reduced[0], 4 * (attention + 2 * 2048 * 256 + 256));
}

// Do the four parts of a layer keep together what the whole layer keeps, each its own bytes?
TEST(OperatorSplit, PartsKeepWhatTheLayerKeeps) {
  const TrainingPlan plan = plan_of(small_llama(1), {}, 1);
  const auto kept = [&](const LayerParts& parts) {
    return layer_memory(memory_options(plan), dense_layer(plan.architecture), {}, true, parts).kept;
  };
  constexpr LayerParts kNone{
      .attention_norm = false, .attention = false, .ffn_norm = false, .ffn = false};
  std::array parts = {kNone, kNone, kNone, kNone};
  parts[0].attention_norm = parts[1].attention = parts[2].ffn_norm = parts[3].ffn = true;
  std::int64_t sum = 0;
  for (const LayerParts& part : parts) sum += kept(part);
  EXPECT_EQ(sum, kept({}));
  EXPECT_EQ(kept(kNone), 0);
}

// Does a device add the gradients of every microbatch but the first? In two of three microbatches a
// kernel for each segment of device 0 (embedding, three attention blocks, head) reads the gradient
// of 2 bytes, and reads and writes the sum of 4.
TEST(OperatorSplit, DevicesAddEveryMicrobatchButTheFirst) {
  TrainingPlan plan = split_plan(small_llama(3), kAttentionApart);
  plan.gradient_passes.accumulate = true;
  const std::int64_t attention = 3 * (256 * (256 + 2 * 128) + 256 * 256 + 256);
  const std::int64_t parameters = attention + 2 * 2048 * 256 + 256;
  EXPECT_EQ(traffic_of(lower(plan), "gradient_accumulate"),
            (Traffic{2 * 5, 2 * (2 + 2 * 4) * parameters}));
}

}  // namespace
}  // namespace trainyard
