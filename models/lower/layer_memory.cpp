#include "models/lower/layer_memory.hpp"

#include <algorithm>
#include <string_view>

#include "models/adapters.hpp"
#include "models/recompute.hpp"

namespace trainyard {

ActivationQuery activation_query(const TrainingPlan& plan) {
  return {.tensor = plan.parallelism.tensor,
          .sequence_parallel = plan.parallelism.sequence_parallel,
          .context = plan.parallelism.context,
          .micro_batch = plan.training.micro_batch_size,
          .sequence_length = plan.training.sequence_length,
          .recompute = plan.training.recompute,
          .modules = recompute_modules(plan.training),
          .attention = plan.training.attention,
          .precision = plan.training.precision};
}

namespace {

// Numbers of a layer's products, input and output together, by what they grow with.
struct ProductWidths {
  std::int64_t tokens = 0;  // of the sequence that the rank works on
  std::int64_t local = 0;   // of its own part of it
  std::int64_t rows = 0;    // of its experts
};

void add_attention(const Architecture& a, std::int64_t tensor, ProductWidths& widths) {
  widths.tokens += a.output_width() / tensor + a.hidden;
  if (!a.latent()) {
    widths.tokens += a.hidden + (a.query_width() + 2 * a.kv_width()) / tensor;
    return;
  }
  const std::int64_t key_values = a.heads * (a.head_dim - a.rope_dim + a.value_head());
  const std::int64_t query_inputs = a.query_latent > 0 ? a.query_latent : a.hidden;
  widths.tokens += query_inputs + a.query_width() / tensor;
  widths.tokens += a.kv_latent + key_values / tensor;
  widths.local += a.hidden + a.kv_latent + a.rope_dim;
  if (a.query_latent > 0) widths.local += a.hidden + a.query_latent;
}

void add_feed_forward(const Architecture& a, std::int64_t inner, std::int64_t& width) {
  width += a.hidden + a.ffn_inputs() * inner + inner + a.hidden;
}

std::int64_t held_for_weights(const TrainingPlan& plan, LayerKind kind, std::int64_t rows) {
  const Architecture& a = plan.architecture;
  const Parallelism& p = plan.parallelism;
  ProductWidths widths;
  add_attention(a, p.tensor, widths);
  if (kind == LayerKind::Dense) {
    add_feed_forward(a, a.ffn / p.tensor, widths.tokens);
  } else {
    if (a.shared_ffn > 0) add_feed_forward(a, a.shared_ffn / p.tensor, widths.tokens);
    widths.local += a.hidden + a.experts;
    add_feed_forward(a, a.expert_ffn / p.expert_tensor_size(), widths.rows);
  }
  const std::int64_t tokens =
      plan.training.micro_batch_size * (plan.training.sequence_length / p.context);
  const std::int64_t local = p.sequence_parallel ? tokens / p.tensor : tokens;
  const auto element = static_cast<std::int64_t>(element_bytes(plan.training.precision));
  return element * (tokens * widths.tokens + local * widths.local + rows * widths.rows);
}

std::int64_t gradient_workspace(const TrainingPlan& plan, LayerKind kind, std::int64_t rows) {
  const Architecture& a = plan.architecture;
  const Parallelism& p = plan.parallelism;
  const std::int64_t tokens =
      plan.training.micro_batch_size * (plan.training.sequence_length / p.context);
  const std::int64_t attention =
      tokens * (a.query_width() + 2 * a.kv_width() + a.output_width()) / p.tensor;
  std::int64_t ffn = tokens * (a.ffn_inputs() + 1) * a.ffn / p.tensor;
  if (kind == LayerKind::Moe) {
    const std::int64_t inner = (a.ffn_inputs() + 1) * a.expert_ffn / p.expert_tensor_size();
    ffn = tokens * (a.ffn_inputs() + 1) * a.shared_ffn / p.tensor + rows * (inner + a.hidden);
  }
  const auto element = static_cast<std::int64_t>(element_bytes(plan.training.precision));
  return element * (std::max(attention, ffn) + 2 * tokens * a.hidden);
}

// What frozen matrices change: those without an adapter do not need their input again, and each
// adapter keeps what lies between its factors. The projection's input is the fused core's output,
// which its backward reads.
std::int64_t adapter_difference(const TrainingPlan& plan, LayerKind kind, bool trained) {
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
      trained ? t.lora_rank * static_cast<std::int64_t>(layer_adapters(a, t, p.tensor).size()) : 0;
  if (!rebuilt && !has("query") && !has("key") && !has("value")) columns -= a.hidden / region;
  const bool dense = kind == LayerKind::Dense;
  if (dense && !rebuilt && !has("gate") && !has("up")) columns -= a.hidden / region;
  if (dense && !rebuilt && !has("down")) columns -= a.ffn / p.tensor;
  const std::int64_t tokens = t.micro_batch_size * t.sequence_length / p.context;
  return columns * tokens * static_cast<std::int64_t>(element_bytes(t.precision));
}

}  // namespace

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

LayerMemory layer_memory(const TrainingPlan& plan, LayerKind kind,
                         std::optional<std::int64_t> expert_rows, bool trained) {
  ActivationQuery query = activation_query(plan);
  query.kind = kind;
  query.expert_rows = expert_rows;
  query.expert_tensor = plan.parallelism.expert_tensor_size();
  const std::int64_t adapters = adapter_difference(plan, kind, trained);
  const bool full = plan.training.recompute == Recompute::Full;
  return {.kept = layer_activations(plan.architecture, query).total() + (full ? 0 : adapters),
          .working = recomputed_activations(plan.architecture, query) + (full ? adapters : 0),
          .for_weights = held_for_weights(plan, kind, expert_rows.value_or(0)),
          .workspace = gradient_workspace(plan, kind, expert_rows.value_or(0))};
}

}  // namespace trainyard
