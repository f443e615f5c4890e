#include "models/architecture/memory.hpp"

#include <cmath>

#include "models/architecture/weights.hpp"
#include "sim/base/check.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kMaskBytes = 1;  // of a dropout mask, per element
constexpr std::int64_t kFp32Bytes = 4;
constexpr std::int64_t kIdBytes = 8;  // of a token id

// A part that is not a whole number of bytes per rank is rounded up.
std::int64_t divided(std::int64_t bytes, std::int64_t parts) { return (bytes + parts - 1) / parts; }

// The sizes that every formula below is made of.
struct Sizes {
  std::int64_t tokens = 0;  // s*b of this rank
  std::int64_t region = 1;  // what norms, dropout and residuals are divided by: t with SP, else 1
  std::int64_t tensor = 1;
  std::int64_t element = 2;  // bytes
  double product_input = 2.0;
  double activation_input = 2.0;
  std::int64_t beside_activation = 0;  // tensors that an activation function keeps beside its own
  bool gathered_inputs = false;
  bool narrow_inputs = false;  // inputs of products are kept apart from what they were made of

  [[nodiscard]] std::int64_t outside(std::int64_t bytes_per_token) const {
    return divided(tokens * bytes_per_token, region);
  }
  [[nodiscard]] std::int64_t inside(std::int64_t bytes_per_token) const {
    return divided(tokens * bytes_per_token, tensor);
  }
  // Bytes of so many numbers of every token, which enter a product that gathers the sequence.
  [[nodiscard]] std::int64_t product_inputs(std::int64_t numbers) const {
    return gathered_inputs ? tokens * entering(numbers) : outside(entering(numbers));
  }
  // So many numbers that enter a product, or an activation function.
  [[nodiscard]] std::int64_t entering(std::int64_t numbers) const {
    return std::llround(std::ceil(static_cast<double>(numbers) * product_input));
  }
  [[nodiscard]] std::int64_t activated(std::int64_t numbers) const {
    return std::llround(std::ceil(static_cast<double>(numbers) * activation_input));
  }
};

Sizes sizes_of(const ActivationQuery& query) {
  TY_CHECK(query.tensor > 0 && query.context > 0, query.tensor, query.context);
  return {.tokens = query.micro_batch * (query.sequence_length / query.context),
          .region = query.sequence_parallel ? query.tensor : 1,
          .tensor = query.tensor,
          .element = static_cast<std::int64_t>(element_bytes(query.precision)),
          .product_input = query.product_input.value_or(element_bytes(query.precision)),
          .activation_input = query.activation_input.value_or(element_bytes(query.precision)),
          .beside_activation = query.activation_kept_beside,
          .gathered_inputs = query.gathered_inputs,
          .narrow_inputs = query.product_input.has_value()};
}

std::int64_t core_bytes(const Architecture& a, const ActivationQuery& query, const Sizes& sizes) {
  if (query.attention != AttentionKind::Unfused) return sizes.inside(kFp32Bytes * a.heads);
  // The fp32 probabilities of a softmax in parts are not those that enter the next product.
  const bool fused = softmax_fused(query.micro_batch * a.heads / query.tensor);
  const std::int64_t own = a.dropout ? kMaskBytes + sizes.element : fused ? 0 : sizes.element;
  const std::int64_t probabilities = fused ? sizes.element : kFp32Bytes;
  return sizes.inside((probabilities + own) * a.heads * query.sequence_length);
}

// The output of attention: one tensor for its backward and the projection's, unless the latter has
// its own.
std::int64_t output_bytes(const Architecture& a, const ActivationQuery& query, const Sizes& sizes) {
  const std::int64_t output = sizes.inside(sizes.element * a.output_width());
  if (query.attention_output) {
    const double bytes = static_cast<double>(a.output_width()) * *query.attention_output;
    return sizes.inside(std::llround(std::ceil(bytes)));
  }
  if (sizes.narrow_inputs) return output + sizes.inside(sizes.entering(a.output_width()));
  return query.heads_traded ? 2 * output : output;
}

// Latents behind their norms, which enter the products that expand them.
std::int64_t normed_latents(const Architecture& a, const Sizes& sizes) {
  return sizes.outside(sizes.entering(a.query_latent + a.kv_latent));
}

// Q, K, V and the projection's input, per token, divided by heads; and latents, where there are
// any, on the way.
std::int64_t attention_bytes(const Architecture& a, const ActivationQuery& query,
                             const Sizes& sizes) {
  const std::int64_t output = output_bytes(a, query, sizes);
  const std::int64_t latents = a.query_latent + a.kv_latent + a.rope_dim;
  const bool repeated = query.repeated_heads && latents == 0;
  const std::int64_t kv =
      repeated ? 2 * a.query_width() : key_value_width_per_rank(a, query.tensor) * query.tensor;
  return sizes.outside(sizes.element * latents) + normed_latents(a, sizes) +
         sizes.inside(sizes.element * (a.query_width() + kv)) + output;
}

std::int64_t expert_rows(const Architecture& a, const ActivationQuery& query, const Sizes& sizes) {
  const std::int64_t balanced = divided(sizes.tokens * a.experts_per_token, sizes.region);
  return query.expert_rows.value_or(balanced);
}

// Counts what enters the second matrix of the experts.
std::int64_t expert_product_bytes(const Architecture& a, const ActivationQuery& query,
                                  const Sizes& sizes) {
  return expert_rows(a, query, sizes) * sizes.entering(divided(a.expert_ffn, query.expert_tensor));
}

// Input and output of the activation function, divided over the tensor ranks.
std::int64_t activation_bytes(const Architecture& a, std::int64_t width, const Sizes& sizes) {
  return sizes.inside(sizes.activated(a.ffn_inputs() * width) + sizes.entering(width) +
                      sizes.beside_activation * sizes.element * width);
}

// The norm's output, which the router reads as it is, and what the shared experts keep of it.
std::int64_t router_input_bytes(const Architecture& a, const Sizes& sizes) {
  const bool apart = sizes.narrow_inputs && a.shared_ffn > 0;
  return sizes.outside(sizes.element * a.hidden) +
         (apart ? sizes.outside(sizes.entering(a.hidden)) : 0);
}

std::int64_t expert_bytes(const Architecture& a, const ActivationQuery& query, const Sizes& sizes) {
  const std::int64_t rows = expert_rows(a, query, sizes);
  const std::int64_t inner = divided(a.expert_ffn, query.expert_tensor);
  return router_input_bytes(a, sizes) + sizes.outside(kFp32Bytes * a.experts) +
         activation_bytes(a, a.shared_ffn, sizes) +
         rows * (sizes.entering(a.hidden) + sizes.activated(a.ffn_inputs() * inner) +
                 sizes.entering(inner) + sizes.beside_activation * sizes.element * inner);
}

// Bytes that are kept for each number that is normed.
std::int64_t norm_bytes(const ActivationQuery& query, const Sizes& sizes) {
  return query.norm_kept_narrow * sizes.element + query.norm_kept_wide * kFp32Bytes;
}

LayerActivations everything(const Architecture& a, const ActivationQuery& query) {
  const Sizes sizes = sizes_of(query);
  const std::int64_t mask = a.dropout ? sizes.outside(kMaskBytes * a.hidden) : 0;
  const std::int64_t normed = sizes.product_inputs(a.hidden);
  LayerActivations kept;
  kept.norms = 2 * sizes.outside(norm_bytes(query, sizes) * a.hidden);
  kept.post_norms = a.post_norms ? kept.norms : 0;
  kept.attention = normed + attention_bytes(a, query, sizes) + mask;
  kept.core = core_bytes(a, query, sizes);
  if (query.kind == LayerKind::Moe) {
    kept.experts = expert_bytes(a, query, sizes);
    return kept;
  }
  kept.ffn = normed + activation_bytes(a, a.ffn, sizes) + mask;
  return kept;
}

// Counts what a layer's second part keeps where some of its modules run again.
std::int64_t without_experts(const Architecture& a, const ActivationQuery& query,
                             std::int64_t kept) {
  const Sizes sizes = sizes_of(query);
  if (query.modules.experts) return query.modules.norms ? 0 : router_input_bytes(a, sizes);
  if (query.modules.shared_experts) kept -= activation_bytes(a, a.shared_ffn, sizes);
  if (query.modules.expert_activation) kept -= expert_product_bytes(a, query, sizes);
  return query.modules.norms ? kept - router_input_bytes(a, sizes) : kept;
}

// The layer's input, the outputs of every second product, and attention's own.
LayerActivations every_second_product(const Architecture& a, const ActivationQuery& query,
                                      const LayerActivations& kept) {
  const Sizes sizes = sizes_of(query);
  const std::int64_t stream = sizes.outside(sizes.element * a.hidden);
  const std::int64_t values = kv_heads_per_rank(a, query.tensor) * a.head_dim * query.tensor;
  LayerActivations result;
  result.norms = stream;
  result.attention = sizes.inside(sizes.element * (a.query_width() + values)) +
                     sizes.inside(sizes.element * a.output_width());
  result.core = kept.core;
  const bool read_again = !query.compiled || a.post_norms;
  result.ffn = sizes.inside(sizes.element * a.ffn) + (read_again ? stream : 0);
  return result;
}

// Takes off what the modules that run again would have kept.
LayerActivations without_modules(const Architecture& a, const ActivationQuery& query,
                                 LayerActivations kept) {
  const RecomputeModules& again = query.modules;
  const Sizes sizes = sizes_of(query);
  const std::int64_t normed = sizes.product_inputs(a.hidden);
  const std::int64_t mask = a.dropout ? sizes.outside(kMaskBytes * a.hidden) : 0;
  if (again.second_products) return every_second_product(a, query, kept);
  if (again.core) kept.core = 0;
  if (again.latent_up && a.latent()) {
    const std::int64_t queries = a.query_latent > 0 ? a.query_width() : 0;
    kept.attention -= sizes.inside(sizes.element * (queries + a.query_width() + a.output_width())) +
                      normed_latents(a, sizes);
  }
  if (again.norms) kept.attention -= normed;
  if (query.kind == LayerKind::Moe) {
    kept.experts = without_experts(a, query, kept.experts);
    return kept;
  }
  if (again.feed_forward) kept.ffn = normed + mask;
  if (again.norms) kept.ffn -= normed;
  return kept;
}

}  // namespace

LayerActivations layer_activations(const Architecture& architecture, const ActivationQuery& query) {
  LayerActivations kept = everything(architecture, query);
  switch (query.recompute) {
    case Recompute::None:
      return kept;
    case Recompute::Selective:
      return without_modules(architecture, query, kept);
    case Recompute::Full: {
      const Sizes sizes = sizes_of(query);
      LayerActivations input_only;
      input_only.checkpoint = sizes.outside(sizes.element * architecture.hidden);
      return input_only;
    }
  }
  return kept;
}

std::int64_t embedding_activations(const Architecture& architecture, const ActivationQuery& query) {
  const Sizes sizes = sizes_of(query);
  const std::int64_t mask =
      architecture.dropout ? sizes.outside(kMaskBytes * architecture.hidden) : 0;
  return kIdBytes * sizes.tokens + mask;
}

HeadActivations head_activations(const Architecture& architecture, const ActivationQuery& query,
                                 std::int64_t vocab) {
  const Sizes sizes = sizes_of(query);
  return {.final_norm = sizes.outside(norm_bytes(query, sizes) * architecture.hidden),
          .head_input = query.gathered_inputs ? sizes.tokens * sizes.element * architecture.hidden
                                              : sizes.outside(sizes.element * architecture.hidden),
          .logits = sizes.inside(sizes.element * vocab),
          .logits_fp32 = query.fused_loss ? 0 : sizes.inside(kFp32Bytes * vocab)};
}

namespace {

// Before anything is divided.
StateBytes whole_state(const StateRecipe& recipe) {
  constexpr double kFp32 = 4.0;
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
