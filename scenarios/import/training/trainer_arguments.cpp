#include "scenarios/import/training/trainer_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "scenarios/import/job_shape.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Prefixes of arguments that do not affect the time and memory of a step.
constexpr auto kTrainerWithoutCost = std::to_array<std::string_view>(
    {"adam_",         "cache_dir",     "config_file",     "config_overrides",
     "data",          "ddp_timeout",   "deepspeed",       "disable_tqdm",
     "do_",           "eval_",         "evaluation_",     "hostfile",
     "hub_",          "learning_rate", "load_best",       "local_rank",
     "logging_",      "log_",          "lora_alpha",      "lora_dropout",
     "low_cpu_mem",   "lr_",           "machine_rank",    "main_process",
     "main_training", "master_",       "max_eval",        "max_steps",
     "max_train",     "metric_",       "node_rank",       "num_train",
     "num_workers",   "output_dir",    "overwrite_",      "per_device_eval",
     "preprocessing", "push_to_hub",   "rdzv_",           "remove_unused",
     "report_to",     "resume_",       "rope_scaling",    "run_name",
     "save_",         "seed",          "streaming",       "token",
     "trust_remote",  "use_fast",      "validation_",     "warmup_",
     "weight_decay",  "template",      "prompt_template", "packing_seed",
     "logging"});

// The script is the file that is no JSON, YAML or TOML.
const ImportFile* script_of(const ImportRequest& request) {
  const ImportFile* script = nullptr;
  for (const ImportFile& file : request.files) {
    const bool configuration = file.name.ends_with(".json") || file.name.ends_with(".yaml") ||
                               file.name.ends_with(".yml") || file.name.ends_with(".toml");
    if (configuration) continue;
    if (script != nullptr)
      throw InputError(Problem{.file = file.name,
                               .pointer = {},
                               .problem = "is a second script, after " + script->name,
                               .hint = "give one of them"});
    script = &file;
  }
  return script;
}

LaunchArguments arguments_of(const ImportRequest& request) {
  const ImportFile* script = script_of(request);
  if (script == nullptr) return {"the script", {}};
  return read_launch_arguments(script->text, script->name, request.defines);
}

}  // namespace

TrainerArguments::TrainerArguments(const ImportRequest& request)
    : given_(script_of(request) != nullptr), arguments_(arguments_of(request)) {}

void TrainerArguments::refuse(const std::string& problem, const std::string& hint) const {
  throw InputError(
      Problem{.file = arguments_.file(), .pointer = {}, .problem = problem, .hint = hint});
}

std::int64_t TrainerArguments::micro_batch() {
  return arguments_.integer("per_device_train_batch_size").value_or(8);
}

std::int64_t TrainerArguments::accumulation() {
  return arguments_.integer("gradient_accumulation_steps").value_or(1);
}

double TrainerArguments::clipping() { return arguments_.number("max_grad_norm").value_or(1.0); }

std::string TrainerArguments::precision() {
  const bool bf16 = arguments_.flag("bf16");
  const bool fp16 = arguments_.flag("fp16");
  if (bf16 && fp16) refuse("states both --bf16 and --fp16", "keep one of them");
  // An option of `accelerate launch` in the same script.
  const std::string mixed = arguments_.text("mixed_precision").value_or("");
  if (bf16 || mixed == "bf16") return "bf16";
  return fp16 || mixed == "fp16" ? "fp16" : "fp32";
}

LaunchedSizes TrainerArguments::sizes() {
  // Reads all names, so that none of them counts as not looked at.
  const auto first = [&](std::initializer_list<const char*> names) {
    std::optional<std::int64_t> found;
    for (const char* name : names) {
      const std::optional<std::int64_t> one = arguments_.integer(name);
      if (!found) found = one;
    }
    return found;
  };
  return {.hosts = first({"num_nodes", "nnodes", "num_machines"}),
          .per_host = first({"num_gpus", "nproc_per_node", "gpus_per_node"}),
          .world = first({"num_processes"})};
}

LaunchMachine TrainerArguments::machine(const ImportRequest& request) {
  LaunchMachine machine = request.machine;
  const ImportFile* script = script_of(request);
  if (script == nullptr || machine.nodes) return machine;
  machine.job = job_sizes(script->text, script->name, {.defined = request.defines});
  // DeepSpeed's list of hosts and their GPUs is among these sizes.
  (void)arguments_.text("include");
  return machine;
}

void TrainerArguments::add_model(ScenarioDraft& draft, const LaunchMachine& machine) {
  const std::string name =
      arguments_.text("model_name_or_path").value_or(arguments_.text("config_name").value_or(""));
  if (!machine.model.empty()) {
    draft.model = model_section(machine.model);
  } else if (name.empty()) {
    refuse("says nothing of the model: --model_name_or_path is not there",
           "name a model, or the path of its config.json, with --model");
  } else if (const std::optional<std::string> known = published_model(name)) {
    draft.model = *known;
    draft.assume(fmt::format("{} has the shape of {}", name, *known));
  } else {
    refuse(fmt::format("trains \"{}\", whose shape is not known here", name),
           "give the path of its config.json with --model");
  }
  add_adapters(draft);
}

// LoRA. Scripts of different trainers name the rank lora_r or lora_rank. A rank alone says that
// there are adapters; beside a switch that is off it has no effect. Frozen weights of 4 bits are
// those of QLoRA.
void TrainerArguments::add_adapters(ScenarioDraft& draft) {
  const auto rank = arguments_.integer("lora_r");
  const auto other = arguments_.integer("lora_rank");
  const auto kind = arguments_.text("finetuning_type");
  bool stated = kind.has_value();
  bool on = kind == "lora";
  for (const char* name : {"use_peft", "use_lora", "use_peft_lora"}) {
    stated = stated || arguments_.text(name).has_value();
    on = arguments_.flag(name) || on;
  }
  (void)arguments_.text("lora_target_modules");
  (void)arguments_.text("lora_target");
  const bool adapts = stated ? on : rank || other;
  if (!adapts) return;
  draft.training["lora_rank"] = rank ? *rank : other.value_or(8);
  draft.assume("every matrix of a layer has an adapter");
  const bool four = arguments_.flag("load_in_4bit") || arguments_.flag("use_4bit_quantization") ||
                    arguments_.integer("quantization_bit") == 4;
  if (four) draft.training["frozen_weights"] = "nf4";
}

void TrainerArguments::add_training(ScenarioDraft& draft, const LaunchMachine& machine) {
  Json& t = draft.training;
  std::optional<std::int64_t> sequence = machine.sequence;
  // Scripts name the length differently. All names are read; the first one that is stated counts.
  for (const char* name : {"max_seq_length", "max_seq_len", "max_length", "block_size",
                           "model_max_length", "cutoff_len"}) {
    const std::optional<std::int64_t> stated = arguments_.integer(name);
    if (!sequence) sequence = stated;
  }
  if (!sequence)
    refuse("does not say how many tokens a sequence has",
           "add --sequence 4096, or a script with --max_seq_length");
  t["sequence_length"] = *sequence;
  if (*sequence < 1) refuse(fmt::format("has sequences of {} tokens", *sequence), "");
  draft.assume("every sequence is full: none is padded");
  t["recompute"] = arguments_.flag("gradient_checkpointing") ? "full" : "none";
  // Only "eager" stores the matrix of scores.
  const std::string attention = arguments_.text("attn_implementation").value_or("sdpa");
  t["attention"] = attention == "eager" ? "unfused" : "flash";
  t["vocab_multiple"] = 1;
  t["compiled"] = arguments_.flag("torch_compile");
  add_optimizer(draft);
}

void TrainerArguments::add_optimizer(ScenarioDraft& draft) {
  const std::string name = arguments_.text("optim").value_or("adamw_torch");
  if (name.find("8bit") != std::string::npos) {
    draft.training["optimizer"] = "adam_8bit";
  } else if (name == "sgd") {
    draft.training["optimizer"] = "sgd";
  } else if (!name.starts_with("adam")) {
    draft.assume(fmt::format("the optimizer costs as much as Adam, although it is {}", name));
  }
}

void TrainerArguments::finish(ImportedScenario& made) const {
  for (const std::string& sentence : arguments_.assumed()) {
    made.assumed.push_back(sentence);
    made.scenario["assumptions"].push_back(sentence);
  }
  for (const std::string& name : arguments_.unread()) {
    const bool costs = std::ranges::none_of(
        kTrainerWithoutCost, [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (costs) made.not_looked_at.push_back(as_flag(name));
  }
}

}  // namespace trainyard
