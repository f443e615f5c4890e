#include "models/architecture/flops.hpp"

#include <algorithm>
#include <map>

#include "models/architecture/weights.hpp"
#include "models/layers/layer_block.hpp"
#include "sim/base/check.hpp"

namespace trainyard {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

double tokens_of(const FlopsQuery& query) {
  return number(query.sequences) * number(query.sequence_length);
}

TokenFlops token_flops_of(const Architecture& architecture, const FlopsQuery& query) {
  return token_flops(architecture, {.sequence_length = query.sequence_length,
                                    .vocab = query.vocab,
                                    .attention = query.attention,
                                    .mtp_layers = query.mtp_layers});
}

// The share of the matrix's GEMM that recomputation of these modules repeats.
double repeated_part(const Weight& weight, const RecomputeModules& recomputed) {
  if (recomputed.second_gemms) return weight.second_gemm;
  const auto runs = [&](bool RecomputeModules::*module) { return module && recomputed.*module; };
  return std::ranges::any_of(weight.modules, runs) ? 1.0 : 0.0;
}

// FLOPs of the repeated GEMMs of all layers, for one token.
double repeated_linear(const Architecture& a, const RecomputeModules& recomputed,
                       std::int64_t mtp_layers) {
  double sum = 0.0;
  for (const auto& [kind, layers] : layer_kinds(a, mtp_layers))
    for (const Weight& weight : layer_weights(a, kind))
      sum += repeated_part(weight, recomputed) * number(layers) * matrix_flops(weight);
  return sum;
}

double matrices_of(const Architecture& architecture, LayerKind kind) {
  double sum = 0.0;
  for (const Weight& weight : layer_weights(architecture, kind)) sum += matrix_flops(weight);
  return sum;
}

double others_of(const Architecture& architecture, std::int64_t layer, LayerKind kind,
                 const TokenQuery& query) {
  double sum = 0.0;
  for (const LayerHalf half : {LayerHalf::Attention, LayerHalf::FeedForward})
    if (const LayerBlock& block = block_of(kind, half); block.other_flops != nullptr)
      sum += block.other_flops(architecture, layer, query);
  return sum;
}

}  // namespace

double TokenFlops::linear() const {
  double sum = 0.0;
  for (const LayerFlops& layer : layers) sum += layer.matrices;
  return sum;
}

double TokenFlops::attention() const {
  double sum = 0.0;
  for (const LayerFlops& layer : layers) sum += layer.attention;
  return sum;
}

TokenFlops token_flops(const Architecture& architecture, const TokenQuery& query) {
  const Architecture& a = architecture;
  TokenFlops result{
      .layers = {},
      .head = 2.0 * number(a.hidden) * number(query.vocab) * number(1 + query.mtp_layers),
      .projection = 4.0 * number(a.hidden) * number(a.hidden) * number(query.mtp_layers)};
  // Layers of one kind have the same matrices, so the sum is computed once per kind.
  std::map<LayerKind, double> matrices;
  for (std::int64_t layer = 0; layer < a.layers + query.mtp_layers; ++layer) {
    const LayerKind kind = layer_kind(a, layer);
    const auto [known, fresh] = matrices.try_emplace(kind);
    if (fresh) known->second = matrices_of(a, kind);
    result.layers.push_back(
        {.matrices = known->second, .attention = others_of(a, layer, kind, query)});
  }
  return result;
}

Flops model_flops(const Architecture& architecture, const FlopsQuery& query) {
  return Flops{tokens_of(query) * token_flops_of(architecture, query).train()};
}

Flops recomputed_flops(const Architecture& architecture, const FlopsQuery& query,
                       Recompute recompute, const RecomputeModules& modules) {
  const TokenFlops token = token_flops_of(architecture, query);
  switch (recompute) {
    case Recompute::None:
      return Flops{0.0};
    case Recompute::Selective:
      // Where the outputs of every second GEMM are stored, the output of attention is stored too.
      return Flops{tokens_of(query) *
                   ((modules.core && !modules.second_gemms ? token.attention() : 0.0) +
                    repeated_linear(architecture, modules, query.mtp_layers))};
    case Recompute::Full:
      return Flops{tokens_of(query) * (token.linear() + token.attention())};
  }
  TY_CHECK(false, static_cast<int>(recompute));
  return Flops{0.0};
}

}  // namespace trainyard
