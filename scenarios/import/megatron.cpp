#include "scenarios/import/megatron.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/recompute.hpp"
#include "scenarios/import/job_numbers.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Prefixes of arguments that do not affect the time and memory of a step.
constexpr auto kFlagsWithoutCost = std::to_array<std::string_view>({"adam_beta",
                                                                    "adam_eps",
                                                                    "async_save",
                                                                    "attention_softmax",
                                                                    "ckpt_",
                                                                    "data_",
                                                                    "dataloader_",
                                                                    "dist_ckpt",
                                                                    "distributed_backend",
                                                                    "distributed_timeout",
                                                                    "end_weight",
                                                                    "eod_",
                                                                    "eval_",
                                                                    "exit_",
                                                                    "finetune",
                                                                    "hysteresis",
                                                                    "init_method",
                                                                    "initial_loss",
                                                                    "layernorm_eps",
                                                                    "load",
                                                                    "local_rank",
                                                                    "log_",
                                                                    "loss_scale",
                                                                    "lr",
                                                                    "manual_gc",
                                                                    "master_",
                                                                    "merge_file",
                                                                    "min_lr",
                                                                    "mock_data",
                                                                    "moe_aux",
                                                                    "moe_router_bias",
                                                                    "moe_router_load",
                                                                    "moe_router_pre",
                                                                    "moe_router_score",
                                                                    "moe_z_loss",
                                                                    "no_load",
                                                                    "no_save",
                                                                    "node_rank",
                                                                    "norm_epsilon",
                                                                    "num_workers",
                                                                    "override_opt",
                                                                    "rank",
                                                                    "rdzv_",
                                                                    "rotary_base",
                                                                    "rotary_percent",
                                                                    "save",
                                                                    "seed",
                                                                    "split",
                                                                    "start_weight",
                                                                    "tensorboard",
                                                                    "timing_",
                                                                    "tokenizer",
                                                                    "train_",
                                                                    "use_checkpoint",
                                                                    "use_mcore",
                                                                    "vocab_file",
                                                                    "wandb",
                                                                    "weight_decay"});

bool says_nothing_of_cost(const std::string& name) {
  return std::ranges::any_of(kFlagsWithoutCost,
                             [&](std::string_view one) { return name.starts_with(one); });
}

constexpr std::int64_t kLayersMost = 100'000;

std::optional<std::int64_t> whole_number(std::string_view text) {
  const std::optional<std::int64_t> value = whole_of(text);
  return value && *value >= 1 && *value <= kLayersMost ? value : std::nullopt;
}

// Parses the layers with experts: sums of lists of 0 and 1 that may be repeated, "[0]*3+[1]*58" or
// "[0, 1, 1]", with or without parentheses around all of it. Returns an empty list for other text.
std::vector<bool> layer_pattern(std::string text) {
  std::erase_if(text, [](char letter) { return letter == ' '; });
  if (text.starts_with('(') && text.ends_with(')')) text = text.substr(1, text.size() - 2);
  std::vector<bool> layers;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view term = rest.substr(0, rest.find('+'));
    rest.remove_prefix(std::min(term.size() + 1, rest.size()));
    const std::size_t close = term.find(']');
    if (!term.starts_with('[') || close == std::string_view::npos) return {};
    const std::string_view times = term.substr(close + 1);
    const auto repeats = times.empty()          ? 1
                         : times.front() == '*' ? whole_number(times.substr(1))
                                                : std::nullopt;
    if (!repeats || term.find_first_not_of("01,", 1) != close) return {};
    std::vector<bool> list;
    for (const char letter : term.substr(1, close - 1))
      if (letter != ',') list.push_back(letter == '1');
    if (static_cast<std::int64_t>(layers.size() + list.size()) * *repeats > kLayersMost) return {};
    for (std::int64_t i = 0; i < *repeats; ++i)
      layers.insert(layers.end(), list.begin(), list.end());
  }
  return layers;
}

// Writes the repetitions of a pipeline's layout out: "(t*2|)*2" becomes "tt|tt|", and "t*3" becomes
// "ttt". Returns nothing for other text.
std::optional<std::string> expanded_layout(std::string_view layout) {
  std::string plain;
  for (std::string_view rest = layout; !rest.empty();) {
    // A part is one letter or the text in parentheses, and ends at `close`.
    const bool group = rest.front() == '(';
    const std::size_t close = group ? rest.find(')') : 0;
    if (close == std::string_view::npos) return {};
    const std::optional<std::string> part =
        group ? expanded_layout(rest.substr(1, close - 1)) : std::string(rest.substr(0, 1));
    rest.remove_prefix(close + 1);
    std::int64_t times = 1;
    if (rest.starts_with('*')) {
      const std::size_t end = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
      times = whole_number(rest.substr(1, end - 1)).value_or(0);
      rest.remove_prefix(end);
    }
    if (!part || part->find_first_not_of("EtmL|, ") != std::string::npos || times < 1) return {};
    if (static_cast<std::int64_t>(plain.size() + part->size()) * times > kLayersMost) return {};
    for (std::int64_t i = 0; i < times; ++i) plain += *part;
  }
  return plain;
}

// The words of "mlp layernorm" in a script, or of "['mlp', 'layernorm']" in a log.
std::vector<std::string> listed_words(std::string said) {
  constexpr std::string_view kBetween = "[]'\",";
  for (char& letter : said)
    if (kBetween.find(letter) != std::string_view::npos) letter = ' ';
  std::istringstream words(said);
  return {std::istream_iterator<std::string>(words), {}};
}

// Converts the arguments section by section. The order matters: the cluster gives world_, from
// which parallelism() works out replicas_, which training() needs for the default batch. Every
// argument that a function reads is recorded. Those left at the end may matter and are listed,
// unless they are known to cost nothing; therefore an argument is read even where another one
// overrides it. What is assumed becomes an assumption of the scenario.
class Launch {
 public:
  Launch(LaunchArguments arguments, const LaunchMachine& machine)
      : arguments_(std::move(arguments)), machine_(machine) {}

  ImportedScenario scenario() {
    if (!machine_.model.empty()) refuse("states its model itself", "leave --model out");
    if (machine_.sequence) refuse("states its sequence length itself", "leave --sequence out");
    Json& s = made_.scenario;
    s["description"] = "A launch of Megatron-LM";
    s["source"] = arguments_.file();
    s["assumptions"] = Json::array();
    s["model"] = model();
    s["cluster"] = cluster();
    s["parallelism"] = parallelism();
    s["training"] = training();
    if (has_experts_) s["experts"] = experts();
    add_offload(s);
    for (const std::string& sentence : arguments_.assumed()) made_.assumed.push_back(sentence);
    for (const std::string& note : made_.assumed) s["assumptions"].push_back(note);
    for (const std::string& name : arguments_.unread())
      if (!says_nothing_of_cost(name)) made_.not_looked_at.push_back(arguments_.spelled(name));
    return std::move(made_);
  }

 private:
  std::int64_t get(const std::string& name, std::int64_t fallback) {
    return arguments_.integer(name).value_or(fallback);
  }
  bool on(const std::string& name) { return arguments_.flag(name); }

  [[noreturn]] void refuse(const std::string& problem, const std::string& hint) const {
    throw InputError(
        Problem{.file = arguments_.file(), .pointer = {}, .problem = problem, .hint = hint});
  }

  // The defaults in this and the following sections are those of Megatron-LM's arguments, not those
  // of a scenario.
  Json model() {
    Json m;
    const std::int64_t hidden = arguments_.need("hidden_size");
    const std::int64_t heads = arguments_.need("num_attention_heads");
    layers_ = arguments_.need("num_layers");
    m["layers"] = layers_;
    m["hidden"] = hidden;
    m["heads"] = heads;
    m["kv_heads"] = on("group_query_attention") ? arguments_.need("num_query_groups") : heads;
    m["head_dim"] = get("kv_channels", hidden / std::max<std::int64_t>(heads, 1));
    m["gated_ffn"] = on("swiglu");
    // Gated layers keep, as in Megatron-LM, the number of parameters of a width of 4h: two thirds
    // of it, rounded down to a multiple of 64.
    const std::int64_t wide = on("swiglu") ? hidden * 8 / 3 / 64 * 64 : 4 * hidden;
    ffn_ = get("ffn_hidden_size", wide);
    m["ffn"] = ffn_;
    m["vocab"] = vocabulary();
    m["max_positions"] = get("max_position_embeddings", arguments_.need("seq_length"));
    // A script passes --disable-bias-linear; a log and a configuration state add_bias_linear.
    m["biases"] = !on("disable_bias_linear") && arguments_.text("add_bias_linear") != "False";
    if (on("add_qkv_bias") && !m["biases"].get<bool>()) m["qkv_biases"] = true;
    if (on("qk_layernorm")) m["qk_norm"] = true;
    m["tied_embeddings"] = !on("untie_embeddings_and_output_weights");
    const double hidden_dropout = arguments_.number("hidden_dropout").value_or(0.1);
    const double attention_dropout = arguments_.number("attention_dropout").value_or(0.1);
    m["dropout"] = hidden_dropout > 0.0 || attention_dropout > 0.0;
    m["positions"] = positions();
    const std::string norm = arguments_.text("normalization").value_or("LayerNorm");
    m["norm"] = norm == "RMSNorm" ? "rms_norm" : "layer_norm";
    add_latent_attention(m);
    add_experts(m);
    return m;
  }

  // A launch of 2023 asks for rotary embeddings with a flag, which has precedence.
  std::string positions() {
    const std::string type =
        arguments_.text("position_embedding_type").value_or("learned_absolute");
    if (on("use_rotary_position_embeddings") || type == "rope" || type == "mrope" || type == "yarn")
      return "rotary";
    if (type == "learned_absolute") return "learned";
    if (type == "none") return "none";
    refuse(fmt::format("{} is \"{}\"", arguments_.spelled("position_embedding_type"), type),
           "it may be learned_absolute, rope, mrope, yarn or none");
  }

  // The user's size has precedence, then the stated sizes, then the size that the GPT-2 tokenizers
  // imply.
  std::int64_t vocabulary() {
    constexpr std::int64_t kGpt2 = 50257;
    const std::optional<std::int64_t> given = arguments_.integer("vocab_size");
    const std::string tokenizer = arguments_.text("tokenizer_type").value_or("");
    if (machine_.vocab) return *machine_.vocab;
    if (given) return *given;
    if (const auto padded = arguments_.integer("padded_vocab_size")) return *padded;
    if (tokenizer.starts_with("GPT2")) return kGpt2;
    refuse("the launch does not say how large the vocabulary is", "add --vocab 128256");
  }

  void add_latent_attention(Json& m) {
    if (!on("multi_latent_attention")) return;
    const std::int64_t rope = get("qk_pos_emb_head_dim", 64);
    m["head_dim"] = get("qk_head_dim", 128) + rope;
    m["kv_heads"] = m["heads"];
    if (const auto query = arguments_.integer("q_lora_rank")) m["query_latent"] = *query;
    m["kv_latent"] = get("kv_lora_rank", 32);
    m["rope_dim"] = rope;
    m["value_dim"] = get("v_head_dim", 128);
    m.erase("qk_norm");  // the latents have separate norms, which the shape implies
  }

  void add_experts(Json& m) {
    const std::optional<std::int64_t> experts = arguments_.integer("num_experts");
    has_experts_ = experts.has_value();
    if (!has_experts_) return;
    m["experts"] = *experts;
    m["experts_per_token"] = get("moe_router_topk", 2);
    m["expert_ffn"] = get("moe_ffn_hidden_size", ffn_);
    if (const auto shared = arguments_.integer("moe_shared_expert_intermediate_size"))
      m["shared_ffn"] = *shared;
    add_layer_pattern(m, arguments_.text("moe_layer_freq").value_or("1"));
    if (const auto groups = arguments_.integer("moe_router_num_groups")) {
      m["expert_groups"] = *groups;
      m["groups_per_token"] = get("moe_router_group_topk", 1);
    }
    if (on("moe_router_enable_expert_bias")) m["router_bias"] = true;
  }

  // Parses "2", "([0]*3+[1]*58)" (three layers without experts, then 58 with them) or a list of all
  // layers.
  void add_layer_pattern(Json& m, const std::string& pattern) {
    if (const auto every = whole_number(pattern)) {
      m["moe_every"] = *every;
      return;
    }
    const std::vector<bool> layers = layer_pattern(pattern);
    // A shape can express dense layers first and layers with experts after them.
    const auto first = std::ranges::find(layers, true);
    if (first == layers.end() || std::find(first, layers.end(), false) != layers.end())
      refuse(fmt::format("{} is \"{}\"", arguments_.spelled("moe_layer_freq"), pattern),
             "a number or ([0]*DENSE+[1]*WITH_EXPERTS) can be expressed");
    m["dense_layers"] = first - layers.begin();
  }

  Json cluster() {
    // The sizes of torchrun and those of NeMo's configurations have different names.
    const auto either = [&](const char* a, const char* b) {
      const std::optional<std::int64_t> first = arguments_.integer(a);
      return first ? first : arguments_.integer(b);
    };
    LaunchedCluster launched =
        launched_cluster(machine_,
                         {.hosts = either("nnodes", "num_nodes"),
                          .per_host = either("nproc_per_node", "gpus_per_node"),
                          .world = arguments_.integer("world_size")},
                         arguments_.file());
    world_ = launched.world;
    for (std::string& sentence : launched.assumed) made_.assumed.push_back(std::move(sentence));
    return std::move(launched.section);
  }

  // Returns the data-parallel size: the world divided by tensor, pipeline and context parallelism
  // (validate_args of arguments.py). The product saturates at world + 1, so it cannot overflow.
  std::int64_t replicas(std::int64_t tensor, std::int64_t pipeline, std::int64_t context) {
    std::int64_t model = 1;
    for (const auto& [name, size] : {std::pair{"tensor_model_parallel_size", tensor},
                                     std::pair{"pipeline_model_parallel_size", pipeline},
                                     std::pair{"context_parallel_size", context}}) {
      if (size < 1)
        refuse(fmt::format("{} is {}", arguments_.spelled(name), size), "it must be at least 1");
      model = model > world_ || size > world_ / model ? world_ + 1 : model * size;
    }
    if (world_ % model != 0 || model > world_) {
      refuse(fmt::format(
                 "{} GPUs are not divisible by tensor {} x pipeline {} x context {}, the GPUs of "
                 "a replica",
                 world_, tensor, pipeline, context),
             model > world_ ? "launch on more GPUs, or make a replica smaller"
                            : fmt::format("launch on a multiple of {} GPUs", model));
    }
    return world_ / model;
  }

  Json parallelism() {
    Json p;
    const std::int64_t pipeline = get("pipeline_model_parallel_size", 1);
    const std::int64_t tensors = get("tensor_model_parallel_size", 1);
    const std::int64_t context = get("context_parallel_size", 1);
    replicas_ = replicas(tensors, pipeline, context);
    p["tensor"] = tensors;
    p["sequence_parallel"] = on("sequence_parallel") && tensors > 1;  // as Megatron-LM does
    p["pipeline"] = pipeline;
    add_context(p, context);
    p["data"] = replicas_;
    if (has_experts_) {
      p["expert"] = get("expert_model_parallel_size", 1);
      if (const auto tensor = arguments_.integer("expert_tensor_parallel_size"))
        p["expert_tensor"] = *tensor;
    }
    if (const auto layout = arguments_.text("pipeline_model_parallel_layout"))
      if (pipeline > 1) p["layers_per_stage"] = stages_of_layout(*layout, pipeline);
    add_interleaving(p, pipeline);
    p["zero_stage"] = zero_stage();
    // Megatron-LM states the number of copies of the optimizer's state, a scenario the number of
    // replicas that share one copy.
    if (const std::int64_t copies = get("num_distributed_optimizer_instances", 1); copies > 1) {
      if (replicas_ % copies != 0)
        refuse(fmt::format("{} is {}, which does not divide {} replicas",
                           arguments_.spelled("num_distributed_optimizer_instances"), copies,
                           replicas_),
               "equally many whole replicas share each copy of the optimizer's state");
      p["shard"] = replicas_ / copies;
    }
    p["overlap_grad_reduce"] = on("overlap_grad_reduce");
    const bool gathers = on("overlap_param_gather");
    if (on("use_distributed_optimizer")) p["overlap_param_gather"] = gathers;
    if (const auto bucket = arguments_.integer("ddp_bucket_size")) p["bucket_parameters"] = *bucket;
    if (on("tp_comm_overlap")) p["chunked_tensor"] = true;
    if (const auto first = arguments_.integer("decoder_first_pipeline_num_layers"))
      p["first_stage_layers"] = *first;
    if (const auto last = arguments_.integer("decoder_last_pipeline_num_layers"))
      p["last_stage_layers"] = *last;
    if (on("account_for_embedding_in_pipeline_split")) p["embedding_in_split"] = true;
    if (on("account_for_loss_in_pipeline_split")) p["loss_in_split"] = true;
    return p;
  }

  void add_context(Json& p, std::int64_t context) {
    const auto stated = arguments_.text("cp_comm_type");
    if (context == 1) return;
    p["context"] = context;
    if (!stated) return;
    // A list has one word for each layer.
    const std::vector<std::string> exchanges = listed_words(*stated);
    for (const char* known : {"p2p", "all_gather", "a2a", "a2a+p2p"})
      if (!exchanges.empty() && std::ranges::count(exchanges, known) == std::ssize(exchanges))
        p["context_exchange"] = known;
    if (!p.contains("context_exchange"))
      refuse(fmt::format("{} is \"{}\"", arguments_.spelled("cp_comm_type"), *stated),
             "it may be p2p, all_gather, a2a or a2a+p2p, the same for all layers");
  }

  // Megatron-FSDP shards what its strategy says; the distributed optimizer shards its state.
  std::int64_t zero_stage() {
    const std::string strategy =
        arguments_.text("data_parallel_sharding_strategy").value_or("no_shard");
    const bool fsdp = on("use_megatron_fsdp") || on("use_custom_fsdp");
    if (on("use_torch_fsdp2")) return 3;
    if (fsdp && strategy == "optim_grads_params") return 3;
    if (fsdp && strategy == "optim_grads") return 2;
    return on("use_distributed_optimizer") || (fsdp && strategy == "optim") ? 1 : 0;
  }

  // Returns the layers of every stage of a --pipeline-model-parallel-layout. In it, t is a layer, E
  // the embedding, m a layer of multi-token prediction, L the loss, and | the end of a stage:
  // "Et|tt|tL" gives 1, 2, 1.
  Json stages_of_layout(const std::string& layout, std::int64_t pipeline) {
    const std::optional<std::string> plain = expanded_layout(layout);
    if (!plain)
      refuse(
          fmt::format("{} is \"{}\"", arguments_.spelled("pipeline_model_parallel_layout"), layout),
          "it may hold E, t, m, L, | and repetitions such as (tt|)*4");
    Json stages = Json::array();
    std::int64_t layers = 0;
    for (const char letter : *plain + "|") {
      if (letter == 't') ++layers;
      if (letter != '|') continue;
      stages.push_back(layers);
      layers = 0;
    }
    const auto count = static_cast<std::int64_t>(stages.size());
    if (count % pipeline != 0)
      refuse(fmt::format("{} has {} stages, no multiple of {} pipeline ranks",
                         arguments_.spelled("pipeline_model_parallel_layout"), count, pipeline),
             "");
    return stages;
  }

  // Returns the chunks of a rank with `per_chunk` layers in each: 96 layers on 8 ranks with 2 in
  // each are 6. Embedding and loss are layers, too, where the split accounts for them.
  std::int64_t chunks_of_layers(std::int64_t per_chunk, std::int64_t pipeline) {
    std::int64_t layers = layers_;
    if (on("account_for_embedding_in_pipeline_split")) ++layers;
    if (on("account_for_loss_in_pipeline_split")) ++layers;
    if (per_chunk < 1 || layers % (pipeline * per_chunk) != 0)
      refuse(fmt::format("{} is {}, and {} layers{} are no multiple of {} x {} pipeline ranks",
                         arguments_.spelled("num_layers_per_virtual_pipeline_stage"), per_chunk,
                         layers, layers > layers_ ? ", embedding or loss among them," : "",
                         per_chunk, pipeline),
             "correct one of them");
    return layers / (pipeline * per_chunk);
  }

  // Sets the number of virtual stages ("chunks") of a rank: as stated, or from the layers of a
  // virtual stage, or as the layout divides the layers, which has precedence. Messages between
  // stages overlap only where the schedule is interleaved.
  void add_interleaving(Json& p, std::int64_t pipeline) {
    std::int64_t chunks = get("num_virtual_stages_per_pipeline_rank", 1);
    const auto per_chunk = arguments_.integer("num_layers_per_virtual_pipeline_stage");
    if (p.contains("layers_per_stage"))
      chunks = static_cast<std::int64_t>(p["layers_per_stage"].size()) / pipeline;
    else if (per_chunk && pipeline > 1)
      chunks = chunks_of_layers(*per_chunk, pipeline);
    // A log and a configuration name it by the variable of Megatron-LM's parser.
    auto group = arguments_.integer("microbatch_group_size_per_virtual_pipeline_stage");
    if (const auto logged = arguments_.integer("microbatch_group_size_per_vp_stage"))
      group = logged;
    const bool interleaved = pipeline > 1 && chunks > 1;
    if (interleaved) {
      p["interleave"] = chunks;
      p["schedule"] = "interleaved_1f1b";
      if (group) p["microbatch_group_size"] = *group;
    }
    const bool overlaps =
        !on("no_overlap_p2p_communication") && arguments_.text("overlap_p2p_comm") != "False";
    if (pipeline > 1) p["overlap_p2p"] = interleaved && overlaps;
  }

  Json training() {
    Json t;
    t["sequence_length"] = arguments_.need("seq_length");
    const std::int64_t micro = arguments_.need("micro_batch_size");
    t["micro_batch_size"] = micro;
    // Without a global batch, a step has one microbatch for each replica.
    t["global_batch_size"] = get("global_batch_size", micro * replicas_);
    t["precision"] = on("bf16") ? "bf16" : on("fp16") ? "fp16" : "fp32";
    // Gradients in bf16 are accumulated in fp32 by default, those in fp16 only with the flag.
    const bool wide = on("accumulate_allreduce_grads_in_fp32");
    if (on("bf16") && on("grad_reduce_in_bf16")) t["gradient_precision"] = "bf16";
    if (on("fp16") && !on("bf16") && !wide) t["gradient_precision"] = "fp16";
    add_recipe(t);
    add_recompute(t);
    // Megatron-LM's own ("local") modules have fused attention only with --use-flash-attn; those of
    // Transformer Engine, its default, always have it here.
    const bool local = arguments_.text("transformer_impl") == "local";
    const bool flash = !local || on("use_flash_attn");
    t["attention"] = flash ? "flash" : "unfused";
    t["vocab_multiple"] = get("make_vocab_size_divisible_by", 128);
    if (on("cross_entropy_loss_fusion")) t["fused_loss"] = true;
    if (const std::int64_t mtp = get("mtp_num_layers", 0); mtp > 0) t["mtp_layers"] = mtp;
    add_optimizer(t);
    t["gradient_clipping"] = arguments_.number("clip_grad").value_or(1.0) > 0.0;
    if (on("ddp_average_in_collective")) t["gradient_average"] = "collective";
    const auto check = arguments_.text("check_for_nan_in_loss_and_grad");
    // The loss scaler of fp16 checks for NaN itself.
    const bool scaled = on("fp16") && !arguments_.text("loss_scale");
    if (on("no_check_for_nan_in_loss_and_grad") || check == "False" || scaled)
      t["gradient_check"] = "off";
    return t;
  }

  // Weights are kept in fp8 with --fp8-param-gather; else they have fp8 copies.
  void add_recipe(Json& t) {
    const bool weights = on("fp8_param_gather") || on("fp8_param");
    const std::string recipe = arguments_.text("fp8_recipe").value_or("delayed");
    if (arguments_.text("fp4") || arguments_.text("fp4_format")) {
      t["recipe"] = "nvfp4";
    } else if (arguments_.text("fp8_format") || arguments_.text("fp8")) {
      t["recipe"] = on("fp8_dot_product_attention") ? "fp8_attention"
                    : weights                       ? "fp8"
                                                    : "fp8_cached";
      if (recipe == "tensorwise") t["fp8_scaling"] = "current";
      if (recipe == "blockwise" || recipe == "mxfp8")
        made_.assumed.push_back(fmt::format(
            "scales of the fp8 recipe {} cost nothing, as those of delayed scaling", recipe));
    }
  }

  void add_optimizer(Json& t) {
    const std::string name = arguments_.text("optimizer").value_or("adam");
    const auto narrow = [&](const char* moment) {
      const std::string type = arguments_.text(moment).value_or("fp32");
      return type == "bf16" || type == "fp16" || type.ends_with("bfloat16");
    };
    const bool narrow_moments = narrow("exp_avg_dtype") && narrow("exp_avg_sq_dtype");
    if (name == "sgd") t["optimizer"] = "sgd";
    if (name == "muon" || name == "dist_muon") t["optimizer"] = "muon";
    if (name == "adam" && narrow_moments && on("use_precision_aware_optimizer"))
      t["optimizer"] = "adam_16bit_moments";
    if (name != "adam" && !t.contains("optimizer"))
      made_.assumed.push_back(
          fmt::format("the optimizer costs as much as Adam, although it is {}", name));
  }

  void add_offload(Json& scenario) {
    if (!on("optimizer_cpu_offload")) return;
    const double share = arguments_.number("optimizer_offload_fraction").value_or(1.0);
    if (share > 0.0) scenario["offload"] = {{"optimizer", "cpu"}};
    if (share > 0.0 && share < 1.0)
      made_.assumed.push_back(
          fmt::format("the whole optimizer is on the host, not {:g} of it", share));
  }

  void add_recompute(Json& t) {
    const std::string granularity = arguments_.text("recompute_granularity").value_or("");
    const std::string modules = arguments_.text("recompute_modules").value_or("");
    if (granularity == "full") {
      t["recompute"] = "full";
      if (const auto method = arguments_.text("recompute_method")) t["recompute_method"] = *method;
      t["recompute_num_layers"] = get("recompute_num_layers", 1);
    } else if (granularity == "selective" || on("recompute_activations")) {
      t["recompute"] = "selective";
      add_modules(modules, t);
    }
  }

  void add_modules(const std::string& said, Json& t) {
    if (said.empty()) return;
    const std::vector<std::string> known = all_words<kRecomputeModules>();
    Json modules = Json::array();
    for (const std::string& word : listed_words(said)) {
      if (std::ranges::find(known, word) != known.end())
        modules.push_back(word);
      else
        made_.assumed.push_back(fmt::format("recomputation of {} is not modelled: left out", word));
    }
    t["recompute_modules"] = modules;
    if (modules.empty()) t["recompute"] = "none";
  }

  Json experts() {
    Json e;
    const std::string dispatcher =
        arguments_.text("moe_token_dispatcher_type").value_or("allgather");
    e["dispatcher"] = dispatcher == "allgather" ? "all_gather" : "all_to_all";
    if (dispatcher == "flex")
      made_.assumed.emplace_back("the flex dispatcher is taken as a plain all_to_all");
    if (const auto factor = arguments_.number("moe_expert_capacity_factor"))
      e["capacity_factor"] = *factor;
    if (on("moe_pad_expert_input_to_capacity")) e["pad_to_capacity"] = true;
    if (on("moe_shared_expert_overlap")) e["overlap_shared"] = true;
    made_.assumed.emplace_back("every expert gets as many tokens as any other");
    return e;
  }

  LaunchArguments arguments_;
  const LaunchMachine& machine_;
  ImportedScenario made_;
  std::int64_t layers_ = 1;
  std::int64_t ffn_ = 1;
  std::int64_t world_ = 1;
  std::int64_t replicas_ = 1;
  bool has_experts_ = false;
};

}  // namespace

ImportedScenario scenario_of_megatron(LaunchArguments arguments, const LaunchMachine& machine) {
  return Launch(std::move(arguments), machine).scenario();
}

}  // namespace trainyard
