#include "models/lower/options.hpp"

#include <string>
#include <vector>

#include "models/attention_pairs.hpp"
#include "models/documents.hpp"
#include "models/lower/data_parallel/shards.hpp"
#include "models/lower/local_steps.hpp"
#include "models/pipeline_shape.hpp"
#include "models/rank_groups.hpp"
#include "models/recompute.hpp"

namespace trainyard {

namespace {

// ---- layers

GemmOptions gemm_options(const TrainingPlan& plan, const WeightOptions& weights) {
  // Whether whole gradients exist to which a GEMM can add. With sharded weights they do not, and
  // autograd writes a new gradient.
  const bool whole = plan.parallelism.zero_stage < 3;
  return {.architecture = plan.architecture,
          .recipe = plan.recipe,
          .accumulates = whole && plan.training.gradient_precision == DataType::Fp32 &&
                         !plan.gradient_passes.accumulate,
          .scaling = plan.training.fp8_scaling,
          .adapters = weights.adapters,
          .trained = weights.trained};
}

AttentionOptions attention_options(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  return {.kind = plan.training.attention,
          .fused_dtype = plan.recipe.attention.value_or(plan.training.precision),
          .documents = StepDocuments(plan),
          .context = {.collectives = plan.collectives,
                      .ranks = p.context,
                      .shape = context_shape(p),
                      .exchange = p.context_exchange,
                      .split = p.context_split}};
}

LayerOptions layer_options(const TrainingPlan& plan, const WeightOptions& weights) {
  const Parallelism& p = plan.parallelism;
  const Training& t = plan.training;
  const bool alone = t.recompute_method != RecomputeMethod::Uniform || t.recompute_num_layers == 1;
  return {.architecture = plan.architecture,
          .elementwise_kernels = plan.elementwise_kernels,
          .gemms = gemm_options(plan, weights),
          .tensor = {.recipe = plan.recipe,
                     .collectives = plan.collectives,
                     .hidden = plan.architecture.hidden,
                     .overlaps = p.overlap_tensor,
                     .in_pieces = p.chunked_tensor,
                     .keeps_gathered = plan.elementwise_kernels.keeps_gathered},
          .attention = attention_options(plan),
          .experts = {.settings = plan.experts,
                      .collectives = plan.collectives,
                      .places = p.expert,
                      .tensor = p.expert_tensor_size(),
                      .gemms_in_8_bits = plan.recipe.gemms == DataType::Fp8},
          .recomputed = t.recompute == Recompute::Selective ? t.recompute_modules
                                                            : RecomputeModules{.core = false},
          .stops_early = plan.elementwise_kernels.recompute_stops_early && alone &&
                         t.recompute == Recompute::Full};
}

ActivationQuery activation_query(const TrainingPlan& plan, const ContextShape& context) {
  const Architecture& architecture = plan.architecture;
  const KeptTensors norm = plan.elementwise_kernels.norm(architecture).kept;
  const KeptTensors activation = plan.elementwise_kernels.activation_of(architecture).kept;
  return {.tensor = plan.parallelism.tensor,
          .sequence_parallel = plan.parallelism.sequence_parallel,
          .context = plan.parallelism.context,
          .micro_batch = plan.training.micro_batch_size,
          .sequence_length = plan.training.sequence_length,
          .recompute = plan.training.recompute,
          .modules = plan.training.recompute_modules,
          .attention = plan.training.attention,
          .precision = plan.training.precision,
          .expert_tensor = plan.parallelism.expert_tensor_size(),
          .head_traders = context.heads,
          .fused_loss = plan.training.fused_loss,
          .gemm_input = plan.recipe.gemm_input_bytes,
          .activation_input = plan.recipe.activation_input_bytes,
          .norm_kept_narrow = norm.narrow,
          .norm_kept_wide = norm.wide,
          // The inputs of the activation and its output are counted apart.
          .extra_activation_tensors = activation.narrow - architecture.ffn_inputs() - 1,
          .gathered_inputs = plan.elementwise_kernels.keeps_gathered,
          .repeated_heads = plan.elementwise_kernels.repeated_heads,
          .compiled = plan.elementwise_kernels.compiled,
          .attention_output = plan.recipe.attention_output_bytes};
}

MemoryOptions memory_options(const TrainingPlan& plan, const WeightOptions& weights,
                             const ContextShape& context) {
  const Training& t = plan.training;
  // Half of the copies are rows on the way to the experts, in the precision of the dispatch; the
  // other half are on the way back.
  const double there = element_bytes(plan.experts.dispatch_precision);
  const double back = element_bytes(t.precision);
  return {
      .division = weights.division,
      .query = activation_query(plan, context),
      .adapters = weights.adapters,
      .rebuilds_modules =
          t.recompute == Recompute::Selective && t.recompute_modules != RecomputeModules{},
      .row_copies = static_cast<double>(plan.framework.expert_row_copies) / 2.0 * (there + back),
      .placeholders = plan.framework.gradient_placeholders && t.lora_rank == 0 &&
                      t.gradient_precision == DataType::Fp32 && plan.parallelism.zero_stage < 3};
}

// ---- embedding and LM head

// `together`: first and last stage are on one rank, so that a tied table exists only once.
EmbeddingAndHeadParameters end_parameters(const TrainingPlan& plan, bool together) {
  const Architecture& a = plan.architecture;
  const std::int64_t table = plan.vocab() / plan.parallelism.tensor * a.hidden;
  const bool shared = a.tied_embeddings && together;
  return {.embedding = table,
          .positions = a.positions == Positions::Learned ? a.max_positions * a.hidden : 0,
          .final_norm = a.norm_width(),
          .head = shared ? 0 : table};
}

EmbeddingAndHeadOptions end_options(const TrainingPlan& plan, const LoweringOptions& known) {
  const ActivationQuery& query = known.memory.query;
  const bool sharded = plan.parallelism.zero_stage == 3;
  const bool fused = plan.training.fused_loss;
  return {.parameters = known.weights.ends,
          .vocab = plan.vocab(),
          .trains_embedding = known.weights.trained.embedding,
          .trains_head = known.weights.trained.head,
          .head = head_activations(plan.architecture, query, plan.vocab()),
          .embedding_kept = embedding_activations(plan.architecture, query),
          .sums_table = !sharded && !plan.gradient_passes.accumulate,
          .shards_table = sharded,
          .fused_loss = fused,
          .loss_copies = fused ? 1 : plan.framework.loss_copies,
          .loss_metrics = plan.elementwise_kernels.loss_metrics,
          .keeps_gathered = plan.elementwise_kernels.keeps_gathered,
          .placeholder = known.memory.placeholders};
}

// ---- gradients and replicas

OptimizerOptions optimizer_options(const TrainingPlan& plan) {
  return {.name = plan.optimizer.step,
          .state = state_recipe(plan),
          .clips = plan.training.gradient_clipping,
          .where = plan.offload.optimizer,
          .host_bandwidth = plan.host.bandwidth};
}

// Number of ranks whose gradients make up the norm. With expert parallelism every rank has
// different gradients. Otherwise the ranks of one copy of the model hold all gradients.
std::int64_t norm_holders(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  const std::int64_t copy = p.zero_stage > 0 ? p.shard_size() * p.context : 1;
  const bool everyone = divides_experts(p, plan.architecture);
  return p.ranks_of_replica() / p.context * (everyone ? p.data * p.context : copy);
}

GradientOptions gradient_options(const TrainingPlan& plan, const WeightOptions& weights) {
  const Parallelism& p = plan.parallelism;
  const Training& t = plan.training;
  const bool sharded = p.zero_stage == 3;
  // FSDP2 keeps sharded gradients in the precision of the sharded weights, whatever they were
  // reduced in. This is fp32 unless the recipe sets another precision.
  const bool fp32 = sharded && !plan.recipe.gradient_bytes;
  return {
      .division = weights.division,
      .collectives = plan.collectives,
      .optimizer = optimizer_options(plan),
      .passes = plan.gradient_passes.with(t.gradient_average, t.gradient_check),
      .accumulates = plan.gradient_passes.accumulate && !sharded && !partitions_every_microbatch(p),
      .unscales = plan.gradient_passes.unscale && t.precision == DataType::Fp16,
      .held = fp32 ? DataType::Fp32 : t.gradient_precision,
      .shards = optimizer_shards(p),
      .expert_shards = expert_shards(p),
      .shards_replicated = sharded,
      .norm_holders = norm_holders(plan),
      .orthogonalisations = t.lora_rank == 0 ? plan.optimizer.orthogonalisations : 0,
      .outer_bytes = plan.local_steps.used() ? kOuterStateBytes : 0};
}

ReplicaOptions replica_options(const TrainingPlan& plan, const WeightOptions& weights) {
  const std::int64_t chosen = plan.parallelism.gradient_buckets_in_flight;
  return {.parallelism = plan.parallelism,
          .collectives = plan.collectives,
          .gradients = gradient_options(plan, weights),
          .adapters = weights.adapters,
          .gradient_wire = plan.training.gradient_precision,
          .weight_wire = plan.recipe.weight_wire.value_or(plan.training.precision),
          .microbatches = plan.microbatches(),
          .model_layers = plan.architecture.layers,
          .buckets_in_flight = chosen > 0 ? chosen : plan.framework.gradient_buckets_in_flight,
          .fetches_shards = plan.offload.weights};
}

// ---- pipeline

// The layers of a virtual stage, with its recompute units. recompute_units lists the units of
// multi-token prediction last.
StageSpan stage_span(const TrainingPlan& plan, std::int64_t first, std::int64_t layers,
                     std::int64_t mtp_layers) {
  StageSpan span{.first_layer = first, .layers = layers, .mtp_layers = mtp_layers};
  span.units =
      recompute_units(plan.training, {.first = first, .layers = layers, .mtp_layers = mtp_layers});
  span.mtp_units.assign(span.units.end() - mtp_layers, span.units.end());
  span.units.erase(span.units.end() - mtp_layers, span.units.end());
  return span;
}

// Whether a forward and the backward after it run as one overlapped block. They do so only with
// expert parallelism, where dispatch and combine can be hidden. They do not if the data-parallel
// scheme or offload writes operations between layers in every microbatch: these hold numbers of
// operations, which are invalid after interleaving (BlockRecorder::overlap).
bool overlaps_steps(const TrainingPlan& plan) {
  if (plan.parallelism.zero_stage > 1) return false;
  if (plan.offload.activations > 0.0 || plan.offload.weights) return false;
  return divides_experts(plan.parallelism, plan.architecture);
}

}  // namespace

TrainingPlan plan_of_stage(const TrainingPlan& plan, std::int64_t stage) {
  TrainingPlan of_stage = plan;
  of_stage.parallelism.tensor = plan.parallelism.tensor_of(stage);
  return of_stage;
}

StepShape step_shape(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  StepShape shape;
  shape.tokens = plan.training.micro_batch_size * (plan.training.sequence_length / p.context);
  shape.tensor = p.tensor;
  shape.sequence_parallel = p.sequence_parallel && shape.tensor > 1;
  shape.local_tokens = shape.sequence_parallel ? shape.tokens / shape.tensor : shape.tokens;
  shape.dtype = plan.training.precision;
  shape.element = static_cast<std::int64_t>(element_bytes(shape.dtype));
  shape.gradient = static_cast<std::int64_t>(element_bytes(plan.training.gradient_precision));
  shape.message = shape.tokens * plan.architecture.hidden * shape.element;
  return shape;
}

WeightOptions weight_options(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  WeightOptions options{.division = {.architecture = plan.architecture,
                                     .tensor = p.tensor,
                                     .expert = p.expert,
                                     .expert_tensor = p.expert_tensor_size()},
                        .mtp_layers = plan.training.mtp_layers,
                        .trained = trained_weights(plan),
                        .adapters = adapter_set(plan.architecture, plan.training, p.tensor),
                        .element = element_bytes(plan.training.precision)};
  const bool together = embedding_and_head_on_one_rank(p);
  const bool twice = plan.architecture.tied_embeddings || options.mtp_layers > 0;
  options.ends = end_parameters(plan, together);
  options.shares_embedding = twice && !together;
  return options;
}

MemoryOptions memory_options(const TrainingPlan& plan) {
  return memory_options(plan, weight_options(plan), context_shape(plan.parallelism));
}

StateRecipe state_recipe(const TrainingPlan& plan) {
  // The fp32 shard of FSDP2 is the weight itself, and its gradients are in fp32, too.
  const bool fully = plan.parallelism.zero_stage == 3;
  return {.precision = fully ? DataType::Fp32 : plan.training.precision,
          .gradient_precision = fully ? DataType::Fp32 : plan.training.gradient_precision,
          .fp32_gradient_copy = false,
          .zero_stage = plan.parallelism.zero_stage,
          .shards = 1,
          .recipe = plan.recipe,
          .optimizer = plan.optimizer};
}

LoweringOptions lowering_options(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  const WeightOptions weights = weight_options(plan);
  const LayerOptions layer = layer_options(plan, weights);
  LoweringOptions options{
      .shape = step_shape(plan),
      .layer = layer,
      .ends = {},
      .memory = memory_options(plan, weights, layer.attention.context.shape),
      .weights = weights,
      .replicas = replica_options(plan, weights),
      .offload = {.settings = plan.offload,
                  .fetches_weights = plan.offload.weights && p.zero_stage < 3,
                  .small_checkpoints = plan.training.recompute == Recompute::Full},
      .messages = {.parallelism = p,
                   .algorithm =
                       plan.collectives.chosen(GroupKind::Pipeline, CollectiveOp::SendRecv),
                   .gather_algorithm =
                       plan.collectives.chosen(GroupKind::Tensor, CollectiveOp::AllGather)},
      .framework_bytes = plan.framework.context_bytes + plan.framework.workspace_bytes};
  options.ends = end_options(plan, options);
  return options;
}

PipelineOptions pipeline_options(const TrainingPlan& plan, const LoweringOptions& known) {
  const bool overlaps = overlaps_steps(plan);
  const std::vector<std::int64_t> split = layer_split(plan);
  PipelineOptions options{
      .shape = pipeline_shape(plan),
      .first_trained = known.weights.trained.first,
      .overlaps_steps = overlaps,
      .microbatches_differ = plan.offload.any() || plan.documents.kind != DocumentKind::None,
      .ring_programs = known.layer.attention.context.shape.programs};
  std::int64_t first = 0;
  for (std::size_t stage = 0; stage < split.size(); ++stage) {
    const bool last = stage + 1 == split.size();
    options.stages.push_back(
        stage_span(plan, first, split[stage], last ? plan.training.mtp_layers : 0));
    first += split[stage];
  }
  return options;
}

}  // namespace trainyard
