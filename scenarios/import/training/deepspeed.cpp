#include "scenarios/import/training/deepspeed.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr auto kDeepSpeedWithoutCost =
    std::to_array<std::string_view>({"autotuning",
                                     "checkpoint",
                                     "comms_logger",
                                     "csv_monitor",
                                     "data_efficiency",
                                     "dump_state",
                                     "elasticity",
                                     "bf16.check_grad_overflow",
                                     "bf16.auto_cast",
                                     "flops_profiler",
                                     "fp16.auto_cast",
                                     "fp16.hysteresis",
                                     "fp16.initial_scale_power",
                                     "fp16.loss_scale*",
                                     "fp16.min_loss_scale",
                                     "monitor_config",
                                     "optimizer.params",
                                     "scheduler",
                                     "seed",
                                     "sparse_gradients",
                                     "steps_per_print",
                                     "tensorboard",
                                     "wall_clock_breakdown",
                                     "wandb",
                                     "zero_allow_untested_optimizer",
                                     "zero_force_ds_cpu_optimizer",
                                     "zero_optimization.contiguous_gradients",
                                     "zero_optimization.ignore_unused_parameters",
                                     "zero_optimization.legacy_stage1",
                                     "zero_optimization.load_from_fp32_weights",
                                     "zero_optimization.elastic_checkpoint",
                                     "zero_optimization.offload_optimizer.buffer_count",
                                     "zero_optimization.offload_optimizer.fast_init",
                                     "zero_optimization.offload_optimizer.pin_memory",
                                     "zero_optimization.offload_optimizer.pipeline*",
                                     "zero_optimization.offload_param.buffer_*",
                                     "zero_optimization.offload_param.max_in_cpu",
                                     "zero_optimization.offload_param.pin_memory",
                                     "zero_optimization.stage3_gather_16bit_weights_on_model_save",
                                     "zero_optimization.stage3_gather_fp16_weights_on_model_save",
                                     "zero_optimization.stage3_max_*",
                                     "zero_optimization.stage3_param_persistence_threshold",
                                     "zero_optimization.stage3_prefetch_bucket_size",
                                     "zero_optimization.sub_group_size",
                                     "zero_optimization.allgather_bucket_size",
                                     "zero_optimization.allgather_partitions",
                                     "zero_optimization.reduce_scatter",
                                     "zero_optimization.round_robin_gradients"});

// The order of the parts matters: an "auto" bucket needs the hidden size of the model, and the
// batch needs the number of replicas, which follows from the cluster.
class DeepSpeed {
 public:
  DeepSpeed(Config config, TrainerArguments arguments, const LaunchMachine& machine)
      : config_(std::move(config)),
        script_(std::move(arguments)),
        machine_(machine),
        draft_("A run of DeepSpeed with the Trainer of transformers", "deepspeed") {}

  ImportedScenario scenario(const LaunchedSizes& sizes) {
    script_.add_model(draft_, machine_);
    add_cluster(sizes);
    add_zero();
    add_batch();
    script_.add_training(draft_, machine_);
    add_precision();
    add_rest();
    ImportedScenario made = draft_.finish(config_, kDeepSpeedWithoutCost);
    script_.finish(made);
    return made;
  }

 private:
  bool is_auto(const std::string& path) { return config_.text(path) == "auto"; }

  // A value that the configuration may leave to the script by "auto" or by not stating it. Where
  // both state it, they must agree, as the Trainer checks.
  std::int64_t agreed(const std::string& path, const char* argument, std::int64_t fallback) {
    const std::optional<std::int64_t> said = script_.arguments().integer(argument);
    if (!config_.has(path) || is_auto(path)) {
      if (!said)
        draft_.assume(fmt::format("{} is the Trainer's default, {}", as_flag(argument), fallback));
      return said.value_or(fallback);
    }
    const std::int64_t stated = config_.size(path, 1);
    if (said && *said != stated)
      config_.refuse(path,
                     fmt::format("is {}, but {} of {} is {}", stated, as_flag(argument),
                                 script_.file(), *said),
                     "correct one of them, or write \"auto\"");
    return stated;
  }

  void add_cluster(const LaunchedSizes& sizes) {
    // Sizes of another file (Accelerate's) replace those of the script.
    LaunchedSizes script = script_.sizes();
    if (sizes.hosts) script.hosts = sizes.hosts;
    if (sizes.per_host) script.per_host = sizes.per_host;
    if (sizes.world) script.world = sizes.world;
    const std::int64_t world = draft_.launch(machine_, script, config_.file());
    const std::int64_t tensor = config_.size("tensor_parallel.autotp_size", 1);
    const std::int64_t context = config_.size("sequence_parallel_size", 1);
    data_ = replicas_of(world, product_of({tensor, context}),
                        fmt::format("tensor {} x sequence {}", tensor, context), config_.file());
    Json& p = draft_.parallelism;
    p["tensor"] = tensor;
    p["data"] = data_;
    if (context > 1) p["context"] = context;
    if (context > 1) p["context_exchange"] = "a2a";  // Ulysses
    if (config_.has("pipeline")) {
      (void)config_.raw("pipeline");
      draft_.assume("there is no pipeline: a model of the Trainer has no stages");
    }
  }

  void add_zero() {
    Json& p = draft_.parallelism;
    const std::int64_t stage = config_.get("zero_optimization.stage", 0);
    if (stage < 0 || stage > 3)
      config_.refuse("zero_optimization.stage", fmt::format("is {}", stage), "it may be 0 to 3");
    p["zero_stage"] = stage;
    // DeepSpeed overlaps reductions by default in stage 3 only. Stages 1 and 2 gather the updated
    // weights after the step, and stages 2 and 3 reduce gradients in every microbatch.
    const bool overlaps = config_.on("zero_optimization.overlap_comm", stage == 3);
    p["overlap_grad_reduce"] = overlaps;
    if (stage == 1 || stage == 2) p["overlap_param_gather"] = false;
    if (stage >= 2) p["reduce_every_microbatch"] = true;
    p["overlap_tensor"] = false;
    add_bucket(stage);
    if (stage == 3) p["forward_prefetch"] = 1;
    if (stage == 3) p["backward_prefetch"] = true;
    // ZeRO++ hpZ gathers weights for the backward within a smaller group; MiCS shards all states
    // over such a group.
    const std::int64_t partition = config_.size("zero_optimization.zero_hpz_partition_size", 1);
    if (partition > 1) p["reshard_group"] = partition;
    const std::int64_t mics = config_.get("zero_optimization.mics_shard_size", -1);
    if (mics > 0) p["shard"] = mics;
    for (const char* packed : {"zero_quantized_weights", "zero_quantized_gradients"})
      if (config_.on(std::string("zero_optimization.") + packed))
        draft_.assume(fmt::format("{} is on; what is exchanged has its whole size", packed));
    add_offload();
  }

  // "auto" is the square of the hidden size (transformers, integrations/deepspeed.py).
  void add_bucket(std::int64_t stage) {
    const std::string path = "zero_optimization.reduce_bucket_size";
    if (stage == 0) {
      (void)config_.raw(path);
      return;
    }
    constexpr double kDefault = 5e8;
    if (config_.has(path) && is_auto(path)) {
      const std::int64_t hidden = draft_.hidden();
      draft_.parallelism["bucket_parameters"] = hidden * hidden;
      return;
    }
    const double stated = config_.number(path).value_or(kDefault);
    if (!(stated >= 1.0) || stated > 1e15)
      config_.refuse(path, fmt::format("is {}", stated), "it is a number of parameters");
    draft_.parallelism["bucket_parameters"] = static_cast<std::int64_t>(stated);
  }

  void add_offload() {
    const std::string optimizer =
        config_.word("zero_optimization.offload_optimizer.device", "none");
    const std::string weights = config_.word("zero_optimization.offload_param.device", "none");
    if (config_.on("zero_optimization.cpu_offload")) draft_.offload["optimizer"] = "cpu";
    if (optimizer != "none") draft_.offload["optimizer"] = "cpu";
    if (weights != "none") draft_.offload["weights"] = true;
    for (const std::string& device : {optimizer, weights})
      if (device == "nvme") {
        draft_.assume("what is offloaded stays in the memory of the host, not on NVMe");
        break;
      }
    const double ratio = config_.number("zero_optimization.offload_optimizer.ratio").value_or(1.0);
    if (ratio < 1.0)
      draft_.assume(fmt::format("the whole optimizer is on the host, not {:g} of it", ratio));
  }

  void add_batch() {
    const std::string global = "train_batch_size";
    const std::string micro = "train_micro_batch_size_per_gpu";
    const std::string steps = "gradient_accumulation_steps";
    const bool states_global = config_.has(global) && !is_auto(global);
    const std::optional<std::int64_t> whole =
        states_global ? std::optional(config_.size(global, 1)) : std::nullopt;
    std::int64_t size = 1;
    std::int64_t accumulation = 1;
    // True if the global batch is stated and neither file states this other number.
    const auto open = [&](const std::string& path, const char* argument) {
      return whole && !config_.has(path) && !script_.arguments().integer(argument);
    };
    // DeepSpeed works out the one of the three numbers that is missing.
    if (open(micro, "per_device_train_batch_size")) {
      accumulation = agreed(steps, "gradient_accumulation_steps", 1);
      size = shared(whole.value_or(0), accumulation);
    } else {
      size = agreed(micro, "per_device_train_batch_size", 8);
      accumulation = open(steps, "gradient_accumulation_steps")
                         ? shared(whole.value_or(0), size)
                         : agreed(steps, "gradient_accumulation_steps", 1);
    }
    if (size < 1 || accumulation < 1)
      config_.refuse(size < 1 ? micro : steps, "is less than 1", "it must be at least 1");
    draft_.batch(config_, global, size, accumulation, data_, whole);
  }

  // Returns the part of the global batch of each replica, divided by `known`.
  std::int64_t shared(std::int64_t whole, std::int64_t known) {
    const std::int64_t round = product_of({known, data_});
    if (whole % round != 0)
      config_.refuse("train_batch_size",
                     fmt::format("is {}, no multiple of {} x {} replicas", whole, known, data_),
                     "correct one of them");
    return whole / round;
  }

  // "auto" enables the precision that the script's arguments ask for.
  bool enabled(const char* section) {
    const std::string path = std::string(section) + ".enabled";
    if (!config_.has(path)) return false;
    return is_auto(path) ? script_.precision() == section : config_.on(path);
  }

  void add_precision() {
    const bool bf16 = enabled("bf16") || config_.on("bfloat16.enabled");
    const bool fp16 = enabled("fp16");
    if (bf16 && fp16) config_.refuse("fp16.enabled", "is on, and so is bf16", "keep one of them");
    Json& t = draft_.training;
    const std::string stated = script_.precision();
    const std::string precision = bf16 ? "bf16" : fp16 ? "fp16" : "fp32";
    if (script_.given() && stated != "fp32" && stated != precision)
      config_.refuse(
          bf16 || !fp16 ? "bf16.enabled" : "fp16.enabled",
          fmt::format("makes the run {}, but {} says --{}", precision, script_.file(), stated),
          "correct one of them, or write \"auto\"");
    t["precision"] = precision;
    if (precision == "fp32") return;
    const std::string sum = config_.word("data_types.grad_accum_dtype", "");
    const std::string wire = config_.word("communication_data_type", "");
    const bool wide = sum == "fp32" || wire == "fp32";
    t["gradient_precision"] = wide ? "fp32" : precision;
    if (!wide) draft_.assume(fmt::format("gradients are added and reduced in {}", precision));
  }

  void add_rest() {
    Json& t = draft_.training;
    const bool automatic = config_.has("gradient_clipping") && is_auto("gradient_clipping");
    const double norm = config_.has("gradient_clipping") && !automatic
                            ? config_.number("gradient_clipping").value_or(0.0)
                            : script_.clipping();
    t["gradient_clipping"] = norm > 0.0;
    t["gradient_average"] = config_.on("prescale_gradients") ? "before_always" : "before";
    (void)config_.number("gradient_predivide_factor");
    t["gradient_check"] = "off";
    const std::string optimizer = config_.word("optimizer.type", "AdamW");
    if (optimizer != "Adam" && optimizer != "AdamW" && optimizer != "FusedAdam")
      draft_.assume(
          fmt::format("the optimizer costs as much as Adam, although it is {}", optimizer));
    if (!config_.has("activation_checkpointing")) return;
    (void)config_.raw("activation_checkpointing");
    draft_.assume("activation_checkpointing has no effect: the Trainer's models do not call it");
  }

  Config config_;
  TrainerArguments script_;
  const LaunchMachine& machine_;
  ScenarioDraft draft_;
  std::int64_t data_ = 1;
};

}  // namespace

ImportedScenario scenario_of_deepspeed(Config config, TrainerArguments arguments,
                                       const ImportRequest& request, const LaunchedSizes& sizes) {
  const LaunchMachine machine = arguments.machine(request);
  return DeepSpeed(std::move(config), std::move(arguments), machine).scenario(sizes);
}

ImportedScenario import_deepspeed(const ImportRequest& request) {
  for (const ImportFile& file : request.files)
    if (file.name.ends_with(".json"))
      return scenario_of_deepspeed(Config(read_config(file.text, file.name)),
                                   TrainerArguments(request), request, {});
  throw InputError(Problem{.file = request.files.front().name,
                           .pointer = {},
                           .problem = "is no configuration of DeepSpeed: its name does not end in "
                                      ".json",
                           .hint = "give the JSON file and the script"});
}

}  // namespace trainyard
