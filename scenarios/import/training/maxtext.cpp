// MaxText's configuration (YAML): the names of configs/base.yml, whose values stand where a file
// states none. Later files override earlier ones, as --config files and arguments do.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>

#include "scenarios/import/training/scenario_draft.hpp"
#include "scenarios/import/training/training_format.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr auto kMaxTextWithoutCost =
    std::to_array<std::string_view>({"adam_*",
                                     "add_bos",
                                     "add_eos",
                                     "async_checkpointing",
                                     "base_config",
                                     "base_output_directory",
                                     "checkpoint_*",
                                     "collect_stack_trace",
                                     "cosine_learning_rate*",
                                     "data_sharding",
                                     "data_shuffle_seed",
                                     "dataset_*",
                                     "enable_checkpoint*",
                                     "enable_data_shuffling",
                                     "enable_goodput_recording",
                                     "eval_*",
                                     "gcs_metrics",
                                     "grain_*",
                                     "hf_*",
                                     "init_weights_seed",
                                     "jax_cache_dir",
                                     "learning_rate*",
                                     "load_*",
                                     "log_*",
                                     "logical_axis_rules",
                                     "max_prefill_predict_length",
                                     "mesh_axes",
                                     "metrics_file",
                                     "normalization_layer_epsilon",
                                     "profiler*",
                                     "prompt",
                                     "rope_*",
                                     "run_name",
                                     "save_config_to_gcs",
                                     "skip_first_n_steps_for_profiler",
                                     "stack_trace_*",
                                     "steps",
                                     "tokenizer_*",
                                     "upload_all_profiler_results",
                                     "use_vertex_tensorboard",
                                     "vertex_tensorboard_*",
                                     "warmup_steps_fraction"});

// Models that MaxText names and whose shapes are in models/data (configs/models/*.yml).
struct NamedModel {
  std::string_view maxtext;
  std::string_view data;
};
constexpr auto kModels = std::to_array<NamedModel>({{"deepseek3-671b", "deepseek-v3"},
                                                    {"gpt3-175b", "gpt3-175b"},
                                                    {"gpt3-22b", "gpt-22b"},
                                                    {"llama2-13b", "llama2-13b"},
                                                    {"llama2-70b", "llama2-70b"},
                                                    {"llama2-7b", "llama2-7b"},
                                                    {"llama3-405b", "llama3-405b"},
                                                    {"llama3-70b", "llama3-70b"},
                                                    {"llama3-8b", "llama3-8b"},
                                                    {"llama3.1-405b", "llama3-405b"},
                                                    {"llama3.1-70b", "llama3-70b"},
                                                    {"llama3.1-8b", "llama3-8b"},
                                                    {"llama3.3-70b", "llama3-70b"},
                                                    {"llama4-17b-128e", "llama4-maverick"},
                                                    {"llama4-17b-16e", "llama4-scout"},
                                                    {"mixtral-8x22b", "mixtral-8x22b"},
                                                    {"mixtral-8x7b", "mixtral-8x7b"},
                                                    {"qwen3-235b-a22b", "qwen3-235b-a22b"},
                                                    {"qwen3-30b-a3b", "qwen3-30b-a3b"}});

// A policy keeps a part of a layer; the backward pass computes the rest again. `modules` is the
// nearest set that a scenario can express, and `assumption` says how it differs, with {} for the
// name of the policy.
struct RematPolicy {
  std::string_view name;
  std::string_view recompute;
  std::array<std::string_view, 3> modules = {};
  std::string_view assumption = {};
};
constexpr std::string_view kElementwise =
    "remat_policy {} keeps the products of every layer; attention and norms are recomputed";
constexpr auto kPolicies = std::to_array<RematPolicy>(
    {{"full", "full"},
     {"minimal", "selective", {"core_attn", "layernorm"}, kElementwise},
     {"minimal_flash", "selective", {"layernorm"}, "remat_policy {} recomputes the norms alone"},
     {"minimal_with_context",
      "selective",
      {"layernorm"},
      "remat_policy {} recomputes the norms alone"},
     {"minimal_offloaded",
      "selective",
      {"core_attn", "layernorm"},
      "remat_policy {}: what is moved to the hosts is kept on the GPUs"},
     {"none", "none"},
     {"save_dot_except_mlp",
      "selective",
      {"core_attn", "layernorm", "mlp"},
      "remat_policy {} recomputes attention, norms and the feed-forward part"},
     {"save_dot_except_mlpwi",
      "selective",
      {"core_attn", "layernorm", "mlp"},
      "remat_policy {} recomputes the whole feed-forward part, not its first products alone"},
     {"save_dot_with_context_except_mlp",
      "selective",
      {"layernorm", "mlp"},
      "remat_policy {} recomputes norms and the feed-forward part"},
     {"save_qkv_proj",
      "selective",
      {"core_attn", "layernorm", "mlp"},
      "remat_policy {} recomputes attention, norms and the feed-forward part"}});

// One kind of parallelism: the sizes of its axes within (ici) and between (dcn) slices, and -1 for
// a size that the files leave open.
struct Axis {
  std::int64_t ici = 1;
  std::int64_t dcn = 1;
  [[nodiscard]] std::int64_t size() const { return product_of({ici, dcn}); }
};

// The files state the sizes as ici_NAME_parallelism and dcn_NAME_parallelism.
constexpr auto kAxes = std::to_array<std::string_view>(
    {"data", "fsdp", "fsdp_transpose", "sequence", "context", "context_autoregressive", "tensor",
     "tensor_transpose", "tensor_sequence", "expert", "pipeline", "autoregressive"});

class MaxText {
 public:
  MaxText(Config config, const LaunchMachine& machine)
      : config_(std::move(config)), machine_(machine), draft_("A run of MaxText", "maxtext") {}

  ImportedScenario scenario() {
    draft_.model = model();
    add_axes();
    add_parallelism();
    add_training();
    add_batch();
    add_recompute();
    if (draft_.has_experts()) add_expert_settings();
    if (!defaults_.empty())
      draft_.assume(
          fmt::format("base.yml says what the file leaves out: {}", fmt::join(defaults_, ", ")));
    const std::string hardware = config_.word("hardware", "gpu");
    if (hardware == "tpu" || hardware == "cpu")
      draft_.assume(
          fmt::format("the run is simulated on GPUs, although its hardware is {}", hardware));
    return draft_.finish(config_, kMaxTextWithoutCost);
  }

 private:
  // Returns the value of base.yml where the files state none, and records that.
  std::int64_t base(const std::string& key, std::int64_t value) {
    const std::string text = fmt::format("{} {}", key, value);
    const bool is_new = std::ranges::find(defaults_, text) == defaults_.end();
    if (!config_.has(key) && is_new) defaults_.push_back(text);
    return config_.size(key, value);
  }

  Json model() {
    const std::string name = config_.word("model_name", "default");
    if (!machine_.model.empty()) return model_section(machine_.model);
    if (name != "default" && !config_.has("base_emb_dim")) {
      const auto row = std::ranges::find(kModels, name, &NamedModel::maxtext);
      if (row != kModels.end()) return std::string(row->data);
      std::vector<std::string_view> known;
      for (const NamedModel& one : kModels) known.push_back(one.maxtext);
      config_.refuse("model_name", fmt::format("is \"{}\", whose shape is not known", name),
                     fmt::format("give MaxText's configs/models/{}.yml as a second file, or name a "
                                 "model with --model; known are {}",
                                 name, fmt::join(known, ", ")));
    }
    return written_model();
  }

  Json written_model() {
    if (const std::int64_t scale = config_.get("global_parameter_scale", 1); scale != 1)
      config_.refuse("global_parameter_scale", fmt::format("is {}", scale),
                     "set it to 1 and write the sizes out");
    const std::string block = config_.word("decoder_block", "llama2");
    const bool gpt = block == "gpt3";
    Json m;
    m["layers"] = base("base_num_decoder_layers", 16);
    m["hidden"] = base("base_emb_dim", 2048);
    m["heads"] = base("base_num_query_heads", 16);
    m["kv_heads"] = base("base_num_kv_heads", 16);
    m["head_dim"] = base("head_dim", 128);
    m["ffn"] = base("base_mlp_dim", 7168);
    m["vocab"] = base("vocab_size", 32'000);
    m["max_positions"] = base("max_target_length", 2048);
    const std::vector<std::string> activations = config_.texts("mlp_activations");
    m["gated_ffn"] = activations.empty() ? !gpt : activations.size() > 1;
    m["biases"] = gpt;
    if (config_.on("attention_bias") && !gpt) m["qkv_biases"] = true;
    if (config_.on("use_qk_norm")) m["qk_norm"] = true;
    m["tied_embeddings"] = config_.on("logits_via_embedding");
    m["dropout"] =
        config_.number("dropout_rate").value_or(0.0) > 0.0 && config_.on("enable_dropout", true);
    m["positions"] = config_.get("trainable_position_size", -1) > 0 ? "learned" : "rotary";
    m["norm"] = gpt ? "layer_norm" : "rms_norm";
    if (config_.on("use_post_attn_norm") && config_.on("use_post_ffw_norm")) m["post_norms"] = true;
    add_latent_attention(m);
    add_experts(m);
    return m;
  }

  void add_latent_attention(Json& m) {
    if (config_.word("attention_type", "global") != "mla") return;
    const std::int64_t rope = config_.size("qk_rope_head_dim", 64);
    m["head_dim"] = config_.size("qk_nope_head_dim", 128) + rope;
    m["kv_heads"] = m["heads"];
    if (const std::int64_t query = config_.get("q_lora_rank", 0); query > 0)
      m["query_latent"] = query;
    m["kv_latent"] = config_.size("kv_lora_rank", 512);
    m["rope_dim"] = rope;
    m["value_dim"] = config_.size("v_head_dim", 128);
  }

  void add_experts(Json& m) {
    const std::int64_t experts = config_.size("num_experts", 1);
    const std::int64_t topk = config_.size("num_experts_per_tok", 1);
    if (experts == 1) return;
    const std::int64_t width = config_.size("base_moe_mlp_dim", m["ffn"].get<std::int64_t>());
    m["experts"] = experts;
    m["experts_per_token"] = topk;
    m["expert_ffn"] = width;
    if (const std::int64_t shared = config_.get("shared_experts", 0); shared > 0)
      m["shared_ffn"] = product_of({shared, width});
    if (const std::int64_t dense = config_.get("first_num_dense_layers", 0); dense > 0)
      m["dense_layers"] = dense;
    if (const std::int64_t every = config_.get("interleave_moe_layer_step", 1); every > 1)
      m["moe_every"] = every;
    if (const std::int64_t groups = config_.get("n_routing_groups", -1); groups > 1) {
      m["expert_groups"] = groups;
      m["groups_per_token"] = config_.size("topk_routing_group", 1);
    }
    if (config_.on("routed_bias")) m["router_bias"] = true;
  }

  // Where the files do not state them, base.yml leaves fsdp within a slice and data between slices
  // open.
  Axis axis(std::string_view name) {
    const auto size = [&](const char* where, std::int64_t fallback) {
      const std::string path = fmt::format("{}_{}_parallelism", where, name);
      const std::int64_t value = config_.get(path, fallback);
      if (value == 0 || value < -1)
        config_.refuse(path, fmt::format("is {}", value), "it must be at least 1, or -1");
      return value;
    };
    return {.ici = size("ici", name == "fsdp" ? -1 : 1),
            .dcn = size("dcn", name == "data" ? -1 : 1)};
  }

  // Replaces -1 by what the others leave of `whole`.
  void fill(std::int64_t Axis::*member, std::int64_t whole, const char* where) {
    std::int64_t others = 1;
    Axis* open = nullptr;
    for (Axis& one : axes_) {
      if (one.*member != -1) {
        others = product_of({others, one.*member});
      } else if (open == nullptr) {
        open = &one;
      } else {
        config_.refuse(fmt::format("{}_{}_parallelism", where, kAxes[index_of(one)]),
                       "is -1, as another axis is", "one axis at most may be -1");
      }
    }
    const std::string product = fmt::format("the {} axes ({})", where, others);
    if (open != nullptr)
      open->*member = replicas_of(whole, others, product, config_.file());
    else if (others != whole)
      config_.refuse(fmt::format("{}_data_parallelism", where),
                     fmt::format("and the other {} axes make {}, not {}", where, others, whole),
                     "set one of them to -1");
  }

  [[nodiscard]] std::size_t index_of(const Axis& one) const {
    return static_cast<std::size_t>(&one - axes_.data());
  }

  // Returns the product of the axes; -1 where one of them is open.
  [[nodiscard]] std::int64_t stated(std::int64_t Axis::*member) const {
    std::int64_t product = 1;
    for (const Axis& one : axes_) {
      if (one.*member == -1) return -1;
      product = product_of({product, one.*member});
    }
    return product;
  }

  // The axes within a slice make ici GPUs, those between slices make dcn slices, and ici x dcn is
  // the world. If no axis is open, the axes state the world; else the launch does, and the open
  // axis takes what the others leave. If one axis of each kind is open, a slice is taken to be a
  // node.
  void add_axes() {
    for (std::size_t i = 0; i < kAxes.size(); ++i) axes_[i] = axis(kAxes[i]);
    std::int64_t ici = stated(&Axis::ici);
    std::int64_t dcn = stated(&Axis::dcn);
    LaunchedSizes sizes;
    if (ici > 0 && dcn > 0) sizes.world = product_of({ici, dcn});
    world_ = draft_.launch(machine_, sizes, config_.file());
    if (dcn < 0 && ici < 0) {
      dcn = draft_.nodes();
      draft_.assume(fmt::format("a slice is a node: the dcn axes make {}", dcn));
    }
    if (dcn < 0)
      dcn = replicas_of(world_, ici, fmt::format("the ici axes ({})", ici), config_.file());
    if (ici < 0)
      ici = replicas_of(world_, dcn, fmt::format("the dcn axes ({})", dcn), config_.file());
    fill(&Axis::ici, ici, "ici");
    fill(&Axis::dcn, dcn, "dcn");
  }

  [[nodiscard]] std::int64_t along(std::string_view name) const {
    const auto found = std::ranges::find(kAxes, name);
    return axes_[static_cast<std::size_t>(found - kAxes.begin())].size();
  }

  void add_parallelism() {
    for (const char* unknown : {"autoregressive", "context_autoregressive", "tensor_transpose"})
      if (along(unknown) > 1)
        config_.refuse(fmt::format("ici_{}_parallelism", unknown), "is not simulated",
                       "set it to 1");
    // Ranks of the axes data, fsdp, fsdp_transpose and expert have different sequences. Those of
    // all but data together hold one copy of the weights.
    const std::int64_t sharded =
        product_of({along("fsdp"), along("fsdp_transpose"), along("expert")});
    pipeline_ = along("pipeline");
    data_ = product_of({along("data"), sharded});
    Json& p = draft_.parallelism;
    p["tensor"] = product_of({along("tensor"), along("tensor_sequence")});
    p["sequence_parallel"] = along("tensor_sequence") > 1;
    p["pipeline"] = pipeline_;
    const std::int64_t context = product_of({along("context"), along("sequence")});
    p["context"] = context;
    if (context > 1) {
      const std::string strategy = config_.word("context_parallel_strategy", "all_gather");
      p["context_exchange"] = strategy == "ring" ? "p2p" : "all_gather";
      const bool balanced = config_.on("context_parallel_load_balance", true);
      p["context_split"] = balanced ? "zigzag" : "contiguous";
    }
    p["data"] = data_;
    const bool shards = sharded > 1 || context > 1;
    p["zero_stage"] = shards ? 3 : 0;
    if (shards && along("data") > 1) p["shard"] = sharded;
    if (draft_.has_experts()) {
      p["expert"] = along("expert");
      p["expert_tensor"] = p["tensor"];
    }
    add_pipeline();
  }

  void add_pipeline() {
    const std::int64_t layers = config_.size("num_layers_per_pipeline_stage", 1);
    const std::int64_t stated_repeats = config_.get("num_pipeline_repeats", -1);
    const std::int64_t microbatches = config_.get("num_pipeline_microbatches", -1);
    if (pipeline_ == 1) return;
    // MaxText's pipeline is circular: a rank has `repeats` stages of `layers` layers each.
    const std::int64_t repeats =
        stated_repeats > 0 ? stated_repeats
                           : std::max<std::int64_t>(draft_.layers() / (pipeline_ * layers), 1);
    microbatches_ = microbatches > 0 ? microbatches : pipeline_;
    draft_.parallelism["schedule"] = repeats > 1 ? "interleaved_1f1b" : "gpipe";
    if (repeats > 1) {
      draft_.parallelism["interleave"] = repeats;
      draft_.assume(
          "backwards alternate with forwards; MaxText's circular pipeline runs all "
          "forwards first");
    }
    if (!draft_.parallelism.contains("overlap_p2p")) draft_.parallelism["overlap_p2p"] = true;
  }

  void add_training() {
    Json& t = draft_.training;
    t["sequence_length"] = machine_.sequence.value_or(base("max_target_length", 2048));
    const std::string type = config_.word("dtype", "bfloat16");
    if (type != "bfloat16" && type != "float32" && type != "float16")
      config_.refuse("dtype", fmt::format("is \"{}\"", type),
                     "simulated are bfloat16, float16 and float32");
    t["precision"] = type == "bfloat16" ? "bf16" : type == "float16" ? "fp16" : "fp32";
    const std::string weights = config_.word("weight_dtype", "float32");
    if (weights == "bfloat16" && type == "bfloat16") t["recipe"] = "pure_16bit";
    add_quantization(config_.word("quantization", ""));
    const std::string attention = config_.word("attention", "autoselected");
    t["attention"] = attention == "dot_product" ? "unfused" : "flash";
    t["gradient_clipping"] = config_.number("gradient_clipping_threshold").value_or(1.0) > 0.0;
    if (const std::int64_t mtp = config_.get("mtp_num_layers", 0); mtp > 0) t["mtp_layers"] = mtp;
    const std::string optimizer = config_.word("opt_type", "adamw");
    if (optimizer == "sgd")
      t["optimizer"] = "sgd";
    else if (optimizer == "muon")
      t["optimizer"] = "muon";
    else if (optimizer != "adamw" && optimizer != "adam_pax")
      draft_.assume(
          fmt::format("the optimizer costs as much as Adam, although it is {}", optimizer));
    if (config_.on("optimizer_memory_host_offload")) draft_.offload["optimizer"] = "fetch";
    if (config_.on("parameter_memory_host_offload")) draft_.offload["weights"] = true;
  }

  void add_quantization(const std::string& word) {
    if (word.empty() || word == "none") return;
    Json& t = draft_.training;
    if (word.find("fp8") == std::string::npos)
      config_.refuse("quantization", fmt::format("is \"{}\"", word), "simulated are fp8 formats");
    t["recipe"] = "fp8_cached";
    draft_.assume(
        fmt::format("quantization {}: fp8 products with the bytes of Transformer Engine", word));
  }

  void add_batch() {
    if (!config_.has("per_device_batch_size")) defaults_.emplace_back("per_device_batch_size 12");
    // The batch of a GPU may be a fraction: 0.5 on 16 GPUs are 8 sequences, which 2 replicas of 8
    // tensor ranks share as 4 each.
    const double device = config_.number("per_device_batch_size").value_or(12.0);
    const double round = device * static_cast<double>(world_);
    const double replica = round / static_cast<double>(data_ * microbatches_);
    if (!(replica >= 1.0) || replica > 1e6 || replica != std::floor(replica))
      config_.refuse("per_device_batch_size",
                     fmt::format("is {}: {} GPUs x {} are {} sequences, which {} replicas with {} "
                                 "microbatches do not share evenly",
                                 device, world_, device, round, data_, microbatches_));
    const std::int64_t steps = config_.size("gradient_accumulation_steps", 1);
    if (steps > 1 && pipeline_ == 1 && draft_.parallelism["zero_stage"] == 3) {
      draft_.parallelism["reduce_every_microbatch"] = true;
      draft_.assume("sharded gradients are reduced for every microbatch");
    }
    draft_.batch(config_, "per_device_batch_size", static_cast<std::int64_t>(replica),
                 product_of({steps, microbatches_}), data_);
  }

  void add_recompute() {
    if (!config_.has("remat_policy")) defaults_.emplace_back("remat_policy full");
    const std::string name = config_.word("remat_policy", "full");
    const auto policy = std::ranges::find(kPolicies, name, &RematPolicy::name);
    if (policy == kPolicies.end()) {
      std::vector<std::string_view> known;
      for (const RematPolicy& one : kPolicies) known.push_back(one.name);
      config_.refuse("remat_policy", fmt::format("is \"{}\", which is not simulated", name),
                     fmt::format("simulated are {}", fmt::join(known, ", ")));
    }
    draft_.training["recompute"] = policy->recompute;
    if (policy->recompute == "selective") {
      Json modules = Json::array();
      for (const std::string_view module : policy->modules)
        if (!module.empty()) modules.push_back(module);
      draft_.training["recompute_modules"] = modules;
    }
    if (!policy->assumption.empty())
      draft_.assume(fmt::format(fmt::runtime(policy->assumption), name));
  }

  void add_expert_settings() {
    const double capacity = config_.number("capacity_factor").value_or(-1.0);
    // Grouped GEMMs take any number of tokens, so a capacity has an effect only without them.
    const bool grouped = config_.on("megablox", true) && config_.on("sparse_matmul", true);
    Json& e = draft_.experts;
    e["dispatcher"] = "all_to_all";
    e["gemms"] = "grouped";
    if (!grouped) e["gemms"] = "per_expert";
    if (capacity > 0.0 && !grouped) {
      e["capacity_factor"] = capacity;
      e["pad_to_capacity"] = true;
    }
    draft_.assume("every expert gets as many tokens as any other");
  }

  Config config_;
  const LaunchMachine& machine_;
  ScenarioDraft draft_;
  std::array<Axis, kAxes.size()> axes_ = {};
  std::vector<std::string> defaults_;
  std::int64_t world_ = 1;
  std::int64_t data_ = 1;
  std::int64_t pipeline_ = 1;
  std::int64_t microbatches_ = 1;
};

}  // namespace

ImportedScenario import_maxtext(const ImportRequest& request) {
  ConfigDocument document;
  for (const ImportFile& file : request.files) {
    ConfigDocument next = read_config(file.text, file.name);
    if (document.file.empty()) {
      document = std::move(next);
      continue;
    }
    document.file += " and " + next.file;
    std::ranges::move(next.notes, std::back_inserter(document.notes));
    for (auto& [key, value] : next.values.items()) {
      document.values[key] = std::move(value);
      // A line without its file would point into the first one.
      document.lines.erase(key);
    }
  }
  return MaxText(Config(std::move(document)), request.machine).scenario();
}

}  // namespace trainyard
