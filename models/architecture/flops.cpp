#include "models/architecture/flops.hpp"

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
                                    .attention = query.attention});
}

}  // namespace

TokenFlops token_flops(const Architecture& architecture, const TokenQuery& query) {
  const Architecture& a = architecture;
  const double h = number(a.hidden);
  const double q = number(a.query_width());
  const double kappa = number(a.kv_width());
  const double chi = query.attention == AttentionCount::Causal ? 0.5 : 1.0;
  const double ffn_matrices = number(a.ffn_inputs() + 1);
  TokenFlops result;
  result.linear_layer =
      2.0 * h * (q + 2.0 * kappa) + 2.0 * q * h + 2.0 * ffn_matrices * h * number(a.ffn);
  result.attention_layer = 4.0 * number(query.sequence_length) * q * chi;
  result.head = 2.0 * h * number(query.vocab);
  result.layers = a.layers;
  return result;
}

Flops model_flops(const Architecture& architecture, const FlopsQuery& query) {
  return Flops{tokens_of(query) * token_flops_of(architecture, query).train()};
}

Flops recomputed_flops(const Architecture& architecture, const FlopsQuery& query,
                       Recompute recompute) {
  const TokenFlops token = token_flops_of(architecture, query);
  const double layers = tokens_of(query) * number(architecture.layers);
  switch (recompute) {
    case Recompute::None:
      return Flops{0.0};
    case Recompute::Selective:
      return Flops{layers * token.attention_layer};
    case Recompute::Full:
      return Flops{layers * (token.linear_layer + token.attention_layer)};
  }
  TY_CHECK(false, static_cast<int>(recompute));
  return Flops{0.0};
}

Seconds training_time(const TrainingRun& run, FlopsPerSecond whole_cluster) {
  return Flops{8.0 * run.tokens * run.parameters} / whole_cluster;
}

}  // namespace trainyard
