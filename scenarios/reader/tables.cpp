#include "scenarios/reader/tables.hpp"

#include <algorithm>
#include <array>

#include "models/recompute.hpp"
#include "models/trained_weights.hpp"
#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/words.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/engine/engine.hpp"
#include "sim/nccl/transport.hpp"

namespace trainyard {

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
constexpr Words<ExpertProducts, 3> kExpertProducts{{{ExpertProducts::PerExpert, "per_expert"},
                                                    {ExpertProducts::OneLaunch, "one_launch"},
                                                    {ExpertProducts::Fused, "fused"}}};
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
         "there is no module \"{}\" to compute again")},
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
     word_of<E, &E::products, kExpertProducts>()},
    {"overlap_shared", "the experts of all tokens compute while the rows travel",
     Flag<E>{&E::overlap_shared}},
    {"overlap_exchanges",
     "a backward and the forward before it run as one block, one forward further ahead: the rows "
     "of "
     "either travel under the other's computation",
     Flag<E>{&E::overlap_exchanges}},
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

}  // namespace trainyard
