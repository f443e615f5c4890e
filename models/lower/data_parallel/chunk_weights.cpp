#include "models/lower/data_parallel/chunk_weights.hpp"

#include "models/lower/ends.hpp"

namespace trainyard {

namespace {

// Gain, and for LayerNorm shift; of a module the one listed last is ready first.
GradientEntry norm_entry(const Architecture& a) {
  GradientEntry entry{.tensors = {{.rows = a.hidden}}};
  if (a.norm == NormKind::LayerNorm) entry.tensors.push_back({.rows = a.hidden});
  return entry;
}

GradientEntry matrix_entry(std::int64_t rows, std::int64_t columns, bool bias) {
  GradientEntry entry;
  if (bias) entry.tensors.push_back({.rows = rows});
  entry.tensors.push_back({.rows = rows, .columns = columns});
  return entry;
}

void append(GradientEntry& entry, const GradientEntry& more) {
  entry.tensors.insert(entry.tensors.end(), more.tensors.begin(), more.tensors.end());
}

// Norms over the heads of queries and keys come behind the products, so before them here.
GradientEntry qkv_entry(const Architecture& a, std::int64_t tensor) {
  if (a.biases) return matrix_entry((a.query_width() + 2 * a.kv_width()) / tensor, a.hidden, true);
  GradientEntry entry;
  if (a.qk_norm) entry.tensors = {{.rows = a.head_dim}, {.rows = a.head_dim}};
  for (const std::int64_t width : {a.kv_width(), a.kv_width(), a.query_width()})
    append(entry, matrix_entry(width / tensor, a.hidden, a.qkv_biases));
  return entry;
}

GradientEntry up_entry(const Architecture& a, std::int64_t tensor) {
  const std::int64_t rows = a.ffn / tensor;
  GradientEntry entry = matrix_entry(rows, a.hidden, a.biases);
  if (a.gated_ffn) append(entry, matrix_entry(rows, a.hidden, a.biases));
  return entry;
}

void append_unit(ChunkWeights& weights, const std::vector<GradientEntry>& entries,
                 std::int32_t layer) {
  const std::size_t begin = weights.entries.size();
  weights.entries.insert(weights.entries.end(), entries.begin(), entries.end());
  weights.units.insert(weights.units.begin(),
                       {.begin = begin, .end = weights.entries.size(), .layer = layer});
}

}  // namespace

std::int64_t GradientEntry::parameters() const {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.elements();
  return sum;
}

std::int64_t ChunkWeights::parameters(const WeightUnit& unit) const {
  std::int64_t sum = 0;
  for (std::size_t i = unit.begin; i < unit.end; ++i) sum += entries[i].parameters();
  return sum;
}

std::int64_t ChunkWeights::parameters() const {
  std::int64_t sum = 0;
  for (const GradientEntry& entry : entries) sum += entry.parameters();
  return sum;
}

std::vector<GradientEntry> layer_entries(const TrainingPlan& plan) {
  const Architecture& a = plan.architecture;
  const std::int64_t tensor = plan.parallelism.tensor;
  return {matrix_entry(a.hidden, a.ffn / tensor, a.biases),
          up_entry(a, tensor),
          norm_entry(a),
          matrix_entry(a.hidden, a.query_width() / tensor, a.biases),
          qkv_entry(a, tensor),
          norm_entry(a)};
}

ChunkWeights chunk_weights(const TrainingPlan& plan, const ChunkLayers& layers) {
  const Architecture& a = plan.architecture;
  const EndParameters ends = end_parameters(plan);
  ChunkWeights weights;
  if (layers.has_head) {
    std::vector<GradientEntry> head;
    if (ends.head > 0)
      head.push_back({.tensors = {{.rows = ends.head / a.hidden, .columns = a.hidden}}});
    head.push_back(norm_entry(a));
    append_unit(weights, head, -1);
  }
  const std::vector<GradientEntry> layer = layer_entries(plan);
  for (std::int64_t i = layers.layers; i-- > 0;) {
    append_unit(weights, layer, static_cast<std::int32_t>(layers.first_layer + i));
  }
  if (layers.has_embedding) {
    GradientEntry embedding;
    if (ends.positions > 0)
      embedding.tensors.push_back({.rows = ends.positions / a.hidden, .columns = a.hidden});
    embedding.tensors.push_back({.rows = ends.embedding / a.hidden, .columns = a.hidden});
    append_unit(weights, {embedding}, -1);
  }
  return weights;
}

}  // namespace trainyard
