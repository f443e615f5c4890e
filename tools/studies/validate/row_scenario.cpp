#include "tools/studies/validate/row_scenario.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/algorithm/string/case_conv.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <sstream>
#include <utility>

#include "models/recompute.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

// The scenario is made in this order: the row's own statements (model, cluster, parallelism,
// training), then the facts of the tables, which may override them, then the rules for whole CUDA
// graphs. A statement that no scenario can express throws InputError, and its message becomes the
// reason why the row has no prediction. What the row leaves out and no table knows is assumed, and
// each assumption becomes a sentence of the scenario.

namespace {

constexpr std::int64_t kPositionsLeast = 2048;
constexpr double kLayersMost = 1e6;  // upper limit of a number of layers in a row
constexpr const char* kSelective =
    "the row does not say what selective recomputation recomputes: core_attn, as where "
    "--recompute-modules is left out (Megatron-LM core/transformer/transformer_config.py), unless "
    "the framework has another default";

// A scenario under construction from a row.
struct Draft {
  const Json& row;
  Json document = Json::object();
  Json assumptions = Json::array();

  void assume(std::string sentence) { assumptions.push_back(std::move(sentence)); }
};

[[noreturn]] void cannot(const std::string& pointer, const std::string& problem) {
  throw InputError(Problem{"", pointer, problem, ""});
}

// The value of a field without which there is no scenario. 0 and null count as absent.
std::int64_t needed(const Json& row, const std::string& pointer) {
  const std::int64_t value = whole_at(row, pointer, 0);
  if (value <= 0) cannot(pointer, "is not known");
  return value;
}

void add_experts(const Json& row, Json& model) {
  const Json* moe = value_at(row, "/model/moe");
  if (moe == nullptr) return;
  model["experts"] = needed(*moe, "/experts");
  model["experts_per_token"] = needed(*moe, "/topk");
  model["expert_ffn"] = needed(*moe, "/expert_ffn");
  // The width of all shared experts together: two of 1536 are 3072 (DeepSeek-V2).
  const std::int64_t shared =
      whole_at(*moe, "/shared_experts", 0) > 0 ? whole_at(*moe, "/shared_expert_ffn", 0) : 0;
  if (shared > 0) model["shared_ffn"] = shared;
  model["dense_layers"] = whole_at(*moe, "/first_dense_layers", 0);
  model["moe_every"] = whole_at(*moe, "/moe_every", 1);
  const std::int64_t dense = whole_at(*moe, "/dense_ffn", 0);
  if (dense > 0) model["ffn"] = dense;
}

// Multi-head latent attention of DeepSeek-V2 and V3: a query and a key of each head consist of a
// part without positions (qk_nope) and a part with rotary positions (qk_rope). The value has a
// width of its own.
void add_latent_attention(const Json& row, Json& model) {
  const Json* mla = value_at(row, "/model/mla");
  if (mla == nullptr) return;
  model["query_latent"] = whole_at(*mla, "/q_lora", 0);
  model["kv_latent"] = needed(*mla, "/kv_lora");
  model["rope_dim"] = needed(*mla, "/qk_rope");
  model["head_dim"] = needed(*mla, "/qk_nope") + needed(*mla, "/qk_rope");
  model["value_dim"] = needed(*mla, "/v");
}

// Reads the attention window: in "alternating sliding-window(128)/full" every second layer attends
// to the last 128 positions.
void add_window(const std::string& attention, Json& model) {
  constexpr std::string_view kWindow = "sliding-window(";
  const std::size_t at = attention.find(kWindow);
  if (at == std::string::npos) return;
  model["window"] = std::atoi(attention.c_str() + at + kWindow.size());
  if (attention.starts_with("alternating")) model["full_attention_every"] = 2;
}

// Adds the model. The parts of GPT occur together (two-matrix feed-forward, LayerNorm, biases,
// learned positions, dropout), and so do those of Llama.
void add_model(Draft& draft) {
  const Json& row = draft.row;
  const bool gated = truth_at(row, "/model/gated_mlp", true);
  const std::string activation = text_at(row, "/model/activation");
  const std::string attention = text_at(row, "/model/attention");
  // A model with an activation of its own, such as Nemotron's squared ReLU, has two matrices in its
  // feed-forward and LayerNorm, but no biases, learned positions or dropout.
  const bool gpt = !gated && activation.empty();
  const bool alibi = attention.find("alibi") != std::string::npos;
  const std::int64_t hidden = needed(row, "/model/hidden");
  const std::int64_t heads = needed(row, "/model/heads");
  const std::int64_t sequence = needed(row, "/batch/seq_len");
  Json model = {{"name", text_at(row, "/model/name", "model")},
                {"layers", needed(row, "/model/layers")},
                {"hidden", hidden},
                {"heads", heads},
                {"kv_heads", whole_at(row, "/model/kv_heads", heads)},
                {"head_dim", whole_at(row, "/model/head_dim", hidden / heads)},
                {"ffn", needed(row, "/model/ffn")},
                {"vocab", needed(row, "/model/vocab")},
                {"max_positions", std::max(kPositionsLeast, sequence)},
                {"gated_ffn", gated},
                {"biases", gpt && !alibi},
                {"tied_embeddings", gpt},
                {"dropout", gpt && !alibi},
                {"positions", gpt ? "learned" : "rotary"},
                {"norm", gated ? "rms_norm" : "layer_norm"}};
  add_experts(row, model);
  add_latent_attention(row, model);
  if (alibi) draft.assume("ALiBi's bias is taken as free; positions count as learned ones");
  if (!activation.empty()) {
    draft.assume(fmt::format("{} costs what GELU costs: one read, one write", activation));
  }
  add_window(attention, model);
  draft.document["model"] = std::move(model);
}

// The layers of `parts` virtual stages that are split by hand. All stages have the same number of
// layers, except the last one, which has fewer layers and the head (61 layers in 16 stages: fifteen
// times 4, and 1). If this would leave no layer for the last stage, the first stages have one layer
// more instead.
std::vector<std::int64_t> split_by_hand(std::int64_t layers, std::int64_t parts) {
  const std::int64_t each = (layers + parts - 1) / parts;
  const std::int64_t last = layers - each * (parts - 1);
  std::vector<std::int64_t> split(static_cast<std::size_t>(parts), last > 0 ? each : each - 1);
  if (last > 0) {
    split.back() = last;
  } else {
    std::fill_n(split.begin(), layers - (each - 1) * parts, each);
  }
  return split;
}

// Adds the split of the layers. Megatron has two ways to make layers divide evenly: the embedding,
// or the embedding and the loss, count as one layer each. Otherwise the stages of the run were
// split by hand, and rows do not state how.
void add_split(Draft& draft, Json& parallelism) {
  const std::int64_t layers = needed(draft.row, "/model/layers");
  const std::int64_t parts =
      whole_at(draft.row, "/parallel/pp", 1) * whole_at(draft.row, "/parallel/vp", 1);
  if (layers % parts == 0) return;
  if ((layers + 2) % parts == 0) {
    parallelism["embedding_in_split"] = parallelism["loss_in_split"] = true;
  } else if ((layers + 1) % parts == 0) {
    parallelism["embedding_in_split"] = true;
  } else if (layers < parts) {
    cannot("/parallel/pp", fmt::format("{} layers are fewer than {} parts", layers, parts));
  } else {
    const std::vector<std::int64_t> split = split_by_hand(layers, parts);
    parallelism["layers_per_stage"] = split;
    draft.assume(fmt::format("{} layers in {} parts: {} in the first, {} in the last", layers,
                             parts, split.front(), split.back()));
  }
}

// Adds the number of ranks that share one sharded copy, if a row states it and it is not all of
// them. FSDP's SHARD_GRAD_OP gathers each layer's weights once per step and keeps them for the
// backward.
void add_shards(const Json& row, Json& parallelism) {
  if (text_at(row, "/parallel/fsdp") == "SHARD_GRAD_OP") {
    parallelism["zero_stage"] = 3;
    parallelism["reshard_after_forward"] = "never";
  }
  const std::int64_t replicas = whole_at(row, "/parallel/dp", 1);
  const std::int64_t context = whole_at(row, "/parallel/cp", 1);
  // A group as large as all ranks of data and context parallelism is the default.
  for (const char* place : {"/parallel/zero1_group", "/parallel/fsdp"}) {
    const std::int64_t shard = whole_at(row, place, 0);
    if (shard > 0 && shard < replicas * context) parallelism["shard"] = shard;
  }
}

void add_parallelism(Draft& draft) {
  const Json& row = draft.row;
  const std::int64_t chunks = whole_at(row, "/parallel/vp", 1);
  Json parallelism = {{"tensor", whole_at(row, "/parallel/tp", 1)},
                      {"sequence_parallel", truth_at(row, "/parallel/sequence_parallel")},
                      {"pipeline", whole_at(row, "/parallel/pp", 1)},
                      {"data", whole_at(row, "/parallel/dp", 1)},
                      {"zero_stage", whole_at(row, "/parallel/zero_stage", 0)}};
  if (chunks > 1) {
    parallelism["interleave"] = chunks;
    parallelism["schedule"] = "interleaved_1f1b";
  }
  const std::int64_t context = whole_at(row, "/parallel/cp", 1);
  if (context > 1) parallelism["context"] = context;
  const std::int64_t expert = whole_at(row, "/parallel/ep", 1);
  if (expert > 1) parallelism["expert"] = expert;
  // 0: as the tensor ranks of the dense layers.
  const std::int64_t expert_tensor = whole_at(row, "/parallel/etp", 0);
  if (value_at(row, "/model/moe") != nullptr && expert_tensor > 0) {
    parallelism["expert_tensor"] = expert_tensor;
  }
  add_shards(row, parallelism);
  add_split(draft, parallelism);
  draft.document["parallelism"] = std::move(parallelism);
}

// Returns the words of a row on the run's experts, in lower case: the values of these fields in
// `recipe` and `moe_run`, which may be sentences ("HybridEP, 32 SMs").
std::string said_of_experts(const Json& row, std::initializer_list<const char*> keys) {
  std::string text;
  for (const char* key : keys) {
    for (const char* section : {"/recipe/", "/moe_run/"})
      text += text_at(row, section + std::string(key)) + ' ';
  }
  boost::algorithm::to_lower(text);
  return text;
}

bool overlaps_dispatch(const Json& row) {
  return truth_at(row, "/recipe/moe_a2a_overlap") || truth_at(row, "/moe_run/ep_overlap") ||
         truth_at(row, "/moe_run/overlap_moe_expert_parallel_comm");
}

// If the run overlapped the dispatch and combine of experts, a forward is paired with the backward
// before it. 1F1B on one stage and the interleaved schedule can do this.
void add_dispatch_overlap(Draft& draft) {
  const Json& row = draft.row;
  if (!overlaps_dispatch(row)) return;
  const bool chunks = whole_at(row, "/parallel/vp", 1) > 1;
  if (!chunks && whole_at(row, "/parallel/pp", 1) > 1) {
    draft.assume("the overlap of dispatch, which this schedule cannot have, is left out");
    return;
  }
  draft.document["experts"]["overlap_dispatch"] = true;
  if (chunks) draft.document["parallelism"]["overlap_p2p"] = true;
}

// Megatron-Core's flex dispatcher calls DeepEP or HybridEP; without a word of it, tokens travel by
// NCCL's all_to_all.
void add_dispatcher(Draft& draft) {
  const std::string said = said_of_experts(
      draft.row, {"dispatcher", "moe_flex_dispatcher_backend", "moe_token_dispatcher_type"});
  for (const auto& [word, dispatcher] :
       {std::pair{"hybridep", "hybrid_ep"}, std::pair{"deepep", "node_limited"}}) {
    if (said.find(word) == std::string::npos) continue;
    draft.document["experts"]["dispatcher"] = dispatcher;
    return;
  }
}

// Some recipes of mixture-of-experts models run the whole step as one CUDA graph in MXFP8. They
// also multiply in 8 bits within attention, and Transformer Engine fuses the kernels of the experts
// (Megatron-Bridge perf_recipes: cuda_graph_impl full_iteration, fp8_dot_product_attention,
// use_transformer_engine_op_fuser). Its fuser supports only SwiGLU (Megatron-LM
// TEGroupedMLP._is_fused_impl_supported); clamped activations stay separate kernels. In both cases
// the GEMMs of the experts are one launch, because a graph cannot wait for a host that reads the
// number of tokens of each expert. No host issues the kernels of a graph.
void add_whole_graph(Draft& draft) {
  const Json& row = draft.row;
  const std::string graph =
      said_of_experts(row, {"cuda_graph_impl", "cuda_graph_scope", "cuda_graph"});
  const bool whole = graph.find("full_iteration") != std::string::npos ||
                     graph.find("full iteration") != std::string::npos;
  const bool experts = value_at(row, "/model/moe") != nullptr;
  if (whole) draft.document["host"] = "none";
  if (!whole || !experts || !text_at(row, "/precision").starts_with("MXFP8")) return;
  const bool clamped = draft.document["model"].value("clamped_experts", false);
  draft.document["experts"]["gemms"] = clamped ? "grouped" : "fused";
  draft.document["training"]["recipe"] = "fp8_attention";
}

// The words between quotation marks: "selective modules ['layernorm', 'moe_act']".
Json quoted_words(const std::string& text) {
  Json words = Json::array();
  for (std::size_t begin = text.find('\''); begin != std::string::npos;) {
    const std::size_t end = text.find('\'', begin + 1);
    if (end == std::string::npos) break;
    words.push_back(text.substr(begin + 1, end - begin - 1));
    begin = text.find('\'', end + 1);
  }
  return words;
}

// Refuses numbers in quotes, which would be read as unknown.
void check_numbers(const Json& row) {
  constexpr std::array kSections{
      std::pair{"/model/", "layers hidden heads kv_heads head_dim ffn vocab"},
      std::pair{"/hardware/", "num_gpus"},
      std::pair{"/parallel/", "tp pp vp cp ep etp dp zero_stage zero1_group"},
      std::pair{"/batch/", "micro_batch global_batch seq_len"}};
  for (const auto& [section, keys] : kSections) {
    std::istringstream words(keys);
    for (std::string key; words >> key;) {
      const Json* value = value_at(row, section + key);
      if (value != nullptr && !value->is_number())
        cannot(section + key, fmt::format("must be a number, not {}", value->dump()));
    }
  }
}

// The numbers in "0, 3 and 7" or "5 layers". The result is empty if the text contains other words.
std::vector<double> numbers_in(std::string text) {
  std::ranges::replace(text, ',', ' ');
  std::istringstream words(text);
  std::vector<double> numbers;
  for (std::string word; words >> word;) {
    if (word == "and" || word == "layer" || word == "layers") continue;
    const char* const end = word.data() + word.size();
    double number = 0.0;
    const auto [read, error] = std::from_chars(word.data(), end, number);
    if (error != std::errc() || read != end) return {};
    numbers.push_back(number);
  }
  return numbers;
}

// Parses a method of full recomputation with its layers: "full (block, 5 layers)", "full (fraction,
// 0.5)", "full (layers, 0 3 7)". Returns false for any other text.
bool add_recompute_method(const std::string& said, Json& training) {
  for (const auto& [method, word] : kRecomputeMethods) {
    const std::string begins = fmt::format("full ({}, ", word);
    if (!said.starts_with(begins) || !said.ends_with(")")) continue;
    const std::vector<double> numbers =
        numbers_in(said.substr(begins.size(), said.size() - begins.size() - 1));
    const bool whole = std::ranges::all_of(numbers, [](double number) {
      return number >= 0.0 && number < kLayersMost && number == std::floor(number);
    });
    const bool listed = method == RecomputeMethod::Layers;
    const bool fraction = method == RecomputeMethod::Fraction;
    if (numbers.empty() || (numbers.size() > 1 && !listed) || (!whole && !fraction)) return false;
    training["recompute"] = "full";
    training["recompute_method"] = word;
    if (fraction) training["recompute_fraction"] = numbers.front();
    if (listed)
      training["recompute_layers"] = std::vector<std::int64_t>(numbers.begin(), numbers.end());
    if (!fraction && !listed)
      training["recompute_num_layers"] = static_cast<std::int64_t>(numbers.front());
    return true;
  }
  return false;
}

// Adds the attention kernel that the row names. Otherwise it is the default of the framework.
void add_attention(Draft& draft, Json& training) {
  const std::string said = text_at(draft.row, "/model/attention");
  for (const auto& [word, kind] :
       {std::pair{"unfused", "unfused"}, std::pair{"memory-efficient", "memory_efficient"},
        std::pair{"memory_efficient", "memory_efficient"}, std::pair{"flash", "flash"}}) {
    if (said.find(word) == std::string::npos) continue;
    training["attention"] = kind;
    return;
  }
}

// A row has the words of its source. Words of unknown meaning are refused, because a wrong guess
// would look like an error of the prediction.
void add_recompute(Draft& draft, Json& training) {
  const std::string said = text_at(draft.row, "/recompute", "none");
  if (value_at(draft.row, "/recompute") == nullptr)
    draft.assume("nothing is said of recomputation: there is none");
  if (said == "none") {
    training["recompute"] = "none";
  } else if (said == "full" || said.starts_with("full (use_checkpoint")) {
    training["recompute"] = "full";
  } else if (said == "selective" || said.starts_with("selective (attention core")) {
    training["recompute"] = "selective";
    if (said == "selective") draft.assume(kSelective);
  } else if (said.starts_with("selective modules")) {
    training["recompute"] = "selective";
    training["recompute_modules"] = quoted_words(said);
  } else if (add_recompute_method(said, training)) {
    return;
  } else if (said.starts_with("selective (op-level") || said.starts_with("selective (per-op")) {
    training["recompute"] = "selective";
    training["recompute_modules"] = {"every_second_gemm"};
  } else {
    cannot("/recompute",
           fmt::format("\"{}\" cannot be expressed (none, selective, selective modules ['mlp', "
                       "...], full, full (uniform, N layers) or block or every, full (fraction, "
                       "0.5) and full (layers, 0 3 7) can)",
                       said));
  }
}

// Rows name the scaling of 8-bit tensors in their precision, or in the recipe that they ran.
bool current_scaling(const Json& row) {
  return text_at(row, "/precision").starts_with("FP8-CS") ||
         text_at(row, "/recipe/source/name").find("FP8_CS") != std::string::npos;
}

// With 8-bit or 4-bit GEMMs, everything else is computed in bf16.
void add_precision(Draft& draft, Json& training) {
  const std::string said = text_at(draft.row, "/precision", "BF16");
  if (value_at(draft.row, "/precision") == nullptr)
    draft.assume("nothing is said of the precision: it is bf16");
  for (const auto& [begins, word] :
       {std::pair{"BF16", "bf16"}, std::pair{"FP16", "fp16"}, std::pair{"FP32", "fp32"}}) {
    if (!said.starts_with(begins)) continue;
    training["precision"] = word;
    return;
  }
  const bool four_bit = said.starts_with("NVFP4");
  if (!four_bit && !said.starts_with("FP8") && !said.starts_with("MXFP8")) {
    cannot("/precision", fmt::format("\"{}\" cannot be expressed (what begins with BF16, FP16, "
                                     "FP32, FP8, MXFP8 or NVFP4 can)",
                                     said));
  }
  training["precision"] = "bf16";
  training["recipe"] = four_bit ? "nvfp4" : "fp8_cached";
  if (current_scaling(draft.row)) training["fp8_scaling"] = "current";
  if (four_bit) draft.assume("every linear layer but the head multiplies in NVFP4");
  if (said.starts_with("MX")) draft.assume("MXFP8's block scales cost nothing on top of fp8");
}

void add_training(Draft& draft) {
  const Json& row = draft.row;
  Json training = {{"sequence_length", needed(row, "/batch/seq_len")},
                   {"micro_batch_size", needed(row, "/batch/micro_batch")},
                   {"global_batch_size", needed(row, "/batch/global_batch")}};
  add_precision(draft, training);
  add_recompute(draft, training);
  add_attention(draft, training);
  draft.document["training"] = std::move(training);
}

std::string source_of(const Json& row) {
  std::string text;
  for (const char* key : {"/source/repo", "/source/path", "/source/commit", "/source/paper"}) {
    const std::string part = text_at(row, key);
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text.empty() ? "a row of the data set" : text;
}

}  // namespace

Json row_scenario(const RowTables& tables, const MeasuredRow& row) {
  check_numbers(row.description);
  Draft draft{.row = row.description};
  draft.document["description"] = row.id;
  draft.document["source"] = source_of(row.description);
  draft.document["assumptions"] = Json::array();
  add_model(draft);
  draft.document["cluster"] = cluster_of(tables, row);
  add_parallelism(draft);
  add_training(draft);
  add_dispatch_overlap(draft);
  add_dispatcher(draft);
  if (row.step_time_s > 0.0)
    draft.document["published"] = {{"source", source_of(row.description)},
                                   {"step_time", fmt::format("{} s", row.step_time_s)}};
  // Facts come after the row's own statements, which they may override, and before the rules that
  // look at what they set, such as clamped experts.
  draft.document = with_facts(tables, row, std::move(draft.document));
  add_whole_graph(draft);
  for (Json& sentence : draft.assumptions)
    draft.document["assumptions"].push_back(std::move(sentence));
  return draft.document;
}

}  // namespace trainyard
