// The parameters of one model chunk, listed in the order in which their gradients become final and
// divided into the tensors that a framework has.
//
//    const WeightDivision division{.architecture = a, .tensor = 8};
//    std::int64_t total = 0;
//    for (const GradientEntry& entry : layer_entries(division, layer_kind(a, 0)))
//      total += entry.parameters();
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/operator_devices.hpp"
#include "models/trained_weights.hpp"

namespace trainyard {

// The numbers of ranks that divide the weights of a model.
struct WeightDivision {
  const Architecture& architecture;
  std::int64_t tensor = 1;
  std::int64_t expert = 1;         // expert-parallel ranks that the experts are divided over
  std::int64_t expert_tensor = 1;  // ranks that share an expert
};

// Parameters of embedding, final norm and LM head on one rank.
struct EmbeddingAndHeadParameters {
  std::int64_t embedding = 0;   // word embedding, split over the vocabulary
  std::int64_t positions = 0;   // learned positions, replicated; 0 for rotary
  std::int64_t final_norm = 0;  // replicated
  std::int64_t head = 0;        // split; 0 if it is tied to the embedding of the same rank
};

// The weights on one rank, and which of them are trained.
struct WeightOptions {
  WeightDivision division;
  EmbeddingAndHeadParameters ends = {};
  // First and last stage are on different ranks and both hold the embedding: as a tied head, or as
  // the input of layers of multi-token prediction. Its gradients are summed over the two.
  bool shares_embedding = false;
  std::int64_t mtp_layers = 0;  // layers of multi-token prediction
  TrainedWeights trained = {};
  AdapterSet adapters = {};
  double element = 2.0;  // bytes of one weight as kernels read it
};

// One parameter tensor of one rank, in PyTorch's layout. Sharding divides its first dimension.
struct Tensor {
  std::int64_t rows = 0;
  std::int64_t columns = 1;
  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
};

// Parameters whose gradients become final together, in backward order.
struct GradientEntry {
  std::vector<Tensor> tensors;
  [[nodiscard]] std::int64_t parameters() const;
};

// The parts of a transformer layer on one device: all four, unless the model is split by hand
// (operator_devices.hpp).
struct LayerParts {
  bool attention_norm = true;
  bool attention = true;  // with the residual addition
  bool ffn_norm = true;
  bool ffn = true;  // with the residual addition; dense, or router and experts
  [[nodiscard]] bool whole() const { return attention_norm && attention && ffn_norm && ffn; }
};

// The parts of a layer that are in a segment. REQUIRES: a segment of a layer.
[[nodiscard]] inline LayerParts layer_parts(const Segment& segment) {
  return {.attention_norm = segment.holds(Operator::AttentionNorm),
          .attention = segment.holds(Operator::Attention),
          .ffn_norm = segment.holds(Operator::FeedForwardNorm),
          .ffn = segment.holds(Operator::FeedForward)};
}

// The parameters of a layer on one tensor rank, without its experts, in the order in which their
// gradients become final (backward order). Buckets are formed from this list, and the lowering of a
// backward follows it. The gradients are reduced over the replicas of the model.
// A model with biases has one tensor for queries, keys and values, as GPT-2 does. Other models have
// three, and with a gated feed-forward two for gate and up, as Llama does.
[[nodiscard]] std::vector<GradientEntry> layer_entries(const WeightDivision& weights,
                                                       LayerKind kind,
                                                       const LayerParts& parts = {});
// The same for the experts of the rank, whose gradients are reduced over the replicas of the
// experts: down, then up. Empty for a dense layer.
[[nodiscard]] std::vector<GradientEntry> expert_entries(const WeightDivision& weights,
                                                        LayerKind kind);

// The gain, and for LayerNorm the shift. Within a module, the tensor that is listed last is ready
// first.
[[nodiscard]] GradientEntry norm_entry(const Architecture& architecture);

// A unit of weights: the embedding, a layer, the head, or a layer of multi-token prediction after
// it. It consists of the entries [begin, end) of its chunk.
struct WeightUnit {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int32_t layer = -1;        // index in the model; -1: before or after the layers
  std::size_t experts_begin = 0;  // the same in ChunkWeights::experts
  std::size_t experts_end = 0;
  bool reached = true;  // the backward goes back as far as this unit (models/trained_weights.hpp)
  std::vector<Tensor> frozen = {};  // weights that are not trained, in addition to the entries
  std::vector<Tensor> frozen_experts = {};
  [[nodiscard]] bool is_layer() const { return layer >= 0; }
};

struct ChunkWeights {
  std::int64_t number = 0;             // index of the chunk on its rank
  std::int64_t rank = 0;               // pipeline rank
  std::int64_t stage = 0;              // virtual stage
  std::vector<GradientEntry> entries;  // without experts, in backward order
  std::vector<GradientEntry> experts;  // of experts, reduced over the replicas of the experts
  std::vector<WeightUnit> units;       // in forward order: the first unit has the last entries
  [[nodiscard]] std::int64_t parameters(const WeightUnit& unit) const;
  [[nodiscard]] std::int64_t expert_parameters(const WeightUnit& unit) const;
  [[nodiscard]] std::int64_t all_parameters(std::size_t unit) const {  // including experts
    return parameters(units[unit]) + expert_parameters(units[unit]);
  }
  [[nodiscard]] std::int64_t parameters() const;  // without the experts
  [[nodiscard]] std::int64_t expert_parameters() const;
};

// Bytes of one element of a frozen tensor. Matrices of layers with adapters are stored and sent in
// the format training.frozen_weights, all other tensors with `otherwise` bytes per element.
[[nodiscard]] double frozen_element_bytes(const AdapterSet& adapters, const WeightUnit& unit,
                                          const Tensor& tensor, double otherwise);

// Bytes of all weights of a unit as its kernels read them, including experts, adapters and frozen
// weights.
[[nodiscard]] std::int64_t unit_bytes(const WeightOptions& options, const ChunkWeights& weights,
                                      const WeightUnit& unit);

// The parameters that a layer of multi-token prediction has in addition to those of an ordinary
// layer, in backward order. `behind`: the norm before the head. `before`: the projection and its
// two norms. All such layers read one copy of the embedding, if the rank holds one. It belongs to
// the first of them (number 0), whose backward is the last one to add to its gradient.
struct MtpEntries {
  std::vector<GradientEntry> behind;
  std::vector<GradientEntry> before;
};
[[nodiscard]] MtpEntries mtp_entries(const WeightOptions& options, std::int64_t number);

// The part of the model that a chunk holds.
struct ChunkLayers {
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  bool has_embedding = false;
  bool has_head = false;
};
// The weights of a chunk. The caller sets `number`, `rank` and `stage`.
[[nodiscard]] ChunkWeights chunk_weights(const WeightOptions& options, const ChunkLayers& layers);
// The same for the segments on one device of a model that is split by hand, with one unit for each
// segment. REQUIRES: all weights are trained.
[[nodiscard]] ChunkWeights segment_weights(const WeightOptions& options,
                                           const std::vector<Segment>& segments);

}  // namespace trainyard
