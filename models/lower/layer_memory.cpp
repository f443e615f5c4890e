#include "models/lower/layer_memory.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "models/architecture/weights.hpp"

namespace trainyard {

namespace {

// Numbers of a layer's products, input and output together, by what they grow with.
struct ProductWidths {
  std::int64_t tokens = 0;  // of the sequence that the rank works on
  std::int64_t local = 0;   // of its own part of it
  std::int64_t inputs = 0;  // likewise, but for a framework that keeps them gathered
  std::int64_t rows = 0;    // of its experts
};

// A matrix that all ranks have works on the rank's own part of the sequence, as do the inputs of a
// column-parallel one and the outputs of a row-parallel one.
ProductWidths product_widths(const WeightDivision& division, LayerKind kind) {
  ProductWidths widths;
  for (const Weight& weight : layer_weights(division.architecture, kind)) {
    const std::int64_t ranks = weight.expert() ? division.expert_tensor : division.tensor;
    const bool column = weight.split == Split::Column;
    const std::int64_t inside = (column ? weight.outputs : weight.inputs) / ranks;
    const std::int64_t outside = column ? weight.inputs : weight.outputs;
    if (weight.expert()) {
      widths.rows += inside + outside;
    } else if (weight.split == Split::None) {
      widths.local += weight.inputs + weight.outputs;
    } else {
      widths.tokens += inside;
      if (!weight.joined) (column ? widths.inputs : widths.local) += outside;
    }
  }
  return widths;
}

std::int64_t held_for_weights(const MemoryOptions& options, LayerKind kind, std::int64_t rows) {
  const ActivationQuery& query = options.query;
  const ProductWidths widths = product_widths(options.division, kind);
  const std::int64_t tokens = query.micro_batch * (query.sequence_length / query.context);
  const std::int64_t local = query.sequence_parallel ? tokens / query.tensor : tokens;
  // Both sides of a product as it reads them: in 8 bits where it multiplies in 8 bits.
  const double element = element_bytes(query.precision);
  const double each = query.product_input.value_or(element);
  const std::int64_t input_rows = query.gathered_inputs ? tokens : local;
  const std::int64_t numbers = tokens * widths.tokens + local * widths.local +
                               input_rows * widths.inputs + rows * widths.rows;
  return std::llround(each * static_cast<double>(numbers));
}

// The gradient of a row-parallel layer's output, and the next layer's input beside it.
std::int64_t gathered_for_weights(const MemoryOptions& options) {
  const ActivationQuery& query = options.query;
  if (!query.sequence_parallel || query.tensor == 1) return 0;
  const std::int64_t tokens = query.micro_batch * (query.sequence_length / query.context);
  const auto element = static_cast<std::int64_t>(element_bytes(query.precision));
  const std::int64_t whole = tokens * options.division.architecture.hidden * element;
  return query.gathered_inputs ? whole : 2 * whole;
}

// The most that the gradients of a part with an activation function hold beyond what they have
// freed: the output's (gathered, where the sequence is split) beside that of the function's output,
// or those of the function's inputs.
std::int64_t activation_gradients(const Architecture& a, std::int64_t output, std::int64_t width) {
  return std::max(output + width, a.ffn_inputs() * width);
}

std::int64_t gradient_workspace(const MemoryOptions& options, LayerKind kind, std::int64_t rows,
                                const LayerParts& parts) {
  const Architecture& a = options.division.architecture;
  const ActivationQuery& query = options.query;
  const std::int64_t tokens = query.micro_batch * (query.sequence_length / query.context);
  const bool split = query.sequence_parallel && query.tensor > 1;
  const std::int64_t stream = (split ? tokens / query.tensor : tokens) * a.hidden;
  const std::int64_t gathered = split ? tokens * a.hidden : 0;
  const auto part = [&](std::int64_t width) {
    return activation_gradients(a, gathered, tokens * width / query.tensor);
  };
  std::int64_t numbers = kind == LayerKind::Moe ? part(a.shared_ffn) : part(a.ffn);
  if (kind == LayerKind::Moe) {
    const std::int64_t inner = rows * a.expert_ffn / options.division.expert_tensor;
    const std::int64_t output = rows * a.hidden;
    numbers = std::max({numbers, 2 * output, activation_gradients(a, output, inner)});
  }
  ActivationQuery everything = query;
  everything.kind = kind;
  everything.expert_rows = rows;
  everything.recompute = Recompute::None;
  const LayerActivations kept = layer_activations(a, everything);
  const std::int64_t key_values = key_value_width_per_rank(a, query.tensor);
  // The gradients of all heads, before they are reduced and scattered.
  const std::int64_t gathered_heads =
      replicates_kv_heads(a, query.tensor) ? a.query_width() + 2 * a.kv_width() : 0;
  const std::int64_t attention =
      tokens * ((a.output_width() + a.query_width()) / query.tensor + key_values + gathered_heads);
  const auto element = static_cast<std::int64_t>(element_bytes(query.precision));
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

// Counts what the products of a layer's experts would keep for their weights: the rows, the
// router's input, and what lies between the two products.
std::int64_t frozen_expert_inputs(const MemoryOptions& options, std::int64_t rows) {
  const Architecture& a = options.division.architecture;
  const ActivationQuery& query = options.query;
  const double element = element_bytes(query.precision);
  const double each = query.product_input.value_or(element);
  const std::int64_t tokens = query.micro_batch * query.sequence_length / query.context;
  const std::int64_t own = tokens / (query.sequence_parallel ? query.tensor : 1);
  const std::int64_t inner = a.expert_ffn / options.division.expert_tensor;
  return std::llround(each * static_cast<double>(rows * (a.hidden + inner)) +
                      element * static_cast<double>(own * a.hidden));
}

// Frozen matrices change what is kept. Those without an adapter do not need their input again, and
// each adapter keeps what lies between its factors. The projection's input is the fused core's
// output, which its backward reads.
std::int64_t adapter_difference(const MemoryOptions& options, LayerKind kind, std::int64_t rows,
                                bool trained) {
  const AdapterSet& adapters = options.adapters;
  if (!adapters.any() && trained) return 0;
  const Architecture& a = options.division.architecture;
  if (a.latent()) return 0;  // its latents are inputs of norms as well
  const ActivationQuery& query = options.query;
  const AdapterTargets on = adapters.targets;
  const bool attention = trained && (on.query || on.key || on.value);
  const bool rebuilt = options.rebuilds_modules;
  const std::int64_t region = query.sequence_parallel ? query.tensor : 1;
  std::int64_t columns = trained ? adapters.rank * std::ssize(adapters.of(kind)) : 0;
  if (!rebuilt && !attention) columns -= a.hidden / region;
  const bool dense = kind == LayerKind::Dense;
  if (dense && !rebuilt && !(trained && (on.gate || on.up))) columns -= a.hidden / region;
  if (dense && !rebuilt && !(trained && on.down)) columns -= a.ffn / query.tensor;
  const std::int64_t tokens = query.micro_batch * query.sequence_length / query.context;
  const std::int64_t kept =
      columns * tokens * static_cast<std::int64_t>(element_bytes(query.precision));
  return dense || rebuilt ? kept : kept - frozen_expert_inputs(options, rows);
}

// Parameters of a tensor that stands in for the gradient of one rank's part of a matrix.
std::int64_t placeholder(const WeightDivision& division, const Weight& weight) {
  if (weight.split == Split::None) return weight.parameters();
  return split_parameters(weight, weight.expert() ? division.expert_tensor : division.tensor);
}

}  // namespace

std::int64_t layer_placeholders(const MemoryOptions& options, std::span<const PlacedParts> layers) {
  if (!options.placeholders) return 0;
  const Architecture& a = options.division.architecture;
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;  // inputs, parameters
  for (const auto& [kind, parts] : layers) {
    std::int64_t product = 0;  // of matrices that are multiplied together
    const std::vector<Weight> weights = layer_weights(a, kind);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const Weight& weight = weights[i];
      const bool here = weight.part == WeightPart::Attention ? parts.attention : parts.ffn;
      if (!here || weight.part == WeightPart::Router) continue;  // that is an ordinary product
      product += placeholder(options.division, weight);
      if (i + 1 < weights.size() && weights[i + 1].joined) continue;
      shapes.emplace(weight.inputs, product);
      product = 0;
    }
  }
  std::int64_t numbers = 0;
  for (const auto& [inputs, parameters] : shapes) numbers += parameters;
  return numbers * static_cast<std::int64_t>(element_bytes(options.query.precision));
}

LayerMemory layer_memory(const MemoryOptions& options, LayerKind kind,
                         std::optional<std::int64_t> expert_rows, bool trained,
                         const LayerParts& parts) {
  const Architecture& a = options.division.architecture;
  ActivationQuery query = options.query;
  query.kind = kind;
  query.expert_rows = expert_rows;
  const std::int64_t adapters = adapter_difference(options, kind, expert_rows.value_or(0), trained);
  const bool full = query.recompute == Recompute::Full;
  const std::int64_t rows = expert_rows.value_or(0);
  const std::int64_t kept = bytes_of(layer_activations(a, query), parts);
  query.recompute = Recompute::None;
  const std::int64_t all = bytes_of(layer_activations(a, query), parts);
  return {
      .kept = kept + (full ? 0 : adapters),
      .working = all - kept + (full ? adapters : 0),
      .for_weights = held_for_weights(options, kind, rows),
      .weight_workspace = gathered_for_weights(options),
      .workspace = gradient_workspace(options, kind, rows, parts),
      .forward_workspace =
          parts.ffn ? std::llround(options.row_copies * static_cast<double>(rows * a.hidden)) : 0};
}

}  // namespace trainyard
