// A transformer's shape, and what follows from it alone: parameters and FLOPs.
//
// Architectures are data (models/data/*.json). GPT and Llama families are told apart by their parts
// (gated feed-forward, biases, norm, positions, tied head), never by name.
//
//   Architecture a = load_architecture("llama3-8b");
//   parameter_count(a);   // 8 030 261 248, exactly
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace trainyard {

class JsonObject;

enum class Positions : std::uint8_t { Learned, Rotary };
enum class NormKind : std::uint8_t { LayerNorm, RmsNorm };

struct Architecture {
  std::string name;
  std::string source;  // where the numbers come from
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;  // query heads
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;  // as trained, before padding
  std::int64_t max_positions = 0;
  bool gated_ffn = false;  // SwiGLU: gate and up
  bool biases = false;     // on every linear layer but the head (GPT)
  bool tied_embeddings = false;
  bool dropout = false;  // residual and attention dropout with stored masks
  Positions positions = Positions::Rotary;
  NormKind norm = NormKind::RmsNorm;  // a LayerNorm has gain and shift, an RmsNorm only the gain

  [[nodiscard]] std::int64_t query_width() const { return heads * head_dim; }  // q
  [[nodiscard]] std::int64_t kv_width() const { return kv_heads * head_dim; }  // kappa
  [[nodiscard]] std::int64_t ffn_inputs() const { return gated_ffn ? 2 : 1; }
  [[nodiscard]] std::int64_t norm_width() const {
    return norm == NormKind::LayerNorm ? 2 * hidden : hidden;
  }
};

// The fields of a models/data file, or of a model written inline in a scenario. Optional ones: name
// ("custom"), source, kv_heads (heads), head_dim (hidden / heads), and those that tell the families
// apart, whose defaults are a Llama's. Faults go to the file's list of problems.
[[nodiscard]] Architecture read_architecture(JsonObject object);

// By name from models/data, or a path ending in .json. Throws InputError.
[[nodiscard]] Architecture load_architecture(const std::string& name_or_path);
[[nodiscard]] std::vector<std::string> architecture_names();

// Every parameter, unpadded vocabulary (reference: oracle 47, exact).
[[nodiscard]] std::int64_t parameter_count(const Architecture& architecture);
// One transformer layer, norms and biases included.
[[nodiscard]] std::int64_t layer_parameter_count(const Architecture& architecture);

// How attention's square is counted: in full (Narayanan et al. 2021) or its causal half.
enum class AttentionCount : std::uint8_t { Full, Causal };

// Model FLOPs of one optimizer step: forward and backward without recomputation, 3 times the
// forward, forward = sum over layers of 2*tokens*weights + 4*tokens*s*q*chi, plus 2*tokens*h*V.
// Narayanan et al. 2104.04473 eq. 3 and Korthikanti et al. 2205.05198 eq. 7 for the GPT shape.
struct FlopsQuery {
  std::int64_t sequences = 0;  // global batch
  std::int64_t sequence_length = 0;
  std::int64_t vocab = 0;  // padded or not, as the source counts
  AttentionCount attention = AttentionCount::Causal;
};
[[nodiscard]] Flops model_flops(const Architecture& architecture, const FlopsQuery& query);

// V0 padded so that every tensor rank has the same whole number of rows:
// ceil(V0 / (multiple*t)) * multiple*t (Megatron: multiple = 128).
[[nodiscard]] std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tensor,
                                        std::int64_t multiple);

}  // namespace trainyard
