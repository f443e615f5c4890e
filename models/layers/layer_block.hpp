// A transformer layer is two blocks, attention and feed-forward, and each block is of one kind. A
// kind is a row of this table: at which layers it is, which matrices it has, what it computes
// beside them, keeps and writes. Everything else follows from the row: parameters, FLOPs, shards,
// gradients, buckets, memory, the fields of a model's file and the rules of a model split by hand.
// A new kind is one file here, one row in layer_block.cpp and its numbers in Architecture.
//
//   for (const auto& [kind, layers] : layer_kinds(load_architecture("deepseek-v3")))
//     // latent attention and feed-forward: 3 layers; latent attention and experts: 58
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
enum class BackwardPart : std::uint8_t;  // likewise

enum class LayerHalf : std::uint8_t { Attention, FeedForward };

// One rank's backward of a block.
struct BlockBackward {
  const Architecture& architecture;
  const ActivationQuery& query;
  // Numbers of the gradient of the layer's output where the sequence is gathered; 0: it is not
  // split.
  std::int64_t gathered = 0;
};

// A layer whose matrices are frozen, on one rank.
struct FrozenLayer {
  const Architecture& architecture;
  const ActivationQuery& query;
  AdapterTargets adapted = {};      // the matrices that a trained adapter stands on
  bool recomputes_modules = false;  // selective recomputation of more than the core
};

struct LayerBlock {
  std::string_view name;
  std::string_view operator_word;  // by which rules of a model split by hand call it
  LayerHalf half = LayerHalf::Attention;
  bool routes_tokens = false;  // its rows are those that a router sends (expert_routing.hpp)

  // ---- the model's file

  // The fields that only this kind reads, and what its numbers must satisfy; faults go to the
  // object.
  std::span<const Field<Architecture>> fields = {};
  void (*check)(JsonObject& object, const Architecture& architecture) = nullptr;
  // `layer` counts from 0; layers of multi-token prediction follow the model's.
  bool (*is_at)(const Architecture& architecture, std::int64_t layer) = nullptr;

  // ---- what follows from the shape

  // In the order of the forward pass.
  std::vector<Weight> (*weights)(const Architecture& architecture) = nullptr;
  // Forward FLOPs of one token beside those of the matrices; nullptr: none.
  double (*other_flops)(const Architecture& architecture, std::int64_t layer,
                        const TokenQuery& query) = nullptr;
  // Bytes from its norm's output on that one rank keeps of one microbatch, less what
  // recomputed_modules(query) run again.
  LayerActivations (*kept)(const Architecture& architecture,
                           const ActivationQuery& query) = nullptr;
  // The most numbers that gradients hold at once while its backward runs.
  std::int64_t (*gradients)(const BlockBackward& backward) = nullptr;
  // Bytes of inputs that are kept for gradients of matrices alone, and so not where those are
  // frozen. nullptr: not known, and a frozen layer with this block keeps what a trained one does.
  std::int64_t (*frozen_inputs)(const FrozenLayer& layer) = nullptr;

  // ---- what one rank runs

  // From the norm's output to what is added to what went round the block. The builder's tags name
  // the layer, here and below.
  void (*forward)(LayerTools& tools) = nullptr;
  // From the gradient of that to that of the norm's output; the gradients of weights in the order
  // they become final (chunk_weights.hpp).
  std::vector<ReadyGradient> (*backward)(LayerTools& tools, BackwardPart part) = nullptr;
  // Runs again what was not kept of the forward where every second product's output was
  // (RecomputeModules::second_gemms); nullptr: which products those are is not known.
  void (*second_gemms)(LayerTools& tools) = nullptr;
  // The forward leaves its last product out where LayerTools::ends_early.
  bool may_end_early = false;
};

[[nodiscard]] std::span<const LayerBlock> layer_blocks();

// The first row of each half that says it is at that layer.
[[nodiscard]] LayerKind layer_kind(const Architecture& architecture, std::int64_t layer);
[[nodiscard]] const LayerBlock& block_of(LayerKind kind, LayerHalf half);
[[nodiscard]] bool routes_tokens(LayerKind kind);

// The kinds of the model's layers, and of `mtp_layers` of multi-token prediction behind them,
// in the order in which they first stand there.
struct CountedKind {
  LayerKind kind = {};
  std::int64_t layers = 0;
};
[[nodiscard]] std::vector<CountedKind> layer_kinds(const Architecture& architecture,
                                                   std::int64_t mtp_layers = 0);
void count_kind(std::vector<CountedKind>& counted, LayerKind kind);
// Layers of the model whose tokens are routed to experts.
[[nodiscard]] std::int64_t layers_with_experts(const Architecture& architecture);

// Reports fields that say something although the model lacks the part they belong to.
void report_orphans(JsonObject& object,
                    const std::vector<std::pair<std::string_view, std::int64_t>>& fields,
                    std::string_view of_what);

[[nodiscard]] LayerBlock latent_attention_block();
[[nodiscard]] LayerBlock multi_head_attention_block();
[[nodiscard]] LayerBlock experts_block();
[[nodiscard]] LayerBlock feed_forward_block();

}  // namespace trainyard
