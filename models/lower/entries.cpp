#include "models/lower/entries.hpp"

#include <algorithm>
#include <ranges>
#include <span>

#include "models/architecture/shard.hpp"
#include "models/architecture/weights.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

using Entries = std::vector<GradientEntry>;

// One rank's part of a matrix as PyTorch keeps it (outputs by inputs), in `parts` along the rows,
// each behind its bias. What stands on every rank is not divided.
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

// Matrices that one product multiplies, the last one first, with the vectors beside them. Norms
// over heads come behind the product of several, so before it here. With biases such a product has
// one matrix.
GradientEntry product_entry(std::span<const Weight> weights, const WeightDivision& division) {
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

// Of the products of one block, the last one first.
void add_products(std::span<const Weight> weights, const WeightDivision& division,
                  Entries& entries) {
  while (!weights.empty()) {
    std::size_t first = weights.size() - 1;
    while (weights[first].joined) --first;
    const std::span<const Weight> product = weights.subspan(first);
    if (!product.front().expert()) entries.push_back(product_entry(product, division));
    weights = weights.first(first);
  }
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
  const std::vector<Weight> matrices = layer_weights(a, kind);
  const auto projection = std::ranges::find(matrices, "projection", &Weight::name);
  const auto attention = static_cast<std::size_t>(projection - matrices.begin()) + 1;
  const std::span all(matrices);
  Entries entries;
  if (parts.ffn && a.post_norms) entries.push_back(norm_entry(a));
  if (parts.ffn) add_products(all.subspan(attention), weights, entries);
  if (parts.ffn_norm) entries.push_back(norm_entry(a));
  if (parts.attention && a.post_norms) entries.push_back(norm_entry(a));
  if (parts.attention) add_products(all.first(attention), weights, entries);
  if (parts.attention_norm) entries.push_back(norm_entry(a));
  if (!parts.whole()) return entries;
  const LayerShard shard = layer_shard(a, weights.tensor, {.kind = kind});
  std::int64_t sum = 0;
  for (const GradientEntry& entry : entries) sum += entry.parameters();
  TY_CHECK(sum == shard.sharded + shard.replicated, sum, shard.sharded, shard.replicated);
  return entries;
}

std::vector<GradientEntry> expert_entries(const WeightDivision& weights, LayerKind kind) {
  if (kind == LayerKind::Dense) return {};
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

}  // namespace trainyard
