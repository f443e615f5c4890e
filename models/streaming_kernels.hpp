// What the streaming operations of a layer read and write: norms, rotary embeddings, activation
// functions and what stands between them.
//
// Well-fused kernels (Transformer Engine, Apex, flash-attn) read their inputs and write their
// outputs once. PyTorch without torch.compile runs an operation as the separate kernels that its
// Python spells out, each of which reads and writes whole tensors: an RMSNorm that casts to fp32,
// squares, averages, multiplies, casts back and multiplies by its gain moves 36 bytes of each bf16
// number forward and 92 backward, where one kernel moves 4 and 6. Beside them: what autograd keeps
// and runs again. Frameworks are data (models/frameworks/*.json, "streaming"), each figure with its
// source; `training.compiled` says which of its figures hold.
//
//   const StreamingKernels eager = load_streaming_kernels("pytorch", false);
//   eager.rms_norm.forward.bytes(2);   // 36
#pragma once

#include <cstdint>
#include <string>

#include "models/architecture/architecture.hpp"

namespace trainyard {

// How often each number is read or written.
struct StreamingPass {
  std::int64_t narrow = 0;  // in the precision of training
  std::int64_t wide = 0;    // in fp32
  std::int64_t launches = 1;
  // Of one number, `element` bytes wide in the precision of training.
  [[nodiscard]] std::int64_t bytes(std::int64_t element) const {
    return narrow * element + wide * 4;
  }
  auto operator<=>(const StreamingPass&) const = default;
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

struct StreamingOperation {
  StreamingPass forward;
  StreamingPass backward;
  KeptTensors kept;

  bool operator==(const StreamingOperation&) const = default;
};

// By default everything is fused.
struct StreamingKernels {
  // Of each number normed. Backward reads input and output gradient, writes the input gradient.
  StreamingOperation rms_norm = {{.narrow = 2}, {.narrow = 3}, {.narrow = 1}};
  StreamingOperation layer_norm = {{.narrow = 2}, {.narrow = 3}, {.narrow = 1}};
  // Of each number rotated, queries and keys.
  StreamingOperation rotary = {{.narrow = 2}, {.narrow = 2}, {}};
  // Of each number that comes out: with a gate two come in.
  StreamingOperation activation = {{.narrow = 2}, {.narrow = 3}, {.narrow = 2}};
  StreamingOperation gated_activation = {{.narrow = 3}, {.narrow = 5}, {.narrow = 3}};
  bool compiled = false;
  // Keys and values are written out for every query head before attention, and its gradients summed
  // behind it.
  bool repeated_heads = false;
  // Queries, keys, values, gate and up each have a product of their own, whose input gradients are
  // summed: two at a time, all at once where compiled.
  bool separate_products = false;
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

  [[nodiscard]] const StreamingOperation& norm(const Architecture& architecture) const {
    return architecture.norm == NormKind::RmsNorm ? rms_norm : layer_norm;
  }
  [[nodiscard]] const StreamingOperation& activation_of(const Architecture& architecture) const {
    return architecture.gated_ffn ? gated_activation : activation;
  }

  bool operator==(const StreamingKernels&) const = default;
};

// By a name of models/frameworks; fused where the file says nothing else. Throws InputError.
[[nodiscard]] StreamingKernels load_streaming_kernels(const std::string& name, bool compiled);

}  // namespace trainyard
