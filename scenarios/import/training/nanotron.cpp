// Nanotron's configuration (YAML): the names and defaults of nanotron/config/config.py and
// parallelism_config.py.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "scenarios/import/hf_config.hpp"
#include "scenarios/import/training/scenario_draft.hpp"
#include "scenarios/import/training/training_format.hpp"
#include "sim/base/error.hpp"
#include "sim/base/letters.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr auto kNanotronWithoutCost = std::to_array<std::string_view>(
    {"checkpoints", "data_stages", "data", "general", "lighteval", "logging", "metrics_logging",
     "model.init_method", "model.model_config", "optimizer.learning_rate_scheduler",
     "optimizer.optimizer_factory.adam_*", "optimizer.optimizer_factory.torch_adam_is_fused",
     "optimizer.weight_decay*", "profiler", "s3_upload", "tokenizer", "tokens.limit_*",
     "tokens.train_steps", "tokens.val_check_interval"});

class Nano {
 public:
  Nano(Config config, const LaunchMachine& machine)
      : config_(std::move(config)), machine_(machine), draft_("A run of Nanotron", "pytorch") {}

  ImportedScenario scenario() {
    draft_.model = model();
    add_parallelism();
    add_training();
    if (draft_.has_experts()) {
      draft_.experts["dispatcher"] = "all_to_all";
      draft_.assume("every expert gets as many tokens as any other");
    }
    draft_.assume("kernels and memory are those of PyTorch: none of Nanotron's own are known");
    return draft_.finish(config_, kNanotronWithoutCost);
  }

 private:
  Json model() {
    // raw() marks the whole section as looked at; the notes of shape_of_hf_config() list the keys
    // in it that have no effect.
    Json shape = config_.raw("model.model_config");
    if (!machine_.model.empty()) return model_section(machine_.model);
    if (!shape.is_object())
      config_.refuse("model.model_config", "is not there", "name a model with --model");
    const Json experts = shape.contains("moe_config") ? shape["moe_config"] : Json(nullptr);
    shape["model_type"] = model_type(shape);
    Json fields;
    try {
      HfShape made = shape_of_hf_config(shape, config_.file());
      for (std::string& note : made.notes) draft_.assume(std::move(note));
      fields = std::move(made.shape);
    } catch (const InputError& error) {
      std::vector<Problem> problems = error.problems();
      for (Problem& one : problems) one.pointer = "/model/model_config" + one.pointer;
      throw InputError(std::move(problems));
    }
    fields["source"] = config_.file();
    if (config_.has("model.model_config.sliding_window_size"))
      draft_.assume("attention within a sliding window is counted over the whole sequence");
    if (experts.is_object()) add_experts(fields, experts);
    return fields;
  }

  // Nanotron names the class of its configuration by a flag. The fields are those of transformers;
  // the classes differ in attention_bias alone, which the configuration states.
  std::string model_type(const Json& shape) {
    for (const char* flag : {"is_llama_config", "is_qwen2_config"})
      if (shape.contains(flag) && shape[flag] == true) return "llama";
    config_.refuse("model.model_config", "is of a class that is not known",
                   "known are is_llama_config and is_qwen2_config; name a model with --model");
  }

  void add_experts(Json& fields, const Json& experts) {
    const auto number = [&](const char* key, std::int64_t fallback) {
      const std::string path = std::string("model.model_config.moe_config.") + key;
      return config_.get(path, fallback);
    };
    const std::int64_t count = number("num_experts", 0);
    if (count < 2) return;
    fields["experts"] = count;
    fields["experts_per_token"] = number("top_k", 1);
    fields["expert_ffn"] = number("moe_intermediate_size", fields.at("ffn").get<std::int64_t>());
    const bool shares = experts.value("enable_shared_expert", false);
    if (shares)
      fields["shared_ffn"] =
          number("shared_expert_intermediate_size", fields.at("ffn").get<std::int64_t>());
  }

  void add_parallelism() {
    const std::int64_t tensor = config_.size("parallelism.tp", 1);
    const std::int64_t pipeline = config_.size("parallelism.pp", 1);
    const std::int64_t context = config_.size("parallelism.context_parallel_size", 1);
    const std::int64_t expert = config_.size("parallelism.expert_parallel_size", 1);
    const std::int64_t replicas = config_.need("parallelism.dp");
    if (replicas < 1)
      config_.refuse("parallelism.dp", fmt::format("is {}", replicas), "it must be at least 1");
    // parallelism.dp does not count the ranks that divide the experts.
    data_ = replicas * expert;
    const std::int64_t world = product_of({tensor, pipeline, context, data_});
    const std::int64_t launched = draft_.launch(machine_, {.world = world}, config_.file());
    if (launched != world)
      config_.refuse("parallelism", fmt::format("makes {} ranks for {} GPUs", world, launched));
    if (expert > 1) draft_.assume("ranks that divide the experts train on different data");
    Json& p = draft_.parallelism;
    p["tensor"] = tensor;
    p["sequence_parallel"] = tensor > 1 && scatters();
    p["pipeline"] = pipeline;
    p["context"] = context;
    p["data"] = data_;
    if (draft_.has_experts()) {
      p["expert"] = expert;
      p["expert_tensor"] = 0;
    }
    const std::int64_t stage = config_.get("optimizer.zero_stage", 0);
    if (stage < 0 || stage > 1)
      config_.refuse("optimizer.zero_stage", fmt::format("is {}", stage), "Nanotron has 0 and 1");
    p["zero_stage"] = stage;
    p["overlap_tensor"] = config_.on("parallelism.tp_linear_async_communication");
    p["overlap_grad_reduce"] = true;
    if (stage == 0) p["gradient_buckets"] = "pytorch";
    p["bucket_parameters"] = bucket();
    if (stage == 1) p["overlap_param_gather"] = false;
    draft_.assume("gradients are reduced in DDP's buckets during the last backward");
    add_engine(pipeline);
  }

  bool scatters() {
    const std::string mode = config_.word("parallelism.tp_mode", "ALL_REDUCE");
    if (lower_case(mode) == "reduce_scatter") return true;
    if (lower_case(mode) == "all_reduce") return false;
    config_.refuse("parallelism.tp_mode", fmt::format("is \"{}\"", mode),
                   "it may be ALL_REDUCE or REDUCE_SCATTER");
  }

  // A bucket's megabytes are those of the gradients' type.
  std::int64_t bucket() {
    const std::int64_t megabytes = config_.size("model.ddp_bucket_cap_mb", 25);
    const bool wide = config_.on("optimizer.accumulate_grad_in_fp32", true);
    return megabytes * 1024 * 1024 / (wide ? 4 : 2);
  }

  void add_engine(std::int64_t pipeline) {
    const std::string engine = config_.word("parallelism.pp_engine", "afab");
    if (engine != "1f1b" && engine != "afab")
      config_.refuse("parallelism.pp_engine", fmt::format("is \"{}\"", engine),
                     "it may be 1f1b or afab");
    if (pipeline == 1) return;
    draft_.parallelism["schedule"] = engine == "afab" ? "gpipe" : "1f1b";
    draft_.parallelism["overlap_p2p"] = false;
    draft_.assume("layers are divided evenly over the stages, embedding and head as a layer each");
    // Embedding and head are the two additional layers. Where layers + 2 do not divide evenly, the
    // layers of the model alone are divided.
    draft_.parallelism["embedding_in_split"] = (draft_.layers() + 2) % pipeline == 0;
    draft_.parallelism["loss_in_split"] = (draft_.layers() + 2) % pipeline == 0;
  }

  void add_training() {
    Json& t = draft_.training;
    t["sequence_length"] =
        machine_.sequence ? *machine_.sequence : config_.need("tokens.sequence_length");
    draft_.batch(config_, "tokens.micro_batch_size", config_.need("tokens.micro_batch_size"),
                 config_.size("tokens.batch_accumulation_per_replica", 1), data_);
    const std::string type = config_.word("model.dtype", "bfloat16");
    add_precision(type);
    t["recompute"] = config_.on("parallelism.recompute_layer") ? "full" : "none";
    if (config_.on("parallelism.moe_layer_recompute") && draft_.has_experts() &&
        t["recompute"] == "none") {
      t["recompute"] = "selective";
      t["recompute_modules"] = {"moe"};
    }
    if (config_.on("parallelism.tp_recompute_allgather", true) &&
        draft_.parallelism["sequence_parallel"] == true)
      draft_.assume("gathered inputs are kept or gathered again as PyTorch's framework file says");
    t["attention"] = "flash";
    t["vocab_multiple"] = config_.size("model.make_vocab_size_divisible_by", 1);
    t["gradient_clipping"] = config_.number("optimizer.clip_grad").value_or(0.0) > 0.0;
    const std::string name = config_.word("optimizer.optimizer_factory.name", "adamW");
    if (name == "sgd") t["optimizer"] = "sgd";
    if (name != "sgd" && name != "adamW")
      draft_.assume(fmt::format("the optimizer costs as much as Adam, although it is {}", name));
  }

  void add_precision(const std::string& type) {
    Json& t = draft_.training;
    const bool wide = config_.on("optimizer.accumulate_grad_in_fp32", true);
    if (type == "float32") {
      t["precision"] = "fp32";
    } else if (type == "bfloat16" || type == "float16") {
      t["precision"] = type == "bfloat16" ? "bf16" : "fp16";
      t["gradient_precision"] = wide ? "fp32" : t["precision"].get<std::string>();
      // Without fp32 accumulation the optimizer steps on the 16-bit weights.
      if (!wide) t["recipe"] = "pure_16bit";
      if (!wide) t.erase("gradient_precision");
    } else {
      config_.refuse("model.dtype", fmt::format("is \"{}\"", type),
                     "simulated are bfloat16, float16 and float32");
    }
  }

  Config config_;
  const LaunchMachine& machine_;
  ScenarioDraft draft_;
  std::int64_t data_ = 1;
};

}  // namespace

ImportedScenario import_nanotron(const ImportRequest& request) {
  const ImportFile& file = request.files.front();
  return Nano(Config(read_config(file.text, file.name)), request.machine).scenario();
}

}  // namespace trainyard
