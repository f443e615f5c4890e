#include "models/lower/data_parallel/chunk_weights.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>

#include "models/architecture/weights.hpp"
#include "models/layers/layer_block.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

using Entries = std::vector<GradientEntry>;

// One rank's part of a matrix in PyTorch's layout (outputs by inputs), as `parts` equal tensors
// along the rows. The bias of each part comes before it. A column-parallel matrix is divided along
// its outputs, a row-parallel one along its inputs, in whole units such as heads, at least one per
// rank. A matrix that every rank holds is not divided.
GradientEntry matrix_entry(const Weight& weight, std::int64_t tensor, std::int64_t parts = 1) {
  const std::int64_t ranks = weight.split == Split::None ? 1 : tensor;
  const std::int64_t units = std::max<std::int64_t>(1, weight.units / ranks);
  const std::int64_t rows =
      weight.split == Split::Column ? weight.outputs / weight.units * units : weight.outputs;
  const std::int64_t columns =
      weight.split == Split::Row ? weight.inputs / weight.units * units : weight.inputs;
  GradientEntry entry;
  for (std::int64_t part = 0; part < parts; ++part) {
    if (weight.bias) entry.tensors.push_back({.rows = rows / parts});
    entry.tensors.push_back({.rows = rows / parts, .columns = columns});
  }
  return entry;
}

void append(GradientEntry& entry, const GradientEntry& more) {
  entry.tensors.insert(entry.tensors.end(), more.tensors.begin(), more.tensors.end());
}

// The entry of the matrices that one GEMM multiplies, the last one first, and of the vectors that
// belong to them (Weight::vector). With several matrices (queries, keys, values), the vectors are
// norms over heads, which come after the GEMM in the forward and therefore before it here. With
// biases, such a GEMM has one fused matrix.
GradientEntry gemm_entry(std::span<const Weight> weights, const WeightDivision& division) {
  GradientEntry vectors;
  GradientEntry matrices;
  for (const Weight& weight : std::views::reverse(weights)) {
    if (weight.vector > 0) vectors.tensors.push_back({.rows = weight.vector});
    append(matrices, matrix_entry(weight, division.tensor, weight.parts));
  }
  if (weights.size() > 1 && division.architecture.biases) {
    std::int64_t rows = 0;
    for (const Tensor& tensor : matrices.tensors) rows += tensor.columns > 1 ? tensor.rows : 0;
    matrices.tensors = {{.rows = rows}, {.rows = rows, .columns = weights.front().inputs}};
  }
  GradientEntry entry = weights.size() > 1 ? vectors : matrices;
  append(entry, weights.size() > 1 ? matrices : vectors);
  return entry;
}

// Calls `visit` with the matrices of one GEMM at a time, from the last GEMM to the first, without
// those of experts. Weight::joined marks a matrix in the same GEMM as the matrix before it.
template <typename Visit>
void each_gemm(std::span<const Weight> weights, const Visit& visit) {
  while (!weights.empty()) {
    std::size_t first = weights.size() - 1;
    while (weights[first].joined) --first;
    if (!weights[first].expert()) visit(weights.subspan(first));
    weights = weights.first(first);
  }
}

// The entries of a layer in backward order: the one order that weights and adapters share. `gemm`
// returns the entry of the matrices of one GEMM, `norm` that of a norm.
template <typename Gemms, typename Norm>
Entries entries_of(const Architecture& a, LayerKind kind, const LayerParts& parts,
                   const Gemms& gemm, const Norm& norm) {
  const std::vector<Weight> matrices = layer_weights(a, kind);
  const auto attention =
      static_cast<std::size_t>(std::ranges::count(matrices, WeightPart::Attention, &Weight::part));
  const std::span all(matrices);
  Entries entries;
  const auto add = [&](std::span<const Weight> weights) { entries.push_back(gemm(weights)); };
  if (parts.ffn && a.post_norms) entries.push_back(norm());
  if (parts.ffn) each_gemm(all.subspan(attention), add);
  if (parts.ffn_norm) entries.push_back(norm());
  if (parts.attention && a.post_norms) entries.push_back(norm());
  if (parts.attention) each_gemm(all.first(attention), add);
  if (parts.attention_norm) entries.push_back(norm());
  return entries;
}

}  // namespace

GradientEntry norm_entry(const Architecture& a) {
  GradientEntry entry{.tensors = {{.rows = a.hidden}}};
  if (a.norm == NormKind::LayerNorm) entry.tensors.push_back({.rows = a.hidden});
  return entry;
}

std::vector<GradientEntry> layer_entries(const WeightDivision& weights, LayerKind kind,
                                         const LayerParts& parts) {
  const Architecture& a = weights.architecture;
  Entries entries = entries_of(
      a, kind, parts, [&](std::span<const Weight> gemm) { return gemm_entry(gemm, weights); },
      [&] { return norm_entry(a); });
  if (!parts.whole()) return entries;
  const LayerShard shard = layer_shard(a, kind, {.tensor = weights.tensor});
  std::int64_t sum = 0;
  for (const GradientEntry& entry : entries) sum += entry.parameters();
  // The entries must have as many parameters as the count that follows from the architecture alone.
  TY_CHECK(sum == shard.sharded + shard.replicated, sum, shard.sharded, shard.replicated);
  return entries;
}

std::vector<GradientEntry> expert_entries(const WeightDivision& weights, LayerKind kind) {
  Entries entries;
  for (const Weight& weight : layer_weights(weights.architecture, kind)) {
    if (!weight.expert()) continue;
    GradientEntry all;
    for (std::int64_t copy = 0; copy < weight.copies / weights.expert; ++copy)
      append(all, matrix_entry(weight, weights.expert_tensor));
    entries.insert(entries.begin(), all);
  }
  return entries;
}

namespace {

// Lists both factors of the adapters on one kernel's matrices.
GradientEntry adapter_entry(const std::vector<Adapter>& adapters, std::string_view kernel) {
  GradientEntry entry;
  for (const Adapter& adapter : adapters) {
    if (adapter.kernel != kernel) continue;
    entry.tensors.push_back({.rows = adapter.outputs, .columns = adapter.rank});
    entry.tensors.push_back({.rows = adapter.rank, .columns = adapter.inputs});
  }
  return entry;
}

// The entries of a layer with adapters. They have the same indices as those of its frozen matrices
// and norms, because the lowering of a backward returns one gradient for each of these. Norms, and
// GEMMs without an adapter, have an empty entry.
Entries adapter_entries(const WeightOptions& options, LayerKind kind) {
  const std::vector<Adapter>& all = options.adapters.of(kind);
  return entries_of(
      options.division.architecture, kind, {},
      [&](std::span<const Weight> gemm) { return adapter_entry(all, gemm.front().gemm); },
      [] { return GradientEntry{}; });
}

std::vector<Tensor> tensors_of(const std::vector<GradientEntry>& entries) {
  std::vector<Tensor> tensors;
  for (const GradientEntry& entry : entries)
    tensors.insert(tensors.end(), entry.tensors.begin(), entry.tensors.end());
  return tensors;
}

// Appends a unit with its trained entries. Units are appended in backward order, as entries are;
// chunk_weights() and segment_weights() reverse the list of units at the end.
void append_unit(ChunkWeights& weights, WeightUnit unit, const std::vector<GradientEntry>& entries,
                 const std::vector<GradientEntry>& experts = {}) {
  unit.begin = weights.entries.size();
  unit.experts_begin = weights.experts.size();
  weights.entries.insert(weights.entries.end(), entries.begin(), entries.end());
  weights.experts.insert(weights.experts.end(), experts.begin(), experts.end());
  unit.end = weights.entries.size();
  unit.experts_end = weights.experts.size();
  weights.units.push_back(std::move(unit));
}

// Appends the unit before the layers (embedding) or the one after them (head).
void append_end(ChunkWeights& weights, const std::vector<GradientEntry>& entries, bool trained,
                bool reached) {
  WeightUnit unit{.reached = reached};
  if (!trained) unit.frozen = tensors_of(entries);
  append_unit(weights, std::move(unit), trained ? entries : std::vector<GradientEntry>{});
}

// Appends a layer. If it is frozen or has adapters, its matrices are frozen tensors, and its
// entries are those of the adapters, or none.
void append_layer(ChunkWeights& weights, const WeightOptions& options, std::int64_t layer) {
  const LayerKind kind = layer_kind(options.division.architecture, layer);
  WeightUnit unit{.layer = static_cast<std::int32_t>(layer),
                  .reached = options.trained.reaches(layer)};
  std::vector<GradientEntry> entries = layer_entries(options.division, kind);
  std::vector<GradientEntry> experts = expert_entries(options.division, kind);
  const bool trained = options.trained.layer(layer);
  const bool adapted = options.adapters.any();
  if (!trained || adapted) {
    unit.frozen = tensors_of(entries);
    unit.frozen_experts = tensors_of(experts);
    entries = trained ? adapter_entries(options, kind) : std::vector<GradientEntry>{};
    experts.clear();
  }
  append_unit(weights, std::move(unit), entries, experts);
}

GradientEntry head_matrix_entry(const WeightOptions& options) {
  const std::int64_t hidden = options.division.architecture.hidden;
  return {.tensors = {{.rows = options.ends.head / hidden, .columns = hidden}}};
}

std::vector<GradientEntry> head_entries(const WeightOptions& options) {
  std::vector<GradientEntry> entries;
  if (options.ends.head > 0) entries.push_back(head_matrix_entry(options));
  entries.push_back(norm_entry(options.division.architecture));
  return entries;
}

GradientEntry embedding_entry(const WeightOptions& options) {
  const std::int64_t hidden = options.division.architecture.hidden;
  const EmbeddingAndHeadParameters ends = options.ends;
  GradientEntry entry;
  if (ends.positions > 0)
    entry.tensors.push_back({.rows = ends.positions / hidden, .columns = hidden});
  entry.tensors.push_back({.rows = ends.embedding / hidden, .columns = hidden});
  return entry;
}

// Appends a layer of multi-token prediction with the parameters around it (MtpEntries).
void append_mtp(ChunkWeights& weights, const WeightOptions& options, std::int64_t number) {
  const std::int64_t layer = options.division.architecture.layers + number;
  const LayerKind kind = layer_kind(options.division.architecture, layer);
  const MtpEntries mtp_layers = mtp_entries(options, number);
  std::vector<GradientEntry> entries = mtp_layers.behind;
  for (const GradientEntry& entry : layer_entries(options.division, kind)) entries.push_back(entry);
  entries.insert(entries.end(), mtp_layers.before.begin(), mtp_layers.before.end());
  append_unit(weights, {.layer = static_cast<std::int32_t>(layer)}, entries,
              expert_entries(options.division, kind));
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

std::int64_t ChunkWeights::expert_parameters(const WeightUnit& unit) const {
  std::int64_t sum = 0;
  for (std::size_t i = unit.experts_begin; i < unit.experts_end; ++i)
    sum += experts[i].parameters();
  return sum;
}

std::int64_t ChunkWeights::parameters() const {
  std::int64_t sum = 0;
  for (const GradientEntry& entry : entries) sum += entry.parameters();
  return sum;
}

std::int64_t ChunkWeights::expert_parameters() const {
  std::int64_t sum = 0;
  for (const GradientEntry& entry : experts) sum += entry.parameters();
  return sum;
}

double frozen_element_bytes(const AdapterSet& adapters, const WeightUnit& unit,
                            const Tensor& tensor, double otherwise) {
  const bool beside_adapters = adapters.any() && unit.is_layer() && tensor.columns > 1;
  return beside_adapters ? adapters.frozen_bytes : otherwise;
}

std::int64_t unit_bytes(const WeightOptions& options, const ChunkWeights& weights,
                        const WeightUnit& unit) {
  const double element = options.element;
  double bytes =
      element * static_cast<double>(weights.parameters(unit) + weights.expert_parameters(unit));
  for (const Tensor& tensor : unit.frozen)
    bytes += frozen_element_bytes(options.adapters, unit, tensor, element) *
             static_cast<double>(tensor.elements());
  for (const Tensor& tensor : unit.frozen_experts)
    bytes += frozen_element_bytes(options.adapters, unit, tensor, element) *
             static_cast<double>(tensor.elements());
  return std::llround(bytes);
}

MtpEntries mtp_entries(const WeightOptions& options, std::int64_t number) {
  const Architecture& a = options.division.architecture;
  MtpEntries entries;
  entries.behind = {norm_entry(a)};
  entries.before = {
      {.tensors = {{.rows = a.hidden / options.division.tensor, .columns = 2 * a.hidden}}},
      norm_entry(a),
      norm_entry(a)};
  if (number == 0 && options.shares_embedding && !a.tied_embeddings) {
    const std::int64_t rows = options.ends.embedding / a.hidden;
    entries.before.push_back({.tensors = {{.rows = rows, .columns = a.hidden}}});
  }
  return entries;
}

ChunkWeights chunk_weights(const WeightOptions& options, const ChunkLayers& layers) {
  ChunkWeights weights;
  if (layers.has_head) {
    for (std::int64_t i = options.mtp_layers; i-- > 0;) append_mtp(weights, options, i);
    append_end(weights, head_entries(options), options.trained.head, true);
  }
  for (std::int64_t i = layers.layers; i-- > 0;)
    append_layer(weights, options, layers.first_layer + i);
  if (layers.has_embedding) {
    const bool trained = options.trained.embedding;
    append_end(weights, {embedding_entry(options)}, trained, trained);
  }
  std::ranges::reverse(weights.units);
  return weights;
}

ChunkWeights segment_weights(const WeightOptions& options, const std::vector<Segment>& segments) {
  ChunkWeights weights;
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    if (segment->layer >= 0) {
      const LayerKind kind = layer_kind(options.division.architecture, segment->layer);
      const LayerParts parts = layer_parts(*segment);
      append_unit(
          weights, {.layer = segment->layer}, layer_entries(options.division, kind, parts),
          parts.ffn ? expert_entries(options.division, kind) : std::vector<GradientEntry>{});
      continue;
    }
    std::vector<GradientEntry> entries;
    if (segment->holds(Operator::Embedding)) entries.push_back(embedding_entry(options));
    if (segment->holds(Operator::Head) && options.ends.head > 0)
      entries.push_back(head_matrix_entry(options));
    if (segment->holds(Operator::FinalNorm))
      entries.push_back(norm_entry(options.division.architecture));
    append_unit(weights, {}, entries);
  }
  std::ranges::reverse(weights.units);
  return weights;
}

}  // namespace trainyard
