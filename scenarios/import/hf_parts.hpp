// The parts of a decoder, as Hugging Face configurations write them: each function reads the keys
// of one part and fills in its fields of the shape, or notes what the shape leaves out. A family
// (hf_families.cpp) is a list of such parts.
//
//    hf::fill_sizes(keys, made, hf::kLlamaSizes);
//    hf::fill_window(keys, made, 2);   // Gemma 2: every second layer has full attention
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import/hf_keys.hpp"

namespace trainyard {

struct HfShape {
  nlohmann::ordered_json shape;    // the fields of a models/data file, with its source
  std::vector<std::string> notes;  // properties of the model that the shape omits, a sentence each
};

namespace hf {

// Adds a note, once.
void note(HfShape& made, std::string_view sentence);

// ---- sizes

inline constexpr std::array<std::string_view, 4> kLayers{"num_hidden_layers", "n_layer", "n_layers",
                                                         "num_layers"};
inline constexpr std::array<std::string_view, 4> kHidden{"hidden_size", "n_embd", "d_model",
                                                         "n_embed"};
inline constexpr std::array<std::string_view, 3> kHeads{"num_attention_heads", "n_head", "n_heads"};
inline constexpr std::array<std::string_view, 3> kKvHeads{"num_key_value_heads", "num_kv_heads",
                                                          "n_head_kv"};
inline constexpr std::array<std::string_view, 2> kHeadDim{"head_dim", "attention_head_dim"};
inline constexpr std::array<std::string_view, 4> kFfn{"intermediate_size", "ffn_dim", "n_inner",
                                                      "ffn_hidden_size"};
inline constexpr std::array<std::string_view, 5> kPositions{
    "max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "model_max_length"};

// The keys of the sizes that every decoder has, and what a file may omit.
struct SizeKeys {
  HfKeys::Names layers = kLayers, hidden = kHidden, heads = kHeads, kv_heads = kKvHeads,
                head_dim = kHeadDim, ffn = kFfn, positions = kPositions;
  std::int64_t ffn_ratio = 0;          // ffn over hidden where the file has no ffn; 0: it must
  std::int64_t default_positions = 0;  // 0: the file must give them
};

inline constexpr SizeKeys kLlamaSizes{};
[[nodiscard]] const SizeKeys& gpt_sizes();  // in the names of GPT-2
[[nodiscard]] const SizeKeys& mpt_sizes();  // in the names of MPT and DBRX

void fill_sizes(HfKeys& keys, HfShape& made, const SizeKeys& sizes);

// ---- attention

inline constexpr std::string_view kWindow =
    "attention within a sliding window or a chunk is counted over the whole sequence";

// Sets the attention window. A window that covers all positions counts as none. `every` is the
// period of full attention of the family, for a file that gives neither layer types nor a pattern.
void fill_window(HfKeys& keys, HfShape& made, std::int64_t every);

// Multi-head latent attention, but the width of a head's values.
void fill_latent(HfKeys& keys, HfShape& made);

// No positions but a bias of the scores by distance, which is noted.
void use_alibi(HfShape& made);

// ---- experts

struct ExpertKeys {
  std::string_view number = "num_experts";
  std::string_view per_token = "num_experts_per_tok";
  std::string_view width = "moe_intermediate_size";
};
void fill_experts(HfKeys& keys, HfShape& made, const ExpertKeys& names);

// The experts that see every token, together: `number` of the width of a routed one.
void fill_shared_experts(HfKeys& keys, HfShape& made, std::string_view number);

// Sets which layers have experts. The shape can express: after the first dense layers, the last of
// every so many. Other rules are a problem of the key `name`.
void fill_sparse_layers(HfKeys& keys, HfShape& made, std::string_view name,
                        const std::function<bool(std::int64_t layer)>& has_experts);

// In the keys of DeepSeek: shared experts, which layers have experts, groups of experts.
void fill_deepseek_routing(HfKeys& keys, HfShape& made);

// ---- settings that the shape cannot express

// Biases of the feed-forward part, dropout, caps of scores and logits.
void note_switches(HfKeys& keys, HfShape& made);
// Modules for multi-token prediction are a choice of training, so the shape does not have them.
void note_mtp(HfKeys& keys, HfShape& made);
void note_clamp(HfKeys& keys, HfShape& made, std::string_view name);

}  // namespace hf
}  // namespace trainyard
