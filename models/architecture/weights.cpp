#include "models/architecture/weights.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

void add_attention(const Architecture& a, std::vector<Weight>& weights) {
  const bool bias = a.biases || a.qkv_biases;
  weights.push_back({.name = "query",
                     .inputs = a.hidden,
                     .outputs = a.query_width(),
                     .split = Split::Column,
                     .units = a.heads,
                     .bias = bias});
  weights.push_back({.name = "key_value",
                     .inputs = a.hidden,
                     .outputs = 2 * a.kv_width(),
                     .split = Split::Column,
                     .units = 2 * a.kv_width(),  // a head may be cut (shard.hpp)
                     .bias = bias});
}

// The down-projections stand on every tensor rank; heads are divided.
void add_latent_attention(const Architecture& a, std::vector<Weight>& weights) {
  if (a.query_latent > 0)
    weights.push_back({.name = "query_down", .inputs = a.hidden, .outputs = a.query_latent});
  weights.push_back({.name = "query",
                     .inputs = a.query_latent > 0 ? a.query_latent : a.hidden,
                     .outputs = a.query_width(),
                     .split = Split::Column,
                     .units = a.heads});
  weights.push_back(
      {.name = "key_value_down", .inputs = a.hidden, .outputs = a.kv_latent + a.rope_dim});
  weights.push_back({.name = "key_value",
                     .inputs = a.kv_latent,
                     .outputs = a.heads * (a.head_dim - a.rope_dim + a.value_head()),
                     .split = Split::Column,
                     .units = a.heads});
}

struct FeedForward {
  std::string_view up;
  std::string_view down;
  std::int64_t width = 0;
  std::int64_t copies = 1;
  std::int64_t active = 1;
};

void add_feed_forward(const Architecture& a, const FeedForward& part,
                      std::vector<Weight>& weights) {
  weights.push_back({.name = part.up,
                     .inputs = a.hidden,
                     .outputs = a.ffn_inputs() * part.width,
                     .split = Split::Column,
                     .units = part.width,
                     .bias = a.biases,
                     .copies = part.copies,
                     .active = part.active});
  weights.push_back({.name = part.down,
                     .inputs = part.width,
                     .outputs = a.hidden,
                     .split = Split::Row,
                     .units = part.width,
                     .bias = a.biases,
                     .copies = part.copies,
                     .active = part.active});
}

}  // namespace

std::vector<Weight> layer_weights(const Architecture& a, LayerKind kind) {
  std::vector<Weight> weights;
  a.latent() ? add_latent_attention(a, weights) : add_attention(a, weights);
  weights.push_back({.name = "projection",
                     .inputs = a.output_width(),
                     .outputs = a.hidden,
                     .split = Split::Row,
                     .units = a.heads,
                     .bias = a.biases});
  if (kind == LayerKind::Dense) {
    add_feed_forward(a, {.up = "up", .down = "down", .width = a.ffn}, weights);
    return weights;
  }
  weights.push_back({.name = "router", .inputs = a.hidden, .outputs = a.experts});
  add_feed_forward(a,
                   {.up = "expert_up",
                    .down = "expert_down",
                    .width = a.expert_ffn,
                    .copies = a.experts,
                    .active = a.experts_per_token},
                   weights);
  if (a.shared_ffn > 0)
    add_feed_forward(a, {.up = "shared_up", .down = "shared_down", .width = a.shared_ffn}, weights);
  return weights;
}

std::int64_t layer_vectors(const Architecture& a, LayerKind kind) {
  std::int64_t numbers = a.norms() * a.norm_width();
  if (a.qk_norm) numbers += 2 * a.head_dim;
  if (a.latent()) numbers += a.query_latent + a.kv_latent;
  if (kind == LayerKind::Moe && a.router_bias) numbers += a.experts;
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

}  // namespace trainyard
