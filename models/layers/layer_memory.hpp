// Memory of one layer, per rank and microbatch: the bytes that it stores for its backward, and its
// workspace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "models/architecture/memory.hpp"
#include "models/lower/data_parallel/chunk_weights.hpp"

namespace trainyard {

struct MemoryOptions {
  WeightDivision division;
  ActivationQuery query = {};
  AdapterSet adapters = {};
  // Selective recomputation of more than the core.
  bool rebuilds_modules = false;
  // Workspace of a forward, in bytes per number of routed tokens
  // (FrameworkMemory::expert_row_copies).
  double row_copies = 0.0;
  // Weight gradients have placeholder tensors (FrameworkMemory::gradient_placeholders).
  bool placeholders = false;
};

struct LayerMemory {
  // Stored from forward to backward; under full recomputation only the layer's input.
  std::int64_t kept = 0;
  std::int64_t working = 0;  // in addition while the layer's backward runs
  // Stored from the input part of a split backward to its weight part: the inputs and the output
  // gradients of the four GEMMs. A sequence-parallel layer stores its part of them and gathers the
  // complete tensors a second time. For a GPT at 16 bits this is 32sbh/t (Qi et al. 2401.10241,
  // section 3), less than the 34sbh/t of its activations; without sequence parallelism sbh(8 +
  // 24/t) (tests/models/lower/split_memory_test.cpp). The authors' code also gathers inputs a
  // second time (sail-sg/zero-bubble-pipeline-parallelism,
  // megatron/core/tensor_parallel/layers.py), but it holds gradients of row-parallel outputs
  // gathered, which is sbh(4 - 4/t) more, so that ZB-H1 needs 1.8 times the memory of 1F1B at t =
  // 8. This model gathers those a second time, too.
  std::int64_t for_weights = 0;
  // Workspace of the weight part: the gathered operands of one GEMM and of the next.
  std::int64_t weight_workspace = 0;
  // Workspace of the layer's backward: gradients minus the activations that have been read for the
  // last time. The gradients are that of the residual stream and, in the feed-forward part, those
  // of the activation's inputs, or that of its output together with the gathered gradient of the
  // layer's output. A Llama without sequence parallelism: sb(4f/t + 2h).
  std::int64_t workspace = 0;
  // Workspace of the layer's forward: copies of routed tokens (FrameworkMemory).
  std::int64_t forward_workspace = 0;
  // All activations that the backward reads, stored or recomputed.
  [[nodiscard]] std::int64_t everything() const { return kept + working; }
};
// `trained`: false for a layer of frozen weights (models/trained_weights.hpp). `expert_rows`:
// routed tokens that the rank's experts process; empty: as many as its own tokens produce. `parts`:
// the result covers only these parts. The memory of a split backward is known only for the whole
// layer.
[[nodiscard]] LayerMemory layer_memory(const MemoryOptions& options, LayerKind kind,
                                       std::optional<std::int64_t> expert_rows = {},
                                       bool trained = true, const LayerParts& parts = {});
// A layer, or the parts of it on this device.
struct PlacedParts {
  LayerKind kind = {};
  LayerParts parts = {};
};
// Placeholder tensors of weight gradients where kernels add these to the accumulated gradients
// themselves (FrameworkMemory): one for each distinct shape among these layers. Llama-3 70B, t = 1:
// 2 (10 240 + 8192 + 3 * 28 672) 8192 bytes, 1 632 MiB.
[[nodiscard]] std::int64_t layer_placeholders(const MemoryOptions& options,
                                              std::span<const PlacedParts> layers);

}  // namespace trainyard
