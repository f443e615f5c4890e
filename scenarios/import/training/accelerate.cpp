// The configuration of Hugging Face's Accelerate (`accelerate config`, YAML): processes, FSDP,
// DeepSpeed or Megatron-LM, and precision. Model and batch come from the training script.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "scenarios/import/training/deepspeed.hpp"
#include "scenarios/import/training/scenario_draft.hpp"
#include "scenarios/import/training/trainer_arguments.hpp"
#include "scenarios/import/training/training_format.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr auto kAccelerateWithoutCost =
    std::to_array<std::string_view>({"compute_environment",
                                     "debug",
                                     "distributed_type",
                                     "downcast_bf16",
                                     "dynamo_config",
                                     "enable_cpu_affinity",
                                     "gpu_ids",
                                     "machine_rank",
                                     "main_*",
                                     "rdzv_*",
                                     "same_network",
                                     "tpu_*",
                                     "use_cpu",
                                     "deepspeed_config.zero3_init_flag",
                                     "deepspeed_config.zero3_save_16bit_model",
                                     "deepspeed_config.deepspeed_multinode_launcher",
                                     "deepspeed_config.deepspeed_hostfile",
                                     "fsdp_config.fsdp_auto_wrap_policy",
                                     "fsdp_config.fsdp_cpu_ram_efficient_loading",
                                     "fsdp_config.fsdp_min_num_params",
                                     "fsdp_config.fsdp_state_dict_type",
                                     "fsdp_config.fsdp_sync_module_states",
                                     "fsdp_config.fsdp_transformer_layer_cls_to_wrap",
                                     "fsdp_config.fsdp_use_orig_params"});

// How a strategy of FSDP shards: the number or the name that Accelerate writes.
struct Strategy {
  std::string_view name;
  std::string_view number;
  std::int64_t zero_stage;
  std::string_view reshard;
  bool hybrid;  // copies of one node each
};
constexpr auto kStrategies = std::to_array<Strategy>({{"FULL_SHARD", "1", 3, "always", false},
                                                      {"HYBRID_SHARD", "4", 3, "always", true},
                                                      {"HYBRID_SHARD_ZERO2", "5", 3, "never", true},
                                                      {"NO_SHARD", "3", 0, "auto", false},
                                                      {"SHARD_GRAD_OP", "2", 3, "never", false}});

constexpr const char* kBytesOfFp8 = "fp8 products have the bytes of Transformer Engine";

class Accelerate {
 public:
  Accelerate(Config config, TrainerArguments script, const LaunchMachine& machine)
      : config_(std::move(config)),
        script_(std::move(script)),
        machine_(machine),
        draft_("A run of Accelerate", "pytorch") {}

  ImportedScenario scenario() {
    const std::string kind = config_.word("distributed_type", "NO");
    script_.add_model(draft_, machine_);
    add_cluster();
    // YAML reads an unquoted NO as false.
    if (kind == "FSDP")
      add_fsdp();
    else if (kind == "MEGATRON_LM")
      add_megatron();
    else if (kind == "MULTI_GPU" || kind == "NO" || kind == "false")
      add_replicas();
    else
      config_.refuse("distributed_type", fmt::format("is \"{}\"", kind),
                     "simulated are FSDP, DEEPSPEED, MULTI_GPU, MEGATRON_LM and NO");
    script_.add_training(draft_, machine_);
    add_precision(kind);
    // These replace what add_training() has set from the script.
    if (recomputes_) draft_.training["recompute"] = "full";
    if (selective_) draft_.training["recompute"] = "selective";
    add_batch();
    draft_.training["gradient_clipping"] = script_.clipping() > 0.0;
    const std::string dynamo = config_.word("dynamo_config.dynamo_backend", "NO");
    if (dynamo != "NO" && dynamo != "no" && dynamo != "false") draft_.training["compiled"] = true;
    ImportedScenario made = draft_.finish(config_, kAccelerateWithoutCost);
    script_.finish(made);
    return made;
  }

  // Returns fp32, fp16, bf16 or fp8, as the file says, else as the script says.
  static std::string precision_of(Config& config, TrainerArguments& script) {
    const std::string stated = config.word("mixed_precision", "");
    const std::string asked = script.precision();
    const bool says_bits = script.given() && asked != "fp32";
    // YAML reads an unquoted "no" as false.
    if (stated == "no" || stated == "false" || stated.empty()) return says_bits ? asked : "fp32";
    if (stated != "bf16" && stated != "fp16" && stated != "fp8")
      config.refuse("mixed_precision", fmt::format("is \"{}\"", stated),
                    "it may be no, fp16, bf16 or fp8");
    if (says_bits && asked != (stated == "fp8" ? "bf16" : stated))
      config.refuse("mixed_precision",
                    fmt::format("is {}, but {} says --{}", stated, script.file(), asked),
                    "correct one of them");
    if (stated == "fp8") (void)config.raw("fp8_config");
    return stated;
  }

  // Returns the sizes of the launch that the file and the script state.
  static LaunchedSizes sizes_of(Config& config, TrainerArguments& script) {
    LaunchedSizes sizes = script.sizes();
    // Options of `accelerate launch` have precedence over the file.
    const std::int64_t hosts = config.size("num_machines", 1);
    const std::int64_t world = config.size("num_processes", 1);
    if (!sizes.hosts && config.has("num_machines")) sizes.hosts = hosts;
    if (!sizes.world && config.has("num_processes")) sizes.world = world;
    if (sizes.hosts && sizes.world) {
      if (*sizes.world % *sizes.hosts != 0)
        config.refuse("num_processes",
                      fmt::format("is {}, no multiple of {} machines", *sizes.world, *sizes.hosts),
                      "it counts the processes of all machines");
      sizes.per_host = *sizes.world / *sizes.hosts;
    }
    return sizes;
  }

 private:
  // A key of the section, with the prefix that Accelerate writes or without it.
  [[nodiscard]] std::string fsdp(const std::string& key) const {
    const std::string plain = "fsdp_config." + key;
    return config_.has(plain) ? plain : "fsdp_config.fsdp_" + key;
  }

  void add_cluster() {
    world_ = draft_.launch(machine_, sizes_of(config_, script_), config_.file());
    const auto size = [&](const char* key) {
      return config_.size(fmt::format("parallelism_config.parallelism_config_{}_size", key), 1);
    };
    const std::int64_t tensor = size("tp");
    const std::int64_t context = size("cp");
    replicate_ = size("dp_replicate");
    const std::int64_t shard =
        config_.get("parallelism_config.parallelism_config_dp_shard_size", 0);
    data_ = replicas_of(world_, product_of({tensor, context}),
                        fmt::format("tensor {} x context {}", tensor, context), config_.file());
    if (shard > 0 && product_of({shard, replicate_}) != data_)
      config_.refuse(
          "parallelism_config.parallelism_config_dp_shard_size",
          fmt::format("is {}: {} replicas of {} shards are not the {} replicas of {} GPUs", shard,
                      replicate_, shard, data_, world_),
          "correct one of them");
    Json& p = draft_.parallelism;
    p["tensor"] = tensor;
    p["data"] = data_;
    if (context > 1) {
      p["context"] = context;
      const std::string rotate =
          config_.word("parallelism_config.parallelism_config_cp_comm_strategy", "allgather");
      // PyTorch's "alltoall" passes keys and values to the next rank step by step, as a ring does.
      p["context_exchange"] = rotate == "alltoall" ? "p2p" : "all_gather";
    }
  }

  void add_replicas() {
    Json& p = draft_.parallelism;
    p["zero_stage"] = 0;
    p["overlap_grad_reduce"] = true;
    p["gradient_buckets"] = "pytorch";
    draft_.training["gradient_average"] = "before";
  }

  void add_fsdp() {
    const std::int64_t version = config_.get(fsdp("version"), 1);
    if (version != 1 && version != 2)
      config_.refuse(fsdp("version"), fmt::format("is {}", version), "it may be 1 or 2");
    Json& p = draft_.parallelism;
    p["overlap_grad_reduce"] = true;
    const Strategy strategy =
        version == 2 ? second_version() : strategy_of(fsdp("sharding_strategy"));
    p["zero_stage"] = strategy.zero_stage;
    if (strategy.zero_stage == 0) {
      add_replicas();
      return;
    }
    p["reshard_after_forward"] = strategy.reshard;
    if (strategy.hybrid) {
      p["shard"] = data_ / draft_.nodes();
      draft_.assume("a hybrid strategy shards over the GPUs of a node");
    } else if (replicate_ > 1) {
      p["shard"] = data_ / replicate_;
    }
    draft_.assume("microbatches accumulate whole gradients, which are reduced once a step");
    add_prefetch(version);
    recomputes_ = config_.on(fsdp("activation_checkpointing"));
    p["reduce_every_microbatch"] = false;
    if (config_.on(fsdp("offload_params")))
      draft_.offload = {{"optimizer", "cpu"}, {"weights", true}};
  }

  // FSDP2 states whether it frees weights after a forward; it always shards.
  Strategy second_version() {
    const std::string path = fsdp("reshard_after_forward");
    // The row of FULL_SHARD.
    Strategy strategy = kStrategies[0];
    if (config_.text(path).value_or("true") == "false") strategy.reshard = "never";
    (void)config_.text(fsdp("sharding_strategy"));
    return strategy;
  }

  Strategy strategy_of(const std::string& path) {
    const std::string word = config_.word(path, "FULL_SHARD");
    for (const Strategy& one : kStrategies)
      if (word == one.name || word == one.number) return one;
    config_.refuse(path, fmt::format("is \"{}\"", word),
                   "it may be FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or "
                   "HYBRID_SHARD_ZERO2");
  }

  void add_prefetch(std::int64_t version) {
    const std::string path = fsdp("backward_prefetch");
    const std::string word = config_.word(path, version == 2 ? "BACKWARD_PRE" : "NO_PREFETCH");
    if (word != "BACKWARD_PRE" && word != "BACKWARD_POST" && word != "NO_PREFETCH" && word != "1" &&
        word != "2")
      config_.refuse(path, fmt::format("is \"{}\"", word),
                     "it may be BACKWARD_PRE, BACKWARD_POST or NO_PREFETCH");
    // 1 and 2 are the numbers of BACKWARD_PRE and BACKWARD_POST. The latter gathers only after the
    // backward of a layer, which is no prefetch here.
    draft_.parallelism["backward_prefetch"] = word == "BACKWARD_PRE" || word == "1";
    const bool ahead = config_.on(fsdp("forward_prefetch"));
    if (ahead) draft_.parallelism["forward_prefetch"] = 1;
  }

  void add_megatron() {
    const auto path = [](const char* key) {
      return fmt::format("megatron_lm_config.megatron_lm_{}", key);
    };
    const std::int64_t tensor = config_.size(path("tp_degree"), 1);
    const std::int64_t pipeline = config_.size(path("pp_degree"), 1);
    data_ = replicas_of(world_, product_of({tensor, pipeline}),
                        fmt::format("tensor {} x pipeline {}", tensor, pipeline), config_.file());
    Json& p = draft_.parallelism;
    p["tensor"] = tensor;
    p["pipeline"] = pipeline;
    p["data"] = data_;
    p["sequence_parallel"] = config_.on(path("sequence_parallelism")) && tensor > 1;
    p["zero_stage"] = config_.on(path("use_distributed_optimizer")) ? 1 : 0;
    p["overlap_grad_reduce"] = false;
    // A replica's batch is num_micro_batches times the one that the script states.
    if (pipeline > 1)
      microbatches_ = config_.size(path("num_micro_batches"), 1);
    else
      (void)config_.integer(path("num_micro_batches"));
    if (config_.on(path("recompute_activations"))) selective_ = true;
    (void)config_.number(path("gradient_clipping"));
    draft_.use_framework("megatron");
  }

  void add_precision(const std::string& kind) {
    std::string precision = precision_of(config_, script_);
    Json& t = draft_.training;
    if (precision == "fp8") {
      precision = "bf16";
      t["recipe"] = "fp8_cached";
      draft_.assume(kBytesOfFp8);
    }
    t["precision"] = precision;
    if (precision == "fp32") return;
    // FSDP of Accelerate reduces in the precision of the weights; DDP keeps fp32 gradients.
    t["gradient_precision"] = kind == "FSDP" ? precision : "fp32";
    draft_.assume(
        kind == "FSDP"
            ? fmt::format("gradients are reduced in {}, as FSDP's mixed precision does", precision)
            : "weights have 16 bits beside fp32 masters, where autocast casts fp32 weights");
  }

  void add_batch() {
    if (!script_.given())
      throw InputError(Problem{.file = config_.file(),
                               .pointer = {},
                               .problem = "does not say how large a batch is",
                               .hint = "give the training script, with "
                                       "--per_device_train_batch_size, as a second file"});
    if (!script_.arguments().integer("per_device_train_batch_size"))
      draft_.assume(fmt::format("--per-device-train-batch-size is the Trainer's default, {}",
                                script_.micro_batch()));
    std::int64_t accumulation = script_.accumulation();
    const std::optional<std::int64_t> stated = config_.integer("gradient_accumulation_steps");
    const bool passed = script_.arguments().text("gradient_accumulation_steps").has_value();
    if (stated && passed && *stated != accumulation)
      config_.refuse("gradient_accumulation_steps",
                     fmt::format("is {}, but {} says {}", *stated, script_.file(), accumulation),
                     "correct one of them");
    if (stated) accumulation = *stated;
    if (script_.micro_batch() < 1 || accumulation < 1)
      throw InputError(Problem{.file = script_.file(),
                               .pointer = {},
                               .problem = "has a batch or an accumulation of less than 1",
                               .hint = ""});
    draft_.batch(config_, "num_processes", script_.micro_batch(),
                 product_of({accumulation, microbatches_}), data_);
  }

  Config config_;
  TrainerArguments script_;
  const LaunchMachine& machine_;
  ScenarioDraft draft_;
  std::int64_t world_ = 1;
  std::int64_t data_ = 1;
  std::int64_t replicate_ = 1;
  std::int64_t microbatches_ = 1;
  bool recomputes_ = false;
  bool selective_ = false;
};

const ImportFile& yaml_of(const ImportRequest& request) {
  for (const ImportFile& file : request.files)
    if (file.name.ends_with(".yaml") || file.name.ends_with(".yml")) return file;
  return request.files.front();
}

// Accelerate builds a configuration of DeepSpeed from its own keys, or names a file with one.
ImportedScenario with_deepspeed(Config config, TrainerArguments script,
                                const ImportRequest& request) {
  const LaunchedSizes sizes = Accelerate::sizes_of(config, script);
  const std::string named = config.word("deepspeed_config.deepspeed_config_file", "");
  ConfigDocument document{.file = config.file(), .values = Json::object()};
  std::string precision = "fp32";  // that this file states
  if (!named.empty()) {
    const auto json = std::ranges::find_if(
        request.files, [](const ImportFile& file) { return file.name.ends_with(".json"); });
    if (json == request.files.end())
      config.refuse("deepspeed_config.deepspeed_config_file",
                    fmt::format("names \"{}\", which is not among the files", named),
                    "give that file, too");
    document = read_config(json->text, json->name);
  } else {
    precision = Accelerate::precision_of(config, script);
    Json zero = {{"stage", config.get("deepspeed_config.zero_stage", 2)}};
    const std::string optimizer = config.word("deepspeed_config.offload_optimizer_device", "none");
    const std::string weights = config.word("deepspeed_config.offload_param_device", "none");
    if (optimizer != "none") zero["offload_optimizer"] = {{"device", optimizer}};
    if (weights != "none") zero["offload_param"] = {{"device", weights}};
    document.values["zero_optimization"] = zero;
    // "auto", or no value at all, leaves a setting to the script.
    document.values["gradient_accumulation_steps"] =
        config.has("deepspeed_config.gradient_accumulation_steps")
            ? config.raw("deepspeed_config.gradient_accumulation_steps")
            : Json("auto");
    if (config.has("deepspeed_config.gradient_clipping"))
      document.values["gradient_clipping"] = config.raw("deepspeed_config.gradient_clipping");
    if (precision != "fp32")
      document.values[precision == "fp8" ? "bf16" : precision] = {{"enabled", true}};
  }
  ImportedScenario made =
      scenario_of_deepspeed(Config(std::move(document)), std::move(script), request, sizes);
  if (precision == "fp8") {
    made.scenario["training"]["recipe"] = "fp8_cached";
    made.scenario["assumptions"].push_back(kBytesOfFp8);
    made.assumed.emplace_back(kBytesOfFp8);
  }
  made.scenario["source"] = config.file();
  // A named file states its precision itself, so this key counts as looked at.
  (void)config.word("mixed_precision", "no");
  for (const std::string& path : config.not_looked_at(kAccelerateWithoutCost))
    made.not_looked_at.push_back(path);
  return made;
}

}  // namespace

ImportedScenario import_accelerate(const ImportRequest& request) {
  const ImportFile& file = yaml_of(request);
  Config config(read_config(file.text, file.name));
  TrainerArguments script(request);
  if (config.word("distributed_type", "NO") == "DEEPSPEED")
    return with_deepspeed(std::move(config), std::move(script), request);
  const LaunchMachine machine = script.machine(request);
  return Accelerate(std::move(config), std::move(script), machine).scenario();
}

}  // namespace trainyard
