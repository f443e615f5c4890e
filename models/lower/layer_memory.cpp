#include "models/lower/layer_memory.hpp"

namespace trainyard {

ActivationQuery activation_query(const TrainingPlan& plan) {
  return {.tensor = plan.parallelism.tensor,
          .sequence_parallel = plan.parallelism.sequence_parallel,
          .context = plan.parallelism.context,
          .micro_batch = plan.training.micro_batch_size,
          .sequence_length = plan.training.sequence_length,
          .recompute = plan.training.recompute,
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

}  // namespace

LayerMemory layer_memory(const TrainingPlan& plan, LayerKind kind,
                         std::optional<std::int64_t> expert_rows) {
  ActivationQuery query = activation_query(plan);
  query.kind = kind;
  query.expert_rows = expert_rows;
  query.expert_tensor = plan.parallelism.expert_tensor_size();
  return {.kept = layer_activations(plan.architecture, query).total(),
          .working = recomputed_activations(plan.architecture, query),
          .for_weights = held_for_weights(plan, kind, expert_rows.value_or(0))};
}

}  // namespace trainyard
