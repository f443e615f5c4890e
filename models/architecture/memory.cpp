#include "models/architecture/memory.hpp"

#include "models/architecture/shard.hpp"
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

  [[nodiscard]] std::int64_t outside(std::int64_t bytes_per_token) const {
    return divided(tokens * bytes_per_token, region);
  }
  [[nodiscard]] std::int64_t inside(std::int64_t bytes_per_token) const {
    return divided(tokens * bytes_per_token, tensor);
  }
};

Sizes sizes_of(const ActivationQuery& query) {
  TY_CHECK(query.tensor > 0 && query.context > 0, query.tensor, query.context);
  return {.tokens = query.micro_batch * (query.sequence_length / query.context),
          .region = query.sequence_parallel ? query.tensor : 1,
          .tensor = query.tensor,
          .element = static_cast<std::int64_t>(element_bytes(query.precision))};
}

std::int64_t core_bytes(const Architecture& a, const ActivationQuery& query, const Sizes& sizes) {
  if (query.attention == AttentionKind::Flash) return sizes.inside(kFp32Bytes * a.heads);
  const std::int64_t mask_and_output = a.dropout ? kMaskBytes + sizes.element : 0;
  return sizes.inside((sizes.element + mask_and_output) * a.heads * query.sequence_length);
}

// Q, K, V and the projection's input, per token, divided by heads; and what is kept on the way.
std::int64_t attention_bytes(const Architecture& a, const ActivationQuery& query,
                             const Sizes& sizes) {
  if (a.latent()) {
    const std::int64_t latents = 2 * (a.query_latent + a.kv_latent) + a.rope_dim;
    const std::int64_t heads = 2 * a.query_width() + 2 * a.output_width();
    return sizes.outside(sizes.element * latents) + sizes.inside(sizes.element * heads);
  }
  const std::int64_t kv = kv_heads_per_rank(a, query.tensor) * a.head_dim * query.tensor;
  return sizes.inside(sizes.element * (2 * a.query_width() + 2 * kv));
}

std::int64_t expert_rows(const Architecture& a, const ActivationQuery& query, const Sizes& sizes) {
  const std::int64_t balanced = divided(sizes.tokens * a.experts_per_token, sizes.region);
  return query.expert_rows.value_or(balanced);
}

// What enters the second matrix of the experts.
std::int64_t expert_product_bytes(const Architecture& a, const ActivationQuery& query,
                                  const Sizes& sizes) {
  return expert_rows(a, query, sizes) * sizes.element * divided(a.expert_ffn, query.expert_tensor);
}

std::int64_t expert_bytes(const Architecture& a, const ActivationQuery& query, const Sizes& sizes) {
  const std::int64_t rows = expert_rows(a, query, sizes);
  const std::int64_t inner = divided((a.ffn_inputs() + 1) * a.expert_ffn, query.expert_tensor);
  return sizes.outside(sizes.element * a.hidden + kFp32Bytes * a.experts) +
         sizes.inside(sizes.element * (a.ffn_inputs() + 1) * a.shared_ffn) +
         rows * sizes.element * (a.hidden + inner);
}

LayerActivations everything(const Architecture& a, const ActivationQuery& query) {
  const Sizes sizes = sizes_of(query);
  const std::int64_t element = sizes.element;
  const std::int64_t mask = a.dropout ? sizes.outside(kMaskBytes * a.hidden) : 0;
  const std::int64_t stream = sizes.outside(element * a.hidden);  // one tensor of s*b*h
  LayerActivations kept;
  kept.norms = 2 * stream;
  kept.attention = stream + attention_bytes(a, query, sizes) + mask;
  kept.core = core_bytes(a, query, sizes);
  if (query.kind == LayerKind::Moe) {
    kept.experts = expert_bytes(a, query, sizes);
    return kept;
  }
  kept.ffn = stream + sizes.inside(element * (a.ffn_inputs() + 1) * a.ffn) + mask;
  return kept;
}

// What the modules that run again would have kept, taken off.
LayerActivations without_modules(const Architecture& a, const ActivationQuery& query,
                                 LayerActivations kept) {
  const RecomputeModules& again = query.modules;
  const Sizes sizes = sizes_of(query);
  const std::int64_t element = sizes.element;
  const std::int64_t stream = sizes.outside(element * a.hidden);
  const std::int64_t mask = a.dropout ? sizes.outside(kMaskBytes * a.hidden) : 0;
  if (again.core) kept.core = 0;
  if (again.latent_up && a.latent()) {
    const std::int64_t queries = a.query_latent > 0 ? a.query_width() : 0;
    kept.attention -= sizes.inside(element * (queries + a.query_width() + a.output_width()));
  }
  if (query.kind == LayerKind::Moe) {
    const std::int64_t shared = sizes.inside(element * (a.ffn_inputs() + 1) * a.shared_ffn);
    if (again.experts) {
      kept.experts = stream;
    } else {
      if (again.shared_experts) kept.experts -= shared;
      if (again.expert_activation) kept.experts -= expert_product_bytes(a, query, sizes);
    }
  } else if (again.feed_forward) {
    kept.ffn = stream + mask;
  }
  if (!again.norms) return kept;
  kept.attention -= stream;
  (query.kind == LayerKind::Moe ? kept.experts : kept.ffn) -= stream;
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

std::int64_t recomputed_activations(const Architecture& architecture,
                                    const ActivationQuery& query) {
  return everything(architecture, query).total() - layer_activations(architecture, query).total();
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
  const std::int64_t stream = sizes.outside(sizes.element * architecture.hidden);
  return {.final_norm = stream,
          .head_input = stream,
          .logits = sizes.inside(sizes.element * vocab),
          .logits_fp32 = sizes.inside(kFp32Bytes * vocab)};
}

double first_stage_factor(std::int64_t pipeline, std::int64_t chunks) {
  if (chunks == 1) return 1.0;
  return 1.0 + static_cast<double>(pipeline - 1) / static_cast<double>(pipeline * chunks);
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
