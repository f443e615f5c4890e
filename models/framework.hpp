// The software around a model, and what it adds to a step: memory of a GPU, passes over gradients,
// streaming operations in one kernel or in several, and kernels that take longer than those of the
// GPU's profile.
//
// Frameworks are data (models/frameworks/*.json), each figure with its source or the command that
// fitted it. framework_file.hpp says how such a file is found, and what practices it holds.
//
//   load_framework("megatron").loss_copies;
//   load_elementwise_kernels("pytorch", false).rms_norm.forward.bytes(2);   // 36
//   load_framework_times("composer", "hopper").attention;   // 1.9: as long as 1.9 times the
//   profile's
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
  // NCCL's buffers of one channel to one peer, all protocols; a channel of a ring has two peers.
  std::int64_t channel_bytes = 0;
  // The share by which the allocator reserves more than is in use at the peak, of all that comes
  // and goes during the step.
  double fragmentation = 0.0;
  // A kernel that adds weight gradients to the accumulated ones leaves autograd a tensor of each
  // weight's shape instead: one is kept for every distinct shape, and the head makes its own.
  bool gradient_placeholders = false;
  // Copies of an expert's rows, each rows x h, that a forward holds beside those kept for backward.
  std::int64_t expert_row_copies = 0;
  // zero_stage 2: buckets of gradients that exist at once, the one that is filled and those that
  // are being reduced. DeepSpeed, FSDP and Megatron-FSDP have two.
  std::int64_t gradient_buckets_in_flight = 2;
  // fp32 tensors of the logits' size alive at once in the loss. 1: their gradient takes the place
  // of the exponentials, and the 16-bit logits stay; more: those are given back before the
  // backward.
  std::int64_t loss_copies = 1;

  bool operator==(const FrameworkMemory&) const = default;
};

// By name from models/frameworks. Throws InputError.
[[nodiscard]] FrameworkMemory load_framework(const std::string& name);

// ---- passes over gradients
//
// A framework passes over every gradient of a rank beside stepping: it adds those of a microbatch
// to those before, where products do not, scales them so that their sum over replicas is a mean,
// looks for NaN in what it is about to send, and takes out the loss scale of fp16. Each pass reads
// (and writes) all gradients once, so passes show in short steps: 12 bytes of each of 5.7 thousand
// million fp32 gradients are 10 ms at a B200's 7.1 TB/s.

// Who divides by the number of replicas: the reduction itself (ncclAvg), a kernel before it, or a
// kernel even where there is one replica. Framework: whatever the framework does.
enum class GradientAverage : std::uint8_t { Framework, Collective, Before, BeforeAlways };

// Whether every gradient is read for NaN before it is reduced.
enum class GradientCheck : std::uint8_t { Framework, On, Off };

struct GradientPasses {
  GradientAverage average = GradientAverage::Collective;  // never Framework
  GradientCheck check = GradientCheck::Off;               // never Framework
  bool unscale = false;  // fp16: a kernel of its own divides by the loss scale before the norm
  // A kernel of its own adds a microbatch's gradients to those of the microbatches before it
  // (autograd's AccumulateGrad), not the product that makes them.
  bool accumulate = false;

  // These, but for what a scenario says itself.
  [[nodiscard]] GradientPasses with(GradientAverage own_average, GradientCheck own_check) const;
  // Bytes that move for each gradient of `width` bytes before `replicas` ranks reduce it.
  [[nodiscard]] std::int64_t scaling_bytes(std::int64_t replicas, std::int64_t width) const;

  bool operator==(const GradientPasses&) const = default;
};

// By a name of models/frameworks; none where the file names none. Throws InputError.
[[nodiscard]] GradientPasses load_gradient_passes(const std::string& name);

// ---- streaming operations of a layer: norms, rotary embeddings, activation functions and what
// stands between them
//
// Well-fused kernels (Transformer Engine, Apex, flash-attn) read their inputs and write their
// outputs once. PyTorch without torch.compile runs an operation as the separate kernels that its
// Python spells out, each of which reads and writes whole tensors: an RMSNorm that casts to fp32,
// squares, averages, multiplies, casts back and multiplies by its gain moves 36 bytes of each bf16
// number forward and 92 backward, where one kernel moves 4 and 6. A framework's figures also say
// what autograd keeps and runs again; `training.compiled` says which of them hold.

// How often each number is read or written.
struct ElementwisePass {
  std::int64_t narrow = 0;  // in the precision of training
  std::int64_t wide = 0;    // in fp32
  std::int64_t launches = 1;
  // Bytes that move for one number, which is `element` bytes wide in the precision of training.
  [[nodiscard]] std::int64_t bytes(std::int64_t element) const {
    return narrow * element + wide * 4;
  }
  auto operator<=>(const ElementwisePass&) const = default;
};

// Tensors kept from forward to backward, as many of each width.
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

// By default everything is fused.
struct ElementwiseKernels {
  // For each number that is normed. Backward reads input and output gradient, writes the input
  // gradient.
  ElementwiseOperation rms_norm = {{.narrow = 2}, {.narrow = 3}, {.narrow = 1}};
  ElementwiseOperation layer_norm = {{.narrow = 2}, {.narrow = 3}, {.narrow = 1}};
  // For each number that is rotated, of queries and keys.
  ElementwiseOperation rotary = {{.narrow = 2}, {.narrow = 2}, {}};
  // For each number that comes out: with a gate two come in.
  ElementwiseOperation activation = {{.narrow = 2}, {.narrow = 3}, {.narrow = 2}};
  ElementwiseOperation gated_activation = {{.narrow = 3}, {.narrow = 5}, {.narrow = 3}};
  bool compiled = false;
  // Keys and values are written out for every query head before attention, and its gradients summed
  // behind it.
  bool repeated_heads = false;
  // Queries, keys, values, gate and up each have a product of their own, whose input gradients are
  // summed: two at a time, all at once where compiled.
  bool separate_gemms = false;
  // Under sequence parallelism what is gathered or scattered is copied from or into the order of
  // the ranks, since the sequence is not the first dimension of a tensor.
  bool sequence_copies = false;
  // ... and a product's gathered input is kept for its backward, not gathered again.
  bool keeps_gathered = false;
  // Full recomputation of a layer ends before its last product, which nothing keeps the output of.
  bool recompute_stops_early = false;
  // Attention leaves gradients of queries, keys and values that are copied into one tensor.
  bool joined_gradients = false;
  // Evaluations of an unfused loss beside training's own, for what is printed.
  std::int64_t loss_metrics = 0;

  [[nodiscard]] const ElementwiseOperation& norm(const Architecture& architecture) const {
    return architecture.norm == NormKind::RmsNorm ? rms_norm : layer_norm;
  }
  [[nodiscard]] const ElementwiseOperation& activation_of(const Architecture& architecture) const {
    return architecture.gated_ffn ? gated_activation : activation;
  }

  bool operator==(const ElementwiseKernels&) const = default;
};

// By a name of models/frameworks; fused where the file says nothing else. Throws InputError.
[[nodiscard]] ElementwiseKernels load_elementwise_kernels(const std::string& name, bool compiled);

// ---- times of kernels
//
// Profiles hold today's libraries. A run of 2022 had older ones: FlashAttention 1 for 2 and 3, an
// older cuBLAS, norms and activations of several kernels. Frameworks say so by GPU generation; what
// is not named takes as long as in the profile, and fp8 products as much longer as others.

// The times of another library's attention, over those of the profile.
struct AttentionTimes {
  double forward = 1.0;
  double backward = 1.0;
};

struct FrameworkTimes {
  // Factors on the profile's time, by kind of kernel.
  double gemm = 1.0;
  double fp8_gemm = 1.0;
  double grouped_gemm = 1.0;  // issued expert by expert; all in one launch take the profile's time
  double fp8_grouped_gemm = 1.0;
  double attention = 1.0;
  double attention_backward = 1.0;
  double ring_attention = 1.0;  // of the blocks of a context ring
  // Time of a block of a context ring beside its kernel and the joins that are counted (their
  // other passes, conversions, gaps between its two streams): so many passes over its queries.
  double ring_passes = 0.0;
  double memory_bound = 1.0;  // and copies
  // The time of a 4-bit product, with all that only 4 bits need around it (transforms, scales of
  // two levels, rounding at random), over what the data sheet makes of an 8-bit one's time.
  double fp4_gemm = 1.0;
  double four_bit_share = 1.0;  // of an 8-bit product's time, where narrow() says that it is of 4
  // SMs that the exchanges of experts keep throughout the step, whether rows travel or not; 0: an
  // exchange holds SMs only while it runs.
  std::int64_t dispatch_sms = 0;

  // The product of both factors below.
  [[nodiscard]] double of(const Kernel& kernel) const { return as_wide(kernel) * narrower(kernel); }
  // The framework's kernel over the profile's, at the width that the kernel names.
  [[nodiscard]] double as_wide(const Kernel& kernel) const;
  // 4-bit products over the 8-bit ones that stand for them; 1 for other kernels.
  [[nodiscard]] double narrower(const Kernel& kernel) const;
  // Bytes of these passes, which a kernel that memory bounds reads or writes; 0 for other kernels.
  // It grows with a block's queries, and its kernel with their product with the keys.
  [[nodiscard]] std::int64_t ring_bytes(const Kernel& kernel) const;
  // 8-bit products stand for 4-bit ones, which take this share of their time by the data sheet.
  void narrow(double share) { four_bit_share = share * fp4_gemm; }

  // Experts' products with all around them inside (ExpertGemms::Fused) take the profile's time.
  void fuse_experts() { grouped_gemm = fp8_grouped_gemm = 1.0; }

  // Kernels of AttentionKind::MemoryEfficient in place of the framework's own.
  void attend(const AttentionTimes& kernels) {
    attention = kernels.forward;
    attention_backward = kernels.backward;
  }

  // How much longer a kernel takes on the SMs that the exchanges leave: products and attention
  // 1 / (1 - dispatch_sms / sms * compute_loss), for a GPU's `sms` and its profile's
  // `compute_loss`; kernels that memory bounds need fewer SMs than all and take as long. 20 of
  // 132: 1.1786. REQUIRES: dispatch_sms < sms.
  [[nodiscard]] double beside_dispatch(const Kernel& kernel, std::int64_t sms,
                                       double compute_loss) const;
};

// By a name of models/frameworks and a GPU's generation. Throws InputError.
[[nodiscard]] FrameworkTimes load_framework_times(const std::string& name,
                                                  const std::string& generation);

// Reads the factors of a GPU's generation from models/attention/memory_efficient.json. Throws
// InputError where nothing is known of it.
[[nodiscard]] AttentionTimes load_memory_efficient_times(const std::string& generation);

}  // namespace trainyard
