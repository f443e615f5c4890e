// The memory of one layer, per rank and microbatch: what it keeps for its backward and what it
// holds meanwhile.
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
  // Bytes beside a forward of a number of the rows of experts (FrameworkMemory::expert_row_copies).
  double row_copies = 0.0;
  // Weight gradients leave placeholders (FrameworkMemory::gradient_placeholders).
  bool placeholders = false;
};

struct LayerMemory {
  std::int64_t kept = 0;     // from forward to backward (under full recomputation its input alone)
  std::int64_t working = 0;  // in addition while the layer's backward runs
  // Kept from the input part of a split backward to its weight part: the inputs and the output
  // gradients of the four products, of which a sequence-parallel layer keeps its part and gathers
  // the whole again. A GPT at 16 bits: 32sbh/t (Qi et al. 2401.10241, section 3), less than the
  // 34sbh/t of its activations; without sequence parallelism sbh(8 + 24/t)
  // (tests/models/lower/split_memory_test.cpp). The authors' code gathers inputs again likewise
  // (sail-sg/zero-bubble-pipeline-parallelism, megatron/core/tensor_parallel/layers.py), but holds
  // gradients of row-parallel outputs gathered, sbh(4 - 4/t) more, with which ZB-H1 needs 1.8 times
  // the memory of 1F1B at t = 8; here they are gathered again, too.
  std::int64_t for_weights = 0;
  // Beside it while the weight part runs: what one product and the next have gathered.
  std::int64_t weight_workspace = 0;
  // Beside it while the layer's backward runs, gradients less what has been read for the last time:
  // that of the residual stream and, of its feed-forward part, those of the activation's input, or
  // of its output with the gathered one of the layer's. A Llama without sequence parallelism:
  // sb(4f/t + 2h).
  std::int64_t workspace = 0;
  // Beside it while the layer's forward runs: rows of experts under way (FrameworkMemory).
  std::int64_t forward_workspace = 0;
  // All that its backward reads, whether it was kept or computed again.
  [[nodiscard]] std::int64_t everything() const { return kept + working; }
};
// `trained`: false for a layer of frozen weights (models/trained_weights.hpp). `expert_rows`: rows
// that the rank's experts work on; none: as many as its own tokens make. `parts`: of those alone;
// of a split backward only the whole layer is known.
[[nodiscard]] LayerMemory layer_memory(const MemoryOptions& options, LayerKind kind,
                                       std::optional<std::int64_t> expert_rows = {},
                                       bool trained = true, const LayerParts& parts = {});
// A layer, or what stands here of it.
struct PlacedParts {
  LayerKind kind = {};
  LayerParts parts = {};
};
// Tensors that stand in for weight gradients which kernels add to the accumulated ones themselves
// (FrameworkMemory): one for each distinct shape among these layers. Llama-3 70B, t = 1:
// 2 (10 240 + 8192 + 3 * 28 672) 8192 bytes, 1 632 MiB.
[[nodiscard]] std::int64_t layer_placeholders(const MemoryOptions& options,
                                              std::span<const PlacedParts> layers);

}  // namespace trainyard
