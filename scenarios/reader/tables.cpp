#include "scenarios/reader/tables.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "models/recompute.hpp"
#include "models/schedules/schedule.hpp"
#include "models/trained_weights.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/words.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/engine/engine.hpp"
#include "sim/nccl/nccl_model.hpp"

namespace trainyard {

namespace {

constexpr Words<ContextExchange, 4> kContextExchange{{{ContextExchange::Ring, "p2p"},
                                                      {ContextExchange::AllGather, "all_gather"},
                                                      {ContextExchange::AllToAll, "a2a"},
                                                      {ContextExchange::Hierarchical, "a2a+p2p"}}};
constexpr Words<ContextSplit, 2> kContextSplit{
    {{ContextSplit::Zigzag, "zigzag"}, {ContextSplit::Contiguous, "contiguous"}}};
constexpr Words<Balance, 2> kBalance{{{Balance::Equal, "equal"}, {Balance::Auto, "auto"}}};
constexpr Words<Reshard, 3> kReshard{
    {{Reshard::Auto, "auto"}, {Reshard::Always, "always"}, {Reshard::Never, "never"}}};
constexpr Words<BucketRule, 2> kBuckets{
    {{BucketRule::Megatron, "megatron"}, {BucketRule::Pytorch, "pytorch"}}};
constexpr Words<WeightExchange, 2> kWeightExchange{
    {{WeightExchange::AllGather, "all_gather"}, {WeightExchange::Broadcast, "broadcast"}}};

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Schedule* schedule : schedules()) names.emplace_back(schedule->name());
  return names;
}

// The limit of the size of a gradient bucket, in parameters.
constexpr std::int64_t kParametersMost = 1'000'000'000'000'000;

using P = Parallelism;
// One entry for each field. The reader, the writer of resolved scenarios and the JSON Schema use
// the same tables.
const Field<P> kParallelism[] = {
    {"tensor", "ranks that share every layer (TP)", Whole<P>{&P::tensor}},
    {"sequence_parallel", "norms and dropout are split along the sequence over the tensor ranks",
     Flag<P>{&P::sequence_parallel}},
    {"pipeline", "pipeline stages, ranks that divide the layers among them (PP)",
     Whole<P>{&P::pipeline}},
    {"interleave", "model chunks per pipeline rank, for interleaved_1f1b",
     Whole<P>{&P::interleave}},
    {"data", "replicas of the model (DP)", Whole<P>{&P::data}},
    {"context", "ranks that share every sequence (CP)", Whole<P>{&P::context}},
    {"context_exchange",
     "how context ranks get keys and values: passed around a ring (p2p), gathered (all_gather), "
     "exchanged as heads against positions (a2a), or heads within small groups and a ring between "
     "them (a2a+p2p)",
     word_of<P, &P::context_exchange, kContextExchange>()},
    {"context_split",
     "causal work divided evenly (2 x context chunks), or one contiguous piece for each rank",
     word_of<P, &P::context_split, kContextSplit>()},
    {"context_all_to_all", "context_exchange a2a+p2p: ranks of the groups that exchange heads",
     Whole<P>{&P::context_all_to_all, 0}},
    {"expert", "groups of ranks that divide the experts among them (EP)", Whole<P>{&P::expert}},
    {"expert_tensor", "ranks that share each expert; 0 means as many as tensor",
     Whole<P>{&P::expert_tensor, 0}},
    {"schedule",
     "pipeline schedule: the order of forwards and backwards on each rank, or a file with one",
     name_or_file<P, &P::schedule, schedule_names>()},
    {"microbatch_group_size",
     "interleaved_1f1b: microbatches that go through one chunk before the next; "
     "0 means the number of stages",
     Whole<P>{&P::microbatch_group_size, 0}},
    {"zero_stage",
     "what is sharded over the replicas: 1 the optimizer state, 2 gradients too, 3 weights too",
     Whole<P>{&P::zero_stage, 0, 3}},
    {"shard", "replicas that share one sharded copy (HSDP); 0 means all of them",
     Whole<P>{&P::shard, 0}},
    {"reshard_after_forward",
     "zero_stage 3: gathered weights are freed after a forward; auto: those of layers, and not in "
     "a pipeline",
     word_of<P, &P::reshard_after_forward, kReshard>()},
    {"reshard_group",
     "zero_stage 3: ranks over which weights stay sharded between forward and backward (ZeRO++ "
     "hpZ); 0 means all that share them",
     Whole<P>{&P::reshard_group, 0}},
    {"forward_prefetch", "zero_stage 3: layers whose weights are gathered in advance of a forward",
     Whole<P>{&P::forward_prefetch, 0}},
    {"backward_prefetch", "zero_stage 3: the next layer's weights are gathered during a backward",
     Flag<P>{&P::backward_prefetch}},
    {"reduce_every_microbatch",
     "zero_stage 2, and 3 without a pipeline: gradients are reduced after each microbatch, not "
     "once "
     "a step",
     Flag<P>{&P::reduce_every_microbatch}},
    {"gradient_buckets_in_flight",
     "zero_stage 2: gradient buckets that exist at once; computation waits before it fills "
     "another; 0 means the default of the framework",
     Whole<P>{&P::gradient_buckets_in_flight, 0}},
    {"gradient_buckets", "framework whose rules form gradient buckets",
     word_of<P, &P::gradient_buckets, kBuckets>()},
    {"overlap_grad_reduce", "gradients are reduced bucket by bucket during the last backward",
     Flag<P>{&P::overlap_grad_reduce}},
    {"overlap_param_gather", "zero_stage 1 and 2: weights are gathered during the first forward",
     Flag<P>{&P::overlap_param_gather}},
    {"weight_exchange",
     "zero_stage 1 and 2: updated weights are gathered bucket by bucket, or broadcast by one "
     "owner after another",
     word_of<P, &P::weight_exchange, kWeightExchange>()},
    {"bucket_parameters",
     "parameters of one gradient bucket; 0 means max(40e6, 1e6 x data), or 25 MiB by PyTorch's "
     "rules",
     Whole<P>{&P::bucket_parameters, 0, kParametersMost}},
    {"first_stage_layers", "layers of the first pipeline rank, for an uneven split",
     OptionalWhole<P>{&P::first_stage_layers, 0}},
    {"last_stage_layers", "layers of the last pipeline rank, for an uneven split",
     OptionalWhole<P>{&P::last_stage_layers, 0}},
    {"tensor_per_stage",
     "tensor ranks of every pipeline rank, where stages on unequal GPUs divide their layers among "
     "unequal numbers of them; `tensor` is then the largest",
     Wholes<P>{&P::tensor_per_stage, 1}},
    {"layers_per_stage", "layers of every virtual stage in model order, for a split by hand",
     Wholes<P>{&P::layers_per_stage, 0}},
    {"replica_microbatches",
     "microbatches of every replica in order, where GPUs of different speed share a batch; they "
     "add "
     "up to the global batch",
     Wholes<P>{&P::replica_microbatches, 1}},
    {"balance",
     "auto: layers of stages and microbatches of replicas follow the speed and memory of their "
     "GPUs, where the fields above do not say them",
     word_of<P, &P::balance, kBalance>()},
    {"operator_devices",
     "device of every operator, where a model is split by hand over `pipeline` devices: "
     "{\"attention_block 0-15\": 0}; operators are embedding, attention_norm, attention, "
     "mlp_norm, mlp, experts, final_norm, head, loss, and layer, attention_block, mlp_block, "
     "head_block for several",
     NamedWholes<P>{[](const P& p) {
                      NamedWholes<P>::Entries entries;
                      for (const OperatorRule& rule : p.operator_devices)
                        entries.emplace_back(rule.operators, rule.device);
                      return entries;
                    },
                    [](P& p, const std::string& operators, std::int64_t device) {
                      p.operator_devices.push_back({.operators = operators, .device = device});
                    }}},
    {"embedding_in_split", "the embedding counts as one layer when layers are divided over stages",
     Flag<P>{&P::embedding_in_split}},
    {"loss_in_split", "head and loss count as one layer when layers are divided over stages",
     Flag<P>{&P::loss_in_split}},
    {"scatter_gather",
     "without sequence_parallel: each rank sends 1/tensor of an activation to the next stage, "
     "which gathers it",
     Flag<P>{&P::scatter_gather}},
    {"overlap_p2p", "messages between stages overlap with computation", Flag<P>{&P::overlap_p2p}},
    {"overlap_tensor",
     "input gradients are reduced over the tensor group during the weight gradient",
     Flag<P>{&P::overlap_tensor}},
    {"chunked_tensor",
     "sequence_parallel: gathers and reductions run in pieces, each during the GEMM of another "
     "piece",
     Flag<P>{&P::chunked_tensor}},
    {"rank_order", "dimensions from fastest to slowest; each of tp, cp, ep, dp, pp once",
     Text<P>{&P::rank_order}},
    {"placement",
     "GPU of every rank, counted node by node, each once; or the path of a .json file with that "
     "list; by default rank r runs on GPU r",
     Wholes<P>{&P::placement}},
    {"node_order",
     "names of the kinds of nodes in the order in which ranks fill them, in place of `placement`: "
     "with pipeline stages outermost, which machines serve which stage; by default nodes are "
     "filled in their own order",
     Texts<P>{&P::node_order}},
};

}  // namespace

std::span<const Field<Parallelism>> parallelism_fields() { return kParallelism; }

namespace {

constexpr Words<Recompute, 3> kRecompute{
    {{Recompute::None, "none"}, {Recompute::Selective, "selective"}, {Recompute::Full, "full"}}};
constexpr Words<AttentionKind, 3> kAttention{{{AttentionKind::Flash, "flash"},
                                              {AttentionKind::MemoryEfficient, "memory_efficient"},
                                              {AttentionKind::Unfused, "unfused"}}};
constexpr Words<DataType, 4> kPrecision{{{DataType::Bf16, "bf16"},
                                         {DataType::Fp16, "fp16"},
                                         {DataType::Fp32, "fp32"},
                                         {DataType::Tf32, "tf32"}}};
constexpr Words<DataType, 3> kGradientPrecision{
    {{DataType::Bf16, "bf16"}, {DataType::Fp16, "fp16"}, {DataType::Fp32, "fp32"}}};
constexpr Words<AttentionCount, 2> kConvention{
    {{AttentionCount::Causal, "causal"}, {AttentionCount::Full, "full"}}};

constexpr Words<GradientAverage, 4> kAverage{{{GradientAverage::Framework, "framework"},
                                              {GradientAverage::Collective, "collective"},
                                              {GradientAverage::Before, "before"},
                                              {GradientAverage::BeforeAlways, "before_always"}}};
constexpr Words<GradientCheck, 3> kCheck{{{GradientCheck::Framework, "framework"},
                                          {GradientCheck::On, "on"},
                                          {GradientCheck::Off, "off"}}};
constexpr Words<RoutingKind, 4> kRouting{{{RoutingKind::Balanced, "balanced"},
                                          {RoutingKind::Zipf, "zipf"},
                                          {RoutingKind::Dirichlet, "dirichlet"},
                                          {RoutingKind::Recorded, "recorded"}}};
constexpr Words<ExpertGemms, 3> kExpertGemms{{{ExpertGemms::PerExpert, "per_expert"},
                                              {ExpertGemms::Grouped, "grouped"},
                                              {ExpertGemms::Fused, "fused"}}};
constexpr Words<Dispatcher, 4> kDispatcher{{{Dispatcher::AllToAll, "all_to_all"},
                                            {Dispatcher::AllGather, "all_gather"},
                                            {Dispatcher::NodeLimited, "node_limited"},
                                            {Dispatcher::HybridEp, "hybrid_ep"}}};
constexpr Words<DataType, 3> kDispatchPrecision{
    {{DataType::Bf16, "bf16"}, {DataType::Fp16, "fp16"}, {DataType::Fp8, "fp8"}}};

constexpr Words<DataType, 3> kExchangePrecision{
    {{DataType::Fp32, "fp32"}, {DataType::Bf16, "bf16"}, {DataType::Fp16, "fp16"}}};

constexpr Words<OffloadedOptimizer, 3> kOffloadedOptimizer{{{OffloadedOptimizer::None, "none"},
                                                            {OffloadedOptimizer::Cpu, "cpu"},
                                                            {OffloadedOptimizer::Fetch, "fetch"}}};
constexpr Words<DocumentKind, 4> kDocumentKind{{{DocumentKind::None, "none"},
                                                {DocumentKind::List, "list"},
                                                {DocumentKind::Lognormal, "lognormal"},
                                                {DocumentKind::Preset, "preset"}}};
constexpr Words<DocumentBalance, 3> kDocumentBalance{{{DocumentBalance::None, "none"},
                                                      {DocumentBalance::Sequences, "sequences"},
                                                      {DocumentBalance::Documents, "documents"}}};

constexpr Words<CollectiveModel, 2> kCollectiveModels{
    {{CollectiveModel::Fluid, "fluid"}, {CollectiveModel::Stepwise, "stepwise"}}};
constexpr Words<Defaults, 2> kDefaults{
    {{Defaults::Framework, "framework"}, {Defaults::Ideal, "ideal"}}};
constexpr Words<Fp8Scaling, 2> kScalings{
    {{Fp8Scaling::Delayed, "delayed"}, {Fp8Scaling::Current, "current"}}};
constexpr Words<FrozenFormat, 2> kFrozenFormats{
    {{FrozenFormat::AsTrained, "as_trained"}, {FrozenFormat::Nf4, "nf4"}}};

std::vector<std::string> framework_names() { return data_names("models/frameworks"); }

std::vector<std::string> recipe_names() { return data_names("models/recipes"); }
std::vector<std::string> optimizer_names() { return data_names("models/optimizers"); }

using T = Training;
const Field<T> kTraining[] = {
    {"sequence_length", "tokens of one sequence",
     Whole<T>{&T::sequence_length, 1, kLengthMost, true}},
    {"micro_batch_size", "sequences of one microbatch", Whole<T>{&T::micro_batch_size}},
    {"global_batch_size", "sequences of one optimizer step",
     Whole<T>{&T::global_batch_size, 1, kLengthMost, true}},
    {"precision",
     "data type of weights and activations; tf32: fp32 numbers that tensor cores multiply in TF32",
     word_of<T, &T::precision, kPrecision>()},
    {"gradient_precision",
     "data type in which gradients are accumulated and reduced; without it, that of the recipe",
     word_of<T, &T::gradient_precision, kGradientPrecision>()},
    {"recompute",
     "activations that the backward recomputes: none, those of some modules, or those of whole "
     "layers",
     word_of<T, &T::recompute, kRecompute>()},
    {"recompute_modules",
     "selective: core_attn, layernorm, mlp, moe, moe_act, shared_experts, mla_up_proj, or "
     "every_second_gemm alone (PyTorch's selective checkpointing by operation); default core_attn",
     words_of<T, &T::recompute_modules, kRecomputeModules>(
         "there is no module \"{}\" to recompute")},
    {"recompute_method",
     "full: one checkpoint for each group of recompute_num_layers layers (uniform), the first "
     "recompute_num_layers layers of every chunk (block), every recompute_num_layers-th layer "
     "(every), the first recompute_fraction of every chunk (fraction), or the layers in "
     "recompute_layers (layers)",
     word_of<T, &T::recompute_method, kRecomputeMethods>()},
    {"recompute_num_layers", "number of layers for the methods uniform, block and every",
     Whole<T>{&T::recompute_num_layers}},
    {"recompute_fraction", "fraction: share of each chunk's layers, rounded down",
     OptionalNumber<T>{&T::recompute_fraction, 0.0, 1.0}},
    {"recompute_layers", "layers: numbers of the recomputed layers, from 0",
     Wholes<T>{&T::recompute_layers, 0}},
    {"recipe",
     "precision recipe: bytes of weights and gradients, data type of GEMMs (models/recipes)",
     name_of<T, &T::recipe, recipe_names>()},
    {"fp8_scaling",
     "scale of a tensor of 8 bits: from maxima of earlier microbatches (delayed), or from its own "
     "maximum, for which it is read once more (current, Megatron's --fp8-recipe tensorwise)",
     word_of<T, &T::fp8_scaling, kScalings>()},
    {"lora_rank", "rank of trained LoRA adapters on frozen weights; 0 trains every weight",
     Whole<T>{&T::lora_rank, 0}},
    {"lora_targets",
     "matrices with an adapter: query, key, value, projection, gate, up, down; default all",
     words_of<T, &T::lora_targets, kAdapterTargets>("there is no matrix \"{}\" to adapt")},
    {"frozen_weights", "storage of the layers' frozen matrices: as_trained, or nf4",
     word_of<T, &T::frozen_weights, kFrozenFormats>()},
    {"optimizer",
     "optimizer: bytes of its state and memory traffic of its step (models/optimizers)",
     name_of<T, &T::optimizer, optimizer_names>()},
    {"frozen_layers", "numbers of the layers whose weights are not trained, from 0",
     Wholes<T>{&T::frozen_layers, 0}},
    {"frozen_embedding", "the embedding is not trained", Flag<T>{&T::frozen_embedding}},
    {"frozen_head", "the head and the last norm are not trained", Flag<T>{&T::frozen_head}},
    {"attention",
     "attention kernel: one fused kernel (flash), xFormers' slower one (memory_efficient), or "
     "scores in memory (unfused)",
     word_of<T, &T::attention, kAttention>()},
    {"vocab_multiple", "the vocabulary is padded to a multiple of this number times tensor",
     Whole<T>{&T::vocab_multiple}},
    {"mtp_layers", "multi-token prediction (MTP) layers after the last layer; they share the head",
     Whole<T>{&T::mtp_layers, 0, 16}},
    {"fused_loss",
     "the vocabulary-parallel loss reduces the target logit and the sum in one all_reduce and "
     "writes its gradient over the 16-bit logits",
     Flag<T>{&T::fused_loss}},
    {"compiled",
     "torch.compile fuses norms, activations and other elementwise operations that the framework "
     "runs as separate kernels",
     Flag<T>{&T::compiled}},
    {"gradient_clipping", "the gradient norm is reduced over all ranks",
     Flag<T>{&T::gradient_clipping}},
    {"gradient_average",
     "where gradients are divided by the number of replicas: in the reduction (Megatron's "
     "average_in_collective), in a kernel before it, in a kernel even for one replica, or as the "
     "framework does",
     word_of<T, &T::gradient_average, kAverage>()},
    {"gradient_check",
     "gradients are checked for NaN before they are reduced (Megatron's check_for_nan_in_grad)",
     word_of<T, &T::gradient_check, kCheck>()},
};

using E = ExpertSettings;
const Field<E> kExperts[] = {
    {"routing", "distribution of tokens over experts", word_of<E, &E::routing, kRouting>()},
    {"zipf_exponent",
     "zipf: the expert of popularity rank i gets a share proportional to i to the power of minus "
     "this number",
     Real<E>{&E::zipf_exponent, 0.0, 10.0}},
    {"dirichlet_alpha", "dirichlet: concentration; smaller is more uneven",
     Real<E>{&E::dirichlet_alpha, 0.01, 1e6}},
    {"counts", "recorded: a file with the tokens of each expert, layer by layer",
     Text<E>{&E::counts}},
    {"independent_replicas", "replicas of the experts have different loads",
     Flag<E>{&E::independent_replicas}},
    {"capacity_factor",
     "most tokens that an expert takes from a rank, over the even number; 0: no limit",
     Real<E>{&E::capacity_factor, 0.0, 1e3}},
    {"pad_to_capacity", "every expert computes as many tokens as its capacity",
     Flag<E>{&E::pad_to_capacity}},
    {"dispatcher", "how tokens reach their experts", word_of<E, &E::dispatcher, kDispatcher>()},
    {"dispatch_precision", "data type of dispatched tokens",
     word_of<E, &E::dispatch_precision, kDispatchPrecision>()},
    {"gemms",
     "GEMMs of a rank's experts: one launch for each expert (per_expert), one grouped GEMM "
     "(grouped), or a grouped GEMM with biases, activation and quantisation inside (fused)",
     word_of<E, &E::gemms, kExpertGemms>()},
    {"overlap_shared", "shared experts compute during dispatch and combine",
     Flag<E>{&E::overlap_shared}},
    {"overlap_dispatch",
     "a backward and the next forward run as one block, so that dispatch and combine of one run "
     "during the other's computation",
     Flag<E>{&E::overlap_dispatch}},
};

using V = ParameterServers;
const Field<V> kServers[] = {
    {"servers", "number of servers; each holds an equal part of the parameters and their state",
     Whole<V>{&V::servers, 1, 250, true}},
    {"dedicated",
     "servers have their own GPUs, after those of the workers; otherwise they share the first "
     "workers' GPUs",
     Flag<V>{&V::dedicated}},
    {"staleness", "steps that a worker may be ahead of the slowest; 0 is synchronous",
     Whole<V>{&V::staleness, 0}},
    {"asynchronous", "workers run ahead without a limit", Flag<V>{&V::asynchronous}},
    {"steps", "number of simulated steps; figures are means over them",
     Whole<V>{&V::steps, 1, 1000}},
};

using W = LocalSteps;
const Field<W> kLocalSteps[] = {
    {"every", "steps of each worker between two exchanges of weights",
     Whole<W>{&W::every, 1, kCountMost, true}},
    {"workers",
     "groups of GPUs that each train a copy of the model; the other fields describe one of them",
     Whole<W>{&W::workers, 2, 10'000}},
    {"precision", "data type of the differences of weights that workers exchange",
     word_of<W, &W::precision, kExchangePrecision>()},
};

using O = OffloadSettings;
const Field<O> kOffload[] = {
    {"activations", "share of the activations kept for the backward that moves to host memory",
     Real<O>{&O::activations, 0.0, 1.0}},
    {"activation_layers", "number of layers at the start of a chunk whose activations move; 0: all",
     Whole<O>{&O::activation_layers, 0}},
    {"optimizer",
     "optimizer state in host memory: updated by the CPU (cpu), or copied to the GPU for its step "
     "(fetch)",
     word_of<O, &O::optimizer, kOffloadedOptimizer>()},
    {"weights",
     "the weights of the layers are in host memory and are copied to the GPU for each use; with "
     "zero_stage 3 all shards, copied before they are gathered",
     Flag<O>{&O::weights}},
};

using D = Documents;
const Field<D> kDocuments[] = {
    {"kind", "how documents are packed into sequences", word_of<D, &D::kind, kDocumentKind>()},
    {"lengths", "list: lengths of the documents of every sequence; they add up to sequence_length",
     Wholes<D>{&D::lengths, 1, kLengthMost}},
    {"mean_length", "lognormal: mean length of a document in tokens",
     Whole<D>{&D::mean_length, 0, kLengthMost}},
    {"sigma", "lognormal: standard deviation of the logarithm of the length",
     Real<D>{&D::sigma, 0.0, 10.0}},
    {"preset",
     "preset: measured lengths of a corpus (models/documents), by name or file; kind may then be "
     "left out",
     Text<D>{&D::preset}},
    {"balance",
     "drawn lengths: as drawn (none), or divided by their attention work over replicas and "
     "microbatches: whole sequences, or documents that are first packed again",
     word_of<D, &D::balance, kDocumentBalance>()},
    {"independent_replicas", "replicas draw different documents",
     Flag<D>{&D::independent_replicas}},
};

using N = nccl::Settings;
const Field<N> kNccl[] = {
    {"version", "NCCL release whose choices are simulated, such as 2.27", Text<N>{&N::version}},
    {"algo", "NCCL_ALGO: Ring,Tree or ^NVLS or allreduce:Tree; empty: all", Text<N>{&N::algo}},
    {"proto", "NCCL_PROTO: LL,Simple or ^LL128; empty: NCCL's default", Text<N>{&N::proto}},
    {"min_channels", "NCCL_MIN_NCHANNELS",
     OptionalWhole<N>{&N::min_channels, 1, nccl::kChannelsMost}},
    {"max_channels", "NCCL_MAX_NCHANNELS",
     OptionalWhole<N>{&N::max_channels, 1, nccl::kChannelsMost}},
};

const Field<Published> kPublished[] = {
    {"source", "where the figures are printed", Text<Published>{&Published::source, true}},
    {"step_time", "published time of one optimizer step",
     OptionalTime<Published>{&Published::step_time}},
    {"tokens_per_s_per_gpu", "published training tokens per second and GPU",
     OptionalNumber<Published>{&Published::tokens_per_s_per_gpu}},
    {"model_flops_per_gpu", "published FLOP/s per GPU, without recomputation",
     OptionalFlopsRate<Published>{&Published::model_flops_per_gpu}},
    {"hardware_flops_per_gpu", "published FLOP/s per GPU, with recomputation",
     OptionalFlopsRate<Published>{&Published::hardware_flops_per_gpu}},
    {"mfu", "published MFU, 0 to 1", OptionalNumber<Published>{&Published::mfu, 0.0, 1.0}},
    {"note", "what to know when comparing", Text<Published>{&Published::note}},
};

using S = Scenario;
const Field<S> kHeading[] = {
    {"description", "a sentence about the scenario", Text<S>{&S::description}},
    {"source", "where its settings come from", Text<S>{&S::source}},
    {"assumptions", "settings that the source does not state and this file assumes",
     Texts<S>{&S::assumptions}},
};
const Field<S> kRun[] = {
    {"framework",
     "training framework and its release: its memory, kernels and defaults (models/frameworks)",
     name_of<S, &S::framework, framework_names>()},
    {"defaults",
     "values of fields that are left out: those of runs with the framework, or ideal ones (a host "
     "that issues kernels in no time, replicas that never wait)",
     word_of<S, &S::defaults, kDefaults>()},
    {"host", "how the CPU issues kernels: a name of `trainyard list hosts`, a file, or none",
     Text<S>{&S::host}},
    {"engine", "engine that times communication: simgrid with contention, ideal without",
     name_of<S, &S::engine, engine_names>()},
    {"collective_model", "collectives as flows (fluid), or message by message (stepwise)",
     word_of<S, &S::collective_model, kCollectiveModels>()},
    {"interference", "communication takes SMs from computation that runs at the same time",
     Flag<S>{&S::interference}},
    {"stragglers",
     "replicas wait for the slowest of them, by measured slowdowns that grow with their number",
     Flag<S>{&S::stragglers}},
    {"flops_convention", "attention FLOPs that MFU counts: the causal half, or the full square",
     word_of<S, &S::flops_convention, kConvention>()},
    {"seed", "seed of the random choices", Seed<S>{&S::seed}},
};

constexpr std::array kGroupKinds = {GroupKind::Tensor, GroupKind::Pipeline, GroupKind::Data,
                                    GroupKind::Expert, GroupKind::Context,  GroupKind::Other};

}  // namespace

std::span<const Field<Training>> training_fields() { return kTraining; }
std::span<const Field<ExpertSettings>> expert_fields() { return kExperts; }
std::span<const Field<ParameterServers>> server_fields() { return kServers; }
std::span<const Field<LocalSteps>> local_step_fields() { return kLocalSteps; }
std::span<const Field<OffloadSettings>> offload_fields() { return kOffload; }
std::span<const Field<Documents>> document_fields() { return kDocuments; }
std::span<const Field<nccl::Settings>> nccl_fields() { return kNccl; }
std::span<const Field<Published>> published_fields() { return kPublished; }
std::span<const Field<Scenario>> heading_fields() { return kHeading; }
std::span<const Field<Scenario>> run_fields() { return kRun; }

std::span<const GroupKind> group_kinds() { return kGroupKinds; }

std::vector<CollectiveOp> chosen_operations() {
  std::vector<CollectiveOp> operations;
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    const CollectiveOp op = algorithm->op();
    if (std::find(operations.begin(), operations.end(), op) == operations.end()) {
      operations.push_back(op);
    }
  }
  return operations;
}

// The algorithms that a user may choose, first NCCL's own choice. Algorithms that only serve as
// parts of others are left out.
std::vector<std::string> algorithm_names(CollectiveOp op) {
  std::vector<std::string> names{std::string(nccl::kNcclName)};
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    if (algorithm->op() == op && !algorithm->is_part()) names.emplace_back(algorithm->name());
  }
  return names;
}

bool is_algorithm(CollectiveOp op, const std::string& name) {
  return name == nccl::kNcclName || find_algorithm(op, name) != nullptr;
}

namespace {

bool always(const TrainingPlan&) { return true; }
bool has_experts(const TrainingPlan& plan) { return plan.architecture.has_experts(); }
bool has_servers(const TrainingPlan& plan) { return plan.servers.servers > 0; }
bool trains_apart(const TrainingPlan& plan) { return plan.local_steps.used(); }
bool offloads(const TrainingPlan& plan) { return plan.offload.any(); }
bool packs_documents(const TrainingPlan& plan) { return plan.documents.kind != DocumentKind::None; }

template <auto member>
using Part = std::remove_cvref_t<decltype(std::declval<TrainingPlan>().*member)>;

// Makes the section of that member of a plan.
// All functions of a section follow from its member of the plan and its table of fields.
template <auto member, auto fields>
constexpr Section section_of(std::string_view key, std::string_view meaning,
                             bool (*is_used)(const TrainingPlan&)) {
  return {.key = key,
          .meaning = meaning,
          .read =
              [](JsonObject& section, TrainingPlan& plan) {
                plan.*member = read_fields(section, fields(), Part<member>{});
              },
          .write = [](const TrainingPlan& plan) -> nlohmann::ordered_json {
            return write_fields(fields(), plan.*member);
          },
          .schema = []() -> nlohmann::ordered_json {
            return schema_of_fields(fields(), Part<member>{});
          },
          .keys =
              [] {
                std::vector<std::string_view> keys;
                for (const auto& row : fields()) keys.push_back(row.key);
                return keys;
              },
          .is_used = is_used};
}

using Plan = TrainingPlan;
constexpr Section kSections[] = {
    section_of<&Plan::parallelism, parallelism_fields>(
        "parallelism", "how the model is divided over GPUs", always),
    section_of<&Plan::training, training_fields>("training", "one optimizer step", always),
    section_of<&Plan::experts, expert_fields>("experts", "how a mixture of experts is run",
                                              has_experts),
    section_of<&Plan::servers, server_fields>(
        "parameter_servers",
        "replicas that exchange gradients and weights through parameter servers", has_servers),
    section_of<&Plan::local_steps, local_step_fields>(
        "local_steps", "workers that train apart and exchange weights once in several steps",
        trains_apart),
    section_of<&Plan::offload, offload_fields>("offload", "state in the memory of the hosts",
                                               offloads),
    section_of<&Plan::documents, document_fields>("documents", "documents packed into sequences",
                                                  packs_documents),
};

}  // namespace

std::span<const Section> sections() { return kSections; }

}  // namespace trainyard
