#include "models/layers/layer_memory.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "models/architecture/weights.hpp"
#include "models/layers/layer_block.hpp"

namespace trainyard {

namespace {

// Widths of a layer's GEMMs, input and output together, by the tokens that they process.
struct GemmWidths {
  std::int64_t tokens = 0;  // with all tokens of the sequence that the rank works on
  std::int64_t local = 0;   // with the tokens of its own part of it
  // Same as `local`, or as `tokens` for a framework that stores gathered inputs.
  std::int64_t inputs = 0;
  std::int64_t rows = 0;  // with the routed tokens of its experts
};

// A replicated matrix works on the rank's own part of the sequence. The same holds for the inputs
// of a column-parallel matrix and the outputs of a row-parallel one.
GemmWidths gemm_widths(const WeightDivision& division, LayerKind kind) {
  GemmWidths widths;
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
  const GemmWidths widths = gemm_widths(options.division, kind);
  const std::int64_t tokens = query.micro_batch * (query.sequence_length / query.context);
  const std::int64_t local = query.sequence_parallel ? tokens / query.tensor : tokens;
  // Both operands have the width in which the GEMM reads them: 8 bits where it multiplies in 8
  // bits.
  const double element = element_bytes(query.precision);
  const double each = query.gemm_input.value_or(element);
  const std::int64_t input_rows = query.gathered_inputs ? tokens : local;
  const std::int64_t numbers = tokens * widths.tokens + local * widths.local +
                               input_rows * widths.inputs + rows * widths.rows;
  return std::llround(each * static_cast<double>(numbers));
}

// The gathered gradient of a row-parallel layer's output, and the gathered input of the next layer.
std::int64_t gathered_for_weights(const MemoryOptions& options) {
  const ActivationQuery& query = options.query;
  if (!query.sequence_parallel || query.tensor == 1) return 0;
  const std::int64_t tokens = query.micro_batch * (query.sequence_length / query.context);
  const auto element = static_cast<std::int64_t>(element_bytes(query.precision));
  const std::int64_t whole = tokens * options.division.architecture.hidden * element;
  return query.gathered_inputs ? whole : 2 * whole;
}

// Peak of the two halves' gradients. The backward of the attention comes after that of the
// feed-forward part, whose activations are free by then.
std::int64_t gradient_workspace(const MemoryOptions& options, LayerKind kind, std::int64_t rows,
                                const LayerParts& parts) {
  const Architecture& a = options.division.architecture;
  const ActivationQuery& query = options.query;
  const std::int64_t tokens = query.micro_batch * (query.sequence_length / query.context);
  const bool split = query.sequence_parallel && query.tensor > 1;
  const std::int64_t stream = (split ? tokens / query.tensor : tokens) * a.hidden;
  ActivationQuery everything = query;
  everything.expert_rows = rows;
  everything.recompute = Recompute::None;
  const BlockBackward backward{
      .architecture = a, .query = everything, .gathered = split ? tokens * a.hidden : 0};
  const std::int64_t numbers = block_of(kind, LayerHalf::FeedForward).gradients(backward);
  const std::int64_t attention = block_of(kind, LayerHalf::Attention).gradients(backward);
  const LayerActivations kept = layer_activations(a, kind, everything);
  const auto element = static_cast<std::int64_t>(element_bytes(query.precision));
  // Released before the attention's backward.
  const std::int64_t freed = parts.ffn ? kept.ffn + kept.experts : 0;
  return element * stream + std::max(parts.ffn ? element * numbers : 0,
                                     parts.attention ? element * attention - freed : 0);
}

// `all` holds the bytes of both norms of a layer, and of both post-norms, so one of them is half.
std::int64_t bytes_of(const LayerActivations& all, const LayerParts& parts) {
  const std::int64_t norms = (parts.attention_norm ? 1 : 0) + (parts.ffn_norm ? 1 : 0);
  const std::int64_t post_norms = (parts.attention ? 1 : 0) + (parts.ffn ? 1 : 0);
  return all.norms * norms / 2 + all.post_norms * post_norms / 2 +
         (parts.attention ? all.attention + all.core : 0) +
         (parts.ffn ? all.ffn + all.experts : 0) + all.checkpoint;
}

// Bytes by which frozen matrices change the stored activations. A frozen matrix without an adapter
// does not store its input, and each adapter stores the tensor between its factors.
std::int64_t adapter_difference(const MemoryOptions& options, LayerKind kind,
                                std::optional<std::int64_t> expert_rows, bool trained) {
  const AdapterSet& adapters = options.adapters;
  if (!adapters.any() && trained) return 0;
  ActivationQuery query = options.query;
  query.expert_rows = expert_rows;
  const FrozenLayer layer{.architecture = options.division.architecture,
                          .query = query,
                          .adapted = trained ? adapters.targets : kNoAdapters,
                          .recomputes_modules = options.rebuilds_modules};
  const LayerBlock& attention = block_of(kind, LayerHalf::Attention);
  const LayerBlock& ffn = block_of(kind, LayerHalf::FeedForward);
  if (attention.frozen_inputs == nullptr || ffn.frozen_inputs == nullptr) return 0;
  const ActivationSizes sizes(query);
  const std::int64_t columns = trained ? adapters.rank * std::ssize(adapters.of(kind)) : 0;
  return columns * sizes.tokens * sizes.element - attention.frozen_inputs(layer) -
         ffn.frozen_inputs(layer);
}

// Parameters of the placeholder tensor for the gradient of one rank's part of a matrix.
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
    std::int64_t gemm = 0;  // of matrices that are multiplied in one GEMM
    const std::vector<Weight> weights = layer_weights(a, kind);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const Weight& weight = weights[i];
      const bool here = weight.part == WeightPart::Attention ? parts.attention : parts.ffn;
      // The router is an ordinary GEMM without a placeholder.
      if (!here || weight.part == WeightPart::Router) continue;
      gemm += placeholder(options.division, weight);
      if (i + 1 < weights.size() && weights[i + 1].joined) continue;
      shapes.emplace(weight.inputs, gemm);
      gemm = 0;
    }
  }
  std::int64_t numbers = 0;
  for (const auto& [inputs, parameters] : shapes) numbers += parameters;
  return numbers * static_cast<std::int64_t>(element_bytes(options.query.precision));
}

// `working` is the difference between the activations without and with recomputation, because the
// backward rebuilds what the forward did not store.
LayerMemory layer_memory(const MemoryOptions& options, LayerKind kind,
                         std::optional<std::int64_t> expert_rows, bool trained,
                         const LayerParts& parts) {
  const Architecture& a = options.division.architecture;
  ActivationQuery query = options.query;
  query.expert_rows = expert_rows;
  const std::int64_t adapters = adapter_difference(options, kind, expert_rows, trained);
  const bool full = query.recompute == Recompute::Full;
  const std::int64_t rows = expert_rows.value_or(0);
  const std::int64_t kept = bytes_of(layer_activations(a, kind, query), parts);
  query.recompute = Recompute::None;
  const std::int64_t all = bytes_of(layer_activations(a, kind, query), parts);
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
