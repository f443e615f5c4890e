// Multi-head latent attention (DeepSeek-AI 2405.04434 section 2.1; reference 04 section 5): queries
// and keys with values are compressed to latents, normed, and expanded to heads again. Tensor ranks
// share the heads. The down-projections stand on each of them and work on its part of the sequence,
// so that under sequence parallelism it is the narrow latents that are gathered (Megatron-LM
// multi_latent_attention.py).
//
// DeepSeek-V3, T tokens, t = 1: query_down T x 7168 x 1536, query T x 1536 x 24 576, key_value_down
// T x 7168 x 576, key_value T x 512 x 32 768, projection T x 16 384 x 7168: 374 210 560 FLOPs a
// token (tests/models/lower/moe_test.cpp).
#include <string>

#include "models/lower/layer.hpp"

namespace trainyard {

namespace {

// Columns that keys without positions and values have on one tensor rank.
std::int64_t key_value_columns(const Architecture& a, std::int64_t tensor) {
  return a.heads * (a.head_dim - a.rope_dim + a.value_head()) / tensor;
}

}  // namespace

void LayerLowering::latent_norm(std::string_view name, std::int64_t width, Way way) {
  const StreamingOperation& norm = plan_.streaming.rms_norm;
  stream(name, MemoryBoundKind::Norm, way == Way::Forward ? norm.forward : norm.backward,
         shape_.local_tokens * width);
}

// Down to a latent and its norm, on this rank's part of the sequence, then the whole sequence.
void LayerLowering::latent_down(std::string_view name, std::int64_t width, std::int64_t beside) {
  const std::string text(name);
  build_.compute(text + "_gemm",
                 product(shape_.local_tokens, width + beside, arch_.hidden, GemmPass::Forward));
  latent_norm(text + "_norm", width, Way::Forward);
  if (!shape_.sequence_parallel) return;
  tensor_collective(CollectiveOp::AllGather, shape_.tokens * (width + beside) * shape_.element,
                    text + "_all_gather", true);
}

void LayerLowering::latent_attention_forward() {
  if (arch_.query_latent > 0) {
    latent_down("query_down", arch_.query_latent, 0);
  } else {
    gather_sequence("attention_all_gather");
  }
  build_.compute("query_gemm", product(shape_.tokens, arch_.query_width() / shape_.tensor,
                                       query_inputs(), GemmPass::Forward));
  latent_down("key_value_down", arch_.kv_latent, arch_.rope_dim);
  build_.compute("key_value_gemm", product(shape_.tokens, key_value_columns(arch_, shape_.tensor),
                                           arch_.kv_latent, GemmPass::Forward));
  latent_heads("rope", "key_assembly", Way::Forward);
  attention_core_forward();
  build_.compute("projection_gemm",
                 product(shape_.tokens, arch_.hidden, arch_.output_width() / shape_.tensor,
                         GemmPass::Forward));
  join_partial_sums("attention_join");
}

// Queries, keys and values once more from the latents that were kept, which are normed again.
void LayerLowering::latent_up_again() {
  if (arch_.query_latent > 0) {
    latent_norm("query_down_norm", arch_.query_latent, Way::Forward);
    build_.compute("query_gemm", product(shape_.tokens, arch_.query_width() / shape_.tensor,
                                         query_inputs(), GemmPass::Forward));
  }
  latent_norm("key_value_down_norm", arch_.kv_latent, Way::Forward);
  build_.compute("key_value_gemm", product(shape_.tokens, key_value_columns(arch_, shape_.tensor),
                                           arch_.kv_latent, GemmPass::Forward));
  latent_heads("rope", "key_assembly", Way::Forward);
}

std::int64_t LayerLowering::query_inputs() const {
  return arch_.query_latent > 0 ? arch_.query_latent : arch_.hidden;
}

// Positions go into a part of each query head and one key part that all heads share; then every key
// head is put together from its own part and the shared one, or its gradient taken apart.
void LayerLowering::latent_heads(std::string_view rope, std::string_view assembly, Way way) {
  const std::int64_t heads = arch_.heads / shape_.tensor;
  const StreamingOperation& turned = plan_.streaming.rotary;
  stream(rope, MemoryBoundKind::Rope, way == Way::Forward ? turned.forward : turned.backward,
         shape_.tokens * (heads + 1) * arch_.rope_dim);
  memory_bound(assembly, MemoryBoundKind::Elementwise,
               2 * shape_.element * shape_.tokens * heads * arch_.head_dim);
}

// The expansion of a latent: its gradients are partial sums over the tensor ranks' heads.
OpIndex LayerLowering::latent_up_backward(std::string_view name, const LatentUp& up,
                                          BackwardPart part) {
  const std::string text(name);
  const auto wgrad = [&] {
    return build_.compute(text + "_wgrad",
                          product(up.columns, up.width, shape_.tokens, GemmPass::WeightGrad));
  };
  if (shape_.sequence_parallel && part != BackwardPart::Input) {
    tensor_collective(CollectiveOp::AllGather, shape_.tokens * up.width * shape_.element,
                      text + "_input_all_gather", true);
  }
  if (part == BackwardPart::Weight) return wgrad();
  build_.compute(text + "_dgrad", product(shape_.tokens, up.width, up.columns, GemmPass::DataGrad));
  const bool overlap = plan_.parallelism.overlap_tensor;
  const CollectiveOp op =
      shape_.sequence_parallel ? CollectiveOp::ReduceScatter : CollectiveOp::AllReduce;
  const OpIndex reduced = tensor_collective(
      op, shape_.tokens * (up.width + up.beside) * shape_.element, text + "_dgrad_join", !overlap);
  const OpIndex last = part == BackwardPart::Full ? wgrad() : kNone;
  if (overlap) build_.wait_for(reduced);
  return last;
}

OpIndex LayerLowering::latent_down_backward(std::string_view name, std::int64_t width,
                                            std::int64_t beside, BackwardPart part) {
  const std::string text(name);
  const auto wgrad = [&] {
    return build_.compute(text + "_wgrad", product(width + beside, arch_.hidden,
                                                   shape_.local_tokens, GemmPass::WeightGrad));
  };
  if (part == BackwardPart::Weight) return wgrad();
  latent_norm(text + "_norm_backward", width, Way::Backward);
  build_.compute(text + "_dgrad",
                 product(shape_.local_tokens, arch_.hidden, width + beside, GemmPass::DataGrad));
  return part == BackwardPart::Full ? wgrad() : kNone;
}

void LayerLowering::latent_attention_backward(BackwardPart part,
                                              std::vector<ReadyGradient>* ready) {
  const bool inputs = part != BackwardPart::Weight;
  const OpIndex projection = row_backward("projection", arch_.output_width() / shape_.tensor, part);
  if (inputs) {
    if (again_.latent_up) repeat([this] { latent_up_again(); });
    attention_core_backward();
    latent_heads("rope_backward", "key_assembly_backward", Way::Backward);
  }
  const OpIndex key_value = latent_up_backward("key_value",
                                               {.width = arch_.kv_latent,
                                                .beside = arch_.rope_dim,
                                                .columns = key_value_columns(arch_, shape_.tensor)},
                                               part);
  if (inputs && again_.norms) repeat([this] { norm_forward("attention_norm"); });
  const OpIndex key_value_down =
      latent_down_backward("key_value_down", arch_.kv_latent, arch_.rope_dim, part);
  const std::int64_t queries = arch_.query_width() / shape_.tensor;
  OpIndex query = kNone;
  OpIndex query_down = kNone;
  if (arch_.query_latent > 0) {
    query = latent_up_backward(
        "query", {.width = arch_.query_latent, .beside = 0, .columns = queries}, part);
    query_down = latent_down_backward("query_down", arch_.query_latent, 0, part);
  } else {
    query = column_backward("query", queries, part);
  }
  if (inputs) {  // both ways lead to the same input
    memory_bound("latent_gradient_add", MemoryBoundKind::Elementwise,
                 3 * shape_.element * shape_.local_tokens * arch_.hidden);
  }
  if (ready == nullptr) return;
  for (const OpIndex op : {projection, key_value, key_value_down, query})
    ready->push_back({.op = op});
  if (arch_.query_latent > 0) ready->push_back({.op = query_down});
}

}  // namespace trainyard
