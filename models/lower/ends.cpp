#include "models/lower/ends.hpp"

#include "models/frozen.hpp"
#include "models/pipeline_shape.hpp"

namespace trainyard {

EndParameters end_parameters(const TrainingPlan& plan) {
  const Architecture& a = plan.architecture;
  const std::int64_t table = plan.vocab() / plan.parallelism.tensor * a.hidden;
  EndParameters parameters;
  parameters.embedding = table;
  parameters.positions = a.positions == Positions::Learned ? a.max_positions * a.hidden : 0;
  parameters.final_norm = a.norm_width();
  const bool shared = a.tied_embeddings && ends_on_one_rank(plan.parallelism);
  parameters.head = shared ? 0 : table;
  return parameters;
}

std::int64_t EndLowering::logits() const { return shape_.tokens * (plan_.vocab() / shape_.tensor); }

HeadActivations EndLowering::head_memory() const {
  return head_activations(plan_.architecture, activation_query(plan_), plan_.vocab());
}

std::int64_t EndLowering::embedding_memory() const {
  return embedding_activations(plan_.architecture, activation_query(plan_));
}

// Looks the rows up (masked to the rank's part of the vocabulary), joins them over the tensor
// group, adds positions and drops out.
void EndLowering::embedding_forward() {
  const std::int64_t hidden = plan_.architecture.hidden;
  const OpIndex first = layer_.memory_bound("embedding", MemoryBoundKind::Embedding,
                                            2 * shape_.element * shape_.tokens * hidden);
  build_.allocate(first, Category::Activations, embedding_memory());
  layer_.join_partial_sums("embedding_join");
  if (plan_.architecture.positions == Positions::Learned) {
    layer_.memory_bound("position_embedding", MemoryBoundKind::Elementwise,
                        3 * shape_.element * shape_.local_tokens * hidden);
  }
  if (plan_.architecture.dropout) {
    layer_.memory_bound("embedding_dropout", MemoryBoundKind::Elementwise,
                        (2 * shape_.element + 1) * shape_.local_tokens * hidden);
  }
  if (!trains_embedding(plan_))  // nobody asks for it again
    build_.release(build_.last_compute(), Category::Activations, embedding_memory());
}

// Adds the gradient rows into the table: reads the gradient, reads and writes the rows it hits.
void EndLowering::embedding_backward(std::vector<ReadyGradient>* ready) {
  const std::int64_t hidden = plan_.architecture.hidden;
  layer_.gather_sequence("embedding_gradient_all_gather");
  const OpIndex last =
      layer_.memory_bound("embedding_backward", MemoryBoundKind::Embedding,
                          (shape_.element + 2 * shape_.gradient) * shape_.tokens * hidden);
  build_.release(last, Category::Activations, embedding_memory());
  if (ready == nullptr) return;
  ready->push_back({.op = last});
}

void EndLowering::head_forward() {
  const HeadActivations memory = head_memory();
  const OpIndex first = build_.next();
  layer_.norm_forward("final_norm");
  build_.allocate(first, Category::Activations, memory.final_norm + memory.head_input);
  layer_.gather_sequence("head_all_gather");
  const OpIndex head = build_.compute("head_gemm", Gemm{.m = shape_.tokens,
                                                        .n = plan_.vocab() / shape_.tensor,
                                                        .k = plan_.architecture.hidden,
                                                        .batch = 1,
                                                        .dtype = shape_.dtype,
                                                        .pass = GemmPass::Forward,
                                                        .accumulate_fp32 = false});
  build_.allocate(head, Category::Logits, memory.logits + memory.logits_fp32);
  // Cast to fp32 (read, write), then three passes over it: largest logit, exponentials, their sum.
  layer_.memory_bound("cross_entropy", MemoryBoundKind::CrossEntropy,
                      (shape_.element + 16) * logits());
  reduce_loss();
}

// The largest logit, the target's logit and the sum of exponentials: 4 bytes a token each, the last
// two together where the loss is fused (Megatron-LM's cross_entropy_loss_fusion).
void EndLowering::reduce_loss() {
  const std::int64_t bytes = 4 * shape_.tokens;
  layer_.tensor_collective(CollectiveOp::AllReduce, bytes, "loss_max_all_reduce", true);
  if (plan_.training.fused_loss) {
    layer_.tensor_collective(CollectiveOp::AllReduce, 2 * bytes, "loss_all_reduce", true);
    return;
  }
  layer_.tensor_collective(CollectiveOp::AllReduce, bytes, "loss_target_all_reduce", true);
  layer_.tensor_collective(CollectiveOp::AllReduce, bytes, "loss_sum_all_reduce", true);
}

void EndLowering::head_backward(BackwardPart part, std::vector<ReadyGradient>* ready) {
  const HeadActivations memory = head_memory();
  const std::int64_t columns = plan_.vocab() / shape_.tensor;
  OpIndex head = kNone;
  OpIndex norm = kNone;
  const bool trained = trains_head(plan_);
  if (part == BackwardPart::Weight) {
    if (!trained) return;
    head = norm = layer_.column_backward("head", columns, part);
    build_.release(head, Category::Logits, memory.logits);
    build_.release(head, Category::Activations, memory.head_input);
  } else {
    const bool full = part == BackwardPart::Full || !trained;
    layer_.memory_bound("cross_entropy_backward", MemoryBoundKind::CrossEntropy,
                        (4 + shape_.element) * logits());
    head = layer_.column_backward("head", columns, trained ? part : BackwardPart::Input);
    if (!trained) head = build_.last_compute();
    build_.release(full ? head : build_.last_compute(), Category::Logits,
                   memory.logits_fp32 + (full ? memory.logits : 0));
    norm = layer_.norm_backward("final_norm_backward");
    build_.release(norm, Category::Activations, memory.final_norm + (full ? memory.head_input : 0));
  }
  if (ready == nullptr || !trained) return;
  if (end_parameters(plan_).head > 0) ready->push_back({.op = head});
  ready->push_back({.op = norm});
}

}  // namespace trainyard
