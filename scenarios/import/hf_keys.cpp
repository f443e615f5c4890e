#include "scenarios/import/hf_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/base/field.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Ends of names that the library gives to token ids, to constants of norms, initialisation and
// losses, and to settings of the rotary embedding.
// clang-format off
constexpr std::array<std::string_view, 20> kEndsWithoutCost{
    "_token_id", "_token_ids", "_token_index", "_token", "_coef", "_coeff",
    "_eps", "_epsilon", "_std", "_loss", "_implementation", "_theta",
    "_method", "_temperature", "scaling_factor", "rotary_factor", "capacity_factor",
    "attention_multiplier", "embedding_multiplier", "residual_multiplier"};
// clang-format on
constexpr std::array<std::string_view, 6> kBeginsWithoutCost{
    "rope_", "rotary_", "emb_init_", "init_param", "summary_", "tokenizer_"};
// Words between blanks. "name" is what load_model() adds.
constexpr std::string_view kWithoutCost =
    " _commit_hash _name_or_path activation activation_function activation_type"
    " add_classification_head add_cross_attention apply_query_key_layer_scaling"
    " apply_residual_connection_post_layernorm architectures attention_softmax_in_fp32"
    " attn_implementation attn_scale attn_temperature_tuning auto_map aux_loss_alpha"
    " bad_words_ids begin_suppress_tokens bias_dropout_fusion cache_implementation"
    " chunk_size_feed_forward class_num classifier_dropout dim_model_base diversity_penalty"
    " do_sample dtype early_stopping embed_softmax embedding_fraction ep_size finetuning_task"
    " flash_attention floor_scale for_llm_compressor gradient_checkpointing hidden_act"
    " hidden_activation id2label im_end_id im_newline_id im_start_id init_device init_method"
    " initial_context_length initializer_range input_jitter_noise is_decoder is_encoder_decoder"
    " keys_to_ignore_at_inference label2id length_penalty logit_scale logits_scaling"
    " masked_softmax_fusion max_length max_new_tokens max_sequence_length max_window_size"
    " min_length model_type moe_capacity moe_gate moe_norm_min n_ctx name norm_softmax"
    " norm_topk_prob num_beams num_labels num_logits_to_keep num_return_sequences offset_alibi"
    " order_of_interleaved_layers original_max_position_embeddings output_attentions"
    " output_hidden_states output_router_logits pool_type predict_special_tokens prefix"
    " pretraining_tp problem_type pruned_heads quantization_config query_pre_attn_scalar"
    " recompute_granularity remove_invalid_values reorder_and_upcast_attn repetition_penalty"
    " return_dict rotary router_dtype router_jitter_noise router_type runner_type"
    " scale_attention_softmax_in_fp32 scale_attn_by_inverse_layer_idx scale_attn_weights"
    " scale_depth scale_emb score_function scoring_func seq_aux skip_bias_add skip_bias_add_qkv"
    " slow_but_exact suppress_tokens swiglu_limit task_specific_params temperature"
    " tf_legacy_loss top_k top_p torch_dtype torchscript transformers_version typical_p"
    " use_bfloat16 use_cache use_flash_attention use_flash_attn use_logn_attn verbose"
    " z_loss_weight"
    " ";

// Cuts "attn_config/alibi" into the key of the object and the rest.
std::pair<std::string_view, std::string_view> cut(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return {name, {}};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

const Json* value_of(const Json& json, std::string_view name) {
  if (!json.is_object()) return nullptr;
  const auto [key, rest] = cut(name);
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return nullptr;
  return rest.empty() ? &*found : value_of(*found, rest);
}

// True if a key that was read is in the object of this name. The set is in order, so the first name
// from "NAME/" on tells.
bool reads_within(const std::set<std::string, std::less<>>& read, const std::string& name) {
  const auto next = read.lower_bound(name + "/");
  return next != read.end() && next->starts_with(name + "/");
}

// Lists the keys that were not read. An object is listed as a whole unless a key in it was read.
void collect(const Json& json, const std::string& before,
             const std::set<std::string, std::less<>>& read, std::vector<std::string>& rest) {
  for (const auto& [key, value] : json.items()) {
    const std::string name = before + key;
    if (value.is_null() || read.contains(name) || is_without_cost(key)) continue;
    if (value.is_object() && reads_within(read, name)) {
      collect(value, name + "/", read, rest);
    } else {
      rest.push_back(name);
    }
  }
}

}  // namespace

bool is_without_cost(std::string_view key) {
  const auto ends = [key](std::string_view end) { return key.ends_with(end); };
  const auto begins = [key](std::string_view begin) { return key.starts_with(begin); };
  return std::ranges::any_of(kEndsWithoutCost, ends) ||
         std::ranges::any_of(kBeginsWithoutCost, begins) ||
         kWithoutCost.find(fmt::format(" {} ", key)) != std::string_view::npos;
}

// ---- values

const Json* HfKeys::find(std::string_view name) {
  read_.emplace(name);
  const Json* value = value_of(json_, name);
  if (value != nullptr) return value;
  value = value_of(defaults_, name);
  if (value == nullptr) return nullptr;
  std::string text = fmt::format("{} {}", name, value->dump());
  if (std::ranges::find(assumed_, text) == assumed_.end()) assumed_.push_back(std::move(text));
  return value;
}

bool HfKeys::has(std::string_view name) { return find(name) != nullptr; }

bool HfKeys::is_list(std::string_view name) const {
  const Json* value = value_of(json_, name);
  return value != nullptr && value->is_array();
}

void HfKeys::report(std::string_view name, std::string problem, std::string hint) {
  const std::string pointer = fmt::format("{}/{}", pointer_, name);
  const auto same = [&](const Problem& known) { return known.pointer == pointer; };
  if (std::ranges::any_of(problems_, same)) return;
  problems_.push_back(
      {.file = file_, .pointer = pointer, .problem = std::move(problem), .hint = std::move(hint)});
}

void HfKeys::wrong_kind(std::string_view name, const Json& value, std::string_view wanted) {
  report(name, fmt::format("must be {}, not {}", wanted, shown(value)),
         "take the value from the config.json of the weights' folder");
}

std::optional<std::int64_t> HfKeys::whole(std::string_view name, const Json& value,
                                          std::int64_t least) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  const auto most = static_cast<double>(kLengthMost);
  if (number >= static_cast<double>(least) && number <= most && std::floor(number) == number)
    return static_cast<std::int64_t>(number);
  wrong_kind(name, value, fmt::format("a whole number from {} to {}", least, kLengthMost));
  return {};
}

// A wrong value is reported and replaced by the least one that is allowed, so that further keys are
// read and finish() can list all problems together.
std::optional<std::int64_t> HfKeys::integer(std::string_view name, std::int64_t least) {
  const Json* value = find(name);
  if (value == nullptr) return {};
  return whole(name, *value, least).value_or(least > 0 ? least : 0);
}

// Asks for every name, because all of them then count as read.
std::string_view HfKeys::written(Names names) {
  const std::string_view* found = nullptr;
  for (const std::string_view& name : names)
    if (has(name) && found == nullptr) found = &name;
  return found != nullptr ? *found : names.front();
}

std::int64_t HfKeys::need(Names names) {
  const std::string_view name = written(names);
  if (const std::optional<std::int64_t> found = integer(name, 1)) return *found;
  if (std::ranges::find(missing_, name) == missing_.end()) missing_.emplace_back(name);
  return 1;
}

std::int64_t HfKeys::get(Names names, std::int64_t fallback) {
  // A fallback of -1 allows the file to write -1, too.
  return integer(written(names), std::min<std::int64_t>(fallback, 0)).value_or(fallback);
}

std::int64_t HfKeys::need_same(std::string_view name) {
  if (!is_list(name)) return need(name);
  const std::vector<std::int64_t> each = integers(name);
  if (each.empty() || std::ranges::any_of(each, [&](auto value) { return value != each[0]; })) {
    report(name, "differs from layer to layer", "a shape has one number for all layers");
    return 1;
  }
  return std::max<std::int64_t>(1, each[0]);
}

bool HfKeys::flag(std::string_view name, bool fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  wrong_kind(name, *value, "true or false");
  return fallback;
}

double HfKeys::number(std::string_view name, double fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_number() && value->get<double>() >= 0.0) return value->get<double>();
  wrong_kind(name, *value, "a number from 0 on");
  return fallback;
}

std::string HfKeys::text(std::string_view name) {
  const Json* value = find(name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::vector<std::string> HfKeys::texts(std::string_view name) {
  std::vector<std::string> all;
  const Json* value = find(name);
  if (value == nullptr) return all;
  const auto is_text = [](const Json& one) { return one.is_string(); };
  if (!value->is_array() || !std::ranges::all_of(*value, is_text)) {
    wrong_kind(name, *value, "a list of words");
    return all;
  }
  for (const Json& one : *value) all.push_back(one.get<std::string>());
  return all;
}

std::vector<std::int64_t> HfKeys::integers(std::string_view name) {
  std::vector<std::int64_t> all;
  const Json* value = find(name);
  if (value == nullptr) return all;
  if (!value->is_array()) wrong_kind(name, *value, "a list of whole numbers");
  if (value->is_array())
    for (const Json& one : *value) all.push_back(whole(name, one, 0).value_or(0));
  return all;
}

// ---- problems and the record

void HfKeys::finish(std::string_view family) const {
  std::vector<Problem> problems;
  if (!missing_.empty())
    problems.push_back(
        {.file = file_,
         .pointer = pointer_,
         .problem = fmt::format("a \"{}\" needs {}, which {} not there", family,
                                fmt::join(missing_, ", "), missing_.size() == 1 ? "is" : "are"),
         .hint = "give the config.json of the weights' folder"});
  problems.insert(problems.end(), problems_.begin(), problems_.end());
  if (!problems.empty()) throw InputError(problems);
}

std::vector<std::string> HfKeys::not_read() const {
  std::vector<std::string> rest;
  collect(json_, "", read_, rest);
  return rest;
}

}  // namespace trainyard
