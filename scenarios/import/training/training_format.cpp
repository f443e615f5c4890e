#include "scenarios/import/training/training_format.hpp"

#include <algorithm>
#include <array>

namespace trainyard {

namespace {

// A format is recognised by keys that its files usually have and those of the others do not.
bool is_accelerate(const ImportSample& sample) {
  return sample.has("distributed_type") &&
         (sample.has("num_processes") || sample.has("compute_environment") ||
          sample.has("mixed_precision"));
}

bool is_deepspeed(const ImportSample& sample) {
  return sample.has("zero_optimization") || sample.has("train_micro_batch_size_per_gpu") ||
         (sample.has("train_batch_size") && sample.has("fp16"));
}

bool is_maxtext(const ImportSample& sample) {
  return sample.has("per_device_batch_size") || sample.has("base_emb_dim") ||
         sample.has("ici_fsdp_parallelism") || sample.has("remat_policy");
}

// A script passes flags, and a log lists arguments, so neither is a document.
bool is_megatron_script(const ImportSample& sample) {
  if (sample.document.is_object()) return false;
  return sample.text.find("--num-layers") != std::string::npos ||
         sample.text.find("--tensor-model-parallel-size") != std::string::npos ||
         sample.text.find("  num_layers ....") != std::string::npos;
}

bool is_megatron_yaml(const ImportSample& sample) {
  return sample.has("language_model") && sample.has("model_parallel");
}

bool is_nanotron(const ImportSample& sample) {
  return sample.has("parallelism.tp") && sample.has("tokens");
}

bool is_nemo(const ImportSample& sample) {
  // model.model_config is Nanotron's.
  return sample.has("model") && !sample.has("model.model_config") &&
         (sample.has("model.num_layers") || sample.has("model.config.num_layers"));
}

bool is_torchtitan(const ImportSample& sample) {
  return sample.has("model.flavor") ||
         (sample.has("training.seq_len") && sample.has("parallelism"));
}

constexpr auto kFormats = std::to_array<TrainingFormat>({
    {"accelerate", "The configuration of Accelerate (YAML) and a script of the Trainer",
     "--node dgx_h100",
     "tests/scenarios/import/accelerate/fsdp.yaml tests/scenarios/import/accelerate/train.sh",
     "distributed_type FSDP, DEEPSPEED, MULTI_GPU and MEGATRON_LM with their sections, "
     "parallelism_config, mixed_precision, num_machines, num_processes; of the script as deepspeed",
     3, import_accelerate, is_accelerate},
    {"deepspeed", "The configuration of DeepSpeed (JSON) and a script of the Trainer",
     "--node dgx_a100_80gb",
     "tests/scenarios/import/deepspeed/zero3.json tests/scenarios/import/deepspeed/train.sh",
     "batch sizes and \"auto\", zero_optimization (stage, overlap, buckets, offloading, hpZ, "
     "MiCS), "
     "bf16, fp16, data types, clipping, AutoTP, Ulysses; of the script model, batch, sequence, "
     "precision, gradient checkpointing, attention, optimizer, LoRA, launcher",
     2, import_deepspeed, is_deepspeed},
    {"maxtext", "The configuration of MaxText (YAML), later files over earlier ones",
     "--node dgx_h100 --nodes 16", "tests/scenarios/import/maxtext/llama3_70b.yml",
     "model_name or base_ sizes, experts, latent attention, ici_ and dcn_ axes, pipeline, "
     "per_device_batch_size, accumulation, remat_policy, dtype, quantization, offloading",
     8, import_maxtext, is_maxtext},
    {"megatron", "A launch script of Megatron-LM, or the arguments in its log",
     "--node dgx_a100_80gb", "tests/scenarios/import/pretrain_gpt.sh",
     "the arguments of model, parallelism, batch, precision, recomputation, experts, optimizer", 1,
     import_megatron_script, is_megatron_script},
    {"megatron-yaml", "The file of Megatron-LM's --yaml-cfg", "--node dgx_h100 --nodes 4",
     "tests/scenarios/import/megatron_yaml/llama3_8b.yaml",
     "as megatron: its keys are the arguments", 1, import_megatron_yaml, is_megatron_yaml},
    {"nanotron", "The configuration of Nanotron (YAML)", "--node dgx_h100",
     "tests/scenarios/import/nanotron/llama_8b.yaml",
     "model_config (Llama and Qwen2 classes, experts), parallelism, tokens, dtype, zero_stage, "
     "accumulation in fp32, DDP's buckets, recomputation",
     1, import_nanotron, is_nanotron},
    {"nemo", "The configuration that Megatron-Bridge or NeMo prints (YAML)",
     "--node dgx_h100 --nodes 8", "tests/scenarios/import/nemo/bridge_llama3_70b.yaml",
     "as megatron, from the sections model, train, ddp, comm_overlap, mixed_precision, optimizer, "
     "dataset (Megatron-Bridge), trainer, model, data, optim (NeMo 2), trainer and model (NeMo 1)",
     1, import_nemo, is_nemo},
    {"torchtitan", "The job configuration of torchtitan (TOML)",
     "--node grand_teton_h100 --nodes 1", "tests/scenarios/import/torchtitan/llama3_8b.toml",
     "model name and flavor, batch sizes, degrees of parallelism, pipeline schedule, resharding, "
     "activation checkpointing, compile, float8, offloading",
     1, import_torchtitan, is_torchtitan},
});

}  // namespace

std::span<const TrainingFormat> training_formats() { return kFormats; }

}  // namespace trainyard
