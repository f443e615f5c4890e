// Properties of the training framework: its GPU memory, passes over gradients, elementwise
// operations in one kernel or in several, and kernels that take longer than those of the GPU's
// profile.
//
// Frameworks are data (models/frameworks/*.json). Each figure has its source or the command that
// fitted it. framework_file.hpp describes how such a file is found, and its practices.
//
//    load_framework("megatron").loss_copies;
//    load_elementwise_kernels("pytorch", false).rms_norm.forward.bytes(2);   // 36
//    load_framework_times("composer", "hopper").attention;   // 3.2 times the time of the profile
#pragma once

#include <cstdint>
#include <string>

#include "models/architecture/architecture.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard {

// ---- memory

struct FrameworkMemory {
  std::int64_t context_bytes = 0;    // CUDA context of one process
  std::int64_t workspace_bytes = 0;  // library workspaces
  // NCCL's buffers of one channel to one peer, all protocols. A channel of a ring has two peers.
  std::int64_t channel_bytes = 0;
  // Share that the allocator reserves in addition to the peak, of all memory that is allocated and
  // freed during the step.
  double fragmentation = 0.0;
  // A kernel that adds weight gradients to the accumulated ones gives autograd a placeholder tensor
  // of the weight's shape. One placeholder is kept for every distinct shape, and the LM head has a
  // separate one.
  bool gradient_placeholders = false;
  // Copies of an expert's routed tokens, each tokens x h, that a forward holds in addition to those
  // stored for backward.
  std::int64_t expert_row_copies = 0;
  // zero_stage 2: buckets of gradients that exist at one time, which are the bucket being filled
  // and those being reduced. DeepSpeed, FSDP and Megatron-FSDP have two.
  std::int64_t gradient_buckets_in_flight = 2;
  // fp32 tensors of the logits' size that the loss holds at one time. 1: the gradient overwrites
  // the exponentials, and the 16-bit logits stay. More: the 16-bit logits are freed before the
  // backward.
  std::int64_t loss_copies = 1;

  bool operator==(const FrameworkMemory&) const = default;
};

// By name from models/frameworks. Throws InputError.
[[nodiscard]] FrameworkMemory load_framework(const std::string& name);

// ---- passes over gradients
//
// In addition to the optimizer step, a framework passes over every gradient of a rank. It adds the
// gradients of a microbatch to those before, where the GEMMs do not; it scales them so that their
// sum over replicas is a mean; it looks for NaN before it sends them; it removes the loss scale of
// fp16. Each pass reads (and writes) all gradients once. Passes are visible in short steps: 12
// bytes of each of 5.7 billion fp32 gradients take 10 ms at a B200's 7.1 TB/s.

// The operation that divides by the number of replicas: the reduction itself (ncclAvg), a kernel
// before it, or a kernel even where there is one replica. Framework: the default of the framework.
enum class GradientAverage : std::uint8_t { Framework, Collective, Before, BeforeAlways };

// Whether every gradient is checked for NaN before it is reduced.
enum class GradientCheck : std::uint8_t { Framework, On, Off };

struct GradientPasses {
  GradientAverage average = GradientAverage::Collective;  // never Framework
  GradientCheck check = GradientCheck::Off;               // never Framework
  bool unscale = false;  // fp16: a separate kernel divides by the loss scale before the norm
  // A separate kernel adds the gradients of a microbatch to those of the microbatches before it
  // (autograd's AccumulateGrad); the GEMM that computes them does not.
  bool accumulate = false;

  // These passes, except for settings that the scenario gives itself.
  [[nodiscard]] GradientPasses with(GradientAverage own_average, GradientCheck own_check) const;
  // Bytes of memory traffic for each gradient of `width` bytes before `replicas` ranks reduce it.
  [[nodiscard]] std::int64_t scaling_bytes(std::int64_t replicas, std::int64_t width) const;

  bool operator==(const GradientPasses&) const = default;
};

// By a name of models/frameworks. A file without the section has no such passes. Throws InputError.
[[nodiscard]] GradientPasses load_gradient_passes(const std::string& name);

// ---- elementwise operations of a layer: norms, rotary embeddings, activation functions
//
// Well-fused kernels (Transformer Engine, Apex, flash-attn) read their inputs and write their
// outputs once. PyTorch without torch.compile runs an operation as the separate kernels of its
// Python code, and each of them reads and writes whole tensors. An RMSNorm that casts to fp32,
// squares, averages, multiplies, casts back and multiplies by its gain moves 36 bytes per bf16
// number forward and 92 backward, where one kernel moves 4 and 6. The figures of a framework also
// contain the tensors that autograd stores and the operations that are recomputed.
// `training.compiled` selects between the eager and the compiled figures.

// Number of times that each number is read or written.
struct ElementwisePass {
  std::int64_t narrow = 0;  // in the precision of training
  std::int64_t wide = 0;    // in fp32
  std::int64_t launches = 1;
  // Bytes of memory traffic for one number, which is `element` bytes wide in the precision of
  // training.
  [[nodiscard]] std::int64_t bytes(std::int64_t element) const {
    return narrow * element + wide * 4;
  }
  auto operator<=>(const ElementwisePass&) const = default;
};

// Number of tensors of each width that are stored from forward to backward.
struct KeptTensors {
  std::int64_t narrow = 0;
  std::int64_t wide = 0;
  [[nodiscard]] std::int64_t bytes(std::int64_t element) const {
    return narrow * element + wide * 4;
  }

  bool operator==(const KeptTensors&) const = default;
};

struct ElementwiseOperation {
  ElementwisePass forward;
  ElementwisePass backward;
  KeptTensors kept;

  bool operator==(const ElementwiseOperation&) const = default;
};

// Defaults are fully fused kernels.
struct ElementwiseKernels {
  // For each number that enters the norm. Backward reads the input and the output gradient and
  // writes the input gradient.
  ElementwiseOperation rms_norm = {{.narrow = 2}, {.narrow = 3}, {.narrow = 1}};
  ElementwiseOperation layer_norm = {{.narrow = 2}, {.narrow = 3}, {.narrow = 1}};
  // For each number of queries and keys that is rotated.
  ElementwiseOperation rotary = {{.narrow = 2}, {.narrow = 2}, {}};
  // For each output number. With a gate there are two inputs.
  ElementwiseOperation activation = {{.narrow = 2}, {.narrow = 3}, {.narrow = 2}};
  ElementwiseOperation gated_activation = {{.narrow = 3}, {.narrow = 5}, {.narrow = 3}};
  bool compiled = false;
  // Keys and values are expanded to every query head before attention, and their gradients are
  // summed after it.
  bool repeated_heads = false;
  // Queries, keys, values, gate and up each have a separate GEMM. Their input gradients are summed:
  // two at a time, or all at once where compiled.
  bool separate_gemms = false;
  // Under sequence parallelism, gathered or scattered tensors are copied from or into the order of
  // the ranks, because the sequence is not the first dimension of a tensor.
  bool sequence_copies = false;
  // Under sequence parallelism, the gathered input of a GEMM is stored for its backward and not
  // gathered a second time.
  bool keeps_gathered = false;
  // Full recomputation of a layer stops before its last GEMM, because nothing stores the output of
  // that GEMM.
  bool recompute_stops_early = false;
  // Attention produces separate gradients of queries, keys and values, which are copied into one
  // tensor.
  bool joined_gradients = false;
  // Number of evaluations of an unfused loss, in addition to training's, for printed metrics.
  std::int64_t loss_metrics = 0;

  [[nodiscard]] const ElementwiseOperation& norm(const Architecture& architecture) const {
    return architecture.norm == NormKind::RmsNorm ? rms_norm : layer_norm;
  }
  [[nodiscard]] const ElementwiseOperation& activation_of(const Architecture& architecture) const {
    return architecture.gated_ffn ? gated_activation : activation;
  }

  bool operator==(const ElementwiseKernels&) const = default;
};

// By a name of models/frameworks. Operations that the file does not contain are fused. Throws
// InputError.
[[nodiscard]] ElementwiseKernels load_elementwise_kernels(const std::string& name, bool compiled);

// ---- times of kernels
//
// A profile holds the times of current libraries. A run of 2022 used older ones: FlashAttention 1
// instead of 2 and 3, an older cuBLAS, norms and activations of several kernels. A framework file
// therefore has factors by GPU generation, or for any generation. A kernel without a factor takes
// the time of the profile, and the factor of fp8 GEMMs defaults to that of the others.

// Times of another attention library, divided by those of the profile.
struct AttentionTimes {
  double forward = 1.0;
  double backward = 1.0;
};

struct FrameworkTimes {
  // Factors on the profile's time, by kind of kernel.
  double gemm = 1.0;
  double fp8_gemm = 1.0;
  double grouped_gemm = 1.0;  // launched expert by expert; a single launch takes the profile's time
  double fp8_grouped_gemm = 1.0;
  double attention = 1.0;
  double attention_backward = 1.0;
  double ring_attention = 1.0;  // for the blocks of a context ring
  // Extra time of a block of a context ring, in addition to its kernel and the counted joins (their
  // other passes, conversions, gaps between its two streams), as a number of passes over its
  // queries.
  double ring_passes = 0.0;
  double memory_bound = 1.0;  // also for copies
  // Measured time of a 4-bit GEMM divided by the time that the data sheet derives from an 8-bit
  // GEMM. It includes everything that only 4 bits need (transforms, scales of two levels,
  // stochastic rounding).
  double fp4_gemm = 1.0;
  double four_bit_share = 1.0;  // time of a GEMM over that of an 8-bit one, as set by narrow()
  // SMs that dispatch and combine occupy during the whole step, also while no tokens travel. 0:
  // they occupy SMs only while they run.
  std::int64_t dispatch_sms = 0;

  // as_wide() times narrower().
  [[nodiscard]] double of(const Kernel& kernel) const { return as_wide(kernel) * narrower(kernel); }
  // Time of the framework's kernel over that of the profile, at the width that the kernel names.
  [[nodiscard]] double as_wide(const Kernel& kernel) const;
  // Time of 4-bit GEMMs over that of the 8-bit GEMMs that represent them; 1 for other kernels.
  [[nodiscard]] double narrower(const Kernel& kernel) const;
  // Bytes of the ring_passes, which a memory-bound kernel would read or write; 0 for other kernels.
  // They grow with a block's queries; the time of its kernel grows with queries times keys.
  [[nodiscard]] std::int64_t ring_bytes(const Kernel& kernel) const;
  // 8-bit GEMMs represent 4-bit ones, which take this share of their time by the data sheet.
  void narrow(double share) { four_bit_share = share * fp4_gemm; }

  // Fused expert GEMMs (ExpertGemms::Fused) take the profile's time.
  void fuse_experts() { grouped_gemm = fp8_grouped_gemm = 1.0; }

  // Uses the kernels of AttentionKind::MemoryEfficient instead of the framework's own.
  void attend(const AttentionTimes& kernels) {
    attention = kernels.forward;
    attention_backward = kernels.backward;
  }

  // Slowdown of a kernel on the SMs that dispatch and combine leave free. GEMMs and attention take
  // 1 / (1 - dispatch_sms / sms * compute_loss) times as long, for a GPU's `sms` and its profile's
  // `compute_loss`. Memory-bound kernels need only a part of the SMs and take the same time. 20 of
  // 132: 1.1786. REQUIRES: dispatch_sms < sms.
  [[nodiscard]] double dispatch_slowdown(const Kernel& kernel, std::int64_t sms,
                                         double compute_loss) const;
};

// By a name of models/frameworks and the generation of a GPU. Throws InputError.
[[nodiscard]] FrameworkTimes load_framework_times(const std::string& name,
                                                  const std::string& generation);

// Reads the factors of a GPU generation from models/attention/memory_efficient.json. Throws
// InputError where the file has none for it.
[[nodiscard]] AttentionTimes load_memory_efficient_times(const std::string& generation);

}  // namespace trainyard
