#include "models/architecture/architecture.hpp"

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

std::int64_t attention_parameters(const Architecture& a) {
  const std::int64_t qkv = a.query_width() + 2 * a.kv_width();
  const std::int64_t weights = a.hidden * qkv + a.query_width() * a.hidden;
  return weights + (a.biases ? qkv + a.hidden : 0);
}

std::int64_t ffn_parameters(const Architecture& a) {
  const std::int64_t up = a.ffn_inputs() * a.ffn;
  const std::int64_t weights = a.hidden * up + a.ffn * a.hidden;
  return weights + (a.biases ? up + a.hidden : 0);
}

}  // namespace

std::int64_t layer_parameter_count(const Architecture& architecture) {
  return attention_parameters(architecture) + ffn_parameters(architecture) +
         2 * architecture.norm_width();
}

std::int64_t parameter_count(const Architecture& architecture) {
  const Architecture& a = architecture;
  const std::int64_t vocabulary_matrices = a.tied_embeddings ? 1 : 2;
  const std::int64_t positions = a.positions == Positions::Learned ? a.max_positions * a.hidden : 0;
  return a.layers * layer_parameter_count(a) + vocabulary_matrices * a.vocab * a.hidden +
         positions + a.norm_width();
}

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tensor, std::int64_t multiple) {
  TY_CHECK(tensor > 0 && multiple > 0, tensor, multiple);
  const std::int64_t unit = multiple * tensor;
  return (vocab + unit - 1) / unit * unit;
}

}  // namespace trainyard
