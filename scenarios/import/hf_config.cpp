#include "scenarios/import/hf_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Reads the keys of a configuration and records the missing ones.
class Config {
 public:
  explicit Config(const Json& json) : json_(json) {}

  // All missing keys are reported together. Until then a missing value is 1, which keeps divisions
  // valid.
  std::int64_t need(std::string_view key) {
    const std::optional<std::int64_t> found = integer(key);
    if (!found) missing_.emplace_back(key);
    return found.value_or(1);
  }
  [[nodiscard]] std::int64_t get(std::string_view key, std::int64_t fallback) const {
    return integer(key).value_or(fallback);
  }
  [[nodiscard]] bool flag(std::string_view key, bool fallback) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_boolean() ? found->get<bool>() : fallback;
  }
  [[nodiscard]] bool has(std::string_view key) const {
    const auto found = json_.find(key);
    return found != json_.end() && !found->is_null();
  }
  [[nodiscard]] bool is_positive(std::string_view key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_number() && found->get<double>() > 0.0;
  }
  [[nodiscard]] bool lists(std::string_view key) const {
    return has(key) && json_.at(std::string(key)).is_array() && !json_.at(std::string(key)).empty();
  }
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const {
    std::vector<std::string> all;
    if (!lists(key)) return all;
    for (const Json& text : json_.at(std::string(key)))
      if (text.is_string()) all.push_back(text.get<std::string>());
    return all;
  }
  [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }

 private:
  // A null counts as absent.
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const {
    const auto found = json_.find(key);
    if (found == json_.end() || !found->is_number_integer()) return {};
    return found->get<std::int64_t>();
  }

  const Json& json_;
  std::vector<std::string> missing_;
};

// The source of every shape that this file makes begins with this text.
constexpr std::string_view kSource = "Hugging Face config.json, model_type ";
constexpr std::string_view kWindow =
    "attention within a sliding window or a chunk is counted over the whole sequence";

// Returns the period of full attention: every n-th layer has it. Returns 0 where no layer has it,
// and nothing where the list of layer types has no such period.
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

// Sets the attention window. A window that covers all positions counts as none. `every` is the
// period of full attention of the model family, for a file that does not list layer types.
void fill_window(Config& config, HfShape& made, std::int64_t every) {
  made.shape.erase("window");
  made.shape.erase("full_attention_every");
  std::erase(made.notes, kWindow);
  const std::int64_t window = config.get("sliding_window", 0);
  if (window < 1 || !config.flag("use_sliding_window", true)) return;
  if (window >= config.get("max_position_embeddings", window + 1)) return;
  const std::vector<std::string> types = config.texts("layer_types");
  const std::optional<std::int64_t> rule = types.empty() ? every : full_attention_every(types);
  if (rule == 1) return;
  const bool later_layers = config.get("max_window_layers", 0) > 0 && types.empty();
  if (!rule || later_layers) {
    made.notes.emplace_back(kWindow);
    return;
  }
  made.shape["window"] = window;
  if (*rule > 0) made.shape["full_attention_every"] = *rule;
}

// Adds notes on settings of a Llama-like configuration that the shape cannot express.
void note_switches(const Config& config, HfShape& made) {
  if (config.flag("mlp_bias", false))
    made.notes.emplace_back("the biases of the feed-forward part are left out");
  for (const char* dropout : {"attention_dropout", "resid_pdrop", "embd_pdrop", "hidden_dropout"})
    if (config.is_positive(dropout)) {
      made.notes.emplace_back("dropout is left out");
      break;
    }
  if (config.is_positive("attn_logit_softcapping"))
    made.notes.emplace_back("the cap of attention's scores (a tanh of each) is left out");
  if (config.is_positive("final_logit_softcapping"))
    made.notes.emplace_back("the cap of the logits (a tanh of each) is left out");
}

// Fills in the fields that all Llama-like decoders share.
void fill_llama(Config& config, HfShape& made) {
  Json& shape = made.shape;
  shape["layers"] = config.need("num_hidden_layers");
  const std::int64_t hidden = config.need("hidden_size");
  const std::int64_t heads = config.need("num_attention_heads");
  shape["hidden"] = hidden;
  shape["heads"] = heads;
  shape["kv_heads"] = config.get("num_key_value_heads", heads);
  shape["head_dim"] = config.get("head_dim", heads > 0 ? hidden / heads : 0);
  shape["ffn"] = config.need("intermediate_size");
  shape["vocab"] = config.need("vocab_size");
  shape["max_positions"] = config.need("max_position_embeddings");
  shape["tied_embeddings"] = config.flag("tie_word_embeddings", false);
  if (config.flag("attention_bias", false)) {
    shape["qkv_biases"] = true;
    made.notes.emplace_back("the bias of attention's output is left out");
  }
  note_switches(config, made);
  fill_window(config, made, 0);
}

void fill_qwen2(Config& config, HfShape& made) {
  fill_llama(config, made);
  made.shape["qkv_biases"] = true;
}

void fill_qwen3(Config& config, HfShape& made) {
  fill_llama(config, made);
  made.shape["head_dim"] = config.get("head_dim", 128);
  made.shape["qk_norm"] = true;
}

void fill_mixtral(Config& config, HfShape& made) {
  fill_llama(config, made);
  made.shape["experts"] = config.need("num_local_experts");
  made.shape["experts_per_token"] = config.need("num_experts_per_tok");
  made.shape["expert_ffn"] = made.shape["ffn"];
}

// Experts of Qwen: every decoder_sparse_step-th layer has them.
void fill_qwen_experts(Config& config, HfShape& made) {
  made.shape["experts"] = config.need("num_experts");
  made.shape["experts_per_token"] = config.need("num_experts_per_tok");
  made.shape["expert_ffn"] = config.need("moe_intermediate_size");
  made.shape["moe_every"] = config.get("decoder_sparse_step", 1);
  if (config.lists("mlp_only_layers"))
    made.notes.emplace_back("the layers of mlp_only_layers are given experts as the others");
}

void fill_qwen2_moe(Config& config, HfShape& made) {
  fill_qwen2(config, made);
  fill_qwen_experts(config, made);
  made.shape["shared_ffn"] = config.need("shared_expert_intermediate_size");
  made.notes.emplace_back("the gate of the shared expert, one number a channel, is left out");
}

void fill_qwen3_moe(Config& config, HfShape& made) {
  fill_qwen3(config, made);
  fill_qwen_experts(config, made);
}

// Multi-head latent attention: keys and values have no separate number of heads, and a query head
// is divided into two parts.
void fill_deepseek(Config& config, HfShape& made) {
  fill_llama(config, made);
  Json& shape = made.shape;
  const std::int64_t rope = config.need("qk_rope_head_dim");
  // A query head has a part without and a part with rotary positions.
  shape["head_dim"] = config.need("qk_nope_head_dim") + rope;
  shape["kv_heads"] = shape["heads"];
  if (config.has("q_lora_rank")) shape["query_latent"] = config.need("q_lora_rank");
  shape["kv_latent"] = config.need("kv_lora_rank");
  shape["rope_dim"] = rope;
  shape["value_dim"] = config.need("v_head_dim");
  const std::int64_t inner = config.need("moe_intermediate_size");
  shape["experts"] = config.need("n_routed_experts");
  shape["experts_per_token"] = config.need("num_experts_per_tok");
  shape["expert_ffn"] = inner;
  if (config.has("n_shared_experts")) shape["shared_ffn"] = inner * config.need("n_shared_experts");
  shape["dense_layers"] = config.get("first_k_dense_replace", 0);
  shape["moe_every"] = config.get("moe_layer_freq", 1);
  shape["expert_groups"] = config.get("n_group", 1);
  shape["groups_per_token"] = config.get("topk_group", 1);
}

void fill_deepseek_v3(Config& config, HfShape& made) {
  fill_deepseek(config, made);
  made.shape["router_bias"] = true;
  if (config.get("num_nextn_predict_layers", 0) > 0)
    made.notes.emplace_back("the module that predicts a second token is left out");
}

void fill_gpt2(Config& config, HfShape& made) {
  Json& shape = made.shape;
  const std::int64_t hidden = config.need("n_embd");
  shape["layers"] = config.need("n_layer");
  shape["hidden"] = hidden;
  shape["heads"] = config.need("n_head");
  shape["ffn"] = config.get("n_inner", 4 * hidden);
  shape["vocab"] = config.need("vocab_size");
  shape["max_positions"] = config.need("n_positions");
  shape["tied_embeddings"] = config.flag("tie_word_embeddings", true);
  shape["gated_ffn"] = false;
  shape["biases"] = true;
  shape["dropout"] = true;
  shape["positions"] = "learned";
  shape["norm"] = "layer_norm";
}

// GPT-NeoX: two linear layers with biases, LayerNorm, rotary positions.
void fill_neox(Config& config, HfShape& made) {
  fill_llama(config, made);
  made.shape["gated_ffn"] = false;
  made.shape["biases"] = true;
  made.shape["norm"] = "layer_norm";
  made.shape.erase("qkv_biases");
}

void fill_phi(Config& config, HfShape& made) {
  fill_neox(config, made);
  made.notes.emplace_back(
      "a layer has one norm before attention and feed-forward, counted as two; the head's bias is "
      "left out");
}

void fill_gemma(Config& config, HfShape& made) {
  fill_llama(config, made);
  made.shape["head_dim"] = config.get("head_dim", 256);
  made.shape["tied_embeddings"] = config.flag("tie_word_embeddings", true);
}

void fill_four_norms(Config& config, HfShape& made) {
  fill_gemma(config, made);
  made.shape["post_norms"] = true;
}

// Gemma 2: every second layer has full attention.
void fill_gemma2(Config& config, HfShape& made) {
  fill_four_norms(config, made);
  fill_window(config, made, 2);
}

// Gemma 3: every sixth layer has full attention.
void fill_gemma3(Config& config, HfShape& made) {
  fill_four_norms(config, made);
  fill_window(config, made, config.get("sliding_window_pattern", 6));
  made.shape["qk_norm"] = true;
}

// GPT-OSS: biases everywhere, clamped experts, full attention in every second layer.
void fill_gpt_oss(Config& config, HfShape& made) {
  fill_mixtral(config, made);
  fill_window(config, made, 2);
  made.shape["head_dim"] = config.get("head_dim", 64);
  made.shape.erase("qkv_biases");
  made.notes.clear();
  made.shape["biases"] = true;
  made.shape["router_bias"] = true;
  made.shape["clamped_experts"] = true;
  made.notes.emplace_back("the sinks of attention, one number a head, are left out");
}

void fill_olmo(Config& config, HfShape& made) {
  fill_llama(config, made);
  made.shape["norm"] = "layer_norm";
  made.notes.emplace_back("norms have no parameters, but are counted with theirs");
}

void fill_olmo2(Config& config, HfShape& made) {
  fill_llama(config, made);
  made.shape["qk_norm"] = true;
  made.notes.emplace_back("queries and keys are normed over all heads at once, counted per head");
}

void fill_llama4(Config& config, HfShape& made) {
  fill_llama(config, made);
  Json& shape = made.shape;
  shape["expert_ffn"] = shape["ffn"];
  shape["shared_ffn"] = shape["ffn"];
  shape["ffn"] = config.need("intermediate_size_mlp");
  shape["experts"] = config.need("num_local_experts");
  shape["experts_per_token"] = config.need("num_experts_per_tok");
  shape["moe_every"] = config.get("interleave_moe_layer_step", 1);
  if (config.has("attention_chunk_size")) made.notes.emplace_back(kWindow);
  if (config.flag("use_qk_norm", true))
    made.notes.emplace_back("the norm of queries and keys, without parameters, is left out");
}

struct Family {
  std::string_view type;  // model_type
  void (*fill)(Config&, HfShape&);
};

// The families with known parts, by model_type. A family that differs from Llama starts from
// fill_llama() and corrects the shape.
constexpr std::array kFamilies{Family{"deepseek_v2", fill_deepseek},
                               Family{"deepseek_v3", fill_deepseek_v3},
                               Family{"gemma", fill_gemma},
                               Family{"gemma2", fill_gemma2},
                               Family{"gemma3_text", fill_gemma3},
                               Family{"gpt2", fill_gpt2},
                               Family{"gpt_neox", fill_neox},
                               Family{"gpt_oss", fill_gpt_oss},
                               Family{"llama", fill_llama},
                               Family{"llama4_text", fill_llama4},
                               Family{"mistral", fill_llama},
                               Family{"mixtral", fill_mixtral},
                               Family{"olmo", fill_olmo},
                               Family{"olmo2", fill_olmo2},
                               Family{"phi", fill_phi},
                               Family{"phi3", fill_llama},
                               Family{"qwen2", fill_qwen2},
                               Family{"qwen2_moe", fill_qwen2_moe},
                               Family{"qwen3", fill_qwen3},
                               Family{"qwen3_moe", fill_qwen3_moe}};

[[noreturn]] void refuse(const std::string& file, std::string pointer, std::string problem,
                         std::string hint) {
  throw InputError(Problem{.file = file,
                           .pointer = std::move(pointer),
                           .problem = std::move(problem),
                           .hint = std::move(hint)});
}

const Family& family_of(const std::string& type, const std::string& file) {
  for (const Family& family : kFamilies)
    if (family.type == type) return family;
  refuse(file, "/model_type",
         fmt::format("\"{}\" is not a model type whose parts are known here", type),
         fmt::format("known: {}; or write the shape as the files of models/data do",
                     fmt::join(hf_model_types(), ", ")));
}

}  // namespace

bool is_hf_config(const nlohmann::ordered_json& document) {
  return document.is_object() &&
         (document.contains("num_hidden_layers") || document.contains("model_type"));
}

HfShape shape_of_hf_config(const nlohmann::ordered_json& document, const std::string& file) {
  // A multimodal model has its language model in "text_config".
  const auto text = document.find("text_config");
  const bool nested = text != document.end() && text->is_object();
  const Json& config_json = nested ? *text : document;
  const auto type = config_json.find("model_type");
  if (type == config_json.end() || !type->is_string())
    refuse(file, nested ? "/text_config/model_type" : "/model_type", "is missing",
           "it names the kind of model, such as \"llama\"");
  const std::string name = type->get<std::string>();
  const Family& family = family_of(name, file);
  HfShape made;
  Config config(config_json);
  family.fill(config, made);
  if (!config.missing().empty()) {
    refuse(
        file, nested ? "/text_config" : "",
        fmt::format("a \"{}\" needs {}, which {} not there", name,
                    fmt::join(config.missing(), ", "), config.missing().size() == 1 ? "is" : "are"),
        "give the config.json of the weights' folder");
  }
  for (const char* tower : {"vision_config", "audio_config"})
    if (const auto found = document.find(tower); found != document.end() && !found->is_null())
      made.notes.push_back(fmt::format("the part of {} is left out", tower));
  std::string source = fmt::format("{}{}", kSource, name);
  for (const std::string& note : made.notes) source += "; " + note;
  made.shape["source"] = source;
  return made;
}

std::vector<std::string> notes_of_source(const std::string& source) {
  std::vector<std::string> notes;
  if (!source.starts_with(kSource)) return notes;
  constexpr std::string_view kBetween = "; ";
  for (std::size_t at = source.find(kBetween); at != std::string::npos;) {
    const std::size_t begin = at + kBetween.size();
    at = source.find(kBetween, begin);
    notes.push_back(source.substr(begin, at == std::string::npos ? at : at - begin));
  }
  return notes;
}

std::vector<std::string> hf_model_types() {
  std::vector<std::string> types;
  for (const Family& family : kFamilies) types.emplace_back(family.type);
  return types;
}

}  // namespace trainyard
