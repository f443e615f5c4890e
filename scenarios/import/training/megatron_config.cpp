// Megatron's settings as YAML: the file of --yaml-cfg (Megatron-LM), the configuration that
// Megatron-Bridge and NeMo 2 print, and that of NeMo 1. Their keys are Megatron's arguments under
// section names, some with another name, so they become arguments and take the way of a script.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "scenarios/import/job_shape.hpp"
#include "scenarios/import/megatron.hpp"
#include "scenarios/import/slurm_job.hpp"
#include "scenarios/import/training/scenario_draft.hpp"
#include "scenarios/import/training/training_format.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Keys whose name differs from that of Megatron-LM's argument.
struct Rename {
  std::string_view key;
  std::string_view argument;
};
constexpr auto kRenames = std::to_array<Rename>(
    {{"activations_checkpoint_granularity", "recompute_granularity"},
     {"activations_checkpoint_method", "recompute_method"},
     {"activations_checkpoint_num_layers", "recompute_num_layers"},
     {"average_in_collective", "ddp_average_in_collective"},
     {"bucket_size", "ddp_bucket_size"},
     {"devices", "gpus_per_node"},
     {"encoder_seq_length", "seq_length"},
     {"gradient_clip_val", "clip_grad"},
     {"num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers"},
     {"num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers"},
     {"num_moe_experts", "num_experts"},
     {"sequence_length", "seq_length"},
     {"ub_tp_comm_overlap", "tp_comm_overlap"},
     {"use_flash_attention", "use_flash_attn"},
     {"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"}});

// Keys that do not affect the time and memory of a step, beyond those of a script.
constexpr auto kMegatronWithoutCost =
    std::to_array<std::string_view>({"accelerator",
                                     "activation_func",
                                     "apply_query_key_layer_scaling",
                                     "barrier_with_L1_time",
                                     "batch_p2p_comm",
                                     "batch_p2p_sync",
                                     "beta_",
                                     "betas",
                                     "bias_activation_fusion",
                                     "bias_dropout_fusion",
                                     "bias_swiglu_fusion",
                                     "check_optimizer",
                                     "clone_scatter",
                                     "create_attention_mask",
                                     "cuda_graph_scope",
                                     "cuda_graph_use",
                                     "cuda_graph_warmup",
                                     "decoupled_",
                                     "delimiter",
                                     "dist_",
                                     "exit_",
                                     "fp4_recipe",
                                     "fp8_amax",
                                     "fp8_interval",
                                     "fp8_margin",
                                     "fp8_recipe",
                                     "fp8_wgrad",
                                     "fsdp_",
                                     "full_validation",
                                     "generate_",
                                     "grad_div_ar_fusion",
                                     "gradient_accumulation_fusion",
                                     "gradient_reduce_div_fusion",
                                     "hf_model_id",
                                     "image_",
                                     "inference_",
                                     "init_method",
                                     "kitchen_",
                                     "layernorm_epsilon",
                                     "layernorm_zero",
                                     "library",
                                     "limit_",
                                     "linear_conv",
                                     "linear_key",
                                     "linear_num",
                                     "linear_value",
                                     "lion_",
                                     "lr_",
                                     "main_",
                                     "mamba_",
                                     "manual_",
                                     "masked_softmax",
                                     "max_epochs",
                                     "max_steps",
                                     "megatron_amp_O2",
                                     "megatron_fsdp_main",
                                     "memory_",
                                     "min_loss",
                                     "min_offloaded",
                                     "mlp_chunks",
                                     "moe_aux",
                                     "moe_deepep",
                                     "moe_flex",
                                     "moe_grouped_gemm",
                                     "moe_hybridep",
                                     "moe_permute_fusion",
                                     "moe_router_bias",
                                     "moe_router_dtype",
                                     "moe_router_force_load",
                                     "moe_router_fusion",
                                     "moe_router_load",
                                     "moe_router_score",
                                     "moe_router_topk_scaling",
                                     "moe_token_drop_policy",
                                     "mscale",
                                     "mtp_loss",
                                     "muon_",
                                     "mup_",
                                     "native_amp",
                                     "nccl_all_reduce_for_prefill",
                                     "nccl_communicator",
                                     "num_dataset",
                                     "onnx_",
                                     "original_max",
                                     "parallel_output",
                                     "params_dtype",
                                     "perform_initialization",
                                     "persist_",
                                     "pin_",
                                     "pipeline_dtype",
                                     "post_process",
                                     "pre_process",
                                     "profile",
                                     "qk_clip",
                                     "random_seed",
                                     "rope_type",
                                     "rotary_",
                                     "sample_rate",
                                     "scatter_embedding",
                                     "sgd_momentum",
                                     "share_embeddings",
                                     "short_seq",
                                     "softmax_type",
                                     "spec",
                                     "split",
                                     "store_param",
                                     "test_mode",
                                     "throughput_",
                                     "timing_",
                                     "token_dtype",
                                     "tp_comm_atomic",
                                     "tp_comm_bootstrap",
                                     "tp_comm_bulk",
                                     "tp_comm_overlap_ag",
                                     "tp_comm_overlap_rs",
                                     "tp_comm_split",
                                     "transformer_layer_spec",
                                     "use_cpu_initialization",
                                     "use_mamba",
                                     "use_te_rng",
                                     "use_transformer_engine",
                                     "val_check",
                                     "wgrad_deferral",
                                     "yarn_"});

// Keys that are true by default: what their absence costs is not simulated.
constexpr auto kOnByDefault = std::to_array<std::string_view>(
    {"apply_rope_fusion", "bias_dropout_fusion", "gradient_accumulation_fusion",
     "masked_softmax_fusion", "moe_grouped_gemm", "persist_layer_norm"});

// A recipe of Megatron-Bridge (training/mixed_precision.py), which a file may name in place of its
// settings.
struct NamedPrecision {
  std::string_view name;
  std::string_view type;
  std::string_view format;  // argument for formats of fewer bits; empty: none
  std::string_view recipe;
  bool gathers;  // whether weights are kept and gathered in fp8
};
constexpr auto kPrecisions = std::to_array<NamedPrecision>(
    {{"bf16_mixed", "bf16", "", "", false},
     {"fp16_mixed", "fp16", "", "", false},
     {"bf16_with_fp8_delayed_scaling_mixed", "bf16", "fp8", "delayed", true},
     {"bf16_with_fp8_current_scaling_mixed", "bf16", "fp8", "tensorwise", true},
     {"bf16_with_fp8_subchannel_scaling_mixed", "bf16", "fp8", "blockwise", false},
     {"bf16_with_mxfp8_mixed", "bf16", "fp8", "mxfp8", true},
     {"bf16_with_nvfp4_mixed", "bf16", "fp4", "", false}});

// The last part of a path.
std::string key_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

std::string text_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// How a kind of configuration is laid out.
struct Layout {
  std::string_view description;
  std::string_view framework;
  // Sections whose values are settings; the first that states one has precedence. Empty: the keys
  // of the root.
  std::vector<std::string_view> sections;
  // Sections that say nothing of the cost of a step.
  std::vector<std::string_view> without_cost;
};

class Settings {
 public:
  Settings(Config config, const Layout& layout) : config_(std::move(config)), layout_(layout) {
    for (const std::string_view section : layout_.sections) add_section(section);
    derive();
  }

  ImportedScenario scenario(const LaunchMachine& machine) {
    ImportedScenario made =
        scenario_of_megatron(LaunchArguments(config_.file(), values_, spelling_), machine);
    made.scenario["description"] = layout_.description;
    made.scenario["framework"] = layout_.framework;
    if (layout_.framework != "megatron") state_all(made.scenario);
    for (const std::string& note : config_.notes()) assumed_.push_back(note);
    for (const std::string& sentence : assumed_) {
      made.assumed.push_back(sentence);
      made.scenario["assumptions"].push_back(sentence);
    }
    std::erase_if(made.not_looked_at,
                  [&](const std::string& place) { return costs_nothing(place); });
    for (std::string& place : made.not_looked_at) place = path_of(place);
    for (const std::string& path : config_.paths())
      if (!belongs(path, layout_.sections) && !belongs(path, layout_.without_cost) &&
          !path.starts_with('_'))
        made.not_looked_at.push_back(path);
    return made;
  }

 private:
  static bool belongs(const std::string& path, const std::vector<std::string_view>& sections) {
    return std::ranges::any_of(sections, [&](std::string_view section) {
      if (section.empty()) return path.find('.') == std::string::npos;
      return path == section || (path.starts_with(section) && path[section.size()] == '.');
    });
  }

  // A section holds the values directly below it. A value in place of a section has its name.
  void add_section(std::string_view section) {
    for (const std::string& path : config_.paths()) {
      if (path == section) set(key_of(path), text_of(config_.raw(path)), config_.place(path));
      if (!section.empty() && !path.starts_with(std::string(section) + ".")) continue;
      std::string at = path;
      if (at.ends_with("._target_")) at.resize(at.size() - 9);  // an object of Python
      if (std::ranges::find(layout_.sections, at) != layout_.sections.end()) continue;
      const std::string inner = section.empty() ? at : at.substr(section.size() + 1);
      if (inner.find('.') != std::string::npos || inner.starts_with('_')) continue;
      set(inner, text_of(config_.raw(path)), config_.place(at));
    }
  }

  void set(const std::string& key, const std::string& text, const std::string& place) {
    const auto row = std::ranges::find(kRenames, key, &Rename::key);
    const std::string name(row == kRenames.end() ? std::string_view(key) : row->argument);
    if (!values_.emplace(name, text).second) return;
    spelling_.emplace(name, place);
  }

  [[nodiscard]] std::string value(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? "" : found->second;
  }
  [[nodiscard]] bool is(const std::string& name, const std::string& text) const {
    return value(name) == text;
  }

  // Arguments that a script passes for what these files say in another way.
  void derive() {
    derive_precision();
    if (!value("num_query_groups").empty()) values_["group_query_attention"] = "True";
    if (is("share_embeddings_and_output_weights", "False"))
      values_["untie_embeddings_and_output_weights"] = "True";
    derive_activation();
    if (is("check_for_nan_in_grad", "False")) values_["no_check_for_nan_in_loss_and_grad"] = "True";
    if (is("bf16", "True") && is("grad_reduce_in_fp32", "False"))
      values_["grad_reduce_in_bf16"] = "True";
    if (is("bias", "False")) values_["disable_bias_linear"] = "True";
    if (!value("type").empty()) values_.emplace("tokenizer_type", value("type"));
    derive_optimizer();
    if (is("normalization", "rmsnorm")) values_["normalization"] = "RMSNorm";
    derive_overlap();
    // Keys that are translated here are removed, so that Launch does not list them as not looked
    // at.
    for (const char* derived :
         {"type", "name", "bias", "precision", "mixed_precision", "overlap_grad_sync",
          "overlap_param_sync", "gated_linear_unit", "activation",
          "share_embeddings_and_output_weights", "check_for_nan_in_grad", "grad_reduce_in_fp32",
          "add_position_embedding"})
      values_.erase(derived);
    for (const std::string_view key : kOnByDefault) {
      if (is(std::string(key), "False"))
        assumed_.push_back(fmt::format("{} is off, which is simulated as on", key));
      values_.erase(std::string(key));
    }
    // Printed configurations also hold the settings of experts for models without any.
    if (value("num_experts").empty())
      std::erase_if(values_, [](const auto& entry) {
        return entry.first.starts_with("moe_") || entry.first.starts_with("expert_");
      });
    if (is("cuda_graph_impl", "local") || is("cuda_graph_impl", "transformer_engine") ||
        is("enable_cuda_graph", "True") || is("external_cuda_graph", "True"))
      assumed_.emplace_back("the host issues every kernel: CUDA graphs are not simulated");
    for (const char* graphs : {"cuda_graph_impl", "enable_cuda_graph", "external_cuda_graph"})
      values_.erase(graphs);
  }

  // NeMo names a precision in one word: bf16, "bf16-mixed", 16.
  void derive_precision() {
    if (!value("mixed_precision").empty()) derive_named_precision();
    const std::string precision = value("precision");
    if (precision.starts_with("bf16") && value("bf16").empty()) values_["bf16"] = "True";
    if (precision.starts_with("16") && value("fp16").empty()) values_["fp16"] = "True";
    // A printed configuration states formats that are off, too. Launch takes any value of these
    // keys as a format.
    if (is("fp8", "False")) values_.erase("fp8");
    if (is("fp4", "False")) values_.erase("fp4");
  }

  // A named recipe overrides what other sections say.
  void derive_named_precision() {
    std::string name = value("mixed_precision");
    std::ranges::replace(name, '-', '_');
    const auto row = std::ranges::find(kPrecisions, name, &NamedPrecision::name);
    if (row == kPrecisions.end()) {
      std::string known;
      for (const NamedPrecision& one : kPrecisions)
        known += (known.empty() ? "" : ", ") + std::string(one.name);
      config_.refuse("mixed_precision", fmt::format("is \"{}\"", value("mixed_precision")),
                     "it may be a section with bf16, fp8 and the like, or one of " + known);
    }
    const bool bf16 = row->type == "bf16";
    values_["bf16"] = bf16 ? "True" : "False";
    values_["fp16"] = bf16 ? "False" : "True";
    values_["grad_reduce_in_fp32"] = bf16 ? "True" : "False";
    for (const char* format : {"fp8", "fp8_recipe", "fp8_param", "fp8_param_gather", "fp4"})
      values_.erase(format);
    if (row->format.empty()) return;
    values_[std::string(row->format)] = "True";
    if (!row->recipe.empty()) values_["fp8_recipe"] = row->recipe;
    if (row->gathers) values_["fp8_param_gather"] = "True";
    if (row->recipe == "tensorwise")
      assumed_.push_back(fmt::format(
          "every layer computes in fp8, although {} keeps the first and the last in bf16", name));
  }

  // NeMo 1 names the class of its optimizer. The defaults of overlaps are those of Apex's
  // DistributedFusedAdam.
  void derive_optimizer() {
    const std::string name = config_.word("model.optim.name", "");
    if (name.empty()) return;
    if (name.find("adam") == std::string::npos) values_["optimizer"] = name;
    if (name != "distributed_fused_adam") return;
    values_["use_distributed_optimizer"] = "True";
    values_["overlap_grad_reduce"] = is("overlap_grad_sync", "False") ? "False" : "True";
    values_["overlap_param_gather"] = is("overlap_param_sync", "True") ? "True" : "False";
  }

  void derive_activation() {
    const std::string activation = value("activation") + value("activation_func");
    const bool gated = is("gated_linear_unit", "True") || is("swiglu", "True") ||
                       activation.find("swiglu") != std::string::npos ||
                       activation.find("geglu") != std::string::npos;
    if (gated) values_["swiglu"] = "True";
    if (gated && activation.find("gelu") != std::string::npos)
      assumed_.emplace_back("the gated activation costs as much as SwiGLU");
  }

  // Megatron-Bridge decides on overlaps itself where a file states none (CommOverlapConfig).
  void derive_overlap() {
    if (layout_.framework != "megatron_bridge" || !config_.has("comm_overlap")) return;
    const bool interleaved = !value("num_virtual_stages_per_pipeline_rank").empty() &&
                             value("num_virtual_stages_per_pipeline_rank") != "1";
    if (!config_.has("comm_overlap.overlap_p2p_comm") && interleaved) {
      values_["overlap_p2p_comm"] = "True";
      assumed_.emplace_back("Megatron-Bridge overlaps messages of an interleaved pipeline");
    }
  }

  // States what the practices of the framework would fill in otherwise.
  static void state_all(Json& scenario) {
    Json& t = scenario["training"];
    Json& p = scenario["parallelism"];
    if (!t.contains("fused_loss")) t["fused_loss"] = false;
    for (const char* passes : {"gradient_average", "gradient_check"})
      if (!t.contains(passes)) t[passes] = "framework";
    if (!t.contains("gradient_precision") && t["precision"] == "bf16")
      t["gradient_precision"] = "fp32";
    for (const char* overlap : {"overlap_param_gather", "overlap_p2p"})
      if (!p.contains(overlap)) p[overlap] = false;
  }

  // The path in "line 12: model.num_layers".
  static std::string path_of(const std::string& place) {
    return place.substr(place.rfind(' ') + 1);  // npos + 1 is 0
  }

  // A printed configuration states every setting: one that is off asks for nothing.
  bool costs_nothing(const std::string& place) const {
    const std::string key = key_of(path_of(place));
    for (const auto& [name, spelled] : spelling_)
      if (spelled == place && (values_.contains(name) ? values_.at(name) : "") == "False")
        return true;
    return std::ranges::any_of(kMegatronWithoutCost,
                               [&](std::string_view prefix) { return key.starts_with(prefix); });
  }

  Config config_;
  const Layout& layout_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::string> spelling_;
  std::vector<std::string> assumed_;
};

Config config_of(const ImportRequest& request) {
  const ImportFile& file = request.files.front();
  return Config(read_config(file.text, file.name));
}

// Megatron-Bridge's ConfigContainer, NeMo 2's recipe, or NeMo 1's Hydra configuration.
Layout nemo_layout(const Config& config) {
  if (config.has("ddp") || config.has("train.global_batch_size"))
    return {
        .description = "A run of Megatron-Bridge",
        .framework = "megatron_bridge",
        .sections = {"mixed_precision", "comm_overlap", "ddp", "train", "model", "optimizer",
                     "dist", "dataset", "tokenizer"},
        .without_cost = {"checkpoint", "ft", "inprocess_restart", "logger", "nvrx_straggler",
                         "optimizer_config_override_provider", "profiling", "rerun_state_machine",
                         "rng", "scheduler", "straggler", "tensor_inspect", "validation"}};
  if (config.has("trainer.strategy") || config.has("model.config"))
    return {.description = "A run of NeMo 2",
            .framework = "nemo",
            .sections = {"trainer.plugins", "trainer.strategy.ddp", "trainer.strategy", "trainer",
                         "data", "model.config", "model", "optim.config", "optim"},
            .without_cost = {"log", "resume", "data.tokenizer", "optim.lr_scheduler",
                             "trainer.callbacks", "trainer.logger", "tokenizer"}};
  return {.description = "A run of NeMo",
          .framework = "nemo",
          .sections = {"trainer", "model", "model.tokenizer", "model.optim"},
          .without_cost = {"exp_manager", "name", "restore_from_path", "model.data",
                           "model.nsys_profile", "hydra"}};
}

}  // namespace

ImportedScenario import_megatron_script(const ImportRequest& request) {
  const ImportFile& file = request.files.front();
  // Slurm's variables, and the size of the job where the launch's own arguments do not state it.
  std::map<std::string, std::string> defined = request.defines;
  LaunchMachine machine = request.machine;
  if (!machine.nodes) machine.job = job_sizes(file.text, file.name, {.defined = defined});
  defined.merge(slurm_variables(file.text));
  return scenario_of_megatron(read_launch_arguments(file.text, file.name, defined), machine);
}

ImportedScenario import_megatron_yaml(const ImportRequest& request) {
  const Layout layout{.description = "A run of Megatron-LM (--yaml-cfg)",
                      .framework = "megatron",
                      .sections = {"", "language_model", "model_parallel"},
                      .without_cost = {}};
  return Settings(config_of(request), layout).scenario(request.machine);
}

ImportedScenario import_nemo(const ImportRequest& request) {
  Config config = config_of(request);
  const Layout layout = nemo_layout(config);
  return Settings(std::move(config), layout).scenario(request.machine);
}

}  // namespace trainyard
