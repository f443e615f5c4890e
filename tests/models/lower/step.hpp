// Plans that are small enough to compute by hand, lowered and replayed with durations chosen by the
// test.
//
//    TrainingPlan plan = pipeline_plan({.pipeline = 4, .microbatches = 8});
//    Step step = replay(lower(plan), free_model(), stage_seconds(plan), "ideal");
//    step.timeline.makespan_s;   // 33: (m + p - 1)(F + B)
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/lower/lower.hpp"
#include "models/lower/program_builder.hpp"
#include "models/rank_groups.hpp"
#include "sim/engine/engine.hpp"
#include "tests/sim/collectives/test_clusters.hpp"

namespace trainyard::test {

// A Llama and a GPT whose sizes divide by 8; the vocabulary needs no padding up to t = 8.
inline Architecture small_llama(std::int64_t layers) {
  Architecture a;
  a.name = "small llama";
  a.layers = layers;
  a.hidden = 256;
  a.heads = 16;
  a.kv_heads = 8;
  a.head_dim = 16;
  a.ffn = 512;
  a.vocab = 2048;
  a.max_positions = 128;
  a.gated_ffn = true;
  return a;
}

inline Architecture small_gpt(std::int64_t layers) {
  Architecture a = small_llama(layers);
  a.name = "small gpt";
  a.kv_heads = a.heads;
  a.ffn = 4 * a.hidden;
  a.gated_ffn = false;
  a.biases = a.dropout = a.tied_embeddings = true;
  a.positions = Positions::Learned;
  a.norm = NormKind::LayerNorm;
  return a;
}

// Eight experts, two per token, one dense layer before those with experts, and a shared expert.
inline Architecture small_moe(std::int64_t layers) {
  Architecture a = small_llama(layers);
  a.name = "small mixture";
  a.experts = 8;
  a.experts_per_token = 2;
  a.expert_ffn = 128;
  a.shared_ffn = 64;
  a.dense_layers = 1;
  return a;
}

// The bytes that a rank of a group of n sends in a ring.
inline double sent(const Call& call, std::int64_t n) {
  const double share = static_cast<double>(n - 1) / static_cast<double>(n);
  const double passes = op_of(call) == CollectiveOp::AllReduce ? 2.0 : 1.0;
  return passes * share * static_cast<double>(bytes_of(call));
}

// Algorithms with times that depend only on the links, and so scale with them.
inline CollectiveChoice plain_algorithms() {
  CollectiveChoice choice;
  for (const GroupKind kind : {GroupKind::Tensor, GroupKind::Pipeline, GroupKind::Data,
                               GroupKind::Expert, GroupKind::Context, GroupKind::Other}) {
    const bool few_bytes = kind == GroupKind::Other;
    choice.algorithm[kind] = {{CollectiveOp::AllReduce, few_bytes ? "tree" : "ring"},
                              {CollectiveOp::AllGather, "ring"},
                              {CollectiveOp::ReduceScatter, "ring"},
                              {CollectiveOp::AllToAll, "pairwise"}};
  }
  return choice;
}

inline TrainingPlan plan_of(Architecture architecture, const Parallelism& parallelism,
                            std::int64_t microbatches) {
  TrainingPlan plan;
  plan.architecture = std::move(architecture);
  plan.parallelism = parallelism;
  plan.collectives = plain_algorithms();
  plan.training.sequence_length = 128;
  plan.training.global_batch_size = microbatches * parallelism.data;
  return plan;
}

// Rings and direct all_to_alls everywhere, for hand-made clusters on which NCCL chooses nothing.
inline TrainingPlan with_rings(TrainingPlan plan) {
  for (const GroupKind kind : {GroupKind::Tensor, GroupKind::Data, GroupKind::Context,
                               GroupKind::Expert, GroupKind::Other}) {
    auto& algorithm = plan.collectives.algorithm[kind];
    for (const CollectiveOp op :
         {CollectiveOp::AllReduce, CollectiveOp::AllGather, CollectiveOp::ReduceScatter}) {
      algorithm[op] = "ring";
    }
    algorithm[CollectiveOp::AllToAll] = "direct";
  }
  return plan;
}

struct PipelineCase {
  std::string schedule = "1f1b";
  std::int64_t pipeline = 4;
  std::int64_t microbatches = 8;
  std::int64_t chunks = 1;
  std::int64_t group_size = 0;
};

// One layer in each virtual stage, no tensor or data parallelism.
inline TrainingPlan pipeline_plan(const PipelineCase& shape) {
  return plan_of(small_llama(shape.pipeline * shape.chunks),
                 {.pipeline = shape.pipeline,
                  .interleave = shape.chunks,
                  .schedule = shape.schedule,
                  .microbatch_group_size = shape.group_size},
                 shape.microbatches);
}

// A communication model in which the effect of a call depends only on the call.
class CallModel final : public CommunicationModel {
 public:
  explicit CallModel(std::function<double(const Call&)> seconds) : seconds_(std::move(seconds)) {}
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> /*gpus*/) const override {
    const double seconds = seconds_(call);
    if (seconds == 0.0) return {};
    return {{.latency = Seconds{seconds}, .flows = {}}};
  }

 private:
  std::function<double(const Call&)> seconds_;
};

inline CallModel free_model() {
  return CallModel([](const Call&) { return 0.0; });
}

using KernelSeconds = std::function<double(const Kernel&)>;

// Kernel times with `forward` seconds for a layer's forward and `backward` for its backward, all of
// it in the attention core, of which every layer has one; nothing else takes time.
inline KernelSeconds core_seconds(double forward, double backward) {
  return [forward, backward](const Kernel& kernel) {
    const auto* attention = std::get_if<Attention>(&kernel);
    if (attention == nullptr) return 0.0;
    return attention->backward ? backward : forward;
  };
}

struct Step {
  std::unique_ptr<Cluster> cluster;
  Workload workload;
  Partition partition;
  Timeline timeline;
};

struct Replay {
  std::string engine = "ideal";
  bool fold = true;
};

inline Step replay_on(Cluster cluster, Workload workload, const CommunicationModel& communication,
                      const KernelSeconds& seconds, const Replay& how = {}) {
  Step step;
  step.cluster = std::make_unique<Cluster>(std::move(cluster));
  step.workload = std::move(workload);
  step.partition = fold(*step.cluster, step.workload, communication, {.enabled = how.fold});
  std::vector<double> by_kernel;
  for (const Kernel& kernel : step.workload.kernels) by_kernel.push_back(seconds(kernel));
  step.timeline = make_engine(how.engine)
                      ->run({.cluster = *step.cluster,
                             .workload = step.workload,
                             .partition = step.partition,
                             .kernel_seconds = by_kernel,
                             .progress = {}});
  return step;
}

// Replays a workload on GPUs around one switch, one GPU for each rank.
inline Step replay(Workload workload, const CommunicationModel& communication,
                   const KernelSeconds& seconds, const Replay& how = {}) {
  const auto gpus = static_cast<std::uint32_t>(std::max<std::size_t>(2, workload.ranks.size()));
  return replay_on(testing::star(gpus), std::move(workload), communication, seconds, how);
}

// A step in which kernels and messages both take time, so that everything overlaps that can.
inline Step timed_step(const TrainingPlan& plan, bool folded = true) {
  const CallModel communication(
      [](const Call& call) { return 1e-9 * static_cast<double>(bytes_of(call)); });
  return replay(lower(plan), communication, [](const Kernel&) { return 1e-3; }, {.fold = folded});
}

// Everything that a test may need of one operation.
struct OperationView {
  const Operation& op;
  OpIndex index = 0;
  std::string_view name;
};

template <typename Visit>
void for_each_operation(const Workload& workload, const Program& program, Visit visit) {
  for (OpIndex index = 0; index < program.operations.size(); ++index) {
    const Operation& op = program.operations[index];
    visit(OperationView{op, index, workload.names[op.name]});
  }
}

// The HBM bytes of all kernels of one name on rank 0, and their number.
struct Traffic {
  std::int64_t kernels = 0;
  std::int64_t bytes = 0;
  bool operator==(const Traffic&) const = default;
};
inline Traffic traffic_of(const Workload& step, std::string_view name) {
  Traffic found;
  for_each_operation(step, step.programs.front(), [&](const OperationView& view) {
    if (view.name != name) return;
    ++found.kernels;
    found.bytes +=
        std::get<MemoryBound>(step.kernels.at(step.programs.front().kernel_of(view.op))).bytes;
  });
  return found;
}

template <typename Visit>
void for_each_kernel(const Workload& workload, const Program& program, Visit visit) {
  for (const Operation& op : program.operations)
    if (op.kind == OpKind::Compute) visit(workload.kernels[program.kernel_of(op)]);
}

// The model with latent attention instead of its own: 8 of a head's 24 dimensions carry positions.
inline Architecture with_latents(Architecture a) {
  a.kv_heads = a.heads;
  a.head_dim = 24;
  a.query_latent = 96;
  a.kv_latent = 64;
  a.rope_dim = 8;
  a.value_dim = 16;
  return a;
}

// Calls `visit` with a plan of every schedule, and for schedules of blocks with one whose messages
// do not overlap.
template <typename Visit>
void for_each_schedule(const Visit& visit) {
  for (const std::string schedule : {"naive", "gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_h2",
                                     "zb_v", "dualpipe", "dualpipe_v"}) {
    SCOPED_TRACE(schedule);
    const bool chunks = schedule == "interleaved_1f1b" || schedule == "zb_v" ||
                        schedule == "dualpipe" || schedule == "dualpipe_v";
    const bool blocks = schedule == "1f1b" || schedule == "interleaved_1f1b";
    TrainingPlan plan = pipeline_plan(
        {.schedule = schedule, .pipeline = 4, .microbatches = 24, .chunks = chunks ? 2 : 1});
    plan.parallelism.overlap_p2p = true;
    visit(plan);
    plan.parallelism.overlap_p2p = false;
    if (blocks) visit(plan);
  }
}

}  // namespace trainyard::test
