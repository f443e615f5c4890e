// The shape of a transformer, how a file describes it, and the number of parameters that follows
// from it.
//
// Architectures are data (models/data/*.json). The code distinguishes model families by their parts
// (gated feed-forward, biases, norm, positions, tied LM head, experts, latent attention), never by
// name.
//
//    Architecture a = load_architecture("llama3-8b");
//    parameter_count(a);   // 8 030 261 248, exactly
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace trainyard {

class JsonFile;
class JsonObject;
template <class Owner>
struct Field;  // sim/base/field.hpp

// None: no positions, or a bias of the scores by distance (ALiBi), which has no parameters and no
// kernel of its own.
enum class Positions : std::uint8_t { Learned, Rotary, None };
enum class NormKind : std::uint8_t { LayerNorm, RmsNorm };

// The kinds of the two blocks of a layer, as indices into the table of kinds (layer_block.hpp).
struct LayerKind {
  std::uint8_t attention = 0;
  std::uint8_t ffn = 0;
  auto operator<=>(const LayerKind&) const = default;
};

struct Architecture {
  std::string name;
  std::string source;  // source of the numbers
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;  // query heads
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  // of queries and keys, and of values unless value_dim is set
  std::int64_t ffn = 0;       // of dense layers
  std::int64_t vocab = 0;     // as trained, before padding
  std::int64_t max_positions = 0;
  bool gated_ffn = false;   // SwiGLU: gate and up
  bool biases = false;      // on every linear layer but the LM head (GPT)
  bool qkv_biases = false;  // on queries, keys and values only (Qwen2)
  bool qk_norm = false;     // an RmsNorm over each head of queries and of keys (Qwen3)
  // Also after attention and feed-forward, before the residual addition (Gemma 2).
  bool post_norms = false;
  bool tied_embeddings = false;
  bool dropout = false;  // residual and attention dropout with stored masks
  Positions positions = Positions::Rotary;
  NormKind norm = NormKind::RmsNorm;  // a LayerNorm has gain and bias, an RmsNorm only the gain

  // Attention within a sliding window, where window is not 0: a position attends to itself and to
  // the window - 1 positions before it. The last of every full_attention_every layers attends to
  // all positions; 0: no layer does.
  std::int64_t window = 0;
  std::int64_t full_attention_every = 0;

  // Multi-head latent attention (DeepSeek-AI 2405.04434 section 2.1), where kv_latent is not 0.
  std::int64_t query_latent = 0;  // width to which queries are compressed; 0: not compressed
  std::int64_t kv_latent = 0;     // width to which keys and values are compressed
  std::int64_t rope_dim = 0;      // the part of head_dim that carries positions; all heads share it
  std::int64_t value_dim = 0;     // of one head; 0: head_dim

  // Mixture of experts, where experts is not 0.
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;  // top-k
  std::int64_t expert_ffn = 0;         // inner width of one expert
  std::int64_t shared_ffn = 0;         // inner width of all shared experts together
  std::int64_t dense_layers = 0;       // number of first layers that have no experts
  // After the dense layers, the last of every moe_every layers has experts.
  std::int64_t moe_every = 1;
  std::int64_t expert_groups = 1;  // node-limited routing: number of groups of experts
  // Node-limited routing: most groups that one token is routed to.
  std::int64_t groups_per_token = 1;
  bool router_bias = false;      // one number per expert, which balances the load
  bool clamped_experts = false;  // gate and up are clamped before the activation (GPT-OSS)

  [[nodiscard]] bool latent() const { return kv_latent > 0; }
  [[nodiscard]] bool has_experts() const { return experts > 0; }
  // True if the layer, counted from 0, attends only within the window.
  [[nodiscard]] bool windowed(std::int64_t layer) const {
    return window > 0 && (full_attention_every == 0 || (layer + 1) % full_attention_every != 0);
  }
  [[nodiscard]] std::int64_t query_width() const { return heads * head_dim; }  // q
  [[nodiscard]] std::int64_t kv_width() const { return kv_heads * head_dim; }  // kappa
  [[nodiscard]] std::int64_t value_head() const { return value_dim > 0 ? value_dim : head_dim; }
  [[nodiscard]] std::int64_t output_width() const { return heads * value_head(); }
  [[nodiscard]] std::int64_t ffn_inputs() const { return gated_ffn ? 2 : 1; }
  [[nodiscard]] std::int64_t norm_width() const {
    return norm == NormKind::LayerNorm ? 2 * hidden : hidden;
  }
  // Number of norms of a layer, without those of heads and latents.
  [[nodiscard]] std::int64_t norms() const { return post_norms ? 4 : 2; }

  bool operator==(const Architecture&) const = default;
};

// One entry for each field of a models/data file and of the model section of a scenario.
[[nodiscard]] std::span<const Field<Architecture>> architecture_fields();

// The values of fields that a file omits: those of a Llama, with sizes of zero.
[[nodiscard]] Architecture default_architecture();

// Reads the fields of a models/data file, or of a model written inline in a scenario. Optional are:
// name ("custom"), source, kv_heads (heads), head_dim (hidden / heads), and the fields that
// distinguish model families, whose defaults are those of a Llama. Errors go to the file's list of
// problems.
[[nodiscard]] Architecture read_architecture(JsonObject object);

// Reads a model by its name in models/data, or from a path that ends in .json. Throws InputError.
[[nodiscard]] Architecture load_architecture(const std::string& name_or_path);

// The file of such a model. If it contains no name, the name of the file is added.
[[nodiscard]] JsonFile architecture_file(const std::string& name_or_path);
[[nodiscard]] std::vector<std::string> architecture_names();

// Number of all parameters, with the unpadded vocabulary (checked against published counts, exact).
[[nodiscard]] std::int64_t parameter_count(const Architecture& architecture);
// Number of parameters that one token uses: of the experts, only those that it is routed to.
// Mixtral 8x7B: 12 879 925 248.
[[nodiscard]] std::int64_t active_parameter_count(const Architecture& architecture);
// Number of parameters of one transformer layer, with norms and biases.
[[nodiscard]] std::int64_t layer_parameter_count(const Architecture& architecture, LayerKind kind);

// The vocabulary V0, padded so that every tensor rank has the same integer number of entries:
// ceil(V0 / (multiple*t)) * multiple*t (Megatron: multiple = 128).
[[nodiscard]] std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tensor,
                                        std::int64_t multiple);

}  // namespace trainyard
