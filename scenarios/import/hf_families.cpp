#include "scenarios/import/hf_families.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace trainyard {

namespace hf {
namespace {

using Json = nlohmann::ordered_json;

// Each function below begins with that of a family with the same parts, or with fill_plain, and
// then replaces the fields that differ. A key is read even where the shape cannot express it: keys
// that are neither read nor skipped are listed as not looked at.
//
// Sentences of notes that several families share.
constexpr std::string_view kOneNorm =
    "a layer has one norm before attention and feed-forward, which run side by side, counted as "
    "two norms and two additions";
constexpr std::string_view kParallel =
    "attention and feed-forward run side by side with one addition, counted one after the other";
constexpr std::string_view kNormBiases = "norms have no biases, but are counted with theirs";
constexpr std::string_view kQkNormWidth =
    "queries and keys are normed over all heads at once, counted per head";
constexpr std::string_view kHeadBias = "the head's bias is left out";
constexpr std::string_view kOutputBias = "the bias of attention's output is left out";

// ---- decoders like Llama

// The fields that all decoders share whose parts are those of Llama, without biases of attention.
void fill_plain(HfKeys& keys, HfShape& made, bool tied) {
  fill_sizes(keys, made, kLlamaSizes);
  made.shape["tied_embeddings"] = keys.flag("tie_word_embeddings", tied);
  note_switches(keys, made);
  fill_window(keys, made, 0);
}

void fill_llama(HfKeys& keys, HfShape& made) {
  fill_plain(keys, made, false);
  if (!keys.flag("attention_bias", false)) return;
  made.shape["qkv_biases"] = true;
  note(made, kOutputBias);
}

// attention_bias is of queries, keys and values alone (GLM, Seed-OSS).
void fill_qkv_biases(HfKeys& keys, HfShape& made) {
  fill_plain(keys, made, false);
  if (keys.flag("attention_bias", false)) made.shape["qkv_biases"] = true;
}

void fill_tied_llama(HfKeys& keys, HfShape& made) {
  fill_llama(keys, made);
  made.shape["tied_embeddings"] = keys.flag("tie_word_embeddings", true);
}

void fill_qwen2(HfKeys& keys, HfShape& made) {
  fill_plain(keys, made, false);
  made.shape["qkv_biases"] = true;
}

// The published files have the settings of the language model at the root, beside the vision part.
void fill_qwen2_5_vl(HfKeys& keys, HfShape& made) {
  fill_qwen2(keys, made);
  if (keys.has("vision_config")) note(made, "the part of vision_config is left out");
}

void fill_qwen3(HfKeys& keys, HfShape& made) {
  fill_llama(keys, made);
  made.shape["head_dim"] = keys.get("head_dim", 128);
  made.shape["qk_norm"] = true;
}

void fill_mixtral(HfKeys& keys, HfShape& made) {
  fill_llama(keys, made);
  fill_experts(keys, made, {.number = "num_local_experts", .width = "intermediate_size"});
}

// Experts of Qwen: every decoder_sparse_step-th layer has them, but those of mlp_only_layers.
void fill_qwen_experts(HfKeys& keys, HfShape& made) {
  fill_experts(keys, made, {});
  const std::int64_t step = std::max<std::int64_t>(1, keys.get("decoder_sparse_step", 1));
  const std::vector<std::int64_t> dense = keys.integers("mlp_only_layers");
  const auto rule = [&](std::int64_t layer) {
    return (layer + 1) % step == 0 && std::ranges::find(dense, layer) == dense.end();
  };
  fill_sparse_layers(keys, made, "mlp_only_layers", rule);
}

void fill_qwen2_moe(HfKeys& keys, HfShape& made) {
  fill_qwen2(keys, made);
  fill_qwen_experts(keys, made);
  made.shape["shared_ffn"] = keys.need("shared_expert_intermediate_size");
  note(made, "the gate of the shared expert, one number a channel, is left out");
}

void fill_qwen3_moe(HfKeys& keys, HfShape& made) {
  fill_qwen3(keys, made);
  fill_qwen_experts(keys, made);
}

void fill_deepseek_experts(HfKeys& keys, HfShape& made) {
  fill_experts(keys, made, {.number = "n_routed_experts"});
  fill_shared_experts(keys, made, "n_shared_experts");
  fill_deepseek_routing(keys, made);
}

void fill_deepseek(HfKeys& keys, HfShape& made) {
  fill_llama(keys, made);
  fill_latent(keys, made);
  made.shape["value_dim"] = keys.need("v_head_dim");
  if (keys.has("n_routed_experts")) fill_deepseek_experts(keys, made);
}

void fill_deepseek_v3(HfKeys& keys, HfShape& made) {
  fill_deepseek(keys, made);
  made.shape["router_bias"] = true;
  note_mtp(keys, made);
}

// MiniCPM 3: latent attention without experts, tied embeddings.
void fill_minicpm3(HfKeys& keys, HfShape& made) {
  fill_tied_llama(keys, made);
  fill_latent(keys, made);
  const std::int64_t hidden = made.shape["hidden"].get<std::int64_t>();
  made.shape["value_dim"] =
      keys.get("v_head_dim", hidden / made.shape["heads"].get<std::int64_t>());
}

void fill_gemma(HfKeys& keys, HfShape& made) {
  fill_tied_llama(keys, made);
  made.shape["head_dim"] = keys.get("head_dim", 256);
}

void fill_four_norms(HfKeys& keys, HfShape& made) {
  fill_gemma(keys, made);
  made.shape["post_norms"] = true;
}

// Gemma 2: every second layer has full attention.
void fill_gemma2(HfKeys& keys, HfShape& made) {
  fill_four_norms(keys, made);
  fill_window(keys, made, 2);
}

// Gemma 3: every sixth layer has full attention. Files of its models for text and images omit the
// defaults of Gemma3TextConfig.
void fill_gemma3(HfKeys& keys, HfShape& made) {
  keys.assume({{"num_attention_heads", 8},
               {"num_key_value_heads", 4},
               {"head_dim", 256},
               {"vocab_size", 262'208},
               {"max_position_embeddings", 131'072}});
  fill_four_norms(keys, made);
  fill_window(keys, made, 6);
  made.shape["qk_norm"] = true;
}

// GPT-OSS: biases everywhere, clamped experts, full attention in every second layer.
void fill_gpt_oss(HfKeys& keys, HfShape& made) {
  fill_plain(keys, made, false);
  keys.skip({"attention_bias"});
  fill_experts(keys, made, {.number = "num_local_experts", .width = "intermediate_size"});
  fill_window(keys, made, 2);
  made.shape["head_dim"] = keys.get("head_dim", 64);
  made.shape["biases"] = true;
  made.shape["router_bias"] = true;
  made.shape["clamped_experts"] = true;
  note(made, "the sinks of attention, one number a head, are left out");
}

void fill_olmo(HfKeys& keys, HfShape& made) {
  fill_llama(keys, made);
  made.shape["norm"] = "layer_norm";
  note(made, "norms have no parameters, but are counted with theirs");
  if (keys.number("clip_qkv", 0.0) > 0.0)
    note(made,
         "the clamp of queries, keys and values is "
         "left out");
}

// OLMo 2 and 3: norms of queries and keys, and norms behind attention and feed-forward in place of
// those before.
void fill_olmo2(HfKeys& keys, HfShape& made) {
  fill_llama(keys, made);
  made.shape["qk_norm"] = true;
  note(made, kQkNormWidth);
}

void fill_olmo3(HfKeys& keys, HfShape& made) {
  fill_olmo2(keys, made);
  fill_window(keys, made, 4);
}

void fill_olmoe(HfKeys& keys, HfShape& made) {
  fill_olmo2(keys, made);
  fill_experts(keys, made, {.width = "intermediate_size"});
  if (keys.number("clip_qkv", 0.0) > 0.0)
    note(made,
         "the clamp of queries, keys and values is "
         "left out");
}

void fill_llama4(HfKeys& keys, HfShape& made) {
  fill_llama(keys, made);
  Json& shape = made.shape;
  // intermediate_size is the width of an expert and of the shared one; dense layers have
  // intermediate_size_mlp.
  fill_experts(keys, made, {.number = "num_local_experts", .width = "intermediate_size"});
  shape["shared_ffn"] = shape["expert_ffn"];
  shape["ffn"] = keys.need("intermediate_size_mlp");
  const std::int64_t step = std::max<std::int64_t>(1, keys.get("interleave_moe_layer_step", 1));
  const std::vector<std::int64_t> list = keys.integers("moe_layers");
  const auto rule = [&](std::int64_t layer) {
    return list.empty() ? (layer + 1) % step == 0 : std::ranges::find(list, layer) != list.end();
  };
  fill_sparse_layers(keys, made, "moe_layers", rule);
  if (keys.has("attention_chunk_size")) note(made, kWindow);
  if (keys.flag("use_qk_norm", true))
    note(made, "the norm of queries and keys, without parameters, is left out");
  keys.skip({"no_rope_layers"});  // a layer without rotary positions is counted with them
}

// GLM 4 (April 2025): also norms behind attention and feed-forward.
void fill_glm4(HfKeys& keys, HfShape& made) {
  fill_qkv_biases(keys, made);
  made.shape["post_norms"] = true;
}

void fill_glm4_moe(HfKeys& keys, HfShape& made) {
  fill_qkv_biases(keys, made);
  made.shape["qk_norm"] = keys.flag("use_qk_norm", false);
  fill_deepseek_experts(keys, made);
  made.shape["router_bias"] = true;
  note_mtp(keys, made);
}

void fill_seed_oss(HfKeys& keys, HfShape& made) {
  fill_qkv_biases(keys, made);
  if (keys.flag("attention_out_bias", false)) note(made, kOutputBias);
}

// Exaone 4: norms behind attention and feed-forward in place of those before, norms of each head.
void fill_exaone4(HfKeys& keys, HfShape& made) {
  fill_llama(keys, made);
  fill_window(keys, made, 4);
  made.shape["qk_norm"] = true;
}

void fill_smollm3(HfKeys& keys, HfShape& made) {
  fill_tied_llama(keys, made);
  const bool listed = !keys.integers("no_rope_layers").empty();
  if (keys.get("no_rope_layer_interval", 0) > 0 || listed)
    note(made, "layers without rotary positions are counted with them");
}

// Biases on all linear layers of attention and feed-forward, where `name` says so.
void fill_all_biases(HfKeys& keys, HfShape& made, std::string_view name, bool fallback) {
  if (keys.flag(name, fallback)) made.shape["biases"] = true;
}

void fill_ernie(HfKeys& keys, HfShape& made) {
  fill_tied_llama(keys, made);
  fill_all_biases(keys, made, "use_bias", false);
}

// Ernie 4.5 with experts: in layers moe_layer_start_index to moe_layer_end_index (-1: the last),
// the last of every moe_layer_interval.
void fill_ernie_moe(HfKeys& keys, HfShape& made) {
  fill_ernie(keys, made);
  fill_experts(keys, made, {.number = "moe_num_experts", .per_token = "moe_k"});
  fill_shared_experts(keys, made, "moe_num_shared_experts");
  const std::int64_t begin = keys.get("moe_layer_start_index", 0);
  const std::int64_t end = keys.get("moe_layer_end_index", -1);
  const std::int64_t every = std::max<std::int64_t>(1, keys.get("moe_layer_interval", 1));
  const auto rule = [&](std::int64_t layer) {
    return layer >= begin && (end < 0 || layer <= end) && (layer + 1) % every == 0;
  };
  fill_sparse_layers(keys, made, "moe_layer_start_index", rule);
  made.shape["router_bias"] = keys.flag("moe_use_aux_free", true);
  note_mtp(keys, made);
}

// Hunyuan: lists give one number for each layer.
void fill_hunyuan(HfKeys& keys, HfShape& made) {
  fill_llama(keys, made);
  made.shape["qk_norm"] = keys.flag("use_qk_norm", true);
  made.shape["tied_embeddings"] = keys.flag("tie_word_embeddings", false);
  for (const char* part : {"use_cla", "use_mla"})
    if (keys.flag(part, false))
      keys.report(part, "asks for an attention of Hunyuan that is not modelled",
                  "write the shape as the files of models/data do");
  keys.skip({"cla_share_factor", "norm_type", "dense_list"});
}

void fill_hunyuan_moe(HfKeys& keys, HfShape& made) {
  fill_hunyuan(keys, made);
  const std::string_view width =
      keys.has("moe_intermediate_size") ? "moe_intermediate_size" : "intermediate_size";
  fill_experts(keys, made, {.per_token = "moe_topk", .width = width});
  if (keys.flag("use_mixed_mlp_moe", true)) fill_shared_experts(keys, made, "num_shared_expert");
  made.shape["dense_layers"] = keys.get("moe_layer_num_skipped", 0);
}

// Ling: the keys of Qwen's experts and of DeepSeek's shared ones.
void fill_bailing_moe(HfKeys& keys, HfShape& made) {
  fill_plain(keys, made, false);
  if (keys.flag("use_qkv_bias", false)) made.shape["qkv_biases"] = true;
  if (keys.flag("use_bias", false)) note(made, kOutputBias);
  fill_experts(keys, made, {});
  fill_shared_experts(keys, made, "num_shared_experts");
  fill_deepseek_routing(keys, made);
  keys.skip({"norm_head"});  // the head's weights are normed, which costs next to nothing
}

void fill_bailing_moe_v2(HfKeys& keys, HfShape& made) {
  fill_bailing_moe(keys, made);
  made.shape["qk_norm"] = keys.flag("use_qk_norm", true);
  made.shape["router_bias"] = keys.flag("moe_router_enable_expert_bias", true);
  note_mtp(keys, made);
}

void fill_internlm2(HfKeys& keys, HfShape& made) {
  fill_plain(keys, made, false);
  if (!keys.flag("bias", false)) return;
  made.shape["qkv_biases"] = true;
  note(made, kOutputBias);
}

// Baichuan: the models of 7 billion parameters have rotary positions, those of 13 billion, which
// give no max_position_embeddings, ALiBi.
void fill_baichuan(HfKeys& keys, HfShape& made) {
  fill_plain(keys, made, false);
  if (keys.has("max_position_embeddings")) return;
  use_alibi(made);
}

// Apertus: a feed-forward part without gate (xIELU), norms of each head.
void fill_apertus(HfKeys& keys, HfShape& made) {
  fill_llama(keys, made);
  made.shape["gated_ffn"] = false;
  made.shape["qk_norm"] = keys.flag("qk_norm", true);
  made.shape["post_norms"] = keys.flag("post_norm", false);
  note(made, "the two numbers of a layer's activation are left out");
}

// ---- decoders with LayerNorm

// A layer norm with gain and bias, two linear layers in the feed-forward part.
void use_gpt_parts(HfShape& made) {
  made.shape["gated_ffn"] = false;
  made.shape["norm"] = "layer_norm";
}

// GPT-2 and the older families in its names. A file of theirs may omit the feed-forward width.
void fill_gpt(HfKeys& keys, HfShape& made, bool tied, double dropout) {
  fill_sizes(keys, made, gpt_sizes());
  made.shape["tied_embeddings"] = keys.flag("tie_word_embeddings", tied);
  use_gpt_parts(made);
  bool drops = false;
  for (const char* key : {"resid_pdrop", "attn_pdrop", "embd_pdrop"})
    drops = keys.number(key, dropout) > 0.0 || drops;
  if (drops) made.shape["dropout"] = true;
}

void fill_gpt2(HfKeys& keys, HfShape& made) {
  fill_gpt(keys, made, true, 0.1);
  made.shape["biases"] = true;
  made.shape["positions"] = "learned";
}

// StarCoder: GPT-2 with one key-value head.
void fill_gpt_bigcode(HfKeys& keys, HfShape& made) {
  fill_gpt2(keys, made);
  if (keys.flag("multi_query", true)) made.shape["kv_heads"] = 1;
}

// GPT-J and CodeGen: biases in the feed-forward part and the head, none in attention.
void fill_gptj(HfKeys& keys, HfShape& made) {
  fill_gpt(keys, made, false, 0.0);
  note(made, kOneNorm);
  note(made, "the biases of the feed-forward part are left out");
  note(made, kHeadBias);
}

// GPT-NeoX: two linear layers with biases, LayerNorm, rotary positions.
void fill_neox(HfKeys& keys, HfShape& made) {
  fill_plain(keys, made, false);
  use_gpt_parts(made);
  fill_all_biases(keys, made, "attention_bias", true);
  if (keys.flag("use_parallel_residual", true)) note(made, kParallel);
}

void fill_phi(HfKeys& keys, HfShape& made) {
  fill_plain(keys, made, false);
  use_gpt_parts(made);
  made.shape["biases"] = true;
  made.shape["qk_norm"] = keys.flag("qk_layernorm", false);
  note(made, kOneNorm);
  note(made, kHeadBias);
}

void fill_phimoe(HfKeys& keys, HfShape& made) {
  fill_mixtral(keys, made);
  made.shape["norm"] = "layer_norm";
  if (keys.flag("lm_head_bias", false)) note(made, kHeadBias);
}

void fill_persimmon(HfKeys& keys, HfShape& made) {
  fill_plain(keys, made, false);
  use_gpt_parts(made);
  made.shape["biases"] = true;
  made.shape["qk_norm"] = keys.flag("qk_layernorm", true);
}

void fill_nemotron(HfKeys& keys, HfShape& made) {
  fill_llama(keys, made);
  use_gpt_parts(made);
}

void fill_starcoder2(HfKeys& keys, HfShape& made) {
  fill_plain(keys, made, true);
  made.shape["gated_ffn"] = keys.text("mlp_type") == "gated";
  made.shape["norm"] = keys.text("norm_type") == "rms_norm" ? "rms_norm" : "layer_norm";
  fill_all_biases(keys, made, "use_bias", true);
}

void fill_stablelm(HfKeys& keys, HfShape& made) {
  fill_plain(keys, made, false);
  made.shape["norm"] = "layer_norm";
  if (keys.flag("use_qkv_bias", false)) made.shape["qkv_biases"] = true;
  made.shape["qk_norm"] = keys.flag("qk_layernorm", false);
  if (keys.flag("use_parallel_residual", false)) note(made, kOneNorm);
}

// Command R: one LayerNorm without bias before attention and feed-forward, tied embeddings.
void fill_cohere(HfKeys& keys, HfShape& made) {
  fill_tied_llama(keys, made);
  made.shape["norm"] = "layer_norm";
  made.shape["qk_norm"] = keys.flag("use_qk_norm", false);
  note(made, kOneNorm);
  note(made, kNormBiases);
}

// Command R7B: every fourth layer has full attention, without positions.
void fill_cohere2(HfKeys& keys, HfShape& made) {
  fill_cohere(keys, made);
  fill_window(keys, made, keys.get("layer_switch", 4));
  made.shape["gated_ffn"] = keys.flag("use_gated_activation", true);
  keys.skip({"use_embedding_sharing", "use_parallel_block", "use_parallel_embedding",
             "position_embedding_type"});
}

// Falcon: multi-query attention (7B), or groups of heads and two norms (40B, 180B).
void fill_falcon(HfKeys& keys, HfShape& made) {
  fill_sizes(keys, made, {.ffn_ratio = 4, .default_positions = 2048});
  use_gpt_parts(made);
  made.shape["tied_embeddings"] = keys.flag("tie_word_embeddings", true);
  note_switches(keys, made);
  fill_all_biases(keys, made, "bias", false);
  const bool grouped = keys.flag("new_decoder_architecture", false);
  if (!grouped)
    made.shape["kv_heads"] = keys.flag("multi_query", true) ? Json(1) : made.shape["heads"];
  const std::int64_t norms = keys.get("num_ln_in_parallel_attn", grouped ? 2 : 1);
  if (keys.flag("parallel_attn", true) || grouped) note(made, norms > 1 ? kParallel : kOneNorm);
  if (keys.flag("alibi", false)) use_alibi(made);
}

// BLOOM: biases, ALiBi, a norm behind the embedding.
void fill_bloom(HfKeys& keys, HfShape& made) {
  SizeKeys sizes = gpt_sizes();
  sizes.default_positions = 2048;
  fill_sizes(keys, made, sizes);
  use_gpt_parts(made);
  made.shape["tied_embeddings"] = keys.flag("tie_word_embeddings", true);
  made.shape["biases"] = true;
  use_alibi(made);
  note_switches(keys, made);
  note(made, "the norm behind the embedding is left out");
}

// OPT: a GPT with ReLU. The first two rows of its positions belong to no token.
void fill_opt(HfKeys& keys, HfShape& made) {
  fill_plain(keys, made, true);
  use_gpt_parts(made);
  made.shape["positions"] = "learned";
  fill_all_biases(keys, made, "enable_bias", true);
  if (keys.number("dropout", 0.1) > 0.0) made.shape["dropout"] = true;
  note(made, "two rows of the positions that no token uses are left out");
  if (!keys.flag("do_layer_norm_before", true))
    note(made, "norms behind attention and feed-forward are counted before them");
  keys.skip({"layer_norm_elementwise_affine", "_remove_final_layer_norm"});
  const auto hidden = made.shape["hidden"].get<std::int64_t>();
  if (const std::int64_t width = keys.get("word_embed_proj_dim", hidden); width != hidden)
    keys.report("word_embed_proj_dim",
                fmt::format("{} differs from the hidden size {}", width, hidden),
                "a projection behind the embedding is not modelled");
}

// The positions of MPT: learned, or ALiBi in their place.
void fill_mpt_positions(HfKeys& keys, HfShape& made) {
  const bool learned = keys.flag("learned_pos_emb", true);
  made.shape["positions"] = learned ? "learned" : "none";
  if (keys.flag("attn_config/alibi", false)) use_alibi(made);
}

// MPT: no biases, not even of norms, where no_bias says so.
void fill_mpt(HfKeys& keys, HfShape& made) {
  fill_sizes(keys, made, mpt_sizes());
  use_gpt_parts(made);
  const double ratio = std::min(keys.number("expansion_ratio", 4.0), 1000.0);
  const auto hidden = static_cast<double>(made.shape["hidden"].get<std::int64_t>());
  if (!keys.has("ffn_config/ffn_hidden_size")) made.shape["ffn"] = std::llround(ratio * hidden);
  made.shape["tied_embeddings"] = keys.flag("tie_word_embeddings", true);
  if (keys.text("attn_config/attn_type") == "multiquery_attention") made.shape["kv_heads"] = 1;
  fill_mpt_positions(keys, made);
  if (keys.flag("no_bias", true)) {
    note(made, kNormBiases);
  } else {
    made.shape["biases"] = true;
  }
  if (keys.flag("attn_config/qk_ln", false)) note(made, "norms of queries and keys are left out");
  note_clamp(keys, made, "attn_config/clip_qkv");
  for (const char* key : {"resid_pdrop", "emb_pdrop", "attn_config/attn_pdrop"})
    if (keys.number(key, 0.0) > 0.0) note(made, "dropout is left out");
  keys.skip({"attn_config/attn_impl", "attn_config/alibi_bias_max", "attn_config/softmax_scale",
             "attn_config/attn_uses_sequence_id", "attn_config/prefix_lm", "norm_type",
             "init_config", "ffn_config/ffn_type"});
}

// DBRX: experts in every layer, LayerNorm without bias.
void fill_dbrx(HfKeys& keys, HfShape& made) {
  fill_sizes(keys, made, mpt_sizes());
  made.shape["tied_embeddings"] = keys.flag("tie_word_embeddings", false);
  made.shape["norm"] = "layer_norm";
  fill_experts(keys, made,
               {.number = "ffn_config/moe_num_experts",
                .per_token = "ffn_config/moe_top_k",
                .width = "ffn_config/ffn_hidden_size"});
  note(made, kNormBiases);
  note_clamp(keys, made, "attn_config/clip_qkv");
  keys.skip({"ffn_config/ffn_act_fn", "ffn_config/moe_loss_weight", "ffn_config/moe_jitter_eps",
             "ffn_config/moe_normalize_expert_weights", "ffn_config/uniform_expert_assignment",
             "attn_config/attn_pdrop", "resid_pdrop", "emb_pdrop"});
}

// The families with known parts. A family that differs from another starts from its function and
// corrects the shape.
constexpr std::array kFamilies{
    HfFamily{"apertus", "Apertus 8B, 70B", fill_apertus},
    HfFamily{"baichuan", "Baichuan 2 7B, 13B", fill_baichuan},
    HfFamily{"bailing_moe", "Ling-lite, Ling-plus", fill_bailing_moe},
    HfFamily{"bailing_moe_v2", "Ling-mini 2.0, Ling-flash 2.0, Ling 1T", fill_bailing_moe_v2},
    HfFamily{"bloom", "BLOOM 560M to 176B", fill_bloom},
    HfFamily{"cohere", "Command R, Aya 23", fill_cohere},
    HfFamily{"cohere2", "Command R7B, Command A", fill_cohere2},
    HfFamily{"dbrx", "DBRX", fill_dbrx},
    HfFamily{"deepseek_v2", "DeepSeek-V2, V2-Lite", fill_deepseek},
    HfFamily{"deepseek_v3", "DeepSeek-V3, R1", fill_deepseek_v3},
    HfFamily{"ernie4_5", "ERNIE 4.5 0.3B", fill_ernie},
    HfFamily{"ernie4_5_moe", "ERNIE 4.5 21B-A3B, 300B-A47B", fill_ernie_moe},
    HfFamily{"exaone4", "EXAONE 4.0 1.2B, 32B", fill_exaone4},
    HfFamily{"falcon", "Falcon 7B, 40B, 180B", fill_falcon},
    HfFamily{"gemma", "Gemma 2B, 7B", fill_gemma},
    HfFamily{"gemma2", "Gemma 2 2B, 9B, 27B", fill_gemma2},
    HfFamily{"gemma3_text", "Gemma 3 1B to 27B", fill_gemma3},
    HfFamily{"glm", "GLM-4-9B", fill_qkv_biases},
    HfFamily{"glm4", "GLM-4-9B-0414, 32B-0414", fill_glm4},
    HfFamily{"glm4_moe", "GLM-4.5, 4.5-Air, 4.6", fill_glm4_moe},
    HfFamily{"gpt2", "GPT-2", fill_gpt2},
    HfFamily{"gpt_bigcode", "StarCoder, SantaCoder", fill_gpt_bigcode},
    HfFamily{"gpt_neox", "GPT-NeoX-20B, Pythia", fill_neox},
    HfFamily{"gpt_oss", "gpt-oss-20b, 120b", fill_gpt_oss},
    HfFamily{"gptj", "GPT-J 6B", fill_gptj},
    HfFamily{"granite", "Granite 3 2B, 8B", fill_llama},
    HfFamily{"granitemoe", "Granite 3 1B-A400M, 3B-A800M", fill_mixtral},
    HfFamily{"hunyuan_v1_dense", "Hunyuan 0.5B to 7B", fill_hunyuan},
    HfFamily{"hunyuan_v1_moe", "Hunyuan-A13B", fill_hunyuan_moe},
    HfFamily{"internlm2", "InternLM 2, 2.5", fill_internlm2},
    HfFamily{"kimi_k2", "Kimi K2", fill_deepseek_v3},
    HfFamily{"llama", "Llama 1 to 3.3, Yi, SmolLM 2", fill_llama},
    HfFamily{"llama4_text", "Llama 4 Scout, Maverick", fill_llama4},
    HfFamily{"minicpm3", "MiniCPM 3 4B", fill_minicpm3},
    HfFamily{"mistral", "Mistral 7B, NeMo, Small", fill_llama},
    HfFamily{"mixtral", "Mixtral 8x7B, 8x22B", fill_mixtral},
    HfFamily{"mpt", "MPT 7B, 30B", fill_mpt},
    HfFamily{"nemotron", "Minitron 4B, 8B, Nemotron 4", fill_nemotron},
    HfFamily{"olmo", "OLMo 1B, 7B", fill_olmo},
    HfFamily{"olmo2", "OLMo 2 1B to 32B", fill_olmo2},
    HfFamily{"olmo3", "OLMo 3 7B, 32B", fill_olmo3},
    HfFamily{"olmoe", "OLMoE 1B-7B", fill_olmoe},
    HfFamily{"opt", "OPT 125M, 1.3B to 66B", fill_opt},
    HfFamily{"persimmon", "Persimmon 8B", fill_persimmon},
    HfFamily{"phi", "Phi-1.5, Phi-2", fill_phi},
    HfFamily{"phi3", "Phi-3, Phi-4", fill_llama},
    HfFamily{"phimoe", "Phi-3.5-MoE", fill_phimoe},
    HfFamily{"qwen2", "Qwen 1.5, 2, 2.5", fill_qwen2},
    HfFamily{"qwen2_5_vl", "Qwen2.5-VL", fill_qwen2_5_vl},
    HfFamily{"qwen2_5_vl_text", "Qwen2.5-VL", fill_qwen2},
    HfFamily{"qwen2_moe", "Qwen1.5-MoE, Qwen2 57B-A14B", fill_qwen2_moe},
    HfFamily{"qwen3", "Qwen 3 0.6B to 32B", fill_qwen3},
    HfFamily{"qwen3_moe", "Qwen 3 30B-A3B, 235B-A22B", fill_qwen3_moe},
    HfFamily{"qwen3_vl_moe_text", "Qwen3-VL 30B-A3B, 235B-A22B", fill_qwen3_moe},
    HfFamily{"qwen3_vl_text", "Qwen3-VL 2B to 32B", fill_qwen3},
    HfFamily{"seed_oss", "Seed-OSS 36B", fill_seed_oss},
    HfFamily{"smollm3", "SmolLM 3 3B", fill_smollm3},
    HfFamily{"stablelm", "StableLM 3B, 2 1.6B, 2 12B", fill_stablelm},
    HfFamily{"starcoder2", "StarCoder 2 3B, 7B, 15B", fill_starcoder2}};

}  // namespace
}  // namespace hf

std::span<const HfFamily> hf_families() { return hf::kFamilies; }

const HfFamily* find_hf_family(std::string_view type) {
  const auto found = std::ranges::find(hf::kFamilies, type, &HfFamily::type);
  return found == hf::kFamilies.end() ? nullptr : &*found;
}

void read_usual_keys(HfKeys& keys) {
  for (const HfKeys::Names names :
       {HfKeys::Names(hf::kLayers), HfKeys::Names(hf::kHidden), HfKeys::Names(hf::kHeads),
        HfKeys::Names(hf::kKvHeads), HfKeys::Names(hf::kHeadDim), HfKeys::Names(hf::kFfn),
        HfKeys::Names(hf::kPositions)})
    (void)keys.written(names);
  keys.skip({"vocab_size", "tie_word_embeddings", "attention_bias", "sliding_window",
             "max_window_layers", "use_sliding_window"});
  HfShape made;
  hf::note_switches(keys, made);
}

}  // namespace trainyard
