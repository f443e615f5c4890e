// Attention whose queries, keys and values come from one GEMM, with heads divided over the tensor
// ranks, and with fewer key-value heads than query heads where the model has them (GQA).
#include <array>
#include <string_view>

#include "models/architecture/weights.hpp"
#include "models/layers/attention_core.hpp"

namespace trainyard {

namespace {

class MultiHeadAttention : BlockWriter {
 public:
  explicit MultiHeadAttention(LayerTools& tools) : BlockWriter(tools), core_(tools) {}

  void forward();
  std::vector<ReadyGradient> backward(BackwardPart part);
  void second_gemms();

 private:
  using Weights = std::array<OpIndex, 2>;  // operations after which their gradients are final
  [[nodiscard]] ColumnLayer qkv_layer() const {
    const std::int64_t width = arch_.query_width() + 2 * arch_.kv_width();
    return {.name = "qkv", .outputs = width / shape_.tensor, .matrices = 3};
  }
  Weights weight_part();
  Weights input_part(BackwardPart part);
  [[nodiscard]] std::int64_t query_and_key_width() const;  // of this rank's heads
  void head_norms(std::string_view name, Pass pass);
  void rotary(std::string_view name, Pass pass);
  void repeat_heads(std::string_view name);
  void join_attention_gradients();
  // Where several tensor ranks have the same key-value head (architecture/weights.hpp), the outputs
  // of the QKV GEMM for all heads are gathered on every rank, and backward their gradients are
  // summed.
  void gather_heads();
  void scatter_head_gradients();
  [[nodiscard]] std::int64_t all_heads_bytes() const;

  AttentionCore core_;
};

std::int64_t MultiHeadAttention::all_heads_bytes() const {
  return shape_.tokens * (arch_.query_width() + 2 * arch_.kv_width()) * shape_.element;
}

void MultiHeadAttention::gather_heads() {
  if (replicates_kv_heads(arch_, shape_.tensor))
    group_.collective(CollectiveOp::AllGather, all_heads_bytes(), "qkv_heads_all_gather", true);
}

void MultiHeadAttention::scatter_head_gradients() {
  if (replicates_kv_heads(arch_, shape_.tensor))
    group_.collective(CollectiveOp::ReduceScatter, all_heads_bytes(), "qkv_heads_reduce_scatter",
                      true);
}

std::int64_t MultiHeadAttention::query_and_key_width() const {
  return arch_.query_width() / shape_.tensor + kv_width_per_rank(arch_, shape_.tensor);
}

// Norms over each head of queries and of keys, where the model has them.
void MultiHeadAttention::head_norms(std::string_view name, Pass pass) {
  if (!arch_.qk_norm) return;
  const ElementwiseOperation& norm = kernels_.rms_norm;
  const std::int64_t width = query_and_key_width();
  elementwise_.stream(name, MemoryBoundKind::Norm,
                      pass == Pass::Forward ? norm.forward : norm.backward, shape_.tokens * width);
}

void MultiHeadAttention::rotary(std::string_view name, Pass pass) {
  if (arch_.positions != Positions::Rotary) return;
  const ElementwiseOperation& turned = kernels_.rotary;
  const std::int64_t width = query_and_key_width();
  elementwise_.stream(name, MemoryBoundKind::Rope,
                      pass == Pass::Forward ? turned.forward : turned.backward,
                      shape_.tokens * width);
}

// Expands keys and values: each is read once and written for all query heads. Backward, the
// gradients of all query heads are read and one sum is written.
void MultiHeadAttention::repeat_heads(std::string_view name) {
  if (!kernels_.repeated_heads || arch_.heads == arch_.kv_heads) return;
  const std::int64_t width = 2 * query_and_key_width();
  elementwise_.memory_bound(name, MemoryBoundKind::Elementwise,
                            shape_.element * shape_.tokens * width, 2);
}

void MultiHeadAttention::join_attention_gradients() {
  if (!kernels_.joined_gradients) return;
  const std::int64_t width = query_and_key_width() + kv_width_per_rank(arch_, shape_.tensor);
  elementwise_.memory_bound("qkv_gradient_join", MemoryBoundKind::Elementwise,
                            2 * shape_.element * shape_.tokens * width);
}

void MultiHeadAttention::forward() {
  const std::int64_t qkv_width = arch_.query_width() + 2 * arch_.kv_width();
  linear_.prepare("qkv", arch_.hidden * qkv_width / shape_.tensor, shape_.tokens * arch_.hidden,
                  Rows::Gathered);
  tensor_.column_forward(
      "attention_all_gather", "qkv_gemm",
      linear_.gemm(shape_.tokens, qkv_layer().outputs, arch_.hidden, GemmPass::Forward));
  linear_.adapters_forward("qkv");
  gather_heads();
  head_norms("qk_norm", Pass::Forward);
  rotary("rope", Pass::Forward);
  repeat_heads("repeat_heads");
  core_.forward();
  linear_.prepare("projection", arch_.hidden * arch_.query_width() / shape_.tensor,
                  shape_.tokens * arch_.query_width() / shape_.tensor);
  linear_.adapters_forward("projection");
  tensor_.row_forward("attention_join", "projection_gemm",
                      linear_.gemm(shape_.tokens, arch_.hidden, arch_.query_width() / shape_.tensor,
                                   GemmPass::Forward));
}

// The core's output is stored, together with queries and values; so is the sum over the tensor
// ranks. A gathered tensor is gathered a second time.
void MultiHeadAttention::second_gemms() {
  const std::int64_t keys = arch_.kv_width() / shape_.tensor;
  tensor_.column_forward("attention_all_gather", "key_gemm",
                         linear_.gemm(shape_.tokens, keys, arch_.hidden, GemmPass::Forward));
  gather_heads();
  head_norms("qk_norm", Pass::Forward);
  rotary("rope", Pass::Forward);
  repeat_heads("repeat_heads");
  build_.compute("projection_gemm",
                 linear_.gemm(shape_.tokens, arch_.hidden, arch_.query_width() / shape_.tensor,
                              GemmPass::Forward));
}

// Both gathers start before the first GEMM, so that the second one overlaps with it.
MultiHeadAttention::Weights MultiHeadAttention::weight_part() {
  const OpIndex gradient = tensor_.gather_gradient("projection");
  const OpIndex input = tensor_.gather_input(qkv_layer());
  build_.wait_for(gradient);
  const OpIndex projection = tensor_.row_wgrad("projection", arch_.query_width() / shape_.tensor);
  build_.wait_for(input);
  const OpIndex qkv = tensor_.column_wgrad(qkv_layer());
  return {projection, qkv};
}

MultiHeadAttention::Weights MultiHeadAttention::input_part(BackwardPart part) {
  const OpIndex projection =
      tensor_.row_backward("projection", arch_.query_width() / shape_.tensor, part);
  core_.backward();
  repeat_heads("repeat_heads_backward");
  rotary("rope_backward", Pass::Backward);
  head_norms("qk_norm_backward", Pass::Backward);
  join_attention_gradients();
  scatter_head_gradients();
  if (options_.recomputed.norms)
    tools_.repeat([this] { elementwise_.norm_forward("attention_norm"); });
  const OpIndex qkv = tensor_.column_backward(qkv_layer(), part);
  return {projection, qkv};
}

std::vector<ReadyGradient> MultiHeadAttention::backward(BackwardPart part) {
  std::vector<ReadyGradient> ready;
  for (const OpIndex op : part == BackwardPart::Weight ? weight_part() : input_part(part))
    ready.push_back({.op = op});
  return ready;
}

// ---- formulas of the shape

std::vector<Weight> attention_weights(const Architecture& a) {
  const bool bias = a.biases || a.qkv_biases;
  const std::int64_t norm = a.qk_norm ? a.head_dim : 0;
  constexpr std::string_view kGemm = "qkv";
  Weight projection = projection_weight(a);
  projection.gemm = "projection";
  projection.adapters = {&AdapterTargets::projection};
  return {{.name = "query",
           .inputs = a.hidden,
           .outputs = a.query_width(),
           .split = Split::Column,
           .units = a.heads,
           .bias = bias,
           .vector = norm,
           .gemm = kGemm,
           .adapters = {&AdapterTargets::query}},
          {.name = "key_value",
           .inputs = a.hidden,
           .outputs = 2 * a.kv_width(),
           .split = Split::Column,
           .units = 2 * a.kv_width(),  // a head may be split (kv_heads_per_rank)
           .bias = bias,
           .joined = true,
           .parts = 2,
           .vector = norm,
           .second_gemm = 0.5,  // the output of the values' half is stored
           .gemm = kGemm,
           .adapters = {&AdapterTargets::key, &AdapterTargets::value}},
          projection};
}

// Queries, values and the core's output, where the output of every second GEMM is stored.
std::int64_t second_gemm_bytes(const Architecture& a, const ActivationQuery& query) {
  const ActivationSizes sizes(query);
  const std::int64_t values = kv_heads_per_rank(a, query.tensor) * a.head_dim * query.tensor;
  return sizes.inside(sizes.element * (a.query_width() + values)) +
         sizes.inside(sizes.element * a.output_width());
}

LayerActivations attention_kept(const Architecture& a, const ActivationQuery& query) {
  const RecomputeModules recomputed = recomputed_modules(query);
  if (recomputed.second_gemms)
    return {.attention = second_gemm_bytes(a, query), .core = core_bytes(a, query)};
  const ActivationSizes sizes(query);
  const std::int64_t normed = recomputed.norms ? 0 : sizes.gemm_inputs(a.hidden);
  const std::int64_t kv_width =
      query.repeated_heads ? 2 * a.query_width() : stored_key_value_width(a, query) * query.tensor;
  return {.attention = normed + head_bytes(a, query, kv_width) + sizes.dropout_mask(a),
          .core = recomputed.core ? 0 : core_bytes(a, query)};
}

// The input of queries, keys and values, and that of the projection where the core's backward does
// not read the same tensor.
std::int64_t attention_frozen_inputs(const FrozenLayer& layer) {
  if (layer.recomputes_modules) return 0;
  const Architecture& a = layer.architecture;
  const AdapterTargets& on = layer.adapted;
  const bool qkv = on.query || on.key || on.value;
  return (qkv ? 0 : ActivationSizes(layer.query).gemm_inputs(a.hidden)) +
         (on.projection ? 0 : projection_input_bytes(a, layer.query));
}

}  // namespace

LayerBlock multi_head_attention_block() {
  return {.name = "attention",
          .operator_word = "attention",
          .half = LayerHalf::Attention,
          .is_at = [](const Architecture& /*a*/, std::int64_t /*layer*/) { return true; },
          .weights = attention_weights,
          .other_flops = core_flops,
          .kept = attention_kept,
          .gradients = head_gradients,
          .frozen_inputs = attention_frozen_inputs,
          .forward = [](LayerTools& tools) { MultiHeadAttention(tools).forward(); },
          .backward = [](LayerTools& tools,
                         BackwardPart part) { return MultiHeadAttention(tools).backward(part); },
          .second_gemms = [](LayerTools& tools) { MultiHeadAttention(tools).second_gemms(); }};
}

}  // namespace trainyard
