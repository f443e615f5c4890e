// The training plan: parallelism, batch, precision, recomputation, communication choices, experts,
// offloading to CPU memory, documents.
//
// All types are plain values. The scenario reader (scenarios/) fills them and checks them;
// lower.hpp turns them into a Workload. Names are those of the scenario file (README of
// scenarios/).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/architecture/recipe.hpp"
#include "models/document_lengths.hpp"
#include "models/framework.hpp"
#include "sim/base/units.hpp"
#include "sim/nccl/options.hpp"
#include "sim/workload/kernel.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// Whether unsharded weights (ZeRO-3) are freed after a forward. Auto frees them, except the weights
// before and after the layers, because the backward needs those first. Auto does not free weights
// in a pipeline, where every microbatch would gather them once more.
enum class Reshard : std::uint8_t { Auto, Always, Never };

// The rule that puts gradients into buckets. Pytorch: tensors up to 1 MiB in the first bucket, then
// 25 MiB (PyTorch's DistributedDataParallel). Megatron: parameters of a contiguous buffer
// (Megatron-LM).
enum class BucketRule : std::uint8_t { Megatron, Pytorch };

// How layers are divided over stages and microbatches over replicas, where the plan does not say.
// Equal: evenly. Auto: by the speed and memory of their GPUs (scenarios/simulate/balance.hpp).
enum class Balance : std::uint8_t { Equal, Auto };

// How replicas receive the weights that other replicas have updated (ZeRO 1 and 2). AllGather:
// bucket by bucket. Broadcast: each owner in sequence sends to all, as InternEvo and early ZeRO do.
enum class WeightExchange : std::uint8_t { AllGather, Broadcast };

// How the ranks that share a sequence obtain the keys and values of the others (Megatron's
// cp_comm_type). Ring: keys and values move round a ring while each rank attends to those it holds
// (p2p). AllGather: each rank gathers them completely. AllToAll: ranks trade heads for positions
// (a2a, Ulysses). Hierarchical: AllToAll within small groups and Ring between them.
enum class ContextExchange : std::uint8_t { Ring, AllGather, AllToAll, Hierarchical };

// The positions that a rank holds. Zigzag: of 2c chunks, one from each side of the sequence, so
// that all ranks have equal causal work. Contiguous: one piece.
enum class ContextSplit : std::uint8_t { Zigzag, Contiguous };

// Device of some operators of a model that the user splits by hand (operator_devices.hpp).
struct OperatorRule {
  std::string operators = {};  // "mlp_block 0-11"
  std::int64_t device = 0;     // index among the devices of the replica

  bool operator==(const OperatorRule&) const = default;
};

struct Parallelism {
  std::int64_t tensor = 1;
  // Number of tensor ranks of every pipeline rank, for stages on unequal GPUs; `tensor` is then the
  // largest. Empty: every stage has `tensor` of them.
  std::vector<std::int64_t> tensor_per_stage = {};
  bool sequence_parallel = false;
  std::int64_t pipeline = 1;
  std::int64_t interleave = 1;  // model chunks per pipeline rank
  std::int64_t data = 1;
  std::int64_t context = 1;
  ContextExchange context_exchange = ContextExchange::Ring;
  ContextSplit context_split = ContextSplit::Zigzag;
  // Hierarchical: number of consecutive context ranks that trade heads.
  std::int64_t context_all_to_all = 0;
  // The division of the ranks of one stage (tensor * context * data of them) among experts.
  // `expert_tensor` ranks share an expert, `expert` such groups share all experts, and the
  // remaining factor is replicas. expert_tensor 0: same as `tensor` (Megatron's default).
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 0;
  std::string schedule = "1f1b";  // a name of the schedule registry, or a file ending in .json
  std::int64_t microbatch_group_size = 0;  // interleaved: G; 0 means the number of stages
  std::int64_t zero_stage = 0;             // shards optimizer state (1), gradients (2), weights (3)
  // Number of replicas that share one sharded copy. The copies reduce gradients among each other
  // (HSDP, or with zero_stage 1 Megatron's num_distributed_optimizer_instances). 0: all replicas
  // share one copy.
  std::int64_t shard = 0;
  Reshard reshard_after_forward = Reshard::Auto;  // zero_stage 3
  // zero_stage 3: between forward and backward, weights stay sharded over this number of ranks
  // (ZeRO++ hpZ). 0: over all ranks.
  std::int64_t reshard_group = 0;
  // zero_stage 3: number of layers gathered ahead before a forward.
  std::int64_t forward_prefetch = 0;
  // zero_stage 3: gathers the next layer's weights during a backward.
  bool backward_prefetch = true;
  // zero_stage 2 and 3: no rank holds complete gradients from one microbatch to the next.
  bool reduce_every_microbatch = true;
  // zero_stage 2: buckets that exist at one time. Computation waits for a reduction before it fills
  // one more. 0: as many as the framework has.
  std::int64_t gradient_buckets_in_flight = 0;
  BucketRule gradient_buckets = BucketRule::Megatron;
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;                            // zero_stage 1
  WeightExchange weight_exchange = WeightExchange::AllGather;  // zero_stage 1 and 2
  std::int64_t bucket_parameters = 0;                   // 0: Megatron's rule max(40e6, 1e6*data)
  std::optional<std::int64_t> first_stage_layers = {};  // uneven splits, per pipeline *rank*
  std::optional<std::int64_t> last_stage_layers = {};
  // Number of layers of every virtual stage; empty: by the fields above.
  std::vector<std::int64_t> layers_per_stage = {};
  // Number of microbatches of every replica, by data rank; empty: all have equally many.
  std::vector<std::int64_t> replica_microbatches = {};
  Balance balance = Balance::Equal;
  // Splits the model by operator, over `pipeline` devices.
  std::vector<OperatorRule> operator_devices = {};
  bool embedding_in_split = false;  // the embedding counts as one layer of the split
  bool loss_in_split = false;
  // Without sequence parallelism, a p2p message is sent as 1/t per tensor rank and then gathered.
  bool scatter_gather = true;
  bool overlap_p2p = true;  // sends and receives run on a separate stream
  // The input gradient of a column-parallel layer is reduced while its weight gradient is computed.
  bool overlap_tensor = true;
  // The gathers and reductions of sequence parallelism run in t pieces, concurrently with the
  // pieces of the GEMM that they feed or follow (Megatron's tp_comm_overlap, PyTorch's asynchronous
  // TP).
  bool chunked_tensor = false;
  // The leftmost dimension varies fastest. "tp-cp-ep-dp-pp" is Megatron's default.
  std::string rank_order = "tp-cp-ep-dp-pp";
  std::vector<std::int64_t> placement = {};  // the GPU of every rank; empty: rank r on GPU r
  // Kinds of nodes in the order in which ranks fill them. The reader replaces it by `placement`.
  std::vector<std::string> node_order = {};

  // Number of tensor ranks of a pipeline rank.
  [[nodiscard]] std::int64_t tensor_of(std::int64_t stage) const {
    return tensor_per_stage.empty() ? tensor : tensor_per_stage.at(static_cast<std::size_t>(stage));
  }
  // Largest number of tensor ranks of a stage.
  [[nodiscard]] std::int64_t most_tensor() const {
    return tensor_per_stage.empty() ? tensor : std::ranges::max(tensor_per_stage);
  }
  // Number of ranks of one replica, its context ranks included.
  [[nodiscard]] std::int64_t ranks_of_replica() const {
    if (tensor_per_stage.empty()) return tensor * context * pipeline;
    return context *
           std::accumulate(tensor_per_stage.begin(), tensor_per_stage.end(), std::int64_t{0});
  }
  // Number of replicas that share one sharded copy. REQUIRES: it divides `data` (checked by the
  // reader).
  [[nodiscard]] std::int64_t shard_size() const { return shard > 0 ? shard : data; }
  // Number of ranks that hold the same weights and process other tokens. Gradients are summed over
  // them.
  [[nodiscard]] std::int64_t replicas() const { return data * context; }
  [[nodiscard]] std::int64_t expert_tensor_size() const {
    return expert_tensor > 0 ? expert_tensor : tensor;
  }
  // Number of sharded copies of the model. REQUIRES: same as shard_size.
  [[nodiscard]] std::int64_t copies() const { return data / shard_size(); }
  // Number of replicas of an expert. REQUIRES: the ranks divide (checked by the reader).
  [[nodiscard]] std::int64_t expert_replicas() const {
    return tensor * context * data / (expert_tensor_size() * expert);
  }
  // Number of replicas over which weights stay sharded between forward and backward. 0: over all
  // ranks that share them, also where `reshard_group` is all of these ranks (PyTorch
  // _fully_shard/_fsdp_init.py, _get_post_forward_mesh_info).
  [[nodiscard]] std::int64_t reshard_size() const {
    return context == 1 && reshard_group == shard_size() ? 0 : reshard_group;
  }
  // The same in replicas of an expert, which context ranks are part of. REQUIRES: same as
  // expert_replicas.
  [[nodiscard]] std::int64_t expert_reshard_size() const {
    if (reshard_group == shard_size()) return 0;
    return tensor * context * reshard_group / (expert_tensor_size() * expert);
  }

  bool operator==(const Parallelism&) const = default;
};

struct Training {
  std::int64_t sequence_length = 0;
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 1;
  DataType precision = DataType::Bf16;  // of weights and activations: bf16, fp16 or fp32
  // Type in which gradients are accumulated and sent.
  DataType gradient_precision = DataType::Fp32;
  Recompute recompute = Recompute::None;
  RecomputeModules recompute_modules = {};  // of Selective
  // Full: which layers are recomputed, and how many share a checkpoint (models/recompute.hpp).
  RecomputeMethod recompute_method = RecomputeMethod::Uniform;
  std::int64_t recompute_num_layers = 1;            // for uniform, block and every
  std::optional<double> recompute_fraction = {};    // for "fraction"
  std::vector<std::int64_t> recompute_layers = {};  // for "layers", counted from 0
  // models/recipes: bytes of weights and gradients, GEMM precisions.
  std::string recipe = "standard";
  Fp8Scaling fp8_scaling = Fp8Scaling::Delayed;  // of recipes with tensor_scales
  // models/optimizers: bytes of its state, memory traffic of its step.
  std::string optimizer = "adam";
  // Low-rank adapters on frozen weights (models/trained_weights.hpp). Rank 0: every weight is
  // trained.
  std::int64_t lora_rank = 0;
  AdapterTargets lora_targets = {};
  FrozenFormat frozen_weights = FrozenFormat::AsTrained;  // of the layers' matrices, with adapters
  // Layers whose weights are not trained (models/trained_weights.hpp).
  std::vector<std::int64_t> frozen_layers = {};
  bool frozen_embedding = false;
  bool frozen_head = false;
  AttentionKind attention = AttentionKind::Flash;
  std::int64_t vocab_multiple = 128;
  // MTP layers, which predict tokens further ahead. Each follows the one before, and they use the
  // embedding and the head of the model (multi-token prediction, DeepSeek-AI 2412.19437 section
  // 2.2).
  std::int64_t mtp_layers = 0;
  // The vocabulary-parallel loss reduces target and sum in one all_reduce, and its gradient
  // overwrites the 16-bit logits (Transformer Engine's parallel_cross_entropy).
  bool fused_loss = false;
  // torch.compile fuses kernels that the framework would run separately.
  bool compiled = false;
  bool gradient_clipping = true;  // the gradient norm is reduced over all ranks
  GradientAverage gradient_average = GradientAverage::Framework;
  GradientCheck gradient_check = GradientCheck::Framework;

  bool operator==(const Training&) const = default;
};

// The name of an algorithm, and the field of the scenario that chose it, as a JSON pointer.
struct ChosenAlgorithm {
  std::string name = {};
  std::string field = {};
};

// A call, and the field of the scenario that chose its algorithm.
struct ChosenCall {
  Call call = {};
  std::string field = {};
};

// The algorithm of each collective of each kind of group ("nccl", "ring", "hierarchical", ...).
struct CollectiveChoice {
  std::map<GroupKind, std::map<CollectiveOp, std::string>> algorithm;
  nccl::Settings nccl = {};  // for calls that are left to NCCL
  // A file with measured times that replace NCCL's modelled times; empty: none.
  std::string profile = {};

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
  // The call for groups of this kind, with the algorithm chosen for them.
  [[nodiscard]] ChosenCall call(GroupKind kind, CollectiveOp op, std::int64_t bytes,
                                DataType dtype) const {
    ChosenAlgorithm made = chosen(kind, op);
    return {.call = make_call(op, bytes, dtype, std::move(made.name)),
            .field = std::move(made.field)};
  }
  // Default where the scenario names no algorithm: NCCL's choice for the group and the size.
  static constexpr const char* kStandard = "nccl";
  // Restrictions on NCCL's choice apply to every group, so they may leave no choice for one of
  // them.
  static constexpr const char* kNcclField = "/collectives/nccl";

  bool operator==(const CollectiveChoice&) const = default;
};

// ---- experts: which expert gets which tokens, and how the tokens travel

// Distribution of the tokens of a microbatch over the experts. Balanced: equal shares. Zipf: the
// expert of rank i gets a share proportional to i^-s; the ranks are drawn for every layer.
// Dirichlet: shares are drawn for every layer and microbatch from a symmetric Dirichlet
// distribution. Recorded: shares are read from a file of counts.
enum class RoutingKind : std::uint8_t { Balanced, Zipf, Dirichlet, Recorded };

// How routed tokens reach their experts (Megatron-LM core/transformer/moe/token_dispatcher.py).
// AllGather: every rank gathers all tokens of its expert group and selects its own. AllToAll: each
// routed token is sent to the rank of its expert. NodeLimited: a token crosses to each node once
// and is forwarded inside the node (DeepSeek-V3, arXiv 2412.19437 section 3.2.2; DeepEP). HybridEp:
// the same at the pace of NVIDIA's HybridEP, whose nodes are NVLink domains.
enum class Dispatcher : std::uint8_t { AllToAll, AllGather, NodeLimited, HybridEp };

// True for dispatchers that send a token once to each rank that has experts of it, where it is
// copied for each of them.
[[nodiscard]] constexpr bool sends_tokens_once(Dispatcher dispatcher) {
  return dispatcher == Dispatcher::NodeLimited || dispatcher == Dispatcher::HybridEp;
}

// How the GEMMs of a rank's experts are launched. PerExpert: one after another, as Transformer
// Engine's GroupedLinear does with cuBLAS. Grouped: one kernel for all of them (CUTLASS,
// torch._grouped_mm, DeepGEMM). Fused: that kernel also adds the biases, clamps, activates and
// quantises the input of the next GEMM (cuDNN's grouped kernels behind Transformer Engine's op
// fuser, 2026). Fused is priced as single GEMMs, from the profile's entries for those.
enum class ExpertGemms : std::uint8_t { PerExpert, Grouped, Fused };

// Name of the operation that informs ranks how many routed tokens of each expert they receive. The
// host reads the counts to size the kernels that follow.
inline constexpr std::string_view kExpertCountsOperation = "expert_counts_all_gather";

struct ExpertSettings {
  RoutingKind routing = RoutingKind::Balanced;
  double zipf_exponent = 1.0;    // s; 0 is balanced
  double dirichlet_alpha = 1.0;  // smaller is more uneven
  std::string counts = {};       // a file for Recorded (read_expert_counts)
  // Replicas of the experts draw separate shares. Otherwise all of them see the same shares.
  bool independent_replicas = false;
  // The largest number of routed tokens that an expert takes from one rank's microbatch, as a
  // multiple of the balanced number. 0: no limit (dropless).
  double capacity_factor = 0.0;
  bool pad_to_capacity = false;  // every expert gets exactly the capacity, filled with zeros
  Dispatcher dispatcher = Dispatcher::AllToAll;
  // fp8: one byte per number, and 4 bytes of scale per 128 numbers.
  DataType dispatch_precision = DataType::Bf16;
  ExpertGemms gemms = ExpertGemms::PerExpert;
  bool overlap_shared = false;  // the shared experts compute while routed tokens travel
  // Every rank runs one forward further ahead, and each backward as one block with the forward
  // before it, so that dispatch and combine of one overlap with the computation of the other
  // (Megatron-LM's overlap_moe_expert_parallel_comm). DualPipe does so without this option.
  bool overlap_dispatch = false;

  bool operator==(const ExpertSettings&) const = default;
};

// ---- offloading to CPU memory
//
// Each GPU has a share of the memory of its CPU. Activations of some layers move there after their
// forward and return before their backward. Optimizer state stays there and the CPU updates it
// (ZeRO-Offload, Ren et al. 2101.06840), or the GPU fetches, updates and stores it. Weights of the
// layers are fetched for every use. All of this uses the links between GPU and CPU, together with
// other traffic on them (lower/offload.hpp).

// Location of the optimizer state, and the processor that updates the weights.
enum class OffloadedOptimizer : std::uint8_t { None, Cpu, Fetch };

struct OffloadSettings {
  double activations = 0.0;  // share of a layer's stored activations that moves to the host, 0 to 1
  // Applies to the first layers of a chunk, this many; 0: to all.
  std::int64_t activation_layers = 0;
  OffloadedOptimizer optimizer = OffloadedOptimizer::None;
  // Weights of the layers move to the host; embedding and LM head stay. With zero_stage 3 the
  // shards of all weights move.
  bool weights = false;
  [[nodiscard]] bool any() const {
    return activations > 0.0 || optimizer != OffloadedOptimizer::None || weights;
  }

  bool operator==(const OffloadSettings&) const = default;
};

// A GPU's equal share of its node's CPUs. Zero where the data of the node do not contain it.
struct HostShare {
  Bytes memory = {};
  BytesPerSecond bandwidth = {};  // of that memory, as specified by the vendor

  bool operator==(const HostShare&) const = default;
};

// Speed of a CPU's Adam step, as a share of the bandwidth of CPU memory, counted with the bytes of
// optimizer_step_bytes (architecture/memory.hpp). Ren et al. 2101.06840, table 4, measure 1, 2, 4,
// 8 and 10 billion parameters in 0.22, 0.51, 1.03, 2.41 and 2.57 s on two Xeon Platinum 8168. The
// median rate is 3.89e9 parameters per second. At 30 bytes each that is 117 GB/s of the 2 x 128
// GB/s of six channels of DDR4-2666 per CPU, a share of 0.456.
inline constexpr double kCpuOptimizerShare = 0.456;

// ---- documents packed into sequences (documents.hpp)

// None: a sequence is one document. List: every sequence is packed as listed. Lognormal and Preset:
// lengths are drawn until a sequence is full; the last document is cut.
enum class DocumentKind : std::uint8_t { None, List, Lognormal, Preset };

// How the documents of a step are divided among its microbatches. None: as drawn. Sequences: whole
// sequences are assigned to replicas and microbatches by their work. Documents: each document is,
// and the sequences are packed anew.
enum class DocumentBalance : std::uint8_t { None, Sequences, Documents };

struct Documents {
  DocumentKind kind = DocumentKind::None;
  std::vector<std::int64_t> lengths = {};  // List: their sum is the sequence length
  std::int64_t mean_length = 0;            // Lognormal
  double sigma = 1.0;             // Lognormal: standard deviation of the logarithm of the length
  std::string preset = {};        // Preset: name of the measured distribution
  DocumentLengths measured = {};  // of the preset; empty until loaded
  DocumentBalance balance = DocumentBalance::None;
  // Replicas draw separate documents. Otherwise all of them see the same documents.
  bool independent_replicas = true;

  [[nodiscard]] bool drawn() const {
    return kind == DocumentKind::Lognormal || kind == DocumentKind::Preset;
  }

  bool operator==(const Documents&) const = default;
};

// ---- the plan

// Replicas that synchronise only through parameter servers (lower/data_parallel/server_steps.cpp).
struct ParameterServers {
  std::int64_t servers = 0;  // 0: replicas reduce among each other
  // Servers on separate GPUs, after those of the workers; otherwise on the first GPUs.
  bool dedicated = false;
  std::int64_t staleness = 0;  // steps that a worker may be ahead of the slowest worker
  bool asynchronous = false;   // no bound on that number
  // Number of simulated steps, run in sequence; the mean per worker where workers run ahead.
  std::int64_t steps = 1;
  // Number of steps of each worker, where workers run ahead at different speeds
  // (scenarios/simulate/own_pace.hpp). Empty: `steps` each.
  std::vector<std::uint32_t> steps_of_worker = {};

  // True if a worker does not wait for all others in every step.
  [[nodiscard]] bool run_ahead() const { return servers > 0 && (asynchronous || staleness > 0); }

  bool operator==(const ParameterServers&) const = default;
};

// Workers that each train a copy of the model and exchange it once in several steps (local SGD,
// Stich 1805.09767; DiLoCo, Douillard et al. 2311.08105). The plan describes one worker; the
// others do the same on the GPUs after its own.
struct LocalSteps {
  // Steps before an exchange. 0: there is one worker, which exchanges nothing.
  std::int64_t every = 0;
  std::int64_t workers = 2;
  DataType precision = DataType::Fp32;  // of the differences of weights that are exchanged

  [[nodiscard]] bool used() const { return every > 0; }
  bool operator==(const LocalSteps&) const = default;
};

struct TrainingPlan {
  Architecture architecture;
  Parallelism parallelism;
  Training training;
  CollectiveChoice collectives;
  ExpertSettings experts = {};
  ParameterServers servers = {};
  LocalSteps local_steps = {};
  OffloadSettings offload = {};
  HostShare host = {};  // zero until loaded
  Documents documents = {};
  std::uint64_t seed = 0;                  // of the expert routing
  FrameworkMemory framework;               // zero until loaded
  GradientPasses gradient_passes;          // of the framework; none until loaded
  ElementwiseKernels elementwise_kernels;  // of the framework; fused until loaded
  Recipe recipe;                           // follows from `training` until loaded
  Optimizer optimizer;                     // Adam until loaded

  // Number of workers that train a copy of the model each.
  [[nodiscard]] std::int64_t workers() const {
    return local_steps.used() ? local_steps.workers : 1;
  }
  // Number of ranks of all workers, and of dedicated servers.
  [[nodiscard]] std::int64_t world() const {
    return parallelism.ranks_of_replica() * parallelism.data * workers() +
           (servers.dedicated ? servers.servers : 0);
  }
  // Number of microbatches of one replica in one step; the most of any, where replicas differ.
  // REQUIRES: the batch divides (checked by the reader).
  [[nodiscard]] std::int64_t microbatches() const {
    const std::vector<std::int64_t>& given = parallelism.replica_microbatches;
    if (!given.empty()) return *std::max_element(given.begin(), given.end());
    return training.global_batch_size / (training.micro_batch_size * parallelism.data);
  }
  [[nodiscard]] std::int64_t vocab() const {
    return padded_vocab(architecture.vocab, parallelism.most_tensor(), training.vocab_multiple);
  }

  bool operator==(const TrainingPlan&) const = default;
};

}  // namespace trainyard
