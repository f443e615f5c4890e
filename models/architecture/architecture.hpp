// A transformer's shape, how it is read, and how many parameters follow from it.
//
// Architectures are data (models/data/*.json). Families are told apart by their parts (gated
// feed-forward, biases, norm, positions, tied head, experts, latent attention), never by name.
//
//   Architecture a = load_architecture("llama3-8b");
//   parameter_count(a);   // 8 030 261 248, exactly
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

enum class Positions : std::uint8_t { Learned, Rotary };
enum class NormKind : std::uint8_t { LayerNorm, RmsNorm };

// The kinds of a layer's two blocks, as their places in the table of kinds (layer_block.hpp).
struct LayerKind {
  std::uint8_t attention = 0;
  std::uint8_t ffn = 0;
  auto operator<=>(const LayerKind&) const = default;
};

struct Architecture {
  std::string name;
  std::string source;  // where the numbers come from
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;  // query heads
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  // of queries and keys, and of values unless value_dim says otherwise
  std::int64_t ffn = 0;       // of dense layers
  std::int64_t vocab = 0;     // as trained, before padding
  std::int64_t max_positions = 0;
  bool gated_ffn = false;   // SwiGLU: gate and up
  bool biases = false;      // on every linear layer but the head (GPT)
  bool qkv_biases = false;  // on queries, keys and values alone (Qwen2)
  bool qk_norm = false;     // an RmsNorm over each head of queries and of keys (Qwen3)
  bool post_norms = false;  // behind attention and feed-forward too, before the sums (Gemma 2)
  bool tied_embeddings = false;
  bool dropout = false;  // residual and attention dropout with stored masks
  Positions positions = Positions::Rotary;
  NormKind norm = NormKind::RmsNorm;  // a LayerNorm has gain and shift, an RmsNorm only the gain

  // Attention within a sliding window, where window is not 0: a position sees itself and the
  // window - 1 before it. The last of every full_attention_every layers sees all; 0: none does.
  std::int64_t window = 0;
  std::int64_t full_attention_every = 0;

  // Multi-head latent attention (DeepSeek-AI 2405.04434 section 2.1), where kv_latent is not 0.
  std::int64_t query_latent = 0;  // width queries are compressed to; 0: they are not
  std::int64_t kv_latent = 0;     // width keys and values are compressed to
  std::int64_t rope_dim = 0;      // of head_dim, the part that carries positions; shared by heads
  std::int64_t value_dim = 0;     // of one head; 0: head_dim

  // Mixture of experts, where experts is not 0.
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;  // top-k
  std::int64_t expert_ffn = 0;         // inner width of one expert
  std::int64_t shared_ffn = 0;         // of the experts that see every token, together
  std::int64_t dense_layers = 0;       // the first so many layers have no experts
  std::int64_t moe_every = 1;          // after them, the last of every so many has
  std::int64_t expert_groups = 1;      // node-limited routing: experts stand in so many groups
  std::int64_t groups_per_token = 1;   // and a token reaches at most so many of them
  bool router_bias = false;            // one number an expert, which balances the load
  bool clamped_experts = false;        // gate and up are cut off before the activation (GPT-OSS)

  [[nodiscard]] bool latent() const { return kv_latent > 0; }
  [[nodiscard]] bool has_experts() const { return experts > 0; }
  // Whether a layer, counted from 0, attends within the window alone.
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
  // Counts the norms of a layer, but for those of heads and latents.
  [[nodiscard]] std::int64_t norms() const { return post_norms ? 4 : 2; }

  bool operator==(const Architecture&) const = default;
};

// One row for each field of a models/data file, and of the model's section of a scenario.
[[nodiscard]] std::span<const Field<Architecture>> architecture_fields();

// The model that fields which are left out describe: a Llama, of no size.
[[nodiscard]] Architecture default_architecture();

// The fields of a models/data file, or of a model written inline in a scenario. Optional ones: name
// ("custom"), source, kv_heads (heads), head_dim (hidden / heads), and those that tell the families
// apart, whose defaults are a Llama's. Faults go to the file's list of problems.
[[nodiscard]] Architecture read_architecture(JsonObject object);

// By name from models/data, or a path ending in .json. Throws InputError.
[[nodiscard]] Architecture load_architecture(const std::string& name_or_path);

// The file of such a model, with a name where it gives none: that of the file.
[[nodiscard]] JsonFile architecture_file(const std::string& name_or_path);
[[nodiscard]] std::vector<std::string> architecture_names();

// Every parameter, unpadded vocabulary (reference: oracle 47, exact).
[[nodiscard]] std::int64_t parameter_count(const Architecture& architecture);
// The parameters that one token meets: of the experts only the ones it is sent to. Mixtral 8x7B:
// 12 879 925 248.
[[nodiscard]] std::int64_t active_parameter_count(const Architecture& architecture);
// One transformer layer, norms and biases included.
[[nodiscard]] std::int64_t layer_parameter_count(const Architecture& architecture, LayerKind kind);

// V0 padded so that every tensor rank has the same whole number of rows:
// ceil(V0 / (multiple*t)) * multiple*t (Megatron: multiple = 128).
[[nodiscard]] std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tensor,
                                        std::int64_t multiple);

}  // namespace trainyard
