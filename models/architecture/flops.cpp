#include "models/architecture/flops.hpp"

#include <algorithm>

#include "models/architecture/weights.hpp"
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

double linear_flops(const Architecture& architecture, LayerKind kind) {
  double sum = 0.0;
  for (const Weight& weight : layer_weights(architecture, kind))
    sum += 2.0 * number(weight.active) * number(weight.inputs) * number(weight.outputs);
  return sum;
}

// The part of a matrix's product that the modules compute again.
double repeated_part(const Weight& weight, const RecomputeModules& again) {
  if (again.second_products) return weight.second_product;
  const auto runs = [&](bool RecomputeModules::*module) { return module && again.*module; };
  return std::ranges::any_of(weight.modules, runs) ? 1.0 : 0.0;
}

// The matrices of the modules that run again, of all layers, for one token.
double repeated_linear(const Architecture& a, const TokenFlops& token,
                       const RecomputeModules& again) {
  double sum = 0.0;
  for (const LayerKind kind : {LayerKind::Dense, LayerKind::Moe}) {
    const double layers =
        number(kind == LayerKind::Moe ? token.moe_layers : token.layers - token.moe_layers);
    if (layers == 0.0) continue;
    for (const Weight& weight : layer_weights(a, kind)) {
      sum += repeated_part(weight, again) * layers * 2.0 * number(weight.active) *
             number(weight.inputs) * number(weight.outputs);
    }
  }
  return sum;
}

}  // namespace

TokenFlops token_flops(const Architecture& architecture, const TokenQuery& query) {
  const Architecture& a = architecture;
  const double chi = query.attention == AttentionCount::Causal ? 0.5 : 1.0;
  const double widths = number(a.query_width() + a.output_width());
  TokenFlops result;
  result.linear_layer = linear_flops(a, LayerKind::Dense);
  if (a.has_experts()) result.moe_layer = linear_flops(a, LayerKind::Moe);
  result.attention_layer = 2.0 * number(query.sequence_length) * widths * chi;
  const double window = number(std::min(a.window, query.sequence_length));
  const double masked = (1.0 - chi) * window / number(query.sequence_length);
  result.window_layer = 2.0 * widths * window * (1.0 - masked);
  result.head = 2.0 * number(a.hidden) * number(query.vocab) * number(1 + query.mtp_layers);
  result.projection = 4.0 * number(a.hidden) * number(a.hidden) * number(query.mtp_layers);
  result.layers = a.layers + query.mtp_layers;
  result.moe_layers = a.layers_of(LayerKind::Moe);
  for (std::int64_t i = 0; i < query.mtp_layers; ++i)
    result.moe_layers += a.kind_of(a.layers + i) == LayerKind::Moe ? 1 : 0;
  for (std::int64_t layer = 0; layer < result.layers; ++layer)
    result.window_layers += a.windowed(layer) ? 1 : 0;
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
      return Flops{tokens_of(query) *
                   ((modules.core && !modules.second_products ? token.attention() : 0.0) +
                    repeated_linear(architecture, token, modules))};
    case Recompute::Full:
      return Flops{tokens_of(query) * (token.linear() + token.attention())};
  }
  TY_CHECK(false, static_cast<int>(recompute));
  return Flops{0.0};
}

}  // namespace trainyard
