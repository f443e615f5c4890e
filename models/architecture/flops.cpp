#include "models/architecture/flops.hpp"

#include <algorithm>
#include <map>

#include "models/architecture/weights.hpp"
#include "models/layers/layer_block.hpp"

namespace trainyard {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

// The share of the matrix's GEMM that recomputation of these modules repeats.
double repeated_part(const Weight& weight, const RecomputeModules& recomputed) {
  if (recomputed.second_gemms) return weight.second_gemm;
  const auto runs = [&](bool RecomputeModules::*module) { return module && recomputed.*module; };
  return std::ranges::any_of(weight.modules, runs) ? 1.0 : 0.0;
}

double matrices_of(const Architecture& architecture, LayerKind kind) {
  double sum = 0.0;
  for (const Weight& weight : layer_weights(architecture, kind)) sum += matrix_flops(weight);
  return sum;
}

// FLOPs of those GEMMs of a layer that recomputation of these modules repeats, for one token.
double repeated_matrices(const Architecture& architecture, LayerKind kind,
                         const RecomputeModules& recomputed) {
  double sum = 0.0;
  for (const Weight& weight : layer_weights(architecture, kind))
    sum += repeated_part(weight, recomputed) * matrix_flops(weight);
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

TokenFlops repeated_flops(const Architecture& architecture, const TokenQuery& query,
                          Recompute recompute, const RecomputeModules& modules) {
  TokenFlops repeated = token_flops(architecture, query);
  repeated.head = repeated.projection = 0.0;
  if (recompute == Recompute::Full) return repeated;
  const bool selective = recompute == Recompute::Selective;
  // Where the outputs of every second GEMM are stored, the output of attention is stored too.
  const bool core = selective && modules.core && !modules.second_gemms;
  std::int64_t layer = 0;
  for (LayerFlops& flops : repeated.layers) {
    const LayerKind kind = layer_kind(architecture, layer++);
    flops.matrices = selective ? repeated_matrices(architecture, kind, modules) : 0.0;
    if (!core) flops.attention = 0.0;
  }
  return repeated;
}

}  // namespace trainyard
