#include "models/lower/layer_memory.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "models/adapters.hpp"
#include "models/architecture/shard.hpp"
#include "models/architecture/weights.hpp"
#include "models/context_shape.hpp"
#include "models/recompute.hpp"

namespace trainyard {

ActivationQuery activation_query(const TrainingPlan& plan) {
  const Architecture& architecture = plan.architecture;
  const KeptTensors norm = plan.streaming.norm(architecture).kept;
  const KeptTensors activation = plan.streaming.activation_of(architecture).kept;
  return {.tensor = plan.parallelism.tensor,
          .sequence_parallel = plan.parallelism.sequence_parallel,
          .context = plan.parallelism.context,
          .micro_batch = plan.training.micro_batch_size,
          .sequence_length = plan.training.sequence_length,
          .recompute = plan.training.recompute,
          .modules = recompute_modules(plan.training),
          .attention = plan.training.attention,
          .precision = plan.training.precision,
          .heads_traded = context_shape(plan.parallelism).heads > 1,
          .fused_loss = plan.training.fused_loss,
          .product_input = plan.recipe.product_input_bytes,
          .activation_input = plan.recipe.activation_input_bytes,
          .norm_kept_narrow = norm.narrow,
          .norm_kept_wide = norm.wide,
          .activation_kept_beside = activation.narrow - architecture.ffn_inputs() - 1,
          .gathered_inputs = plan.streaming.keeps_gathered,
          .repeated_heads = plan.streaming.repeated_heads,
          .compiled = plan.streaming.compiled,
          .attention_output = plan.recipe.attention_output_bytes};
}

namespace {

// Numbers of a layer's products, input and output together, by what they grow with.
struct ProductWidths {
  std::int64_t tokens = 0;  // of the sequence that the rank works on
  std::int64_t local = 0;   // of its own part of it
  std::int64_t inputs = 0;  // likewise, but for a framework that keeps them gathered
  std::int64_t rows = 0;    // of its experts
};

void add_attention(const Architecture& a, std::int64_t tensor, ProductWidths& widths) {
  widths.tokens += a.output_width() / tensor;
  widths.local += a.hidden;
  if (!a.latent()) {
    widths.inputs += a.hidden;
    widths.tokens += (a.query_width() + 2 * a.kv_width()) / tensor;
    return;
  }
  const std::int64_t key_values = a.heads * (a.head_dim - a.rope_dim + a.value_head());
  const std::int64_t query_inputs = a.query_latent > 0 ? a.query_latent : a.hidden;
  widths.tokens += (a.query_width() + key_values) / tensor;
  widths.inputs += query_inputs + a.kv_latent;
  widths.local += a.hidden + a.kv_latent + a.rope_dim;
  if (a.query_latent > 0) widths.local += a.hidden + a.query_latent;
}

void add_feed_forward(const Architecture& a, std::int64_t inner, ProductWidths& widths) {
  widths.inputs += a.hidden;
  widths.tokens += (a.ffn_inputs() + 1) * inner;
  widths.local += a.hidden;
}

std::int64_t held_for_weights(const TrainingPlan& plan, LayerKind kind, std::int64_t rows) {
  const Architecture& a = plan.architecture;
  const Parallelism& p = plan.parallelism;
  ProductWidths widths;
  add_attention(a, p.tensor, widths);
  if (kind == LayerKind::Dense) {
    add_feed_forward(a, a.ffn / p.tensor, widths);
  } else {
    if (a.shared_ffn > 0) add_feed_forward(a, a.shared_ffn / p.tensor, widths);
    widths.local += a.hidden + a.experts;
    widths.rows = 2 * a.hidden + (a.ffn_inputs() + 1) * a.expert_ffn / p.expert_tensor_size();
  }
  const std::int64_t tokens =
      plan.training.micro_batch_size * (plan.training.sequence_length / p.context);
  const std::int64_t local = p.sequence_parallel ? tokens / p.tensor : tokens;
  // Both sides of a product as it reads them: in 8 bits where it multiplies in 8 bits.
  const double element = element_bytes(plan.training.precision);
  const double each = plan.recipe.product_input_bytes.value_or(element);
  const std::int64_t input_rows = plan.streaming.keeps_gathered ? tokens : local;
  const std::int64_t numbers = tokens * widths.tokens + local * widths.local +
                               input_rows * widths.inputs + rows * widths.rows;
  return std::llround(each * static_cast<double>(numbers));
}

// The gradient of a row-parallel layer's output, and the next layer's input beside it.
std::int64_t gathered_for_weights(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  if (!p.sequence_parallel || p.tensor == 1) return 0;
  const std::int64_t tokens =
      plan.training.micro_batch_size * (plan.training.sequence_length / p.context);
  const auto element = static_cast<std::int64_t>(element_bytes(plan.training.precision));
  const std::int64_t whole = tokens * plan.architecture.hidden * element;
  return plan.streaming.keeps_gathered ? whole : 2 * whole;
}

// Of a part with an activation function, the most its gradients hold beyond what they have freed:
// the output's (gathered, where the sequence is split) beside that of the function's output, or
// those of the function's inputs.
std::int64_t activation_gradients(const Architecture& a, std::int64_t output, std::int64_t width) {
  return std::max(output + width, a.ffn_inputs() * width);
}

std::int64_t gradient_workspace(const TrainingPlan& plan, LayerKind kind, std::int64_t rows,
                                const LayerParts& parts) {
  const Architecture& a = plan.architecture;
  const Parallelism& p = plan.parallelism;
  const std::int64_t tokens =
      plan.training.micro_batch_size * (plan.training.sequence_length / p.context);
  const bool split = p.sequence_parallel && p.tensor > 1;
  const std::int64_t stream = (split ? tokens / p.tensor : tokens) * a.hidden;
  const std::int64_t gathered = split ? tokens * a.hidden : 0;
  const auto part = [&](std::int64_t width) {
    return activation_gradients(a, gathered, tokens * width / p.tensor);
  };
  std::int64_t numbers = kind == LayerKind::Moe ? part(a.shared_ffn) : part(a.ffn);
  if (kind == LayerKind::Moe) {
    const std::int64_t inner = rows * a.expert_ffn / p.expert_tensor_size();
    const std::int64_t output = rows * a.hidden;
    numbers = std::max({numbers, 2 * output, activation_gradients(a, output, inner)});
  }
  ActivationQuery query = activation_query(plan);
  query.kind = kind;
  query.expert_rows = rows;
  query.expert_tensor = p.expert_tensor_size();
  query.recompute = Recompute::None;
  const LayerActivations kept = layer_activations(a, query);
  const std::int64_t key_values = a.latent() ? (a.query_width() + a.output_width()) / p.tensor
                                             : 2 * kv_width_per_rank(a, p.tensor);
  // The gradients of all heads, before they are reduced and scattered.
  const std::int64_t gathered_heads =
      replicates_kv_heads(a, p.tensor) ? a.query_width() + 2 * a.kv_width() : 0;
  const std::int64_t attention =
      tokens * ((a.output_width() + a.query_width()) / p.tensor + key_values + gathered_heads);
  const auto element = static_cast<std::int64_t>(element_bytes(plan.training.precision));
  const std::int64_t freed = parts.ffn ? kept.ffn + kept.experts : 0;  // by the attention's turn
  return element * stream + std::max(parts.ffn ? element * numbers : 0,
                                     parts.attention ? element * attention - freed : 0);
}

std::int64_t bytes_of(const LayerActivations& all, const LayerParts& parts) {
  const std::int64_t norms = (parts.attention_norm ? 1 : 0) + (parts.ffn_norm ? 1 : 0);
  const std::int64_t post_norms = (parts.attention ? 1 : 0) + (parts.ffn ? 1 : 0);
  return all.norms * norms / 2 + all.post_norms * post_norms / 2 +
         (parts.attention ? all.attention + all.core : 0) +
         (parts.ffn ? all.ffn + all.experts : 0) + all.checkpoint;
}

// What the products of a layer's experts would keep for their weights: the rows, the router's
// input, and what lies between the two products.
std::int64_t frozen_expert_inputs(const TrainingPlan& plan, std::int64_t rows) {
  const Architecture& a = plan.architecture;
  const Parallelism& p = plan.parallelism;
  const double element = element_bytes(plan.training.precision);
  const double each = plan.recipe.product_input_bytes.value_or(element);
  const std::int64_t tokens =
      plan.training.micro_batch_size * plan.training.sequence_length / p.context;
  const std::int64_t own = tokens / (p.sequence_parallel ? p.tensor : 1);
  const std::int64_t inner = a.expert_ffn / p.expert_tensor_size();
  return std::llround(each * static_cast<double>(rows * (a.hidden + inner)) +
                      element * static_cast<double>(own * a.hidden));
}

// What frozen matrices change: those without an adapter do not need their input again, and each
// adapter keeps what lies between its factors. The projection's input is the fused core's output,
// which its backward reads.
std::int64_t adapter_difference(const TrainingPlan& plan, LayerKind kind, std::int64_t rows,
                                bool trained) {
  const Training& t = plan.training;
  if (t.lora_rank == 0 && trained) return 0;
  const Architecture& a = plan.architecture;
  if (a.latent()) return 0;  // its latents are inputs of norms as well
  const Parallelism& p = plan.parallelism;
  const auto has = [&](std::string_view name) {
    return trained &&
           std::find(t.lora_targets.begin(), t.lora_targets.end(), name) != t.lora_targets.end();
  };
  const bool rebuilt = t.recompute == Recompute::Selective &&
                       t.recompute_modules != std::vector<std::string>{"core_attn"};
  const std::int64_t region = p.sequence_parallel ? p.tensor : 1;
  std::int64_t columns =
      trained ? t.lora_rank * static_cast<std::int64_t>(layer_adapters(a, t, p.tensor, kind).size())
              : 0;
  if (!rebuilt && !has("query") && !has("key") && !has("value")) columns -= a.hidden / region;
  const bool dense = kind == LayerKind::Dense;
  if (dense && !rebuilt && !has("gate") && !has("up")) columns -= a.hidden / region;
  if (dense && !rebuilt && !has("down")) columns -= a.ffn / p.tensor;
  const std::int64_t tokens = t.micro_batch_size * t.sequence_length / p.context;
  const std::int64_t kept =
      columns * tokens * static_cast<std::int64_t>(element_bytes(t.precision));
  return dense || rebuilt ? kept : kept - frozen_expert_inputs(plan, rows);
}

}  // namespace

bool has_placeholders(const TrainingPlan& plan) {
  return plan.framework.gradient_placeholders && plan.training.lora_rank == 0 &&
         plan.training.gradient_precision == DataType::Fp32 && plan.parallelism.zero_stage < 3;
}

std::int64_t layer_placeholders(const TrainingPlan& plan, std::span<const PlacedParts> layers) {
  if (!has_placeholders(plan)) return 0;
  const Architecture& a = plan.architecture;
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;  // inputs, parameters
  for (const auto& [kind, parts] : layers) {
    std::int64_t queries = 0;  // of one matrix with keys and values
    bool attention = true;     // its weights come first, the projection last
    for (const Weight& weight : layer_weights(a, kind)) {
      const bool here = attention ? parts.attention : parts.ffn;
      if (weight.name == "projection") attention = false;
      if (!here || weight.name == "router") continue;  // that is an ordinary product
      const std::int64_t ranks =
          weight.expert() ? plan.parallelism.expert_tensor_size() : plan.parallelism.tensor;
      const bool whole = weight.split == Split::None;
      const std::int64_t own = whole ? weight.parameters() : split_parameters(weight, ranks);
      const bool opens = weight.name == "query" && !a.latent();
      if (!opens) shapes.emplace(weight.inputs, own + queries);
      queries = opens ? own : 0;
    }
  }
  std::int64_t numbers = 0;
  for (const auto& [inputs, parameters] : shapes) numbers += parameters;
  return numbers * static_cast<std::int64_t>(element_bytes(plan.training.precision));
}

StateRecipe state_recipe(const TrainingPlan& plan, std::int64_t shards) {
  // FSDP2's fp32 shard is the weight itself, and its gradients are as wide.
  const bool fully = plan.parallelism.zero_stage == 3;
  return {.precision = fully ? DataType::Fp32 : plan.training.precision,
          .gradient_precision = fully ? DataType::Fp32 : plan.training.gradient_precision,
          .fp32_gradient_copy = false,
          .zero_stage = plan.parallelism.zero_stage,
          .shards = shards,
          .recipe = plan.recipe,
          .optimizer = plan.optimizer};
}

namespace {

// Half of the copies are on the way to the experts, the other half on the way back.
std::int64_t rows_under_way(const TrainingPlan& plan, std::int64_t rows) {
  const double there = element_bytes(plan.experts.dispatch_precision);
  const double back = element_bytes(plan.training.precision);
  const auto copies = static_cast<double>(plan.framework.expert_row_copies);
  return std::llround(copies / 2.0 * (there + back) *
                      static_cast<double>(rows * plan.architecture.hidden));
}

}  // namespace

LayerMemory layer_memory(const TrainingPlan& plan, LayerKind kind,
                         std::optional<std::int64_t> expert_rows, bool trained,
                         const LayerParts& parts) {
  ActivationQuery query = activation_query(plan);
  query.kind = kind;
  query.expert_rows = expert_rows;
  query.expert_tensor = plan.parallelism.expert_tensor_size();
  const std::int64_t adapters = adapter_difference(plan, kind, expert_rows.value_or(0), trained);
  const bool full = plan.training.recompute == Recompute::Full;
  const std::int64_t rows = expert_rows.value_or(0);
  const std::int64_t kept = bytes_of(layer_activations(plan.architecture, query), parts);
  query.recompute = Recompute::None;
  const std::int64_t all = bytes_of(layer_activations(plan.architecture, query), parts);
  return {.kept = kept + (full ? 0 : adapters),
          .working = all - kept + (full ? adapters : 0),
          .for_weights = held_for_weights(plan, kind, rows),
          .weight_workspace = gathered_for_weights(plan),
          .workspace = gradient_workspace(plan, kind, rows, parts),
          .forward_workspace = parts.ffn ? rows_under_way(plan, rows) : 0};
}

}  // namespace trainyard
