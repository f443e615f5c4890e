// torchtitan's job configuration (TOML): the names and defaults of its JobConfig
// (torchtitan/config/job_config.py), with the names of 2024 that later releases moved.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "scenarios/import/training/scenario_draft.hpp"
#include "scenarios/import/training/training_format.hpp"
#include "sim/base/letters.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr auto kTitanWithoutCost =
    std::to_array<std::string_view>({"checkpoint",
                                     "comm",
                                     "debug",
                                     "experimental.custom_import",
                                     "experimental.custom_args_module",
                                     "fault_tolerance.enable",
                                     "job",
                                     "lr_scheduler",
                                     "memory_estimation.enabled",
                                     "metrics",
                                     "model.hf_assets_path",
                                     "model.norm_type",
                                     "model.print_after_conversion",
                                     "model.tokenizer_path",
                                     "model.tokenizer_type",
                                     "optimizer.beta1",
                                     "optimizer.beta2",
                                     "optimizer.eps",
                                     "optimizer.lr",
                                     "optimizer.weight_decay",
                                     "profiling",
                                     "training.dataset",
                                     "training.dataset_path",
                                     "training.deterministic",
                                     "training.gc_debug",
                                     "training.gc_freq",
                                     "training.seed",
                                     "training.steps",
                                     "validation"});

// A flavor whose shape is published: torchtitan/models/*/__init__.py.
struct Flavor {
  std::string_view family;
  std::string_view flavor;
  std::string_view model;
};
constexpr auto kFlavors = std::to_array<Flavor>({{"deepseek_v3", "671B", "deepseek-v3"},
                                                 {"gpt_oss", "120b", "gpt-oss-120b"},
                                                 {"llama2", "13B", "llama2-13b"},
                                                 {"llama2", "70B", "llama2-70b"},
                                                 {"llama2", "7B", "llama2-7b"},
                                                 {"llama3", "405B", "llama3-405b"},
                                                 {"llama3", "70B", "llama3-70b"},
                                                 {"llama3", "8B", "llama3-8b"},
                                                 {"llama4", "17bx128e", "llama4-maverick"},
                                                 {"llama4", "17bx16e", "llama4-scout"},
                                                 {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
                                                 {"qwen3", "30B-A3B", "qwen3-30b-a3b"}});

// Schedules of torch.distributed.pipelining. `chunks`: stages of a rank where the file does not
// say.
struct PipelineSchedule {
  std::string_view name;
  std::string_view schedule;
  std::int64_t chunks;
};
constexpr auto kSchedules =
    std::to_array<PipelineSchedule>({{"1F1B", "1f1b", 1},
                                     {"DualPipeV", "dualpipe_v", 2},
                                     {"GPipe", "gpipe", 1},
                                     {"Interleaved1F1B", "interleaved_1f1b", 2},
                                     {"ZBVZeroBubble", "zb_v", 2}});

template <class Rows, class Name>
std::string names_of(const Rows& rows, Name name) {
  std::string names;
  for (const auto& row : rows) names += (names.empty() ? "" : ", ") + std::string(name(row));
  return names;
}

class Titan {
 public:
  Titan(Config config, const LaunchMachine& machine)
      : config_(std::move(config)),
        machine_(machine),
        draft_("A run of torchtitan", "torchtitan") {}

  ImportedScenario scenario() {
    draft_.model = model();
    add_parallelism();
    add_pipeline();
    add_batch();
    add_training();
    add_recompute();
    add_float8();
    if (draft_.has_experts()) {
      draft_.experts["dispatcher"] = "all_to_all";
      draft_.assume("every expert gets as many tokens as any other");
    }
    if (!defaults_.empty())
      draft_.assume(fmt::format("torchtitan's defaults say what the file leaves out: {}",
                                fmt::join(defaults_, ", ")));
    draft_.assume("the kernel times of framework torchtitan are those of H100s limited to 500 W");
    return draft_.finish(config_, kTitanWithoutCost);
  }

 private:
  // Returns the first of the paths that the file has, or the first of all.
  [[nodiscard]] std::string either(std::initializer_list<const char*> paths) const {
    for (const char* path : paths)
      if (config_.has(path)) return path;
    return *paths.begin();
  }

  // Records a default that stands for a value the file does not have.
  void stands(const std::string& path, const std::string& value) {
    if (!config_.has(path)) defaults_.push_back(fmt::format("{} {}", path, value));
  }

  Json model() {
    const std::string family = config_.word("model.name", "");
    const std::optional<std::string> flavor = config_.text("model.flavor");
    if (!machine_.model.empty()) return model_section(machine_.model);
    if (!flavor)
      config_.refuse("model.flavor", "is not there", "add it, or name a model with --model");
    for (const Flavor& one : kFlavors)
      if (one.flavor == *flavor && family == one.family) return std::string(one.model);
    config_.refuse(
        "model.flavor",
        fmt::format(R"(is "{}" of model "{}", whose shape is not known)", *flavor, family),
        "known are " + names_of(kFlavors, [](const Flavor& one) {
          return fmt::format("{} {}", one.family, one.flavor);
        }) + "; name another model with --model");
  }

  std::int64_t degree(std::initializer_list<const char*> paths) {
    return config_.size(either(paths), 1);
  }

  void add_parallelism() {
    tensor_ = degree({"parallelism.tensor_parallel_degree", "training.tensor_parallel_degree"});
    pipeline_ =
        degree({"parallelism.pipeline_parallel_degree", "experimental.pipeline_parallel_degree"});
    context_ =
        degree({"parallelism.context_parallel_degree", "experimental.context_parallel_degree"});
    const std::int64_t replicate = degree(
        {"parallelism.data_parallel_replicate_degree", "training.data_parallel_replicate_degree"});
    const std::string shard_path =
        either({"parallelism.data_parallel_shard_degree", "training.data_parallel_shard_degree",
                "training.data_parallel_degree"});
    // -1, the default, shards over all ranks that the other degrees leave, so that the launch must
    // say how many there are. With a stated degree, the world is the product of all degrees.
    std::int64_t shard = config_.get(shard_path, -1);
    const std::int64_t model = product_of({tensor_, pipeline_, context_});
    LaunchedSizes sizes;
    if (shard > 0) sizes.world = product_of({model, replicate, shard});
    const std::int64_t world = draft_.launch(machine_, sizes, config_.file());
    const std::string product = fmt::format("tensor {} x pipeline {} x context {} x replicate {}",
                                            tensor_, pipeline_, context_, replicate);
    if (shard < 1)
      shard = replicas_of(world, product_of({model, replicate}), product, config_.file());
    data_ = replicate * shard;
    Json& p = draft_.parallelism;
    p["tensor"] = tensor_;
    p["sequence_parallel"] = tensor_ > 1;  // torchtitan always combines the two
    p["pipeline"] = pipeline_;
    p["context"] = context_;
    p["data"] = data_;
    sharded_ = shard > 1 || context_ > 1;  // FSDP shards over context ranks, too
    p["zero_stage"] = sharded_ ? 3 : 0;
    // HSDP: `replicate` copies, each over `shard` ranks.
    if (sharded_ && replicate > 1) p["shard"] = shard;
    if (!sharded_) p["gradient_buckets"] = "pytorch";
    p["overlap_grad_reduce"] = true;
    add_context_and_experts();
    add_reshard();
    const std::string async = either(
        {"parallelism.enable_async_tensor_parallel", "experimental.enable_async_tensor_parallel"});
    if (config_.on(async) && tensor_ > 1) p["chunked_tensor"] = true;
    const std::string loss =
        either({"parallelism.disable_loss_parallel", "training.disable_loss_parallel"});
    if (config_.on(loss) && tensor_ > 1)
      draft_.assume("the loss is computed on a split vocabulary, although loss parallel is off");
  }

  void add_context_and_experts() {
    Json& p = draft_.parallelism;
    if (context_ > 1) {
      const std::string method =
          config_.word(either({"parallelism.context_parallel_rotate_method",
                               "experimental.context_parallel_rotate_method"}),
                       "allgather");
      // PyTorch's "alltoall" passes keys and values to the next rank step by step, as a ring does.
      p["context_exchange"] = method == "alltoall" ? "p2p" : "all_gather";
    }
    const std::int64_t expert = config_.size("parallelism.expert_parallel_degree", 1);
    if (!draft_.has_experts()) return;
    p["expert"] = expert;
    // Expert parallelism takes the tensor ranks, too, unless the file says otherwise. Without it,
    // tensor parallelism divides the experts, whatever their own degree is.
    const std::int64_t tensor = config_.get("parallelism.expert_tensor_parallel_degree", 1);
    p["expert_tensor"] = expert > 1 ? std::max<std::int64_t>(tensor, 1) : 0;
  }

  void add_reshard() {
    const std::string word = config_.word("parallelism.fsdp_reshard_after_forward", "default");
    if (word != "default" && word != "always" && word != "never")
      config_.refuse("parallelism.fsdp_reshard_after_forward", fmt::format("is \"{}\"", word),
                     "it may be default, always or never");
    if (sharded_) draft_.parallelism["reshard_after_forward"] = word == "default" ? "auto" : word;
  }

  void add_pipeline() {
    const std::string path = either(
        {"parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule"});
    const std::string name = config_.word(path, "1F1B");
    const std::int64_t size = config_.size("parallelism.pipeline_parallel_microbatch_size", 1);
    const auto stage_layers = config_.integer("parallelism.pipeline_parallel_layers_per_stage");
    const std::int64_t first =
        config_.get("parallelism.pipeline_parallel_first_stage_less_layers", 1);
    const std::int64_t last =
        config_.get("parallelism.pipeline_parallel_last_stage_less_layers", 1);
    // All settings are read before, so that none of them counts as not looked at.
    if (pipeline_ == 1) return;
    // torch.distributed.pipelining compares the names in lower case.
    const auto row = std::ranges::find_if(kSchedules, [&](const PipelineSchedule& one) {
      return lower_case(one.name) == lower_case(name);
    });
    if (row == kSchedules.end())
      config_.refuse(path, fmt::format("is \"{}\", which is not simulated", name),
                     "simulated are " + names_of(kSchedules, [](const auto& one) {
                       return std::string(one.name);
                     }));
    micro_ = size;
    Json& p = draft_.parallelism;
    std::int64_t chunks = row->chunks;
    const std::int64_t weighted = draft_.layers() + first + last;
    if (stage_layers && *stage_layers > 0) {
      // A schedule with one stage on a rank needs as many stages as ranks, the others need more.
      const std::int64_t stages = (weighted + *stage_layers - 1) / *stage_layers;
      if (stages % pipeline_ != 0 || (row->chunks == 1) != (stages == pipeline_))
        config_.refuse("parallelism.pipeline_parallel_layers_per_stage",
                       fmt::format("makes {} stages, which {} ranks of schedule {} do not hold",
                                   stages, pipeline_, name),
                       "");
      chunks = stages / pipeline_;
    }
    p["schedule"] = row->schedule;
    if (row->schedule == "interleaved_1f1b") p["interleave"] = chunks;
    p["layers_per_stage"] = split(weighted, pipeline_ * chunks, first, last);
    draft_.assume(
        "messages between stages overlap with computation as torch.distributed's "
        "pipelining sends them");
    p["overlap_p2p"] = true;
  }

  // Embedding and head count as `first` and `last` layers when layers are divided over stages; the
  // first stages take what does not divide (generate_llm_fqn_per_model_part). For 32 layers, 8
  // stages and 1 for each of the two, 34 are divided as 5, 5, 4, 4, 4, 4, 4, 4, and the layers are
  // 4, 5, 4, 4, 4, 4, 4, 3.
  Json split(std::int64_t weighted, std::int64_t stages, std::int64_t first, std::int64_t last) {
    if (weighted / stages < std::max(first, last))
      config_.refuse("parallelism.pipeline_parallel_degree",
                     fmt::format("makes {} stages of {} layers", stages, draft_.layers()),
                     "fewer stages have a layer each");
    Json layers = Json::array();
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      std::int64_t count = weighted / stages + (stage < weighted % stages ? 1 : 0);
      if (stage == 0) count -= first;
      if (stage == stages - 1) count -= last;
      layers.push_back(count);
    }
    return layers;
  }

  // A replica computes its local batch in one round, which a pipeline divides into microbatches,
  // and accumulates gradients over the rounds of a global batch. A global batch of 64 with a local
  // one of 8 on 4 replicas has 2 rounds; with a microbatch of 2 they have 4 microbatches each.
  void add_batch() {
    const std::string path = either({"training.local_batch_size", "training.batch_size"});
    stands(path, "8");
    const std::int64_t local = config_.size(path, 8);
    const std::int64_t global = config_.get("training.global_batch_size", -1);
    const std::int64_t round = product_of({local, data_});
    if (global > 0 && global % round != 0)
      config_.refuse("training.global_batch_size",
                     fmt::format("is {}, no multiple of a local batch of {} x {} replicas", global,
                                 local, data_),
                     "correct one of them");
    const std::int64_t steps = global > 0 ? global / round : 1;
    const std::int64_t micro = pipeline_ > 1 ? micro_ : local;
    if (local % micro != 0)
      config_.refuse(
          path, fmt::format("is {}, no multiple of the pipeline's microbatch of {}", local, micro));
    if (pipeline_ > 1 && steps > 1)
      draft_.assume(
          fmt::format("the pipeline is filled once a step, not once for each of {} rounds "
                      "of gradient accumulation",
                      steps));
    // FSDP reduces in every round; a pipeline reduces with its last microbatch.
    if (pipeline_ == 1 && steps > 1 && draft_.parallelism["zero_stage"] == 3)
      draft_.parallelism["reduce_every_microbatch"] = true;
    draft_.batch(config_, "training.global_batch_size", micro, steps * (local / micro), data_);
  }

  void add_training() {
    Json& t = draft_.training;
    if (!machine_.sequence) stands("training.seq_len", "2048");
    t["sequence_length"] = machine_.sequence.value_or(config_.size("training.seq_len", 2048));
    add_precision();
    t["attention"] = "flash";
    add_compilation();
    t["gradient_clipping"] = config_.number("training.max_norm").value_or(1.0) > 0.0;
    add_optimizer();
    if (config_.on("training.enable_cpu_offload"))
      draft_.offload = {{"optimizer", "cpu"}, {"weights", true}};
  }

  // The whole is compiled, or only the components that the file lists.
  void add_compilation() {
    const bool compiles = config_.has("compile.enable") ? config_.on("compile.enable")
                                                        : config_.on("training.compile");
    const std::vector<std::string> components = config_.texts("compile.components");
    const bool model = !config_.has("compile.components") ||
                       std::ranges::find(components, "model") != components.end();
    draft_.training["compiled"] = compiles && model;
    if (compiles && !model)
      draft_.assume("compilation has no effect: compile.components does not name the model");
  }

  // `whole` is the type of the stored weights, `narrow` the one to compute in. FSDP casts to it, so
  // does autocast where there are only replicas. Tensor and pipeline parallelism without FSDP have
  // neither.
  void add_precision() {
    Json& t = draft_.training;
    const std::string whole = config_.word("training.dtype", "float32");
    const std::string narrow = config_.word("training.mixed_precision_param", "bfloat16");
    const std::string reduced = config_.word("training.mixed_precision_reduce", "float32");
    const bool casts = sharded_ || (tensor_ == 1 && pipeline_ == 1);
    const bool differs = narrow == "bfloat16" && whole != "bfloat16";
    const bool mixed = differs && casts;
    if (differs && !casts)
      draft_.assume(
          "training.mixed_precision_param has no effect: torchtitan disables mixed precision where "
          "tensor or pipeline parallelism runs without FSDP");
    t["precision"] = mixed || whole == "bfloat16" ? "bf16" : "fp32";
    if (whole == "bfloat16") t["recipe"] = "pure_16bit";
    if (mixed) t["gradient_precision"] = reduced == "bfloat16" ? "bf16" : "fp32";
  }

  void add_optimizer() {
    const std::string name = config_.word("optimizer.name", "AdamW");
    if (name != "Adam" && name != "AdamW")
      draft_.assume(fmt::format("the optimizer costs as much as Adam, although it is {}", name));
    const std::string kind = config_.word("optimizer.implementation", "fused");
    if (kind != "fused" && !config_.on("optimizer.fused"))
      draft_.assume(fmt::format("the optimizer is fused, although its implementation is {}", kind));
    if (config_.on("optimizer.early_step_in_backward"))
      draft_.assume("the optimizer runs after the backward, although it steps early");
  }

  void add_recompute() {
    Json& t = draft_.training;
    stands("activation_checkpoint.mode", "selective, every second layer");
    const std::string mode = config_.word("activation_checkpoint.mode", "selective");
    const std::string option = config_.word("activation_checkpoint.selective_ac_option", "2");
    (void)config_.raw("activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns");
    if (mode == "none" || mode == "full") {
      t["recompute"] = mode;
    } else if (mode == "selective" && option == "op") {
      t["recompute"] = "selective";
      t["recompute_modules"] = {"every_second_gemm"};
    } else if (mode == "selective" && !option.empty() &&
               option.find_first_not_of("0123456789") == std::string::npos && option.size() < 6) {
      t["recompute"] = "full";
      t["recompute_method"] = "every";
      t["recompute_num_layers"] = std::max(std::stoi(option), 1);
    } else {
      config_.refuse(
          "activation_checkpoint.mode",
          fmt::format(R"(is "{}" with option "{}", which is not simulated)", mode, option),
          "simulated are none, full, selective with op or a number of layers");
    }
  }

  void add_float8() {
    std::vector<std::string> converters = config_.texts("model.converters");
    if (converters.size() == 1 && converters[0].find(',') != std::string::npos) {
      std::ranges::replace(converters[0], ',', ' ');
    }
    const auto has = [&](std::string_view word) {
      return std::ranges::any_of(
          converters, [&](const std::string& one) { return one.find(word) != std::string::npos; });
    };
    const bool gathers = config_.on("float8.enable_fsdp_float8_all_gather") ||
                         config_.on("quantize.linear.float8.enable_fsdp_float8_all_gather");
    const bool old = config_.on("float8.enable_float8_linear");
    if (has("float8") || old) {
      draft_.training["recipe"] = gathers ? "fp8" : "fp8_cached";
      draft_.assume(
          "every matrix of a layer is multiplied in fp8, with Transformer Engine's bytes");
    } else if (has("mx")) {
      draft_.training["recipe"] = "fp8_cached";
      draft_.assume("MXFP8 products cost as much as other fp8 products");
    }
  }

  Config config_;
  const LaunchMachine& machine_;
  ScenarioDraft draft_;
  std::int64_t tensor_ = 1;
  std::int64_t pipeline_ = 1;
  std::int64_t context_ = 1;
  std::int64_t data_ = 1;
  std::int64_t micro_ = 1;
  bool sharded_ = false;
  std::vector<std::string> defaults_;
};

}  // namespace

ImportedScenario import_torchtitan(const ImportRequest& request) {
  const ImportFile& file = request.files.front();
  return Titan(Config(read_config(file.text, file.name)), request.machine).scenario();
}

}  // namespace trainyard
