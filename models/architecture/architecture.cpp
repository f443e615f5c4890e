#include "models/architecture/architecture.hpp"

#include "models/architecture/weights.hpp"
#include "sim/base/check.hpp"

namespace trainyard {
namespace {

enum class Experts : std::uint8_t { All, Active };

std::int64_t layer_count(const Architecture& a, LayerKind kind, Experts experts) {
  std::int64_t sum = layer_vectors(a, kind);
  for (const Weight& weight : layer_weights(a, kind))
    sum += (experts == Experts::All ? weight.copies : weight.active) * weight.parameters();
  return sum;
}

std::int64_t whole_count(const Architecture& a, Experts experts) {
  const std::int64_t vocabulary_matrices = a.tied_embeddings ? 1 : 2;
  const std::int64_t positions = a.positions == Positions::Learned ? a.max_positions * a.hidden : 0;
  std::int64_t sum = vocabulary_matrices * a.vocab * a.hidden + positions + a.norm_width();
  for (const LayerKind kind : {LayerKind::Dense, LayerKind::Moe})
    if (const std::int64_t layers = a.layers_of(kind); layers > 0)
      sum += layers * layer_count(a, kind, experts);
  return sum;
}

}  // namespace

std::int64_t layer_parameter_count(const Architecture& architecture, LayerKind kind) {
  return layer_count(architecture, kind, Experts::All);
}

std::int64_t parameter_count(const Architecture& architecture) {
  return whole_count(architecture, Experts::All);
}

std::int64_t active_parameter_count(const Architecture& architecture) {
  return whole_count(architecture, Experts::Active);
}

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tensor, std::int64_t multiple) {
  TY_CHECK(tensor > 0 && multiple > 0, tensor, multiple);
  const std::int64_t unit = multiple * tensor;
  return (vocab + unit - 1) / unit * unit;
}

}  // namespace trainyard
