#include "models/architecture/weights.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

using Modules = std::array<bool RecomputeModules::*, 2>;

// The values' half of one product was kept, and the gate's half of another.
constexpr double kHalf = 0.5;

std::vector<Weight> attention(const Architecture& a) {
  const bool bias = a.biases || a.qkv_biases;
  const std::int64_t norm = a.qk_norm ? a.head_dim : 0;
  return {{.name = "query",
           .inputs = a.hidden,
           .outputs = a.query_width(),
           .split = Split::Column,
           .units = a.heads,
           .bias = bias,
           .vector = norm},
          {.name = "key_value",
           .inputs = a.hidden,
           .outputs = 2 * a.kv_width(),
           .split = Split::Column,
           .units = 2 * a.kv_width(),  // a head may be cut (kv_heads_per_rank)
           .bias = bias,
           .joined = true,
           .parts = 2,
           .vector = norm,
           .second_product = kHalf}};
}

// The down-projections stand on every tensor rank; heads are divided.
std::vector<Weight> latent_attention(const Architecture& a) {
  constexpr Modules kUp{&RecomputeModules::latent_up};
  const bool compressed = a.query_latent > 0;
  std::vector<Weight> weights;
  if (compressed)
    weights.push_back({.name = "query_down",
                       .inputs = a.hidden,
                       .outputs = a.query_latent,
                       .vector = a.query_latent});
  weights.push_back({.name = "query",
                     .inputs = compressed ? a.query_latent : a.hidden,
                     .outputs = a.query_width(),
                     .split = Split::Column,
                     .units = a.heads,
                     .modules = compressed ? kUp : Modules{}});
  weights.push_back({.name = "key_value_down",
                     .inputs = a.hidden,
                     .outputs = a.kv_latent + a.rope_dim,
                     .vector = a.kv_latent});
  weights.push_back({.name = "key_value",
                     .inputs = a.kv_latent,
                     .outputs = a.heads * (a.head_dim - a.rope_dim + a.value_head()),
                     .split = Split::Column,
                     .units = a.heads,
                     .modules = kUp});
  return weights;
}

struct FeedForwardWeights {
  std::string_view up;
  std::string_view down;
  std::int64_t width = 0;
  std::int64_t copies = 1;
  std::int64_t active = 1;
  Modules modules = {};
  double second_product = 0.0;  // of the way up
};

std::vector<Weight> feed_forward(const Architecture& a, const FeedForwardWeights& part) {
  return {{.name = part.up,
           .inputs = a.hidden,
           .outputs = a.ffn_inputs() * part.width,
           .split = Split::Column,
           .units = part.width,
           .bias = a.biases,
           .copies = part.copies,
           .active = part.active,
           .parts = a.ffn_inputs(),
           .modules = part.modules,
           .second_product = part.second_product},
          {.name = part.down,
           .inputs = part.width,
           .outputs = a.hidden,
           .split = Split::Row,
           .units = part.width,
           .bias = a.biases,
           .copies = part.copies,
           .active = part.active,
           .modules = part.modules}};
}

void append(std::vector<Weight>& weights, const std::vector<Weight>& more) {
  weights.insert(weights.end(), more.begin(), more.end());
}

std::vector<Weight> experts(const Architecture& a) {
  constexpr Modules kRouted{&RecomputeModules::experts};
  constexpr Modules kShared{&RecomputeModules::experts, &RecomputeModules::shared_experts};
  std::vector<Weight> weights{{.name = "router",
                               .part = WeightPart::Router,
                               .inputs = a.hidden,
                               .outputs = a.experts,
                               .vector = a.router_bias ? a.experts : 0,
                               .modules = kRouted}};
  append(weights, feed_forward(a, {.up = "expert_up",
                                   .down = "expert_down",
                                   .width = a.expert_ffn,
                                   .copies = a.experts,
                                   .active = a.experts_per_token,
                                   .modules = kRouted}));
  if (a.shared_ffn > 0)
    append(weights, feed_forward(a, {.up = "shared_up",
                                     .down = "shared_down",
                                     .width = a.shared_ffn,
                                     .modules = kShared}));
  return weights;
}

}  // namespace

std::vector<Weight> layer_weights(const Architecture& a, LayerKind kind) {
  std::vector<Weight> weights = a.latent() ? latent_attention(a) : attention(a);
  weights.push_back({.name = "projection",
                     .inputs = a.output_width(),
                     .outputs = a.hidden,
                     .split = Split::Row,
                     .units = a.heads,
                     .bias = a.biases,
                     .second_product = 1.0});
  for (Weight& weight : weights) weight.part = WeightPart::Attention;
  append(weights, kind == LayerKind::Moe
                      ? experts(a)
                      : feed_forward(a, {.up = "up",
                                         .down = "down",
                                         .width = a.ffn,
                                         .modules = {&RecomputeModules::feed_forward},
                                         .second_product = kHalf}));
  return weights;
}

std::int64_t layer_vectors(const Architecture& a, LayerKind kind) {
  std::int64_t numbers = a.norms() * a.norm_width();
  for (const Weight& weight : layer_weights(a, kind)) numbers += weight.vector;
  return numbers;
}

std::int64_t split_parameters(const Weight& weight, std::int64_t tensor) {
  TY_CHECK(tensor > 0 && (weight.split == Split::None || weight.units % tensor == 0), tensor,
           weight.units, weight.name);
  const std::int64_t units = weight.units / tensor;
  switch (weight.split) {
    case Split::Column: {
      const std::int64_t outputs = weight.outputs / weight.units * units;
      return weight.inputs * outputs + (weight.bias ? outputs : 0);
    }
    case Split::Row:  // the bias is added once, after the partial sums are joined
      return weight.inputs / weight.units * units * weight.outputs;
    case Split::None:
      return 0;
  }
  return 0;
}

// ---- shards

namespace {

// From latents every query head gets keys and values of its own.
std::int64_t key_heads(const Architecture& a) { return a.latent() ? a.heads : a.kv_heads; }

}  // namespace

std::int64_t kv_heads_per_rank(const Architecture& architecture, std::int64_t tensor) {
  return std::max<std::int64_t>(1, key_heads(architecture) / tensor);
}

std::int64_t key_value_width_per_rank(const Architecture& architecture, std::int64_t tensor) {
  const std::int64_t value =
      architecture.latent() ? architecture.value_head() : architecture.head_dim;
  return kv_heads_per_rank(architecture, tensor) * (architecture.head_dim + value);
}

std::int64_t kv_width_per_rank(const Architecture& architecture, std::int64_t tensor) {
  return kv_heads_per_rank(architecture, tensor) * architecture.head_dim;
}

bool replicates_kv_heads(const Architecture& architecture, std::int64_t tensor) {
  return tensor > key_heads(architecture);
}

LayerShard layer_shard(const Architecture& architecture, std::int64_t tensor,
                       const LayerShardQuery& query) {
  LayerShard shard;
  shard.replicated = layer_vectors(architecture, query.kind);
  for (const Weight& weight : layer_weights(architecture, query.kind)) {
    if (weight.expert()) {
      TY_CHECK(weight.copies % query.expert == 0, weight.copies, query.expert);
      const std::int64_t bias =
          weight.bias && weight.split == Split::Row ? weight.outputs : std::int64_t{0};
      shard.experts +=
          weight.copies / query.expert * (split_parameters(weight, query.expert_tensor) + bias);
      continue;
    }
    shard.sharded += split_parameters(weight, tensor);
    if (weight.split == Split::None) shard.replicated += weight.parameters();
    if (weight.split == Split::Row && weight.bias) shard.replicated += weight.outputs;
  }
  return shard;
}

}  // namespace trainyard
