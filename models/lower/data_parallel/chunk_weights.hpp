// The parameters of one model chunk, as gradients become final and as a framework names them.
//
//   for (const GradientEntry& entry : layer_entries(division, layer_kind(a, 0)))
//     total += entry.parameters();
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/operator_devices.hpp"
#include "models/trained_weights.hpp"

namespace trainyard {

// Over how many ranks the weights of a model are divided.
struct WeightDivision {
  const Architecture& architecture;
  std::int64_t tensor = 1;
  std::int64_t expert = 1;         // places that the experts are divided over
  std::int64_t expert_tensor = 1;  // ranks that share an expert
};

// Parameters of one rank at the ends of the model.
struct EmbeddingAndHeadParameters {
  std::int64_t embedding = 0;   // word embedding, split over the vocabulary
  std::int64_t positions = 0;   // learned positions, replicated; 0 for rotary
  std::int64_t final_norm = 0;  // replicated
  std::int64_t head = 0;        // split; 0 where it shares the embedding of the same rank
};

// Which weights there are on one rank, and which of them are trained.
struct WeightOptions {
  WeightDivision division;
  EmbeddingAndHeadParameters ends = {};
  // First and last stage, on different ranks, both hold the embedding: as a tied head, or to read
  // the tokens that layers of multi-token prediction start from. Its gradients are summed over the
  // two.
  bool shares_embedding = false;
  std::int64_t mtp_layers = 0;  // layers of multi-token prediction
  TrainedWeights trained = {};
  AdapterSet adapters = {};
  double element = 2.0;  // bytes of a number as kernels find it
};

// One parameter tensor of one rank, as PyTorch has it: sharding cuts its first dimension.
struct Tensor {
  std::int64_t rows = 0;
  std::int64_t columns = 1;
  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
};

// Parameters whose gradients become final together, in the order of the backward.
struct GradientEntry {
  std::vector<Tensor> tensors;
  [[nodiscard]] std::int64_t parameters() const;
};

// The parts of a transformer layer that stand on one device: all four, unless the model is split by
// hand (operator_devices.hpp).
struct LayerParts {
  bool attention_norm = true;
  bool attention = true;  // with the residual addition
  bool ffn_norm = true;
  bool ffn = true;  // likewise; the experts of a layer that has them
  [[nodiscard]] bool whole() const { return attention_norm && attention && ffn_norm && ffn; }
};

// REQUIRES: a segment of a layer.
[[nodiscard]] inline LayerParts layer_parts(const Segment& segment) {
  return {.attention_norm = segment.holds(Operator::AttentionNorm),
          .attention = segment.holds(Operator::Attention),
          .ffn_norm = segment.holds(Operator::FeedForwardNorm),
          .ffn = segment.holds(Operator::FeedForward)};
}

// The parameters of a layer as its gradients become final: the one list that buckets are cut from
// and that the lowering of a backward follows. Of one tensor rank, in backward order; gradients
// that are reduced over the replicas of the model.
// A model with biases has one tensor for queries, keys and values, as GPT-2; others have three, and
// a gated one two for gate and up, as Llama.
[[nodiscard]] std::vector<GradientEntry> layer_entries(const WeightDivision& weights,
                                                       LayerKind kind,
                                                       const LayerParts& parts = {});
// The same for the rank's experts, reduced over their own replicas: down, up. Empty for a dense
// layer.
[[nodiscard]] std::vector<GradientEntry> expert_entries(const WeightDivision& weights,
                                                        LayerKind kind);

// Gain, and for LayerNorm shift; of a module the one listed last is ready first.
[[nodiscard]] GradientEntry norm_entry(const Architecture& architecture);

// The embedding, a layer, the head, or a layer of multi-token prediction behind it: entries [begin,
// end) of its chunk.
struct WeightUnit {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int32_t layer = -1;        // of the model; -1: before or after the layers
  std::size_t experts_begin = 0;  // the same among the experts' entries
  std::size_t experts_end = 0;
  bool reached = true;              // a gradient comes back to it (models/trained_weights.hpp)
  std::vector<Tensor> frozen = {};  // beside its entries: weights that are not trained
  std::vector<Tensor> frozen_experts = {};
  [[nodiscard]] bool is_layer() const { return layer >= 0; }
};

struct ChunkWeights {
  std::int64_t number = 0;             // of the rank
  std::int64_t rank = 0;               // pipeline rank
  std::int64_t stage = 0;              // virtual stage
  std::vector<GradientEntry> entries;  // in backward order
  std::vector<GradientEntry> experts;  // those of experts, reduced over replicas of their own
  std::vector<WeightUnit> units;       // in forward order: the first unit's entries are the last
  [[nodiscard]] std::int64_t parameters(const WeightUnit& unit) const;
  [[nodiscard]] std::int64_t expert_parameters(const WeightUnit& unit) const;
  [[nodiscard]] std::int64_t all_parameters(std::size_t unit) const {  // experts among them
    return parameters(units[unit]) + expert_parameters(units[unit]);
  }
  [[nodiscard]] std::int64_t parameters() const;  // without the experts
  [[nodiscard]] std::int64_t expert_parameters() const;
};

// Bytes of a number of a frozen tensor: matrices of layers beside adapters are kept and travel as
// training.frozen_weights says, all others in `otherwise` bytes.
[[nodiscard]] double frozen_element_bytes(const AdapterSet& adapters, const WeightUnit& unit,
                                          const Tensor& tensor, double otherwise);

// Bytes of all weights of a unit as its kernels find them: experts, adapters and frozen ones too.
[[nodiscard]] std::int64_t unit_bytes(const WeightOptions& options, const ChunkWeights& weights,
                                      const WeightUnit& unit);

// The parameters of a layer of multi-token prediction beside an ordinary one, in backward order:
// behind it the norm before the head; before it the projection, its two norms and a copy of the
// embedding, if any.
struct MtpEntries {
  std::vector<GradientEntry> behind;
  std::vector<GradientEntry> before;
};
[[nodiscard]] MtpEntries mtp_entries(const WeightOptions& options);

// Where a chunk stands in the model.
struct ChunkLayers {
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  bool has_embedding = false;
  bool has_head = false;
};
// `number`, `rank` and `stage` are left to the caller.
[[nodiscard]] ChunkWeights chunk_weights(const WeightOptions& options, const ChunkLayers& layers);
// The same for what a device of a model split by hand holds, a unit a segment. REQUIRES: all of it
// is trained.
[[nodiscard]] ChunkWeights segment_weights(const WeightOptions& options,
                                           const std::vector<Segment>& segments);

}  // namespace trainyard
