#include "models/lower/entries.hpp"

#include <algorithm>
#include <string_view>

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

// The matrices of a layer of one rank, by name.
class Layer {
 public:
  Layer(const WeightDivision& weights, LayerKind kind)
      : arch_(weights.architecture),
        weights_(layer_weights(weights.architecture, kind)),
        tensor_(weights.tensor) {}

  [[nodiscard]] GradientEntry of(std::string_view name, std::int64_t parts = 1) const {
    const auto found = std::find_if(weights_.begin(), weights_.end(),
                                    [&](const Weight& weight) { return weight.name == name; });
    TY_CHECK(found != weights_.end(), name);
    return matrix_entry(*found, tensor_, parts);
  }
  // With a vector beside it that has as many numbers.
  [[nodiscard]] GradientEntry with(std::string_view name, std::int64_t numbers) const {
    GradientEntry entry = of(name);
    if (numbers > 0) entry.tensors.push_back({.rows = numbers});
    return entry;
  }
  [[nodiscard]] GradientEntry qkv() const {
    GradientEntry entry = of("key_value", 2);
    append(entry, of("query"));
    if (arch_.biases) {  // one matrix for all three
      std::int64_t rows = 0;
      for (const Tensor& tensor : entry.tensors) rows += tensor.columns > 1 ? tensor.rows : 0;
      entry.tensors = {{.rows = rows}, {.rows = rows, .columns = arch_.hidden}};
    }
    // Norms over heads come behind the products, so before them here.
    if (arch_.qk_norm)
      entry.tensors.insert(entry.tensors.begin(), 2, Tensor{.rows = arch_.head_dim});
    return entry;
  }

 private:
  const Architecture& arch_;
  std::vector<Weight> weights_;
  std::int64_t tensor_;
};

void add_attention(const Architecture& a, const Layer& layer, Entries& entries) {
  entries.push_back(layer.of("projection"));
  if (!a.latent()) {
    entries.push_back(layer.qkv());
    return;
  }
  entries.push_back(layer.of("key_value"));
  entries.push_back(layer.with("key_value_down", a.kv_latent));
  entries.push_back(layer.of("query"));
  if (a.query_latent > 0) entries.push_back(layer.with("query_down", a.query_latent));
}

void add_feed_forward(const Architecture& a, LayerKind kind, const Layer& layer, Entries& entries) {
  if (kind == LayerKind::Dense) {
    entries.push_back(layer.of("down"));
    entries.push_back(layer.of("up", a.ffn_inputs()));
    return;
  }
  if (a.shared_ffn > 0) {
    entries.push_back(layer.of("shared_down"));
    entries.push_back(layer.of("shared_up", a.ffn_inputs()));
  }
  entries.push_back(layer.with("router", a.router_bias ? a.experts : 0));
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
  const Layer layer(weights, kind);
  Entries entries;
  if (parts.ffn && a.post_norms) entries.push_back(norm_entry(a));
  if (parts.ffn) add_feed_forward(a, kind, layer, entries);
  if (parts.ffn_norm) entries.push_back(norm_entry(a));
  if (parts.attention && a.post_norms) entries.push_back(norm_entry(a));
  if (parts.attention) add_attention(a, layer, entries);
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
