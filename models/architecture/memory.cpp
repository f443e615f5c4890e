#include "models/architecture/memory.hpp"

#include <cmath>

#include "models/layers/layer_block.hpp"
#include "sim/base/check.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kIdBytes = 8;  // of a token id

// Bytes stored for each number that enters a norm.
std::int64_t norm_bytes(const ActivationQuery& query, const ActivationSizes& sizes) {
  return query.norm_kept_narrow * sizes.element + query.norm_kept_wide * kFp32Bytes;
}

std::int64_t tokens_of(const ActivationQuery& query) {
  TY_CHECK(query.tensor > 0 && query.context > 0, query.tensor, query.context);
  return query.micro_batch * (query.sequence_length / query.context);
}

}  // namespace

ActivationSizes::ActivationSizes(const ActivationQuery& query)
    : tokens(tokens_of(query)),
      region(query.sequence_parallel ? query.tensor : 1),
      tensor(query.tensor),
      element(static_cast<std::int64_t>(element_bytes(query.precision))),
      gemm_input(query.gemm_input.value_or(element_bytes(query.precision))),
      activation_input(query.activation_input.value_or(element_bytes(query.precision))),
      extra_activation_tensors(query.extra_activation_tensors),
      gathered_inputs(query.gathered_inputs),
      narrow_inputs(query.gemm_input.has_value()) {}

std::int64_t ActivationSizes::outside(std::int64_t bytes_per_token) const {
  return divided_up(tokens * bytes_per_token, region);
}

std::int64_t ActivationSizes::inside(std::int64_t bytes_per_token) const {
  return divided_up(tokens * bytes_per_token, tensor);
}

std::int64_t ActivationSizes::gemm_inputs(std::int64_t numbers) const {
  return gathered_inputs ? tokens * entering(numbers) : outside(entering(numbers));
}

std::int64_t ActivationSizes::entering(std::int64_t numbers) const {
  return rounded_up(static_cast<double>(numbers) * gemm_input);
}

std::int64_t ActivationSizes::activated(std::int64_t numbers) const {
  return rounded_up(static_cast<double>(numbers) * activation_input);
}

std::int64_t ActivationSizes::dropout_mask(const Architecture& architecture) const {
  return architecture.dropout ? outside(architecture.hidden) : 0;  // one byte per number
}

RecomputeModules recomputed_modules(const ActivationQuery& query) {
  return query.recompute == Recompute::Selective ? query.modules : RecomputeModules{.core = false};
}

LayerActivations& LayerActivations::operator+=(const LayerActivations& more) {
  norms += more.norms;
  post_norms += more.post_norms;
  attention += more.attention;
  core += more.core;
  ffn += more.ffn;
  experts += more.experts;
  checkpoint += more.checkpoint;
  return *this;
}

// Where the output of every second GEMM is stored, the norms store only the layer's input.
LayerActivations layer_activations(const Architecture& a, LayerKind kind,
                                   const ActivationQuery& query) {
  const ActivationSizes sizes(query);
  const std::int64_t stream = sizes.outside(sizes.element * a.hidden);
  LayerActivations kept;
  // Full recomputation rebuilds the layer from its input, the residual stream.
  if (query.recompute == Recompute::Full) {
    kept.checkpoint = stream;
    return kept;
  }
  const bool second_gemms = recomputed_modules(query).second_gemms;
  const std::int64_t norms = 2 * sizes.outside(norm_bytes(query, sizes) * a.hidden);
  kept.norms = second_gemms ? stream : norms;
  kept.post_norms = a.post_norms && !second_gemms ? norms : 0;
  for (const LayerHalf half : {LayerHalf::Attention, LayerHalf::FeedForward})
    kept += block_of(kind, half).kept(a, query);
  return kept;
}

std::int64_t embedding_activations(const Architecture& architecture, const ActivationQuery& query) {
  const ActivationSizes sizes(query);
  return kIdBytes * sizes.tokens + sizes.dropout_mask(architecture);
}

HeadActivations head_activations(const Architecture& architecture, const ActivationQuery& query,
                                 std::int64_t vocab) {
  const ActivationSizes sizes(query);
  return {.final_norm = sizes.outside(norm_bytes(query, sizes) * architecture.hidden),
          .head_input = query.gathered_inputs ? sizes.tokens * sizes.element * architecture.hidden
                                              : sizes.outside(sizes.element * architecture.hidden),
          .logits = sizes.inside(sizes.element * vocab),
          .logits_fp32 = query.fused_loss ? 0 : sizes.inside(kFp32Bytes * vocab)};
}

namespace {

// State of a parameter before sharding.
StateBytes whole_state(const StateRecipe& recipe) {
  constexpr double kFp32 = 4.0;
  // Weights in fp32 are their own master copy.
  const bool mixed = element_bytes(recipe.precision) < kFp32;
  const double copy = recipe.fp32_gradient_copy ? kFp32 : recipe.recipe.gradient_copy_bytes;
  return {
      .weights = recipe.recipe.weight_bytes.value_or(element_bytes(recipe.precision)) +
                 recipe.recipe.weight_cache_bytes,
      .gradients = recipe.recipe.gradient_bytes.value_or(element_bytes(recipe.gradient_precision)),
      .master = recipe.recipe.master_bytes.value_or(mixed ? kFp32 : 0.0) + copy,
      .first_moment = recipe.optimizer.first_moment_bytes,
      .second_moment = recipe.optimizer.second_moment_bytes};
}

}  // namespace

StateBytes state_bytes_per_parameter(const StateRecipe& recipe) {
  TY_CHECK(recipe.shards > 0 && recipe.zero_stage >= 0 && recipe.zero_stage <= 3, recipe.shards,
           recipe.zero_stage);
  const double share = 1.0 / static_cast<double>(recipe.shards);
  // ZeRO shards the optimizer state from stage 1, gradients from stage 2 and weights from stage 3.
  const auto from_stage = [&](std::int64_t stage) {
    return recipe.zero_stage >= stage ? share : 1.0;
  };
  const StateBytes whole = whole_state(recipe);
  return {.weights = whole.weights * from_stage(3),
          .gradients = whole.gradients * from_stage(2),
          .master = whole.master * from_stage(1),
          .first_moment = whole.first_moment * from_stage(1),
          .second_moment = whole.second_moment * from_stage(1)};
}

double optimizer_step_bytes(const StateRecipe& recipe) {
  const StateBytes whole = whole_state(recipe);
  // Without a master copy the optimizer also reads the weight that it writes.
  const double weight = (whole.master > 0.0 ? 1.0 : 2.0) * whole.weights;
  return 2.0 * (whole.master + whole.first_moment + whole.second_moment) + whole.gradients + weight;
}

StateBytes state_bytes(const StateRecipe& recipe, std::int64_t parameters) {
  const StateBytes each = state_bytes_per_parameter(recipe);
  const auto count = static_cast<double>(parameters);
  return {.weights = each.weights * count,
          .gradients = each.gradients * count,
          .master = each.master * count,
          .first_moment = each.first_moment * count,
          .second_moment = each.second_moment * count};
}

}  // namespace trainyard
