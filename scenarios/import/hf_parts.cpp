#include "scenarios/import/hf_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace trainyard::hf {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostLayers = 100'000;  // of a shape

constexpr std::array<std::string_view, 2> kGptLayers{"n_layer", "num_hidden_layers"};
constexpr std::array<std::string_view, 3> kGptHidden{"n_embd", "hidden_size", "n_embed"};
constexpr std::array<std::string_view, 2> kGptHeads{"n_head", "num_attention_heads"};
constexpr std::array<std::string_view, 2> kGptFfn{"n_inner", "intermediate_size"};
constexpr std::array<std::string_view, 3> kGptPositions{"n_positions", "max_position_embeddings",
                                                        "seq_length"};

constexpr std::array<std::string_view, 1> kMptLayers{"n_layers"};
constexpr std::array<std::string_view, 1> kMptHidden{"d_model"};
constexpr std::array<std::string_view, 1> kMptHeads{"n_heads"};
constexpr std::array<std::string_view, 1> kMptPositions{"max_seq_len"};
constexpr std::array<std::string_view, 1> kMptKvHeads{"attn_config/kv_n_heads"};
constexpr std::array<std::string_view, 1> kMptFfn{"ffn_config/ffn_hidden_size"};

// Key-value heads and the width of heads, with the rules between them.
void fill_heads(HfKeys& keys, HfShape& made, const SizeKeys& sizes) {
  Json& shape = made.shape;
  const auto hidden = shape["hidden"].get<std::int64_t>();
  const auto heads = shape["heads"].get<std::int64_t>();
  const std::int64_t kv_heads = keys.get(sizes.kv_heads, heads);
  const std::int64_t head_dim = keys.get(sizes.head_dim, 0);
  shape["kv_heads"] = kv_heads;
  shape["head_dim"] = head_dim > 0 ? head_dim : hidden / heads;
  // A size that is missing or wrong has a stand-in value, to which the rules do not apply.
  if (!keys.is_sound()) return;
  if (kv_heads < 1 || heads % kv_heads != 0)
    keys.report(keys.written(sizes.kv_heads),
                fmt::format("{} heads do not divide among {} key-value heads", heads, kv_heads),
                "every key-value head serves the same number of heads");
  if (head_dim < 1 && hidden % heads != 0)
    keys.report(keys.written(sizes.heads),
                fmt::format("hidden size {} does not divide by {} heads", hidden, heads),
                "the heads divide the hidden size where head_dim is not given");
}

}  // namespace

void note(HfShape& made, std::string_view sentence) {
  if (std::ranges::find(made.notes, sentence) == made.notes.end())
    made.notes.emplace_back(sentence);
}

// ---- sizes

const SizeKeys& gpt_sizes() {
  static constexpr SizeKeys kSizes{.layers = kGptLayers,
                                   .hidden = kGptHidden,
                                   .heads = kGptHeads,
                                   .ffn = kGptFfn,
                                   .positions = kGptPositions,
                                   .ffn_ratio = 4};
  return kSizes;
}

const SizeKeys& mpt_sizes() {
  static constexpr SizeKeys kSizes{.layers = kMptLayers,
                                   .hidden = kMptHidden,
                                   .heads = kMptHeads,
                                   .kv_heads = kMptKvHeads,
                                   .ffn = kMptFfn,
                                   .positions = kMptPositions,
                                   .ffn_ratio = 4};
  return kSizes;
}

void fill_sizes(HfKeys& keys, HfShape& made, const SizeKeys& sizes) {
  Json& shape = made.shape;
  const std::int64_t layers = keys.need(sizes.layers);
  if (layers > kMostLayers)
    keys.report(keys.written(sizes.layers), fmt::format("{} layers are too many", layers),
                fmt::format("use 1 to {}", kMostLayers));
  const std::int64_t hidden = keys.need(sizes.hidden);
  shape["layers"] = layers;
  shape["hidden"] = hidden;
  shape["heads"] = keys.need(sizes.heads);
  fill_heads(keys, made, sizes);
  const std::int64_t ratio = sizes.ffn_ratio;
  shape["ffn"] = ratio > 0 ? keys.get(sizes.ffn, ratio * hidden) : keys.need(sizes.ffn);
  shape["vocab"] = keys.need("vocab_size");
  const std::int64_t positions = sizes.default_positions;
  shape["max_positions"] =
      positions > 0 ? keys.get(sizes.positions, positions) : keys.need(sizes.positions);
}

// ---- attention

namespace {

// Returns the period of full attention: every n-th layer has it. Returns 0 where no layer has it,
// and nothing where the list of layer types has no such period. Of 8 layers, full attention in the
// fourth and the eighth gives 4; in the fourth alone it has no period.
std::optional<std::int64_t> full_attention_every(const std::vector<std::string>& types) {
  std::int64_t every = 0;
  for (std::size_t layer = 0; layer < types.size(); ++layer) {
    if (types[layer] != "full_attention") continue;
    if (every == 0) every = static_cast<std::int64_t>(layer) + 1;
    if ((static_cast<std::int64_t>(layer) + 1) % every != 0) return {};
  }
  const auto full = std::ranges::count(types, "full_attention");
  if (every > 0 && full != static_cast<std::int64_t>(types.size()) / every) return {};
  return every;
}

// The types of attention of all layers. A type that is no attention over tokens is refused.
std::vector<std::string> layer_types(HfKeys& keys) {
  constexpr std::array<std::string_view, 4> kKnown{"full_attention", "sliding_attention",
                                                   "chunked_attention", "attention"};
  std::vector<std::string> types = keys.texts("layer_types");
  for (std::string& type : types) {
    if (std::ranges::find(kKnown, type) == kKnown.end())
      keys.report("layer_types", fmt::format("has layers of type \"{}\"", type),
                  "layers of full_attention, sliding_attention and chunked_attention are known");
    if (type == "attention") type = "full_attention";
  }
  return types;
}

// The pattern of a family that writes it as a number (every n-th layer is full) or as letters
// ("LLLG": three local layers, one global). `every` is the rule where the file has no pattern.
std::optional<std::int64_t> pattern_of(HfKeys& keys, std::int64_t every) {
  constexpr std::array<std::string_view, 2> kPattern{"sliding_window_pattern",
                                                     "_sliding_window_pattern"};
  const std::string letters = keys.text(keys.written(kPattern));
  if (letters.empty()) return keys.get(kPattern, every);
  std::vector<std::string> types;
  for (const char letter : letters)
    types.emplace_back(letter == 'G' ? "full_attention" : "sliding_attention");
  return full_attention_every(types);
}

}  // namespace

void fill_window(HfKeys& keys, HfShape& made, std::int64_t every) {
  // A family calls this function a second time with its own period, after that of the family it is
  // like. All keys are read before the first return, so that none of them counts as not looked at.
  made.shape.erase("window");
  made.shape.erase("full_attention_every");
  std::erase(made.notes, kWindow);
  const std::int64_t window = keys.get("sliding_window", 0);
  const std::int64_t first_windowed = keys.get("max_window_layers", 0);
  const std::vector<std::string> types = layer_types(keys);
  const std::optional<std::int64_t> pattern = pattern_of(keys, every);
  const std::int64_t positions = made.shape.value("max_positions", window + 1);
  if (!keys.flag("use_sliding_window", true) || window < 1 || window >= positions) return;
  const std::optional<std::int64_t> rule = types.empty() ? pattern : full_attention_every(types);
  if (rule == 1) return;
  // With max_window_layers only the layers from that number on have the window, which a shape
  // cannot express.
  if (!rule || (first_windowed > 0 && types.empty())) {
    note(made, kWindow);
    return;
  }
  made.shape["window"] = window;
  if (*rule > 0) made.shape["full_attention_every"] = *rule;
}

// Keys and values have no separate number of heads, and a query head is divided into a part without
// and a part with rotary positions.
void fill_latent(HfKeys& keys, HfShape& made) {
  Json& shape = made.shape;
  const std::int64_t rope = keys.need("qk_rope_head_dim");
  shape["head_dim"] = keys.need("qk_nope_head_dim") + rope;
  shape["kv_heads"] = shape["heads"];
  if (keys.has("q_lora_rank")) shape["query_latent"] = keys.need("q_lora_rank");
  shape["kv_latent"] = keys.need("kv_lora_rank");
  shape["rope_dim"] = rope;
}

void use_alibi(HfShape& made) {
  made.shape["positions"] = "none";
  note(made, "the bias of attention's scores by distance (ALiBi) is left out");
}

// ---- experts

void fill_experts(HfKeys& keys, HfShape& made, const ExpertKeys& names) {
  const std::int64_t experts = keys.need_same(names.number);
  const std::int64_t per_token = keys.need_same(names.per_token);
  made.shape["experts"] = experts;
  made.shape["experts_per_token"] = per_token;
  made.shape["expert_ffn"] = keys.need_same(names.width);
  if (keys.is_sound() && per_token > experts)
    keys.report(names.per_token,
                fmt::format("a token cannot go to {} of {} experts", per_token, experts),
                fmt::format("use 1 to {}", experts));
}

void fill_shared_experts(HfKeys& keys, HfShape& made, std::string_view number) {
  const std::int64_t shared = keys.is_list(number) ? keys.need_same(number) : keys.get(number, 0);
  if (shared > 0) made.shape["shared_ffn"] = made.shape["expert_ffn"].get<std::int64_t>() * shared;
}

void fill_sparse_layers(HfKeys& keys, HfShape& made, std::string_view name,
                        const std::function<bool(std::int64_t layer)>& has_experts) {
  // Layers 3 to 60 of 61 have experts: 3 dense layers and a period of 1. Layers 1, 3, 5, ... of 8:
  // no dense layer and a period of 2. The first layer with experts ends a period, so (period - 1)
  // of the layers before it belong to that period and are not counted as dense layers.
  const std::int64_t layers = std::min(made.shape["layers"].get<std::int64_t>(), kMostLayers);
  std::vector<std::int64_t> at;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (has_experts(layer)) at.push_back(layer);
  const std::int64_t every = at.size() > 1 ? at[1] - at[0] : 1;
  bool regular = !at.empty() && at.back() == layers - 1 && at.front() >= every - 1;
  for (std::size_t i = 1; i < at.size(); ++i) regular = regular && at[i] - at[i - 1] == every;
  if (regular) {
    made.shape["dense_layers"] = at.front() - (every - 1);
    made.shape["moe_every"] = every;
  } else if (keys.is_sound()) {
    keys.report(
        name, fmt::format("gives experts to {} of {} layers, without a period", at.size(), layers),
        "a shape can have experts in the last of every so many layers, after a number of "
        "dense ones");
  }
}

// first_k_dense_replace dense layers, and then experts in every moe_layer_freq-th, or as a list
// says.
void fill_deepseek_routing(HfKeys& keys, HfShape& made) {
  constexpr std::string_view kFrequency = "moe_layer_freq";
  const std::int64_t dense = keys.get("first_k_dense_replace", 0);
  std::vector<std::int64_t> list;
  std::int64_t every = 1;
  if (keys.is_list(kFrequency)) {
    list = keys.integers(kFrequency);
  } else {
    every = std::max<std::int64_t>(1, keys.get(kFrequency, 1));
  }
  const auto rule = [&](std::int64_t layer) {
    const auto at = static_cast<std::size_t>(layer);
    return layer >= dense && layer % every == 0 && (at >= list.size() || list[at] > 0);
  };
  const bool listed = !list.empty() || every > 1;
  fill_sparse_layers(keys, made, listed ? kFrequency : "first_k_dense_replace", rule);
  made.shape["expert_groups"] = std::max<std::int64_t>(1, keys.get("n_group", 1));
  made.shape["groups_per_token"] = std::max<std::int64_t>(1, keys.get("topk_group", 1));
}

// ---- settings that the shape cannot express

void note_switches(HfKeys& keys, HfShape& made) {
  if (keys.flag("mlp_bias", false)) note(made, "the biases of the feed-forward part are left out");
  bool dropout = false;
  for (const char* key :
       {"attention_dropout", "resid_pdrop", "embd_pdrop", "hidden_dropout", "embedding_dropout",
        "residual_dropout", "output_dropout", "activation_dropout", "layerdrop"})
    dropout = keys.number(key, 0.0) > 0.0 || dropout;
  if (dropout) note(made, "dropout is left out");
  if (keys.number("attn_logit_softcapping", 0.0) > 0.0)
    note(made, "the cap of attention's scores (a tanh of each) is left out");
  if (keys.number("final_logit_softcapping", 0.0) > 0.0)
    note(made, "the cap of the logits (a tanh of each) is left out");
}

void note_mtp(HfKeys& keys, HfShape& made) {
  const std::int64_t modules = keys.get("num_nextn_predict_layers", 0);
  if (modules > 0)
    note(made, fmt::format("the modules that predict further tokens ({}) are no part of the shape: "
                           "training.mtp_layers adds them",
                           modules));
}

void note_clamp(HfKeys& keys, HfShape& made, std::string_view name) {
  if (keys.number(name, 0.0) > 0.0) note(made, "the clamp of queries, keys and values is left out");
}

}  // namespace trainyard::hf
