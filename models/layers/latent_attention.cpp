// Multi-head latent attention (DeepSeek-AI 2405.04434 section 2.1). Queries, and keys with values,
// are compressed to latents, normed, and expanded to heads. Tensor ranks share the heads. Every
// rank holds the down-projections and applies them to its part of the sequence, so that under
// sequence parallelism the narrow latents are gathered (Megatron-LM multi_latent_attention.py).
//
// DeepSeek-V3, T tokens, t = 1: query_down T x 7168 x 1536, query T x 1536 x 24 576, key_value_down
// T x 7168 x 576, key_value T x 512 x 32 768, projection T x 16 384 x 7168: 374 210 560 FLOPs per
// token (tests/models/lower/moe_test.cpp).
#include <fmt/format.h>

#include <array>
#include <string>

#include "models/layers/attention_core.hpp"
#include "models/layers/layer_block.hpp"
#include "sim/base/field.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

// Columns of the values and of the keys without their positional part, on one tensor rank.
std::int64_t key_value_columns(const Architecture& a, std::int64_t tensor) {
  return a.heads * (a.head_dim - a.rope_dim + a.value_head()) / tensor;
}

class LatentAttention : BlockWriter {
 public:
  explicit LatentAttention(LayerTools& tools) : BlockWriter(tools), core_(tools) {}

  void forward();
  std::vector<ReadyGradient> backward(BackwardPart part);

 private:
  // The expansion of a latent of `width`, or of the layer's input, to `columns`. `extra_width` is
  // the width of other columns that are gathered together with the latent.
  struct LatentUp {
    std::string_view name = {};
    std::string_view gather = {};
    std::int64_t width = 0;
    std::int64_t extra_width = 0;
    std::int64_t columns = 0;
  };
  [[nodiscard]] LatentUp query_up() const;
  [[nodiscard]] LatentUp key_value_up() const;
  void norm(std::string_view name, std::int64_t width, Pass pass);
  void down(std::string_view name, std::int64_t width, std::int64_t extra_width);
  void up(const LatentUp& up);
  OpIndex up_backward(const LatentUp& up, BackwardPart part);
  OpIndex down_backward(std::string_view name, std::int64_t width, std::int64_t extra_width,
                        BackwardPart part);
  void recompute_up();
  void heads(std::string_view rope, std::string_view assembly, Pass pass);

  AttentionCore core_;
};

void LatentAttention::norm(std::string_view name, std::int64_t width, Pass pass) {
  const ElementwiseOperation& norm = kernels_.rms_norm;
  elementwise_.stream(name, MemoryBoundKind::Norm,
                      pass == Pass::Forward ? norm.forward : norm.backward,
                      shape_.local_tokens * width);
}

LatentAttention::LatentUp LatentAttention::query_up() const {
  const bool compressed = arch_.query_latent > 0;
  return {.name = "query",
          .gather = compressed ? "query_down_all_gather" : "attention_all_gather",
          .width = compressed ? arch_.query_latent : arch_.hidden,
          .columns = arch_.query_width() / shape_.tensor};
}

LatentAttention::LatentUp LatentAttention::key_value_up() const {
  return {.name = "key_value",
          .gather = "key_value_down_all_gather",
          .width = arch_.kv_latent,
          .extra_width = arch_.rope_dim,
          .columns = key_value_columns(arch_, shape_.tensor)};
}

// The down-projection to a latent and its norm, on this rank's part of the sequence.
void LatentAttention::down(std::string_view name, std::int64_t width, std::int64_t extra_width) {
  const std::string text(name);
  const std::int64_t columns = width + extra_width;
  linear_.prepare(name, arch_.hidden * columns, shape_.local_tokens * arch_.hidden);
  build_.compute(text + "_gemm",
                 linear_.gemm(shape_.local_tokens, columns, arch_.hidden, GemmPass::Forward));
  norm(text + "_norm", width, Pass::Forward);
}

// Gathers the whole sequence and expands it to the columns of this rank. Other columns than those
// of the latent do not enter the GEMM and are gathered in the precision of training.
void LatentAttention::up(const LatentUp& up) {
  const Gemm gemm = linear_.gemm(shape_.tokens, up.columns, up.width, GemmPass::Forward);
  linear_.prepare(up.name, up.width * up.columns, shape_.tokens * up.width, Rows::Gathered);
  if (shape_.sequence_parallel) {
    group_.collective(CollectiveOp::AllGather,
                      group_.operand_bytes(gemm.dtype, up.width) +
                          shape_.tokens * up.extra_width * shape_.element,
                      up.gather, true, group_.operand_type(gemm.dtype));
  }
  build_.compute(std::string(up.name) + "_gemm", gemm);
}

// The rotary embedding is applied to a part of each query head and to one key part that all heads
// share. A second kernel assembles every key head from its own part and the shared one, or splits
// its gradient.
void LatentAttention::heads(std::string_view rope, std::string_view assembly, Pass pass) {
  const std::int64_t heads = arch_.heads / shape_.tensor;
  const ElementwiseOperation& turned = kernels_.rotary;
  elementwise_.stream(rope, MemoryBoundKind::Rope,
                      pass == Pass::Forward ? turned.forward : turned.backward,
                      shape_.tokens * (heads + 1) * arch_.rope_dim);
  elementwise_.memory_bound(assembly, MemoryBoundKind::Elementwise,
                            2 * shape_.element * shape_.tokens * heads * arch_.head_dim);
}

void LatentAttention::forward() {
  if (arch_.query_latent > 0) down("query_down", arch_.query_latent, 0);
  up(query_up());
  down("key_value_down", arch_.kv_latent, arch_.rope_dim);
  up(key_value_up());
  heads("rope", "key_assembly", Pass::Forward);
  core_.forward();
  const std::int64_t values = arch_.output_width() / shape_.tensor;
  linear_.prepare("projection", values * arch_.hidden, shape_.tokens * values);
  build_.compute("projection_gemm",
                 linear_.gemm(shape_.tokens, arch_.hidden, values, GemmPass::Forward));
  group_.join_partial_sums("attention_join");
}

// Recomputes queries, keys and values from the stored latents, with their norms. The positional
// columns are stored gathered (Megatron-LM multi_latent_attention.py, qkv_up_proj_and_rope_apply).
void LatentAttention::recompute_up() {
  if (arch_.query_latent > 0) norm("query_down_norm", arch_.query_latent, Pass::Forward);
  up(query_up());
  norm("key_value_down_norm", arch_.kv_latent, Pass::Forward);
  LatentUp latent = key_value_up();
  latent.extra_width = 0;
  up(latent);
  heads("rope", "key_assembly", Pass::Forward);
}

// Backward of the expansion of a latent. The gradients of the latent are partial sums over the
// tensor ranks' heads.
OpIndex LatentAttention::up_backward(const LatentUp& up, BackwardPart part) {
  const std::string text(up.name);
  const Gemm weight = linear_.gemm(up.columns, up.width, shape_.tokens, GemmPass::WeightGrad);
  const auto wgrad = [&] { return build_.compute(text + "_wgrad", weight); };
  if (part != BackwardPart::Input)
    group_.gather_operand(text + "_input_all_gather", weight.dtype, true, up.width);
  if (part == BackwardPart::Weight) return wgrad();
  linear_.prepare(up.name, up.width * up.columns, shape_.tokens * up.columns);
  build_.compute(text + "_dgrad",
                 linear_.gemm(shape_.tokens, up.width, up.columns, GemmPass::DataGrad));
  const bool overlap = options_.tensor.overlaps;
  const CollectiveOp op = shape_.join_op();
  const OpIndex reduced =
      group_.collective(op, shape_.tokens * (up.width + up.extra_width) * shape_.element,
                        text + "_dgrad_join", !overlap);
  const OpIndex last = part == BackwardPart::Full ? wgrad() : kNone;
  if (overlap) build_.wait_for(reduced);
  return last;
}

OpIndex LatentAttention::down_backward(std::string_view name, std::int64_t width,
                                       std::int64_t extra_width, BackwardPart part) {
  const std::string text(name);
  const auto wgrad = [&] {
    return build_.compute(text + "_wgrad", linear_.gemm(width + extra_width, arch_.hidden,
                                                        shape_.local_tokens, GemmPass::WeightGrad));
  };
  if (part == BackwardPart::Weight) return wgrad();
  norm(text + "_norm_backward", width, Pass::Backward);
  const std::int64_t columns = width + extra_width;
  linear_.prepare(name, arch_.hidden * columns, shape_.local_tokens * columns);
  build_.compute(text + "_dgrad",
                 linear_.gemm(shape_.local_tokens, arch_.hidden, columns, GemmPass::DataGrad));
  return part == BackwardPart::Full ? wgrad() : kNone;
}

std::vector<ReadyGradient> LatentAttention::backward(BackwardPart part) {
  const bool inputs = part != BackwardPart::Weight;
  const OpIndex projection =
      tensor_.row_backward("projection", arch_.output_width() / shape_.tensor, part);
  if (inputs) {
    if (options_.recomputed.norms)
      tools_.repeat([this] { elementwise_.norm_forward("attention_norm"); });
    if (options_.recomputed.latent_up) tools_.repeat([this] { recompute_up(); });
    core_.backward();
    heads("rope_backward", "key_assembly_backward", Pass::Backward);
  }
  const OpIndex key_value = up_backward(key_value_up(), part);
  const OpIndex key_value_down =
      down_backward("key_value_down", arch_.kv_latent, arch_.rope_dim, part);
  OpIndex query = kNone;
  OpIndex query_down = kNone;
  if (arch_.query_latent > 0) {
    query = up_backward(query_up(), part);
    query_down = down_backward("query_down", arch_.query_latent, 0, part);
  } else {
    query = tensor_.column_backward({.name = "query", .outputs = query_up().columns}, part);
  }
  if (inputs) {  // queries and keys have the same input, so their gradients are added
    elementwise_.memory_bound("latent_gradient_add", MemoryBoundKind::Elementwise,
                              3 * shape_.element * shape_.local_tokens * arch_.hidden);
  }
  std::vector<ReadyGradient> ready;
  for (const OpIndex op : {projection, key_value, key_value_down, query})
    ready.push_back({.op = op});
  if (arch_.query_latent > 0) ready.push_back({.op = query_down});
  return ready;
}

// ---- the model file

using A = Architecture;
const Field<A> kLatentFields[] = {
    {"query_latent", "latent attention: width queries are compressed to; 0: they are not",
     Whole<A>{&A::query_latent, 0, kLengthMost}},
    {"kv_latent", "latent attention: width keys and values are compressed to; 0: none",
     Whole<A>{&A::kv_latent, 0, kLengthMost}},
    {"rope_dim", "latent attention: dimensions of a head that carry positions",
     Whole<A>{&A::rope_dim, 0, kLengthMost}},
    {"value_dim", "width of a head's values; 0: head_dim", Whole<A>{&A::value_dim, 0, kLengthMost}},
};

void latent_check(JsonObject& object, const Architecture& a) {
  if (!a.latent()) {
    report_orphans(object, {{"query_latent", a.query_latent}, {"rope_dim", a.rope_dim}},
                   "latent attention, which the model does not have: give kv_latent");
    return;
  }
  if (a.rope_dim < 1 || a.rope_dim >= a.head_dim)
    object.report(
        "rope_dim",
        fmt::format("{} of {} dimensions of a head carry positions", a.rope_dim, a.head_dim),
        "latent attention needs some, and fewer than head_dim");
  if (a.biases)
    object.report("biases", "latent attention with biases is not modelled", "leave it out");
}

// ---- formulas of the shape

// Every tensor rank holds the down-projections; the heads are divided.
std::vector<Weight> latent_weights(const Architecture& a) {
  constexpr std::array<bool RecomputeModules::*, 2> kUp{&RecomputeModules::latent_up};
  const bool compressed = a.query_latent > 0;
  std::vector<Weight> all;
  if (compressed)
    all.push_back({.name = "query_down",
                   .inputs = a.hidden,
                   .outputs = a.query_latent,
                   .vector = a.query_latent});
  all.push_back({.name = "query",
                 .inputs = compressed ? a.query_latent : a.hidden,
                 .outputs = a.query_width(),
                 .split = Split::Column,
                 .units = a.heads,
                 .modules = kUp});
  all.push_back({.name = "key_value_down",
                 .inputs = a.hidden,
                 .outputs = a.kv_latent + a.rope_dim,
                 .vector = a.kv_latent});
  all.push_back({.name = "key_value",
                 .inputs = a.kv_latent,
                 .outputs = a.heads * (a.head_dim - a.rope_dim + a.value_head()),
                 .split = Split::Column,
                 .units = a.heads,
                 .modules = kUp});
  all.push_back(projection_weight(a));
  return all;
}

// The input of both down-projections, the latents before and after their norms, and the heads.
LayerActivations latent_kept(const Architecture& a, const ActivationQuery& query) {
  const RecomputeModules recomputed = recomputed_modules(query);
  const ActivationSizes sizes(query);
  const std::int64_t normed = recomputed.norms ? 0 : sizes.gemm_inputs(a.hidden);
  const std::int64_t latents = a.query_latent + a.kv_latent;
  std::int64_t bytes =
      normed + sizes.outside(sizes.element * (latents + a.rope_dim)) +
      sizes.outside(sizes.entering(latents)) +
      head_bytes(a, query, key_value_width_per_rank(a, query.tensor) * query.tensor) +
      sizes.dropout_mask(a);
  // Rebuilt: queries, keys and values of all heads, and the latents after their norms. The
  // positional columns, which a gather made, are stored for it.
  if (recomputed.latent_up) {
    bytes -= sizes.inside(sizes.element * (2 * a.query_width() + a.output_width())) +
             sizes.outside(sizes.entering(latents));
    if (sizes.region > 1) bytes += sizes.tokens * sizes.element * a.rope_dim;
  }
  return {.attention = bytes, .core = recomputed.core ? 0 : core_bytes(a, query)};
}

}  // namespace

LayerBlock latent_attention_block() {
  return {.name = "latent attention",
          .operator_word = "attention",
          .half = LayerHalf::Attention,
          .fields = kLatentFields,
          .check = latent_check,
          .is_at = [](const Architecture& a, std::int64_t /*layer*/) { return a.latent(); },
          .weights = latent_weights,
          .other_flops = core_flops,
          .kept = latent_kept,
          .gradients = head_gradients,
          .forward = [](LayerTools& tools) { LatentAttention(tools).forward(); },
          .backward = [](LayerTools& tools,
                         BackwardPart part) { return LatentAttention(tools).backward(part); }};
}

}  // namespace trainyard
