// The table of block kinds. A transformer layer has two blocks, attention and feed-forward, and
// each block is of one kind. A kind is one entry of the table: the layers that have it, its
// matrices, and what it computes in addition to them, stores and writes. Everything else follows
// from the entry: parameters, FLOPs, shards, gradients, buckets, memory, the fields of a model file
// and the rules of a model split by hand. A new kind needs one file here, one entry in
// layer_block.cpp and its numbers in Architecture.
//
//    const std::vector<CountedKind> kinds = layer_kinds(load_architecture("deepseek-v3"));
//    kinds[0].layers;   // 3: latent attention and feed-forward
//    kinds[1].layers;   // 58: latent attention and experts
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/architecture/flops.hpp"
#include "models/architecture/memory.hpp"
#include "models/architecture/weights.hpp"
#include "sim/base/field.hpp"

namespace trainyard {

struct LayerTools;                       // layer_tools.hpp
struct ReadyGradient;                    // models/lower/step_shape.hpp
enum class BackwardPart : std::uint8_t;  // models/lower/step_shape.hpp

enum class LayerHalf : std::uint8_t { Attention, FeedForward };

// The backward of a block on one rank.
struct BlockBackward {
  const Architecture& architecture;
  const ActivationQuery& query;
  // Numbers in the gradient of the layer's output where the sequence is gathered. 0: the sequence
  // is not split.
  std::int64_t gathered = 0;
};

// A layer with frozen matrices, on one rank.
struct FrozenLayer {
  const Architecture& architecture;
  const ActivationQuery& query;
  AdapterTargets adapted = {};      // the matrices that have a trained adapter
  bool recomputes_modules = false;  // selective recomputation of more than the core
};

struct LayerBlock {
  std::string_view name;
  std::string_view operator_word;  // the word for it in the rules of a model split by hand
  LayerHalf half = LayerHalf::Attention;
  bool routes_tokens = false;  // it works on the tokens that a router sends (expert_routing.hpp)

  // ---- the model file

  // The fields that only this kind reads, and the check of its numbers. Errors are reported to the
  // object.
  std::span<const Field<Architecture>> fields = {};
  void (*check)(JsonObject& object, const Architecture& architecture) = nullptr;
  // True if the layer has this kind. `layer` counts from 0; MTP layers follow those of the model.
  bool (*is_at)(const Architecture& architecture, std::int64_t layer) = nullptr;

  // ---- formulas of the shape

  // The matrices in the order of the forward pass.
  std::vector<Weight> (*weights)(const Architecture& architecture) = nullptr;
  // Forward FLOPs of one token in addition to those of the matrices. nullptr: none.
  double (*other_flops)(const Architecture& architecture, std::int64_t layer,
                        const TokenQuery& query) = nullptr;
  // Bytes that one rank stores of one microbatch from the output of its norm on, without those that
  // recomputed_modules(query) recompute.
  LayerActivations (*kept)(const Architecture& architecture,
                           const ActivationQuery& query) = nullptr;
  // The largest number of elements that gradients hold at one time while its backward runs.
  std::int64_t (*gradients)(const BlockBackward& backward) = nullptr;
  // Bytes of inputs that are stored only for gradients of matrices, and therefore not stored where
  // these are frozen. nullptr: unknown; a frozen layer with this block then stores as much as a
  // trained one.
  std::int64_t (*frozen_inputs)(const FrozenLayer& layer) = nullptr;

  // ---- operations of one rank

  // Writes the operations from the norm's output to the tensor that is added to the residual
  // stream. The builder's tags give the layer, here and below.
  void (*forward)(LayerTools& tools) = nullptr;
  // Writes the operations from the gradient of that tensor to the gradient of the norm's output.
  // Returns the gradients of weights in the order in which they become final (chunk_weights.hpp).
  std::vector<ReadyGradient> (*backward)(LayerTools& tools, BackwardPart part) = nullptr;
  // Recomputes what the forward did not store where the output of every second GEMM is stored
  // (RecomputeModules::second_gemms). nullptr: it is not known which GEMMs those are.
  void (*second_gemms)(LayerTools& tools) = nullptr;
  // The forward omits its last GEMM where LayerTools::skips_last_gemm.
  bool may_end_early = false;
};

[[nodiscard]] std::span<const LayerBlock> layer_blocks();

// The first entry of each half whose is_at accepts the layer.
[[nodiscard]] LayerKind layer_kind(const Architecture& architecture, std::int64_t layer);
[[nodiscard]] const LayerBlock& block_of(LayerKind kind, LayerHalf half);
[[nodiscard]] bool routes_tokens(LayerKind kind);

// The kinds of the model's layers and of the `mtp_layers` MTP layers after them, in the order of
// their first occurrence.
struct CountedKind {
  LayerKind kind = {};
  std::int64_t layers = 0;
};
[[nodiscard]] std::vector<CountedKind> layer_kinds(const Architecture& architecture,
                                                   std::int64_t mtp_layers = 0);
void count_kind(std::vector<CountedKind>& counted, LayerKind kind);
// Number of layers of the model whose tokens are routed to experts.
[[nodiscard]] std::int64_t layers_with_experts(const Architecture& architecture);

// Reports fields that have a value although the model lacks the part that they belong to.
void report_orphans(JsonObject& object,
                    const std::vector<std::pair<std::string_view, std::int64_t>>& fields,
                    std::string_view of_what);

[[nodiscard]] LayerBlock latent_attention_block();
[[nodiscard]] LayerBlock multi_head_attention_block();
[[nodiscard]] LayerBlock experts_block();
[[nodiscard]] LayerBlock feed_forward_block();

}  // namespace trainyard
