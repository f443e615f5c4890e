// The feed-forward block of a layer with experts, on one rank: router, dispatch, grouped GEMMs,
// combine, and the shared experts (token_dispatcher.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "models/layers/feed_forward.hpp"
#include "models/layers/layer_block.hpp"
#include "models/layers/token_dispatcher.hpp"
#include "sim/base/field.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

// ---- the router

// Computes the scores of all experts and selects the best K. Its GEMMs use the precision of
// training, whatever the recipe uses for the others.
//
// DeepEP and HybridEP take probabilities in fp32, and Megatron's router then works in fp32
// (moe_router_dtype; RouterGatingLinearFunction of core/transformer/moe/moe_utils.py): backward
// casts the tokens to fp32 for the weight gradient and the gradient of the tokens back, (e + 4) h
// bytes a token each.
class ExpertRouter : BlockWriter {
 public:
  explicit ExpertRouter(LayerTools& tools) : BlockWriter(tools) {}

  void forward();
  void backward();
  OpIndex weight_backward();

 private:
  [[nodiscard]] Gemm gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const;
  void cast_tokens(std::string_view name);
};

void ExpertRouter::cast_tokens(std::string_view name) {
  if (!options_.experts.sends_once()) return;
  elementwise_.memory_bound(name, MemoryBoundKind::Cast,
                            (shape_.element + kFp32Bytes) * shape_.local_tokens * arch_.hidden);
}

Gemm ExpertRouter::gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const {
  Gemm gemm = linear_.gemm(m, n, k, pass);
  gemm.dtype = shape_.dtype;
  return gemm;
}

// Reads the scores, writes them as fp32 probabilities, reads those, and writes a number and an
// index for each of the K.
void ExpertRouter::forward() {
  build_.compute("router_gemm",
                 gemm(shape_.local_tokens, arch_.experts, arch_.hidden, GemmPass::Forward));
  elementwise_.memory_bound(
      "router_top_k", MemoryBoundKind::Softmax,
      shape_.local_tokens * ((shape_.element + 2 * kFp32Bytes) * arch_.experts +
                             2 * kFp32Bytes * arch_.experts_per_token));
}

void ExpertRouter::backward() {
  elementwise_.memory_bound(
      "router_top_k_backward", MemoryBoundKind::Softmax,
      shape_.local_tokens * (shape_.element + 2 * kFp32Bytes) * arch_.experts);
  build_.compute("router_dgrad",
                 gemm(shape_.local_tokens, arch_.hidden, arch_.experts, GemmPass::DataGrad));
  cast_tokens("router_gradient_cast");
}

OpIndex ExpertRouter::weight_backward() {
  cast_tokens("router_input_cast");
  return build_.compute(
      "router_wgrad", gemm(arch_.experts, arch_.hidden, shape_.local_tokens, GemmPass::WeightGrad));
}

// ---- the GEMMs of a rank's experts
//
// Grouped GEMMs run over the received tokens, with the elementwise kernels between them
// (Megatron-LM core/transformer/moe).
//
// The probability of a token scales its activations. Its gradient is a reduction that reads the
// inputs of the activation and its gradient once more (core/fusions/fused_bias_swiglu.py,
// weighted_swiglu_back): 3 e f bytes a routed token of gated experts.
//
// GEMMs in 8 bits need rows in multiples of 16 (32 in MXFP8) for each expert. Transformer Engine's
// Fp8Padding copies the tokens before the up GEMM and Fp8Unpadding after the down GEMM, and both
// again backward (TEGroupedMLP.forward): 2 e h bytes a token each. HybridEP pads while it permutes,
// and tokens that arrive in 8 bits are padded by who sends them.
//
// Biases of experts and clamped activations (GPT-OSS) are separate kernels, as in Megatron-LM
// core/transformer/moe/experts.py (TEGroupedMLP._apply_bias) and core/fusions/fused_bias_geglu.py
// (weighted_bias_quick_geglu_impl), with e bytes per number and fp32 probabilities:
// - A bias of the down GEMM, scaled by the probability of each token: multiplication in fp32 (4),
//   sum (e + 8), concatenation over the experts (8), cast (4 + e) = 2e + 24 bytes per number.
//   Backward: two casts (2e + 8), the gradient of the bias (12), that of the probability (12),
//   concatenation of the tokens' gradients (2e) = 4e + 32. The up GEMM adds its own bias.
// - Gate and up: clamp (2e) and concatenation (2e). Backward: a comparison and a selection for the
//   gate (3e + 2), two comparisons, their conjunction and a selection for up (4e + 6),
//   concatenation of both (2e).
// R = 65 536 tokens of h = f = 2880 in bf16: 5 284 823 040 bytes forward and 7 549 747 200 backward
// for the biases, 3 019 898 880 and 5 662 310 400 for the clamping
// (tests/models/lower/expert_biases_test.cpp).

// The operations after which the weight gradients of two GEMMs are final; kNone where there is
// none.
struct ExpertGradients {
  OpIndex down = kNone;
  OpIndex up = kNone;
};

class GroupedExperts : BlockWriter {
 public:
  // REQUIRES: `dispatcher` outlives it.
  GroupedExperts(LayerTools& tools, TokenDispatcher& dispatcher)
      : BlockWriter(tools),
        dispatcher_(dispatcher),
        settings_(options_.experts.settings),
        inner_(arch_.expert_ffn / options_.experts.tensor) {}

  // From the received tokens to the outputs that are sent back; backward from the gradients of the
  // latter.
  void forward();
  ExpertGradients backward(BackwardPart part);
  ExpertGradients weight_backward();

 private:
  [[nodiscard]] const ExpertRows& rows() const { return dispatcher_.rows(); }
  [[nodiscard]] bool fused() const { return settings_.gemms == ExpertGemms::Fused; }
  OpIndex grouped(std::string_view name, std::int64_t n, std::int64_t k, GemmPass pass);
  void quantise_rows(std::string_view name, std::int64_t width);
  void pad_rows(std::string_view name);
  void activate();
  void activate_backward();
  // Biases of the down GEMMs, where they are separate kernels.
  void add_biases();
  void add_biases_backward();
  void kernel(std::string_view name, std::int64_t bytes, std::int64_t launches);

  TokenDispatcher& dispatcher_;
  const ExpertSettings& settings_;
  const std::int64_t inner_;  // inner width of one expert on this rank
};

// Quantises 16-bit tokens for an 8-bit GEMM and its weight gradient.
void GroupedExperts::quantise_rows(std::string_view name, std::int64_t width) {
  if (!options_.experts.gemms_in_8_bits) return;
  elementwise_.memory_bound(name, MemoryBoundKind::Cast,
                            linear_.quantise_bytes(rows().total() * width, 2));
}

void GroupedExperts::pad_rows(std::string_view name) {
  const bool padded = settings_.dispatcher == Dispatcher::HybridEp && options_.experts.places > 1;
  if (!options_.experts.gemms_in_8_bits || fused() || padded || settings_.pad_to_capacity ||
      settings_.dispatch_precision == DataType::Fp8)
    return;
  elementwise_.memory_bound(name, MemoryBoundKind::Permute,
                            2 * shape_.element * rows().total() * arch_.hidden);
}

OpIndex GroupedExperts::grouped(std::string_view name, std::int64_t n, std::int64_t k,
                                GemmPass pass) {
  const Gemm one = linear_.gemm(1, n, k, pass);
  if (pass != GemmPass::WeightGrad) linear_.dequantise(name, std::ssize(rows().received) * n * k);
  return build_.compute(name, GroupedGemm{.rows = rows().received,
                                          .n = n,
                                          .k = k,
                                          .dtype = one.dtype,
                                          .pass = pass,
                                          .accumulate_fp32 = one.accumulate_fp32,
                                          .per_expert = settings_.gemms != ExpertGemms::Grouped});
}

void GroupedExperts::kernel(std::string_view name, std::int64_t bytes, std::int64_t launches) {
  build_.compute(
      name,
      MemoryBound{.kind = MemoryBoundKind::Elementwise, .bytes = bytes, .launches = launches});
}

void GroupedExperts::activate() {
  if (fused()) return;
  const std::int64_t up = arch_.ffn_inputs() * rows().total() * inner_;
  if (arch_.clamped_experts) kernel("expert_clamp", 4 * shape_.element * up, 3);
  elementwise_.activation_forward("expert_activation", rows().total() * inner_);
}

void GroupedExperts::activate_backward() {
  if (fused()) return;
  elementwise_.activation_backward("expert_activation_backward", rows().total() * inner_);
  const std::int64_t half = rows().total() * inner_;
  elementwise_.memory_bound("expert_probability_gradient", MemoryBoundKind::Activation,
                            shape_.element * (arch_.ffn_inputs() + 1) * half);
  if (!arch_.clamped_experts) return;
  const std::int64_t gate = 3 * shape_.element + 2;
  const std::int64_t up = 4 * shape_.element + 6;
  kernel("expert_clamp_backward", half * (gate + up + 4 * shape_.element), 7);
}

// One multiplication and one sum for each expert, then one concatenation and one cast.
void GroupedExperts::add_biases() {
  if (!arch_.biases || fused()) return;
  kernel("expert_bias", (2 * shape_.element + 6 * kFp32Bytes) * rows().total() * arch_.hidden,
         2 * std::ssize(rows().received) + 2);
}

void GroupedExperts::add_biases_backward() {
  if (!arch_.biases || fused()) return;
  kernel("expert_bias_backward",
         (4 * shape_.element + 8 * kFp32Bytes) * rows().total() * arch_.hidden,
         5 * std::ssize(rows().received) + 2);
}

void GroupedExperts::forward() {
  dispatcher_.sort_rows("expert_sort");
  dispatcher_.join_expert_tensor("expert_tensor_all_gather", CollectiveOp::AllGather);
  const bool arrive_in_8_bits = settings_.dispatch_precision == DataType::Fp8;
  pad_rows("expert_pad");
  if (!arrive_in_8_bits) quantise_rows("expert_up_quantise", arch_.hidden);
  grouped("expert_up_gemm", arch_.ffn_inputs() * inner_, arch_.hidden, GemmPass::Forward);
  activate();
  if (!fused()) quantise_rows("expert_down_input_quantise", inner_);
  grouped("expert_down_gemm", arch_.hidden, inner_, GemmPass::Forward);
  add_biases();
  pad_rows("expert_unpad");
  dispatcher_.join_expert_tensor("expert_tensor_reduce_scatter", CollectiveOp::ReduceScatter);
  dispatcher_.sort_rows("expert_unsort");
}

ExpertGradients GroupedExperts::backward(BackwardPart part) {
  const bool full = part == BackwardPart::Full && !linear_.frozen();
  ExpertGradients final_at;
  const std::int64_t columns = arch_.ffn_inputs() * inner_;
  dispatcher_.sort_rows("expert_unsort_backward");
  dispatcher_.join_expert_tensor("expert_tensor_gradient_all_gather", CollectiveOp::AllGather);
  pad_rows("expert_unpad_backward");
  add_biases_backward();
  if (options_.recomputed.expert_activation && !options_.recomputed.experts) {
    tools_.repeat([this] { activate(); });
  }
  if (settings_.dispatch_precision != DataType::Fp8)
    quantise_rows("expert_down_quantise", arch_.hidden);
  grouped("expert_down_dgrad", inner_, arch_.hidden, GemmPass::DataGrad);
  if (full)
    final_at.down = grouped("expert_down_wgrad", arch_.hidden, inner_, GemmPass::WeightGrad);
  activate_backward();
  if (!fused()) quantise_rows("expert_up_gradient_quantise", columns);
  grouped("expert_up_dgrad", arch_.hidden, columns, GemmPass::DataGrad);
  if (full) final_at.up = grouped("expert_up_wgrad", columns, arch_.hidden, GemmPass::WeightGrad);
  pad_rows("expert_pad_backward");
  dispatcher_.join_expert_tensor("expert_tensor_gradient_reduce_scatter",
                                 CollectiveOp::ReduceScatter);
  dispatcher_.sort_rows("expert_sort_backward");
  return final_at;
}

ExpertGradients GroupedExperts::weight_backward() {
  ExpertGradients final_at;
  final_at.down = grouped("expert_down_wgrad", arch_.hidden, inner_, GemmPass::WeightGrad);
  final_at.up =
      grouped("expert_up_wgrad", arch_.ffn_inputs() * inner_, arch_.hidden, GemmPass::WeightGrad);
  return final_at;
}

// ---- the shared experts

// The experts that process every token. Most models have none.
class SharedExperts : BlockWriter {
 public:
  explicit SharedExperts(LayerTools& tools)
      : BlockWriter(tools), width_(arch_.shared_ffn / shape_.tensor) {}

  [[nodiscard]] bool any() const { return arch_.shared_ffn > 0; }
  void forward();
  void add();  // adds their output to that of the routed experts
  ExpertGradients backward(BackwardPart part);

 private:
  const std::int64_t width_;  // on this rank
};

void SharedExperts::forward() {
  if (!any()) return;
  const std::int64_t tokens = shape_.tokens;
  const Gemm up =
      linear_.gemm(tokens, arch_.ffn_inputs() * width_, arch_.hidden, GemmPass::Forward);
  linear_.prepare("shared_up", up.n * up.k, tokens * arch_.hidden, Rows::Gathered);
  group_.gather_operand("shared_all_gather", up.dtype, true);
  build_.compute("shared_up_gemm", up);
  elementwise_.activation_forward("shared_activation", tokens * width_);
  linear_.prepare("shared_down", width_ * arch_.hidden, tokens * width_);
  build_.compute("shared_down_gemm", linear_.gemm(tokens, arch_.hidden, width_, GemmPass::Forward));
  group_.join_partial_sums("shared_join");
}

void SharedExperts::add() {
  if (!any()) return;
  elementwise_.memory_bound("shared_add", MemoryBoundKind::Elementwise,
                            3 * shape_.element * shape_.local_tokens * arch_.hidden);
}

ExpertGradients SharedExperts::backward(BackwardPart part) {
  if (!any()) return {};
  const bool inputs = part != BackwardPart::Weight;
  if (inputs && options_.recomputed.shared_experts && !options_.recomputed.experts)
    tools_.repeat([this] { forward(); });
  ExpertGradients final_at;
  final_at.down = tensor_.row_backward("shared_down", width_, part);
  if (inputs)
    elementwise_.activation_backward("shared_activation_backward", shape_.tokens * width_);
  final_at.up = tensor_.column_backward(
      {.name = "shared_up", .outputs = arch_.ffn_inputs() * width_, .matrices = arch_.ffn_inputs()},
      part);
  return final_at;
}

// ---- the block

class Experts : BlockWriter {
 public:
  explicit Experts(LayerTools& tools)
      : BlockWriter(tools),
        settings_(options_.experts.settings),
        router_(tools),
        dispatcher_(tools),
        grouped_(tools, dispatcher_),
        shared_(tools) {}

  void forward();  // from the norm's output to the tensor that is added to the residual stream
  std::vector<ReadyGradient> backward(BackwardPart part);

 private:
  using Way = TokenDispatcher::Way;
  struct Final {
    ExpertGradients grouped;
    ExpertGradients shared;
    OpIndex router = kNone;
  };
  Final input_part(BackwardPart part);
  Final weight_part();

  const ExpertSettings& settings_;
  ExpertRouter router_;
  TokenDispatcher dispatcher_;
  GroupedExperts grouped_;
  SharedExperts shared_;
};

void Experts::forward() {
  router_.forward();
  dispatcher_.cast_rows("dispatch_cast");
  dispatcher_.permute("permute");
  dispatcher_.exchange_counts();
  const OpIndex dispatched =
      dispatcher_.travel("dispatch", Way::ToExperts, settings_.dispatch_precision);
  // Between the start of the dispatch and the wait for it, the shared experts overlap with it.
  if (settings_.overlap_shared) shared_.forward();
  build_.wait_for(dispatched);
  grouped_.forward();
  build_.wait_for(dispatcher_.travel("combine", Way::ToTokens, shape_.dtype));
  dispatcher_.permute("unpermute");
  dispatcher_.gather_tokens("expert_output_all_gather", arch_.hidden * shape_.element);
  if (!settings_.overlap_shared) shared_.forward();
  shared_.add();
}

Experts::Final Experts::input_part(BackwardPart part) {
  if (options_.recomputed.norms) tools_.repeat([this] { elementwise_.norm_forward("ffn_norm"); });
  if (options_.recomputed.experts) tools_.repeat([this] { forward(); });
  Final final_at;
  dispatcher_.cast_rows("combine_gradient_cast");
  dispatcher_.permute("unpermute_backward");
  const OpIndex combined =
      dispatcher_.travel("combine_backward", Way::ToExperts, settings_.dispatch_precision);
  if (settings_.overlap_shared) final_at.shared = shared_.backward(part);
  build_.wait_for(combined);
  final_at.grouped = grouped_.backward(part);
  build_.wait_for(dispatcher_.travel("dispatch_backward", Way::ToTokens, shape_.dtype));
  dispatcher_.permute("permute_backward");
  dispatcher_.gather_tokens("expert_input_gradient_all_gather",
                            arch_.hidden * shape_.element + kFp32Bytes * arch_.experts_per_token);
  if (!settings_.overlap_shared) final_at.shared = shared_.backward(part);
  router_.backward();
  if (part == BackwardPart::Full && !linear_.frozen()) final_at.router = router_.weight_backward();
  return final_at;
}

Experts::Final Experts::weight_part() {
  if (linear_.frozen()) return {};
  const ExpertGradients grouped = grouped_.weight_backward();
  const ExpertGradients shared = shared_.backward(BackwardPart::Weight);
  return {.grouped = grouped, .shared = shared, .router = router_.weight_backward()};
}

// The gradients in the order of layer_entries (chunk_weights.hpp); those of experts are marked.
// With adapters nothing of this block is trained: the entries are empty, and final after the last
// operation.
std::vector<ReadyGradient> Experts::backward(BackwardPart part) {
  const Final final_at = part == BackwardPart::Weight ? weight_part() : input_part(part);
  const bool frozen = linear_.frozen();
  const OpIndex last = build_.last_compute();
  std::vector<ReadyGradient> ready;
  ready.reserve(5);
  if (!frozen) {
    ready.push_back({.op = final_at.grouped.down, .expert = true});
    ready.push_back({.op = final_at.grouped.up, .expert = true});
  }
  if (shared_.any()) {
    ready.push_back({.op = frozen ? last : final_at.shared.down});
    ready.push_back({.op = frozen ? last : final_at.shared.up});
  }
  ready.push_back({.op = frozen ? last : final_at.router});
  return ready;
}

// ---- the model file

using A = Architecture;
const Field<A> kExpertFields[] = {
    {"experts", "experts of a layer; 0: one feed-forward part for all tokens",
     Whole<A>{&A::experts, 0, kLengthMost}},
    {"experts_per_token", "experts that a token is sent to",
     Whole<A>{&A::experts_per_token, 0, kLengthMost}},
    {"expert_ffn", "inner width of one expert", Whole<A>{&A::expert_ffn, 0, kLengthMost}},
    {"shared_ffn", "inner width of the experts that see every token, together",
     Whole<A>{&A::shared_ffn, 0, kLengthMost}},
    {"dense_layers", "the first so many layers have no experts",
     Whole<A>{&A::dense_layers, 0, 100'000}},
    {"moe_every", "after them, the last layer of every so many has experts",
     Whole<A>{&A::moe_every, 1, 100'000}},
    {"expert_groups", "groups of experts that routing is limited to",
     Whole<A>{&A::expert_groups, 1, kLengthMost}},
    {"groups_per_token", "groups that one token may reach",
     Whole<A>{&A::groups_per_token, 1, kLengthMost}},
    {"router_bias", "one number an expert, which balances the load", Flag<A>{&A::router_bias}},
    {"clamped_experts", "gate and up of an expert are cut off before the activation (GPT-OSS)",
     Flag<A>{&A::clamped_experts}},
};

void expert_check(JsonObject& object, const Architecture& a) {
  if (!a.has_experts()) {
    report_orphans(object,
                   {{"experts_per_token", a.experts_per_token},
                    {"expert_ffn", a.expert_ffn},
                    {"shared_ffn", a.shared_ffn},
                    {"dense_layers", a.dense_layers},
                    {"clamped_experts", a.clamped_experts ? 1 : 0}},
                   "a mixture of experts, which the model is not: give experts");
    return;
  }
  if (a.experts_per_token < 1 || a.experts_per_token > a.experts)
    object.report(
        "experts_per_token",
        fmt::format("a token cannot go to {} of {} experts", a.experts_per_token, a.experts),
        fmt::format("use 1 to {}", a.experts));
  if (a.expert_ffn < 1)
    object.report("expert_ffn", "an expert needs an inner width", "give its intermediate size");
  if (a.dense_layers > a.layers || (a.layers - a.dense_layers) % a.moe_every != 0)
    object.report("moe_every",
                  fmt::format("{} layers after {} dense ones do not divide by {}",
                              a.layers - a.dense_layers, a.dense_layers, a.moe_every),
                  "choose dense_layers and moe_every so that they do");
  if (a.experts % a.expert_groups != 0 || a.groups_per_token > a.expert_groups)
    object.report("expert_groups",
                  fmt::format("{} experts in {} groups, {} of them a token", a.experts,
                              a.expert_groups, a.groups_per_token),
                  "groups divide the experts, and a token reaches no more groups than there are");
}

bool expert_is_at(const Architecture& a, std::int64_t layer) {
  return a.has_experts() && layer >= a.dense_layers &&
         (layer - a.dense_layers) % a.moe_every == a.moe_every - 1;
}

// ---- formulas of the shape

void append(std::vector<Weight>& weights, const std::vector<Weight>& more) {
  weights.insert(weights.end(), more.begin(), more.end());
}

std::vector<Weight> expert_weights(const Architecture& a) {
  using Modules = std::array<bool RecomputeModules::*, 2>;
  constexpr Modules kRouted{&RecomputeModules::experts};
  constexpr Modules kShared{&RecomputeModules::experts, &RecomputeModules::shared_experts};
  std::vector<Weight> all{{.name = "router",
                           .part = WeightPart::Router,
                           .inputs = a.hidden,
                           .outputs = a.experts,
                           .vector = a.router_bias ? a.experts : 0,
                           .modules = kRouted}};
  append(all, feed_forward_weights(a, {.up = "expert_up",
                                       .down = "expert_down",
                                       .width = a.expert_ffn,
                                       .copies = a.experts,
                                       .active = a.experts_per_token,
                                       .modules = kRouted}));
  if (a.shared_ffn > 0)
    append(all, feed_forward_weights(a, {.up = "shared_up",
                                         .down = "shared_down",
                                         .width = a.shared_ffn,
                                         .modules = kShared}));
  return all;
}

std::int64_t rows_of(const Architecture& a, const ActivationQuery& query) {
  const ActivationSizes sizes(query);
  return query.expert_rows.value_or(divided_up(sizes.tokens * a.experts_per_token, sizes.region));
}

// The norm's output, which the router reads unchanged, and what the shared experts store of it.
std::int64_t router_input_bytes(const Architecture& a, const ActivationSizes& sizes) {
  const bool apart = sizes.narrow_inputs && a.shared_ffn > 0;
  return sizes.outside(sizes.element * a.hidden) +
         (apart ? sizes.outside(sizes.entering(a.hidden)) : 0);
}

// For each routed token the expert's input, and the input and output of the activation.
std::int64_t row_bytes(const Architecture& a, std::int64_t inner, const ActivationSizes& sizes) {
  return sizes.entering(a.hidden) + sizes.activated(a.ffn_inputs() * inner) +
         sizes.entering(inner) + sizes.extra_activation_tensors * sizes.element * inner;
}

LayerActivations expert_kept(const Architecture& a, const ActivationQuery& query) {
  const RecomputeModules recomputed = recomputed_modules(query);
  const ActivationSizes sizes(query);
  const std::int64_t input = recomputed.norms ? 0 : router_input_bytes(a, sizes);
  if (recomputed.experts) return {.experts = input};
  const std::int64_t rows = rows_of(a, query);
  const std::int64_t inner = divided_up(a.expert_ffn, query.expert_tensor);
  std::int64_t bytes =
      input + sizes.outside(kFp32Bytes * a.experts) + rows * row_bytes(a, inner, sizes);
  if (!recomputed.shared_experts) bytes += activation_bytes(a, a.shared_ffn, sizes);
  if (recomputed.expert_activation) bytes -= rows * sizes.entering(inner);
  return {.experts = bytes};
}

// The maximum of three: the gradients of the shared experts, those of the routed tokens during
// dispatch and combine, and those of the experts themselves.
std::int64_t expert_gradients(const BlockBackward& backward) {
  const Architecture& a = backward.architecture;
  const ActivationQuery& query = backward.query;
  const std::int64_t rows = query.expert_rows.value_or(0);
  const std::int64_t shared = ActivationSizes(query).tokens * a.shared_ffn / query.tensor;
  const std::int64_t output = rows * a.hidden;
  return std::max({activation_gradients(a, backward.gathered, shared), 2 * output,
                   activation_gradients(a, output, rows * a.expert_ffn / query.expert_tensor)});
}

// The routed tokens, the tensor between their two GEMMs, the same of the shared experts, and the
// router's input.
std::int64_t expert_frozen_inputs(const FrozenLayer& layer) {
  if (layer.recomputes_modules) return 0;
  const Architecture& a = layer.architecture;
  const ActivationSizes sizes(layer.query);
  const std::int64_t inner = divided_up(a.expert_ffn, layer.query.expert_tensor);
  const std::int64_t routed = sizes.entering(a.hidden) + sizes.entering(inner);
  return router_input_bytes(a, sizes) + rows_of(a, layer.query) * routed +
         sizes.inside(sizes.entering(a.shared_ffn));
}

}  // namespace

LayerBlock experts_block() {
  return {.name = "experts",
          .operator_word = "experts",
          .half = LayerHalf::FeedForward,
          .routes_tokens = true,
          .fields = kExpertFields,
          .check = expert_check,
          .is_at = expert_is_at,
          .weights = expert_weights,
          .kept = expert_kept,
          .gradients = expert_gradients,
          .frozen_inputs = expert_frozen_inputs,
          .forward = [](LayerTools& tools) { Experts(tools).forward(); },
          .backward = [](LayerTools& tools,
                         BackwardPart part) { return Experts(tools).backward(part); }};
}

}  // namespace trainyard
