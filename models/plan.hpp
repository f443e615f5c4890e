// How a model is trained: parallelism, batch, precision, recomputation, communication choices,
// experts, what stands in the memory of the CPU, documents.
//
// Plain values. The scenario reader (scenarios/) fills them and has checked them; lower.hpp turns
// them into a Workload. Names are those of the scenario file (README of scenarios/).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/architecture/recipe.hpp"
#include "models/framework.hpp"
#include "sim/base/units.hpp"
#include "sim/nccl/options.hpp"
#include "sim/workload/kernel.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Whether unsharded weights (ZeRO-3) are given back after a forward. Auto: yes but for what stands
// before and after the layers, which the backward needs first; not in a pipeline, where every
// microbatch would gather them again.
enum class Reshard : std::uint8_t { Auto, Always, Never };

// By whose rules gradients are put into buckets: tensors up to 1 MiB and then 25 MiB (PyTorch's
// DistributedDataParallel), or parameters of a contiguous buffer (Megatron-LM).
enum class BucketRule : std::uint8_t { Megatron, Pytorch };

// How replicas come by the weights that others have updated (ZeRO 1 and 2): gathered bucket by
// bucket, or sent from one owner after another to all, as InternEvo and early ZeRO do.
enum class WeightExchange : std::uint8_t { AllGather, Broadcast };

// How the ranks that share a sequence come by the keys and values of the others (Megatron's
// cp_comm_type): passed round a ring while each attends to what it holds (p2p), gathered whole,
// heads traded for positions (a2a, Ulysses), or heads within small groups and a ring between them.
enum class ContextExchange : std::uint8_t { Ring, AllGather, AllToAll, Hierarchical };

// Which positions a rank holds: of 2c chunks one from each end, so that all have equal causal work,
// or one piece.
enum class ContextSplit : std::uint8_t { Zigzag, Contiguous };

// Where the operators of a model split by hand stand (operator_devices.hpp).
struct OperatorRule {
  std::string operators = {};  // "mlp_block 0-11"
  std::int64_t device = 0;     // of the replica's

  bool operator==(const OperatorRule&) const = default;
};

struct Parallelism {
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t pipeline = 1;
  std::int64_t interleave = 1;  // model chunks per pipeline rank
  std::int64_t data = 1;
  std::int64_t context = 1;
  ContextExchange context_exchange = ContextExchange::Ring;
  ContextSplit context_split = ContextSplit::Zigzag;
  std::int64_t context_all_to_all = 0;  // hierarchical: ranks that trade heads, the fastest ones
  // The experts' own division of the ranks of one stage (tensor * context * data of them):
  // expert_tensor ranks share an expert, `expert` groups of them share the experts, and the rest
  // are replicas. expert_tensor 0: as many as tensor (Megatron's default).
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 0;
  std::string schedule = "1f1b";  // a name of the schedule registry, or a file ending in .json
  std::int64_t microbatch_group_size = 0;  // interleaved: G; 0 means the number of stages
  std::int64_t zero_stage = 0;             // shards optimizer state (1), gradients (2), weights (3)
  // Replicas that share one sharded copy; the copies reduce among each other (HSDP, or with
  // zero_stage 1 Megatron's num_distributed_optimizer_instances). 0: all replicas share one.
  std::int64_t shard = 0;
  Reshard reshard_after_forward = Reshard::Auto;  // zero_stage 3
  std::int64_t reshard_group = 0;     // zero_stage 3: between forward and backward weights stay
                                      // sharded over so many ranks (ZeRO++ hpZ); 0: over all
  std::int64_t forward_prefetch = 0;  // zero_stage 3: layers gathered ahead before a forward
  bool backward_prefetch = true;      // zero_stage 3: the next layer's weights during a backward
  // zero_stage 2 and 3: no gradient is kept whole from one microbatch to the next.
  bool reduce_every_microbatch = true;
  // zero_stage 2: buckets that exist at once; computation waits for a reduction before it fills one
  // more. 0: as many as the framework has.
  std::int64_t gradient_buckets_in_flight = 0;
  BucketRule gradient_buckets = BucketRule::Megatron;
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;                            // zero_stage 1
  WeightExchange weight_exchange = WeightExchange::AllGather;  // zero_stage 1 and 2
  std::int64_t bucket_parameters = 0;                   // 0: Megatron's rule max(40e6, 1e6*data)
  std::optional<std::int64_t> first_stage_layers = {};  // uneven splits, per pipeline *rank*
  std::optional<std::int64_t> last_stage_layers = {};
  std::vector<std::int64_t> layers_per_stage = {};  // of every virtual stage; empty: by the above
  std::vector<OperatorRule> operator_devices = {};  // operator by operator; then `pipeline` devices
  bool embedding_in_split = false;  // the embedding counts as one layer of the split
  bool loss_in_split = false;
  bool scatter_gather = true;  // p2p without sequence parallelism sends 1/t per rank, then gathers
  bool overlap_p2p = true;     // sends and receives on their own stream
  // A column-parallel layer's input gradient is reduced while its weight gradient is computed.
  bool overlap_tensor = true;
  // The gathers and reductions of sequence parallelism run in t pieces beside the pieces of the
  // product they feed or follow (Megatron's tp_comm_overlap, PyTorch's asynchronous TP).
  bool chunked_tensor = false;
  // Leftmost varies fastest. "tp-cp-ep-dp-pp" is Megatron's default.
  std::string rank_order = "tp-cp-ep-dp-pp";
  std::vector<std::int64_t> placement = {};  // the GPU of every rank; empty: rank r on GPU r

  // Replicas that share one sharded copy. REQUIRES: it divides `data` (checked by the reader).
  [[nodiscard]] std::int64_t shard_size() const { return shard > 0 ? shard : data; }
  // Ranks that hold the same weights and see other tokens: gradients are summed over them.
  [[nodiscard]] std::int64_t replicas() const { return data * context; }
  [[nodiscard]] std::int64_t expert_tensor_size() const {
    return expert_tensor > 0 ? expert_tensor : tensor;
  }
  // Sharded copies of the model. REQUIRES: as shard_size.
  [[nodiscard]] std::int64_t copies() const { return data / shard_size(); }
  // Replicas of an expert. REQUIRES: the ranks divide (checked by the reader).
  [[nodiscard]] std::int64_t expert_replicas() const {
    return tensor * context * data / (expert_tensor_size() * expert);
  }
  // Replicas of an expert among the ranks of `reshard_group` replicas of the model. REQUIRES: as
  // above.
  [[nodiscard]] std::int64_t expert_reshard_group() const {
    return tensor * context * reshard_group / (expert_tensor_size() * expert);
  }

  bool operator==(const Parallelism&) const = default;
};

struct Training {
  std::int64_t sequence_length = 0;
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 1;
  DataType precision = DataType::Bf16;           // of weights and activations: bf16, fp16 or fp32
  DataType gradient_precision = DataType::Fp32;  // of accumulation and of the wire
  Recompute recompute = Recompute::None;
  RecomputeModules recompute_modules = {};  // of Selective
  // Full: which layers and how many to a checkpoint (models/recompute.hpp).
  RecomputeMethod recompute_method = RecomputeMethod::Uniform;
  std::int64_t recompute_num_layers = 1;            // of uniform, block and every
  std::optional<double> recompute_fraction = {};    // of "fraction"
  std::vector<std::int64_t> recompute_layers = {};  // of "layers", counted from 0
  std::string recipe = "standard";  // models/recipes: bytes of weights and gradients, products
  std::string optimizer = "adam";   // models/optimizers: bytes of its state, traffic of its step
  // Low-rank adapters on frozen weights (models/trained_weights.hpp); rank 0: every weight is
  // trained.
  std::int64_t lora_rank = 0;
  AdapterTargets lora_targets = {};
  FrozenFormat frozen_weights = FrozenFormat::AsTrained;  // of the layers' matrices, with adapters
  // Layers whose weights are not trained at all (models/trained_weights.hpp).
  std::vector<std::int64_t> frozen_layers = {};
  bool frozen_embedding = false;
  bool frozen_head = false;
  AttentionKind attention = AttentionKind::Flash;
  std::int64_t vocab_multiple = 128;
  // Layers that predict tokens further ahead, one behind the other, with embedding and head of the
  // model (multi-token prediction, DeepSeek-AI 2412.19437 section 2.2).
  std::int64_t mtp_layers = 0;
  // Target and sum of the vocabulary-parallel loss in one all_reduce, its gradient written over the
  // 16-bit logits (Transformer Engine's parallel_cross_entropy).
  bool fused_loss = false;
  // By torch.compile, which fuses what a framework runs as separate kernels.
  bool compiled = false;
  bool gradient_clipping = true;  // the gradient norm is reduced over all ranks
  GradientAverage gradient_average = GradientAverage::Framework;
  GradientCheck gradient_check = GradientCheck::Framework;

  bool operator==(const Training&) const = default;
};

// Which algorithm each collective of each kind of group uses ("nccl", "ring", "hierarchical", ...).
// An algorithm by name, and the field of the scenario that chose it, as a JSON pointer.
struct ChosenAlgorithm {
  std::string name = {};
  std::string field = {};
};

// A call, and the field of the scenario that chose its algorithm.
struct ChosenCall {
  Call call = {};
  std::string field = {};
};

struct CollectiveChoice {
  std::map<GroupKind, std::map<CollectiveOp, std::string>> algorithm;
  nccl::Settings nccl = {};  // for what is left to NCCL
  std::string profile = {};  // a file with measured times that stand for NCCL's; empty: none

  [[nodiscard]] std::string of(GroupKind kind, CollectiveOp op) const {
    const auto group = algorithm.find(kind);
    if (group != algorithm.end()) {
      const auto entry = group->second.find(op);
      if (entry != group->second.end()) return entry->second;
    }
    return kStandard;
  }
  [[nodiscard]] ChosenAlgorithm chosen(GroupKind kind, CollectiveOp op) const {
    ChosenAlgorithm chosen{.name = of(kind, op), .field = kNcclField};
    if (chosen.name == kStandard) return chosen;
    chosen.field = "/collectives/";
    chosen.field.append(to_string(kind)).append("/").append(to_string(op));
    return chosen;
  }
  // The operation for groups of the kind, by the algorithm chosen for them.
  [[nodiscard]] ChosenCall call(GroupKind kind, CollectiveOp op, std::int64_t bytes,
                                DataType dtype) const {
    ChosenAlgorithm made = chosen(kind, op);
    return {.call = make_call(op, bytes, dtype, std::move(made.name)),
            .field = std::move(made.field)};
  }
  // Where nobody chose: whatever NCCL chooses for the group and the size.
  static constexpr const char* kStandard = "nccl";
  // Bounds on NCCL's choice hold for every group, so they may leave one nothing to choose.
  static constexpr const char* kNcclField = "/collectives/nccl";

  bool operator==(const CollectiveChoice&) const = default;
};

// ---- experts: who gets which tokens, and how the tokens travel

// How the tokens of a microbatch fall on the experts. Balanced: alike. Zipf: expert of rank i gets
// a share proportional to i^-s, the ranks drawn anew for every layer. Dirichlet: shares drawn for
// every layer and microbatch from a symmetric Dirichlet distribution. Recorded: shares read from a
// file of counts.
enum class RoutingKind : std::uint8_t { Balanced, Zipf, Dirichlet, Recorded };

// How rows reach their experts (Megatron-LM core/transformer/moe/token_dispatcher.py). AllGather:
// every rank gathers all tokens of its expert group and picks. AllToAll: each row goes to the rank
// of its expert. NodeLimited: a token crosses to each node once and is forwarded inside
// (DeepSeek-V3, arXiv 2412.19437 section 3.2.2; DeepEP).
enum class Dispatcher : std::uint8_t { AllToAll, AllGather, NodeLimited };

// How the products of a rank's experts are issued. PerExpert: one after another, as Transformer
// Engine's GroupedLinear has cuBLAS do it. OneLaunch: a kernel for all of them (CUTLASS,
// torch._grouped_mm, DeepGEMM). Fused: that kernel also adds the biases, cuts off, activates and
// quantises what the next product reads (cuDNN's grouped kernels behind Transformer Engine's op
// fuser, 2026); priced as the single products, at what the profile says of those.
enum class ExpertGemms : std::uint8_t { PerExpert, OneLaunch, Fused };

// The operation by which ranks learn how many rows of each expert come to them. The host reads the
// counts, to size what follows.
inline constexpr std::string_view kExpertCountsOperation = "expert_counts_all_gather";

struct ExpertSettings {
  RoutingKind routing = RoutingKind::Balanced;
  double zipf_exponent = 1.0;    // s; 0 is balanced
  double dirichlet_alpha = 1.0;  // smaller is more uneven
  std::string counts = {};       // a file (read_expert_counts), for Recorded
  // Replicas of the experts draw their own shares; otherwise all see the same ones.
  bool independent_replicas = false;
  // Rows an expert takes at most of one rank's microbatch, over the balanced number; 0: all there
  // are (dropless).
  double capacity_factor = 0.0;
  bool pad_to_capacity = false;  // every expert gets that many, filled with zeros
  Dispatcher dispatcher = Dispatcher::AllToAll;
  DataType dispatch_precision = DataType::Bf16;  // fp8: one byte, and 4 of scale for 128 numbers
  ExpertGemms gemms = ExpertGemms::PerExpert;
  bool overlap_shared = false;  // the shared experts compute while the rows travel
  // Every rank runs one forward further ahead, and each backward as one block with the forward
  // before it, so that the rows of one travel under the computation of the other (Megatron-LM's
  // overlap_moe_expert_parallel_comm; DualPipe does so by itself).
  bool overlap_dispatch = false;

  bool operator==(const ExpertSettings&) const = default;
};

// ---- the memory of the CPU beside each GPU
//
// Activations of some layers go there after their forward and come back before their backward. The
// optimizer's state stays there and is updated by the CPU (ZeRO-Offload, Ren et al. 2101.06840), or
// it is fetched, updated by the GPU and stored again. The layers' weights are fetched for every
// use. All of it travels over the links between GPU and CPU, beside whatever else uses them
// (lower/offload.hpp).

// Where the optimizer's state is, and who updates the weights.
enum class OffloadedOptimizer : std::uint8_t { None, Cpu, Fetch };

struct OffloadSettings {
  double activations = 0.0;  // the share of what a layer keeps that goes to the host, 0 to 1
  std::int64_t activation_layers = 0;  // of the first so many layers of a chunk; 0: of all
  OffloadedOptimizer optimizer = OffloadedOptimizer::None;
  // Weights of the layers; embedding and head stay. With zero_stage 3 the shards of all.
  bool weights = false;
  [[nodiscard]] bool any() const {
    return activations > 0.0 || optimizer != OffloadedOptimizer::None || weights;
  }

  bool operator==(const OffloadSettings&) const = default;
};

// A GPU can use an equal part of its node's CPUs. Zero where the node's data do not say.
struct HostShare {
  Bytes memory = {};
  BytesPerSecond bandwidth = {};  // of that memory, as sold

  bool operator==(const HostShare&) const = default;
};

// How fast a CPU's Adam walks through its state: this share of the bandwidth of its memory, counted
// with the bytes of optimizer_step_bytes (architecture/memory.hpp). Ren et al. 2101.06840, table 4,
// measure 1, 2, 4, 8 and 10 billion parameters in 0.22, 0.51, 1.03, 2.41 and 2.57 s on two Xeon
// Platinum 8168: the median rate is 3.89e9 parameters a second, at 30 bytes 117 GB/s of the 2 x 128
// GB/s of six channels of DDR4-2666 each, 0.456.
inline constexpr double kCpuOptimizerShare = 0.456;

// ---- documents packed into sequences (attention_pairs.hpp)

// None: a sequence is one document. List: every sequence is packed as listed. Lognormal: lengths
// are drawn, with the mean given, until a sequence is full; the last one is cut.
enum class DocumentKind : std::uint8_t { None, List, Lognormal };

struct Documents {
  DocumentKind kind = DocumentKind::None;
  std::vector<std::int64_t> lengths = {};  // List: they add up to the sequence
  std::int64_t mean_length = 0;            // Lognormal
  double sigma = 1.0;                      // Lognormal: of the logarithm of the length
  // Replicas draw documents of their own; otherwise all see the same ones.
  bool independent_replicas = true;

  [[nodiscard]] bool drawn() const { return kind == DocumentKind::Lognormal; }

  bool operator==(const Documents&) const = default;
};

// ---- the plan

// Replicas that meet in parameter servers alone (lower/data_parallel/server_steps.cpp).
struct ParameterServers {
  std::int64_t servers = 0;    // 0: replicas reduce among each other
  bool dedicated = false;      // on GPUs of their own, behind the workers'; else on the first ones
  std::int64_t staleness = 0;  // steps a worker may be ahead of the slowest
  bool asynchronous = false;   // without that bound
  std::int64_t steps = 1;      // played one after the other; in the mean, where workers run ahead
  // Steps of each worker, where workers run ahead at different speeds
  // (scenarios/simulate/own_pace.hpp); empty: `steps` each.
  std::vector<std::uint32_t> steps_of_worker = {};

  // A worker does not wait for all others in every step.
  [[nodiscard]] bool run_ahead() const { return servers > 0 && (asynchronous || staleness > 0); }

  bool operator==(const ParameterServers&) const = default;
};

struct TrainingPlan {
  Architecture architecture;
  Parallelism parallelism;
  Training training;
  CollectiveChoice collectives;
  ExpertSettings experts = {};
  ParameterServers servers = {};
  OffloadSettings offload = {};
  HostShare host = {};  // zero until loaded
  Documents documents = {};
  std::uint64_t seed = 0;                  // of the routing
  FrameworkMemory framework;               // zero until loaded
  GradientPasses gradient_passes;          // of the framework; none until loaded
  ElementwiseKernels elementwise_kernels;  // of the framework; fused until loaded
  Recipe recipe;                           // follows from `training` until loaded
  Optimizer optimizer;                     // Adam until loaded

  [[nodiscard]] std::int64_t world() const {
    return parallelism.tensor * parallelism.context * parallelism.pipeline * parallelism.data +
           (servers.dedicated ? servers.servers : 0);
  }
  // Microbatches of one replica in one step. REQUIRES: the batch divides (checked by the reader).
  [[nodiscard]] std::int64_t microbatches() const {
    return training.global_batch_size / (training.micro_batch_size * parallelism.data);
  }
  [[nodiscard]] std::int64_t vocab() const {
    return padded_vocab(architecture.vocab, parallelism.tensor, training.vocab_multiple);
  }

  bool operator==(const TrainingPlan&) const = default;
};

}  // namespace trainyard
