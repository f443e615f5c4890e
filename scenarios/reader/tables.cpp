#include "scenarios/reader/tables.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "models/recompute.hpp"
#include "models/schedules/schedule.hpp"
#include "models/trained_weights.hpp"
#include "sim/base/check.hpp"
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
const Field<P> kParallelism[] = {
    {"tensor", "ranks that share every layer (TP)", Whole<P>{&P::tensor}},
    {"sequence_parallel", "norms and dropout are split along the sequence over the tensor ranks",
     Flag<P>{&P::sequence_parallel}},
    {"pipeline", "stages that the layers are dealt to (PP)", Whole<P>{&P::pipeline}},
    {"interleave", "model chunks per pipeline rank, for interleaved_1f1b",
     Whole<P>{&P::interleave}},
    {"data", "replicas of the model (DP)", Whole<P>{&P::data}},
    {"context", "ranks that share every sequence (CP)", Whole<P>{&P::context}},
    {"context_exchange",
     "how they come by each other's keys and values: passed round a ring, gathered, heads traded "
     "for positions, or heads within small groups and a ring between them",
     word_of<P, &P::context_exchange, kContextExchange>()},
    {"context_split", "causal work dealt evenly (2 x context chunks), or one piece for each rank",
     word_of<P, &P::context_split, kContextSplit>()},
    {"context_all_to_all", "context_exchange a2a+p2p: ranks that trade heads among themselves",
     Whole<P>{&P::context_all_to_all, 0}},
    {"expert", "groups of ranks that the experts are dealt to (EP)", Whole<P>{&P::expert}},
    {"expert_tensor", "ranks that share each expert; 0 means as many as tensor",
     Whole<P>{&P::expert_tensor, 0}},
    {"schedule", "the order of forward and backward steps of a pipeline rank, or a file with one",
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
     "zero_stage 3: weights are given back after a forward; auto: those of the layers, and not in "
     "a pipeline",
     word_of<P, &P::reshard_after_forward, kReshard>()},
    {"reshard_group",
     "zero_stage 3: ranks over which weights stay sharded between forward and backward (ZeRO++ "
     "hpZ); 0 means all that share them",
     Whole<P>{&P::reshard_group, 0}},
    {"forward_prefetch", "zero_stage 3: layers whose weights are asked for before a forward",
     Whole<P>{&P::forward_prefetch, 0}},
    {"backward_prefetch", "zero_stage 3: the next layer's weights are gathered during a backward",
     Flag<P>{&P::backward_prefetch}},
    {"reduce_every_microbatch",
     "zero_stage 2 and 3: gradients are reduced after each microbatch, not once a step",
     Flag<P>{&P::reduce_every_microbatch}},
    {"gradient_buckets_in_flight",
     "zero_stage 2: buckets of gradients that exist at once, computation waits before it fills "
     "another one; 0 means as many as the framework has",
     Whole<P>{&P::gradient_buckets_in_flight, 0}},
    {"gradient_buckets", "whose rules put gradients into buckets",
     word_of<P, &P::gradient_buckets, kBuckets>()},
    {"overlap_grad_reduce", "gradients are reduced bucket by bucket during the last backward",
     Flag<P>{&P::overlap_grad_reduce}},
    {"overlap_param_gather", "zero_stage 1 and 2: weights are gathered during the first forward",
     Flag<P>{&P::overlap_param_gather}},
    {"weight_exchange",
     "zero_stage 1 and 2: updated weights are gathered bucket by bucket, or broadcast by one owner "
     "after another",
     word_of<P, &P::weight_exchange, kWeightExchange>()},
    {"bucket_parameters",
     "parameters of one gradient bucket; 0 means max(40e6, 1e6 x data), or 25 MiB by PyTorch's "
     "rules",
     Whole<P>{&P::bucket_parameters, 0, kParametersMost}},
    {"first_stage_layers", "layers of the first pipeline rank where the split is uneven",
     OptionalWhole<P>{&P::first_stage_layers, 0}},
    {"last_stage_layers", "layers of the last pipeline rank where the split is uneven",
     OptionalWhole<P>{&P::last_stage_layers, 0}},
    {"layers_per_stage", "layers of every virtual stage in model order, where the split is by hand",
     Wholes<P>{&P::layers_per_stage, 0}},
    {"operator_devices",
     "the device of every operator, where a model is split by hand over `pipeline` devices: "
     "{\"attention_block 0-15\": 0}; operators are embedding, attention_norm, attention, mlp_norm, "
     "mlp, experts, final_norm, head, loss, and layer, attention_block, mlp_block, head_block of "
     "several",
     NamedWholes<P>{[](const P& p) {
                      NamedWholes<P>::Entries entries;
                      for (const OperatorRule& rule : p.operator_devices)
                        entries.emplace_back(rule.operators, rule.device);
                      return entries;
                    },
                    [](P& p, const std::string& operators, std::int64_t device) {
                      p.operator_devices.push_back({.operators = operators, .device = device});
                    }}},
    {"embedding_in_split", "the embedding takes the place of one layer of the split",
     Flag<P>{&P::embedding_in_split}},
    {"loss_in_split", "head and loss take the place of one layer of the split",
     Flag<P>{&P::loss_in_split}},
    {"scatter_gather",
     "without sequence_parallel: stages send 1/tensor of an activation each and gather it",
     Flag<P>{&P::scatter_gather}},
    {"overlap_p2p", "messages between stages overlap with computation", Flag<P>{&P::overlap_p2p}},
    {"overlap_tensor",
     "input gradients are reduced over the tensor group during the weight gradient",
     Flag<P>{&P::overlap_tensor}},
    {"chunked_tensor",
     "sequence_parallel: gathers and reductions run in pieces beside the products they belong to",
     Flag<P>{&P::chunked_tensor}},
    {"rank_order", "dimensions from fastest to slowest, each of tp, cp, ep, dp, pp once",
     Text<P>{&P::rank_order}},
    {"placement",
     "the GPU of every rank, counted node by node, each once; or the path of a .json file with "
     "that "
     "list; without it rank r runs on GPU r",
     Wholes<P>{&P::placement}},
};

}  // namespace

std::span<const Field<Parallelism>> parallelism_fields() { return kParallelism; }

namespace {

constexpr Words<Recompute, 3> kRecompute{
    {{Recompute::None, "none"}, {Recompute::Selective, "selective"}, {Recompute::Full, "full"}}};
constexpr Words<AttentionKind, 3> kAttention{{{AttentionKind::Flash, "flash"},
                                              {AttentionKind::MemoryEfficient, "memory_efficient"},
                                              {AttentionKind::Unfused, "unfused"}}};
constexpr Words<DataType, 3> kPrecision{
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
                                              {ExpertGemms::OneLaunch, "one_launch"},
                                              {ExpertGemms::Fused, "fused"}}};
constexpr Words<Dispatcher, 3> kDispatcher{{{Dispatcher::AllToAll, "all_to_all"},
                                            {Dispatcher::AllGather, "all_gather"},
                                            {Dispatcher::NodeLimited, "node_limited"}}};
constexpr Words<DataType, 3> kDispatchPrecision{
    {{DataType::Bf16, "bf16"}, {DataType::Fp16, "fp16"}, {DataType::Fp8, "fp8"}}};

constexpr Words<OffloadedOptimizer, 3> kOffloadedOptimizer{{{OffloadedOptimizer::None, "none"},
                                                            {OffloadedOptimizer::Cpu, "cpu"},
                                                            {OffloadedOptimizer::Fetch, "fetch"}}};
constexpr Words<DocumentKind, 3> kDocumentKind{{{DocumentKind::None, "none"},
                                                {DocumentKind::List, "list"},
                                                {DocumentKind::Lognormal, "lognormal"}}};

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const EngineEntry& entry : engines()) names.emplace_back(entry.name);
  return names;
}

constexpr Words<CollectiveModel, 2> kCollectiveModels{
    {{CollectiveModel::Fluid, "fluid"}, {CollectiveModel::Stepwise, "stepwise"}}};
constexpr Words<Defaults, 2> kDefaults{
    {{Defaults::Framework, "framework"}, {Defaults::Ideal, "ideal"}}};
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
    {"precision", "of weights and activations", word_of<T, &T::precision, kPrecision>()},
    {"gradient_precision",
     "in which gradients are accumulated and sent; that of a recipe which has one, when left out",
     word_of<T, &T::gradient_precision, kPrecision>()},
    {"recompute", "what the backward pass computes again: nothing, some modules, whole layers",
     word_of<T, &T::recompute, kRecompute>()},
    {"recompute_modules",
     "selective: core_attn, layernorm, mlp, moe, moe_act, shared_experts, mla_up_proj, or "
     "second_products alone (PyTorch's checkpointing by operation); core_attn when left out",
     words_of<T, &T::recompute_modules, kRecomputeModules>(
         "there is no module \"{}\" to recompute")},
    {"recompute_method",
     "full: groups of recompute_num_layers with one checkpoint each (uniform), the first so many "
     "of every chunk (block), each so-many-th (every), the first recompute_fraction of every chunk "
     "(fraction), or the listed recompute_layers (layers)",
     word_of<T, &T::recompute_method, kRecomputeMethods>()},
    {"recompute_num_layers", "uniform, block and every: see recompute_method",
     Whole<T>{&T::recompute_num_layers}},
    {"recompute_fraction", "fraction: of each chunk's layers, rounded down; 0: none, 1: all",
     OptionalNumber<T>{&T::recompute_fraction, 0.0, 1.0}},
    {"recompute_layers", "layers: those of the model that are computed again, counted from 0",
     Wholes<T>{&T::recompute_layers, 0}},
    {"recipe", "bytes of weights and gradients, precision of the products (models/recipes)",
     name_of<T, &T::recipe, recipe_names>()},
    {"lora_rank", "rank of trained adapters on frozen weights; 0: every weight is trained",
     Whole<T>{&T::lora_rank, 0}},
    {"lora_targets",
     "matrices with an adapter: query, key, value, projection, gate, up, down; all "
     "when left out",
     words_of<T, &T::lora_targets, kAdapterTargets>("there is no matrix \"{}\" to adapt")},
    {"frozen_weights", "how the layers' matrices are kept beside adapters: as_trained, or nf4",
     word_of<T, &T::frozen_weights, kFrozenFormats>()},
    {"optimizer", "bytes of its state and traffic of its step (models/optimizers)",
     name_of<T, &T::optimizer, optimizer_names>()},
    {"frozen_layers", "layers whose weights are not trained, counted from 0",
     Wholes<T>{&T::frozen_layers, 0}},
    {"frozen_embedding", "the embedding is not trained", Flag<T>{&T::frozen_embedding}},
    {"frozen_head", "head and last norm are not trained", Flag<T>{&T::frozen_head}},
    {"attention",
     "one fused kernel (flash), the slower one of xFormers (memory_efficient), or scores in memory "
     "(unfused)",
     word_of<T, &T::attention, kAttention>()},
    {"vocab_multiple", "the vocabulary is padded to a multiple of this times tensor",
     Whole<T>{&T::vocab_multiple}},
    {"mtp_layers", "layers behind the last that predict tokens further ahead, with the same head",
     Whole<T>{&T::mtp_layers, 0, 16}},
    {"fused_loss",
     "the vocabulary-parallel loss reduces target and sum together and writes its gradient over "
     "the "
     "16-bit logits",
     Flag<T>{&T::fused_loss}},
    {"compiled",
     "torch.compile fuses the norms, activations and other streaming operations that the framework "
     "runs as separate kernels (those of a framework whose kernels are fused stay as they are)",
     Flag<T>{&T::compiled}},
    {"gradient_clipping", "the gradient norm is reduced over all ranks",
     Flag<T>{&T::gradient_clipping}},
    {"gradient_average",
     "who divides gradients by the number of replicas: the reduction (Megatron's "
     "average_in_collective), a kernel before it, a kernel even for one replica, or as the "
     "framework does",
     word_of<T, &T::gradient_average, kAverage>()},
    {"gradient_check",
     "gradients are read for NaN before they are reduced (Megatron's check_for_nan_in_grad)",
     word_of<T, &T::gradient_check, kCheck>()},
};

using E = ExpertSettings;
const Field<E> kExperts[] = {
    {"routing", "how tokens fall on the experts", word_of<E, &E::routing, kRouting>()},
    {"zipf_exponent", "zipf: expert of rank i gets a share of i to the power of minus this",
     Real<E>{&E::zipf_exponent, 0.0, 10.0}},
    {"dirichlet_alpha", "dirichlet: smaller is more uneven",
     Real<E>{&E::dirichlet_alpha, 0.01, 1e6}},
    {"counts", "recorded: a file with the tokens of each expert, layer by layer",
     Text<E>{&E::counts}},
    {"independent_replicas", "replicas of the experts have different loads",
     Flag<E>{&E::independent_replicas}},
    {"capacity_factor", "rows an expert takes of a rank at most, over the even number; 0: all",
     Real<E>{&E::capacity_factor, 0.0, 1e3}},
    {"pad_to_capacity", "every expert gets as many rows as it takes at most",
     Flag<E>{&E::pad_to_capacity}},
    {"dispatcher", "how rows reach their experts", word_of<E, &E::dispatcher, kDispatcher>()},
    {"dispatch_precision", "of the rows on their way to the experts",
     word_of<E, &E::dispatch_precision, kDispatchPrecision>()},
    {"products",
     "the matrix products of a rank's experts: issued one by one, in one launch, or in one with "
     "biases, activation and quantisation inside",
     word_of<E, &E::gemms, kExpertGemms>()},
    {"overlap_shared", "the experts of all tokens compute while the rows travel",
     Flag<E>{&E::overlap_shared}},
    {"overlap_exchanges",
     "a backward and the forward before it run as one block, one forward further ahead: the rows "
     "of "
     "either travel under the other's computation",
     Flag<E>{&E::overlap_dispatch}},
};

using V = ParameterServers;
const Field<V> kServers[] = {
    {"servers", "of them; each holds an equal part of the parameters and their state",
     Whole<V>{&V::servers, 1, 250, true}},
    {"dedicated", "they have GPUs of their own, behind the workers'; else the workers' first ones",
     Flag<V>{&V::dedicated}},
    {"staleness", "steps that a worker may be ahead of the slowest; 0 is the synchronous form",
     Whole<V>{&V::staleness, 0}},
    {"asynchronous", "workers run ahead without a bound", Flag<V>{&V::asynchronous}},
    {"steps", "played one after the other; figures are means over them",
     Whole<V>{&V::steps, 1, 1000}},
};

using O = OffloadSettings;
const Field<O> kOffload[] = {
    {"activations", "the share of what a layer keeps for its backward that goes to the host",
     Real<O>{&O::activations, 0.0, 1.0}},
    {"activation_layers", "of the first so many layers of a chunk; 0: of all",
     Whole<O>{&O::activation_layers, 0}},
    {"optimizer", "its state stands on the host, updated by the CPU, or fetched for the GPU",
     word_of<O, &O::optimizer, kOffloadedOptimizer>()},
    {"weights",
     "the layers' weights stand on the host and are fetched for every use; zero_stage 3: all "
     "shards, fetched before they are gathered",
     Flag<O>{&O::weights}},
};

using D = Documents;
const Field<D> kDocuments[] = {
    {"kind", "how documents are packed into sequences", word_of<D, &D::kind, kDocumentKind>()},
    {"lengths", "list: of the documents of every sequence; they add up to sequence_length",
     Wholes<D>{&D::lengths, 1, kLengthMost}},
    {"mean_length", "lognormal: of a document, in tokens",
     Whole<D>{&D::mean_length, 0, kLengthMost}},
    {"sigma", "lognormal: of the logarithm of the length", Real<D>{&D::sigma, 0.0, 10.0}},
    {"independent_replicas", "replicas draw documents of their own",
     Flag<D>{&D::independent_replicas}},
};

using N = nccl::Settings;
const Field<N> kNccl[] = {
    {"version", "the release whose choices are taken, such as 2.27", Text<N>{&N::version}},
    {"algo", "as NCCL_ALGO: Ring,Tree or ^NVLS or allreduce:Tree; empty: all", Text<N>{&N::algo}},
    {"proto", "as NCCL_PROTO: LL,Simple or ^LL128; empty: NCCL's default", Text<N>{&N::proto}},
    {"min_channels", "as NCCL_MIN_NCHANNELS",
     OptionalWhole<N>{&N::min_channels, 1, nccl::kChannelsMost}},
    {"max_channels", "as NCCL_MAX_NCHANNELS",
     OptionalWhole<N>{&N::max_channels, 1, nccl::kChannelsMost}},
};

const Field<Published> kPublished[] = {
    {"source", "where the figures are printed", Text<Published>{&Published::source, true}},
    {"step_time", "of one optimizer step", OptionalTime<Published>{&Published::step_time}},
    {"tokens_per_s_per_gpu", "training tokens",
     OptionalNumber<Published>{&Published::tokens_per_s_per_gpu}},
    {"model_flops_per_gpu", "without recomputation",
     OptionalFlopsRate<Published>{&Published::model_flops_per_gpu}},
    {"hardware_flops_per_gpu", "with recomputation",
     OptionalFlopsRate<Published>{&Published::hardware_flops_per_gpu}},
    {"mfu", "model FLOP/s over the peak, 0 to 1",
     OptionalNumber<Published>{&Published::mfu, 0.0, 1.0}},
    {"note", "what to know when comparing", Text<Published>{&Published::note}},
};

using S = Scenario;
const Field<S> kHeading[] = {
    {"description", "what the scenario is, in a sentence", Text<S>{&S::description}},
    {"source", "where its settings come from", Text<S>{&S::source}},
    {"assumptions", "what the source does not say and this file supposes",
     Texts<S>{&S::assumptions}},
};
const Field<S> kRun[] = {
    {"framework",
     "the software around the model, and its release: memory, kernels and practices "
     "(models/frameworks)",
     name_of<S, &S::framework, framework_names>()},
    {"defaults",
     "what fields have that are left out: what runs of the framework have, or the ideal (a host "
     "that issues in no time, replicas that keep pace)",
     word_of<S, &S::defaults, kDefaults>()},
    {"host", "how the CPU issues kernels: a name of `trainyard list hosts`, a file, or none",
     Text<S>{&S::host}},
    {"engine", "what prices communication", name_of<S, &S::engine, engine_names>()},
    {"collective_model", "collectives as flows, or message by message",
     word_of<S, &S::collective_model, kCollectiveModels>()},
    {"interference", "communication takes SMs from the computation beside it",
     Flag<S>{&S::interference}},
    {"stragglers", "replicas wait for the last of them, which is the later the more there are",
     Flag<S>{&S::stragglers}},
    {"flops_convention", "how attention counts in MFU: its causal half, or the full square",
     word_of<S, &S::flops_convention, kConvention>()},
    {"seed", "of the random choices of the run", Seed<S>{&S::seed}},
};

constexpr std::array kGroupKinds = {GroupKind::Tensor, GroupKind::Pipeline, GroupKind::Data,
                                    GroupKind::Expert, GroupKind::Context,  GroupKind::Other};

}  // namespace

std::span<const Field<Training>> training_fields() { return kTraining; }
std::span<const Field<ExpertSettings>> expert_fields() { return kExperts; }
std::span<const Field<ParameterServers>> server_fields() { return kServers; }
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
bool offloads(const TrainingPlan& plan) { return plan.offload.any(); }
bool packs_documents(const TrainingPlan& plan) { return plan.documents.kind != DocumentKind::None; }

template <auto member>
using Part = std::remove_cvref_t<decltype(std::declval<TrainingPlan>().*member)>;

// Makes the section of that member of a plan.
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
    section_of<&Plan::parallelism, parallelism_fields>("parallelism",
                                                       "how the model is spread over GPUs", always),
    section_of<&Plan::training, training_fields>("training", "one optimizer step", always),
    section_of<&Plan::experts, expert_fields>("experts", "how a mixture of experts is run",
                                              has_experts),
    section_of<&Plan::servers, server_fields>(
        "parameter_servers", "replicas that meet in servers instead of reducing among each other",
        has_servers),
    section_of<&Plan::offload, offload_fields>("offload", "what stands in the memory of the CPUs",
                                               offloads),
    section_of<&Plan::documents, document_fields>("documents", "documents packed into sequences",
                                                  packs_documents),
};

}  // namespace

std::span<const Section> sections() { return kSections; }

}  // namespace trainyard
