// The names that other programs have for fields of a scenario, each with a hint to Trainyard's
// field.

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "models/architecture/architecture.hpp"
#include "scenarios/reader/tables.hpp"

namespace trainyard {

namespace {

using Word = std::pair<std::string_view, std::string_view>;

// Names with an equivalent; the hint is "here: " and the second text.
constexpr Word kEquivalents[] = {
    {"tensor_model_parallel_size", "\"parallelism\": {\"tensor\": ...}"},
    {"tensor_parallel_size", "\"parallelism\": {\"tensor\": ...}"},
    {"tensor_parallel", "\"parallelism\": {\"tensor\": ...}"},
    {"tp", "\"parallelism\": {\"tensor\": ...}"},
    {"tp_size", "\"parallelism\": {\"tensor\": ...}"},
    {"pipeline_model_parallel_size", "\"parallelism\": {\"pipeline\": ...}"},
    {"pipeline_parallel_size", "\"parallelism\": {\"pipeline\": ...}"},
    {"pipeline_parallel", "\"parallelism\": {\"pipeline\": ...}"},
    {"pp", "\"parallelism\": {\"pipeline\": ...}"},
    {"pp_size", "\"parallelism\": {\"pipeline\": ...}"},
    {"device_map", "\"parallelism\": {\"operator_devices\": ...}"},
    {"data_parallel_size", "\"parallelism\": {\"data\": ...}"},
    {"data_parallel", "\"parallelism\": {\"data\": ...}"},
    {"dp", "\"parallelism\": {\"data\": ...}"},
    {"dp_size", "\"parallelism\": {\"data\": ...}"},
    {"context_parallel_size", "\"parallelism\": {\"context\": ...}"},
    {"context_parallel", "\"parallelism\": {\"context\": ...}"},
    {"cp", "\"parallelism\": {\"context\": ...}"},
    {"cp_size", "\"parallelism\": {\"context\": ...}"},
    {"cp_comm_type", "\"parallelism\": {\"context_exchange\": ...}"},
    {"hierarchical_context_parallel_sizes",
     "\"parallelism\": {\"context_all_to_all\": ...}, the first of the two sizes"},
    {"tp_comm_overlap", "\"parallelism\": {\"chunked_tensor\": true}"},
    {"sp", "\"parallelism\": {\"sequence_parallel\": true}"},
    {"num_layers_per_virtual_pipeline_stage",
     "\"parallelism\": {\"interleave\": ...}, which is layers / pipeline / this number"},
    {"virtual_pipeline_model_parallel_size", "\"parallelism\": {\"interleave\": ...}"},
    {"num_virtual_stages_per_pipeline_rank", "\"parallelism\": {\"interleave\": ...}"},
    {"vp", "\"parallelism\": {\"interleave\": ...}"},
    {"vpp", "\"parallelism\": {\"interleave\": ...}"},
    {"microbatch_group_size_per_virtual_pipeline_stage",
     "\"parallelism\": {\"microbatch_group_size\": ...}"},
    {"microbatch_group_size_per_vp_stage", "\"parallelism\": {\"microbatch_group_size\": ...}"},
    {"use_distributed_optimizer", "\"parallelism\": {\"zero_stage\": 1}"},
    {"distributed_optimizer", "\"parallelism\": {\"zero_stage\": 1}"},
    {"zero", "\"parallelism\": {\"zero_stage\": ...}"},
    {"data_parallel_sharding_strategy", "\"parallelism\": {\"zero_stage\": ...}"},
    {"fsdp", "\"parallelism\": {\"zero_stage\": 3}"},
    {"fully_shard", "\"parallelism\": {\"zero_stage\": 3}"},
    {"data_parallel_shard_degree", "\"parallelism\": {\"shard\": ...}"},
    {"data_parallel_replicate_degree", "\"parallelism\": {\"shard\": ...}, data / this number"},
    {"num_distributed_optimizer_instances",
     "\"parallelism\": {\"shard\": ...}, data / this number"},
    {"zero_hpz_partition_size", "\"parallelism\": {\"reshard_group\": ...}"},
    {"bucket_cap_mb", "\"parallelism\": {\"gradient_buckets\": \"pytorch\"}"},
    {"reduce_dtype", "\"training\": {\"gradient_precision\": ...}"},
    {"param_dtype", "\"training\": {\"precision\": ...}"},
    {"ddp_bucket_size", "\"parallelism\": {\"bucket_parameters\": ...}"},
    {"decoder_first_pipeline_num_layers", "\"parallelism\": {\"first_stage_layers\": ...}"},
    {"decoder_last_pipeline_num_layers", "\"parallelism\": {\"last_stage_layers\": ...}"},
    {"account_for_embedding_in_pipeline_split", "\"parallelism\": {\"embedding_in_split\": true}"},
    {"account_for_loss_in_pipeline_split", "\"parallelism\": {\"loss_in_split\": true}"},
    {"scatter_gather_tensors_in_pipeline", "\"parallelism\": {\"scatter_gather\": true}"},
    {"no_scatter_gather_tensors_in_pipeline", "\"parallelism\": {\"scatter_gather\": false}"},
    {"overlap_p2p_communication", "\"parallelism\": {\"overlap_p2p\": true}"},
    {"no_overlap_p2p_communication", "\"parallelism\": {\"overlap_p2p\": false}"},
    {"use_tp_pp_dp_mapping", "\"parallelism\": {\"rank_order\": \"tp-cp-ep-pp-dp\"}"},
    {"seq_length", "\"training\": {\"sequence_length\": ...}"},
    {"seq_len", "\"training\": {\"sequence_length\": ...}"},
    {"sequence", "\"training\": {\"sequence_length\": ...}"},
    {"mbs", "\"training\": {\"micro_batch_size\": ...}"},
    {"micro_batch", "\"training\": {\"micro_batch_size\": ...}"},
    {"gbs", "\"training\": {\"global_batch_size\": ...}"},
    {"global_batch", "\"training\": {\"global_batch_size\": ...}"},
    {"batch_size", "\"training\": {\"global_batch_size\": ...}"},
    {"gradient_accumulation_steps",
     "it follows from global_batch_size / (micro_batch_size x data)"},
    {"num_microbatches", "it follows from global_batch_size / (micro_batch_size x data)"},
    {"recompute_granularity", "\"training\": {\"recompute\": \"none\", \"selective\" or \"full\"}"},
    {"recompute_activations", "\"training\": {\"recompute\": \"selective\"}"},
    {"remat_policy", "\"training\": {\"recompute\": \"none\", \"selective\" or \"full\"}"},
    {"recompute_method",
     "\"training\": {\"recompute\": \"full\"}, which keeps every layer's input"},
    {"activation_checkpointing", "\"training\": {\"recompute\": \"full\"}"},
    {"gradient_checkpointing", "\"training\": {\"recompute\": \"full\"}"},
    {"fp16", "\"training\": {\"precision\": \"fp16\"}"},
    {"bf16", "\"training\": {\"precision\": \"bf16\"}"},
    {"dtype", "\"training\": {\"precision\": ...}"},
    {"accumulate_allreduce_grads_in_fp32", "\"training\": {\"gradient_precision\": \"fp32\"}"},
    {"grad_reduce_in_bf16", "\"training\": {\"gradient_precision\": \"bf16\"}"},
    {"use_flash_attn", "\"training\": {\"attention\": \"flash\"}"},
    {"attention_backend", "\"training\": {\"attention\": ...}"},
    {"make_vocab_size_divisible_by", "\"training\": {\"vocab_multiple\": ...}"},
    {"cross_entropy_loss_fusion", "\"training\": {\"fused_loss\": true}"},
    {"clip_grad", "\"training\": {\"gradient_clipping\": true}"},
    {"num_layers", "\"model\": {\"layers\": ...}"},
    {"num_hidden_layers", "\"model\": {\"layers\": ...}"},
    {"hidden_size", "\"model\": {\"hidden\": ...}"},
    {"num_attention_heads", "\"model\": {\"heads\": ...}"},
    {"num_query_groups", "\"model\": {\"kv_heads\": ...}"},
    {"num_key_value_heads", "\"model\": {\"kv_heads\": ...}"},
    {"kv_channels", "\"model\": {\"head_dim\": ...}"},
    {"ffn_hidden_size", "\"model\": {\"ffn\": ...}"},
    {"intermediate_size", "\"model\": {\"ffn\": ...}"},
    {"vocab_size", "\"model\": {\"vocab\": ...}"},
    {"max_position_embeddings", "\"model\": {\"max_positions\": ...}"},
    {"swiglu", "\"model\": {\"gated_ffn\": true}"},
    {"tie_word_embeddings", "\"model\": {\"tied_embeddings\": ...}"},
    {"untie_embeddings_and_output_weights", "\"model\": {\"tied_embeddings\": false}"},
    {"expert_model_parallel_size", "\"parallelism\": {\"expert\": ...}"},
    {"expert_parallel", "\"parallelism\": {\"expert\": ...}"},
    {"ep", "\"parallelism\": {\"expert\": ...}"},
    {"expert_tensor_parallel_size", "\"parallelism\": {\"expert_tensor\": ...}"},
    {"etp", "\"parallelism\": {\"expert_tensor\": ...}"},
    {"moe_token_dispatcher_type", "\"experts\": {\"dispatcher\": ...}"},
    {"moe_expert_capacity_factor", "\"experts\": {\"capacity_factor\": ...}"},
    {"moe_pad_expert_input_to_capacity", "\"experts\": {\"pad_to_capacity\": true}"},
    {"moe_shared_expert_overlap", "\"experts\": {\"overlap_shared\": true}"},
    {"products", "\"experts\": {\"gemms\": ...}"},  // the names in 0.1.0, as the next
    {"overlap_exchanges", "\"experts\": {\"overlap_dispatch\": ...}"},
    {"num_experts", "\"model\": {\"experts\": ...}"},
    {"moe_router_topk", "\"model\": {\"experts_per_token\": ...}"},
    {"nccl_algo", "\"collectives\": {\"nccl\": {\"algo\": ...}}"},
    {"nccl_proto", "\"collectives\": {\"nccl\": {\"proto\": ...}}"},
    {"nccl_min_nchannels", "\"collectives\": {\"nccl\": {\"min_channels\": ...}}"},
    {"nccl_max_nchannels", "\"collectives\": {\"nccl\": {\"max_channels\": ...}}"},
    {"gpus", "\"cluster\": {\"nodes\": ...}"},
    {"num_gpus", "\"cluster\": {\"nodes\": ...}"},
    {"world_size", "\"cluster\": {\"nodes\": ...}"},
    {"num_nodes", "\"cluster\": {\"nodes\": ...}"},
    {"nnodes", "\"cluster\": {\"nodes\": ...}"},
};

// Adds hints for Trainyard's keys in the wrong section. Keys of several sections get no hint.
void add_section(std::map<std::string, std::string>& words, std::string_view section,
                 const std::vector<std::string_view>& keys) {
  for (const std::string_view key : keys) {
    if (key == "source" || key == "name" || key == "kind") continue;
    words.emplace(key, fmt::format("it belongs in \"{}\"", section));
  }
}

template <class Owner>
std::vector<std::string_view> keys_of(std::span<const Field<Owner>> rows) {
  std::vector<std::string_view> keys;
  for (const Field<Owner>& row : rows) keys.push_back(row.key);
  return keys;
}

}  // namespace

// emplace() keeps the first hint of a word, so the table of equivalents has precedence over
// sections.
std::map<std::string, std::string> foreign_words() {
  std::map<std::string, std::string> words;
  for (const auto& [word, ours] : kEquivalents) words.emplace(word, fmt::format("here: {}", ours));
  for (const Section& section : sections()) add_section(words, section.key, section.keys());
  add_section(words, "collectives/nccl", keys_of(nccl_fields()));
  add_section(words, "model", keys_of(architecture_fields()));
  add_section(words, "published", keys_of(published_fields()));
  return words;
}

std::map<std::string, std::string> renamed_words() {
  constexpr const char* kRecipe =
      "precision is the data type of weights and activations; for GEMMs in 8 or 4 bits choose a "
      "recipe: fp8, fp8_blockwise, nvfp4, ... (models/recipes)";
  return {{"fp8", kRecipe},
          {"fp4", kRecipe},
          {"nvfp4", kRecipe},
          {"mxfp8", kRecipe},
          {"one_launch", "it is called \"grouped\" now"},
          {"second_products", "it is called \"every_second_gemm\" now"}};
}

}  // namespace trainyard
