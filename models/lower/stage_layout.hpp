// The layers of a pipeline rank: which layers each of its chunks holds, whether the chunk holds the
// embedding or the LM head, which ranks hold the chunks before and after it, and how far back its
// backward goes.
//
//    const StageLayout layout(pipeline_options(plan, options), 3);
//    layout.chunks().front().first_layer;
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/recompute.hpp"
#include "models/schedules/schedule.hpp"

namespace trainyard {

// The layers of a virtual stage.
struct StageSpan {
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  std::int64_t mtp_layers = 0;                // layers of multi-token prediction, after the head
  std::vector<RecomputeUnit> units = {};      // its layers in groups that are recomputed together
  std::vector<RecomputeUnit> mtp_units = {};  // the same for the layers of multi-token prediction
};

// How a model is divided into stages, and which of their steps may share a block or overlap.
struct PipelineOptions {
  PipelineShape shape = {};
  std::vector<StageSpan> stages = {};  // every virtual stage
  std::int64_t first_trained = -1;     // TrainedWeights::first
  bool overlaps_steps = false;  // a forward and a backward overlap where the schedule pairs them
  bool microbatches_differ = false;  // each microbatch needs its own block of operations
  std::int64_t ring_programs = 1;    // ContextShape::programs
};

// Consecutive layers of the model on one rank. The units of its weights are, in this order: the
// embedding, each layer, the head, each layer of multi-token prediction.
struct StageChunk : StageSpan {
  ChunkId place = {};
  std::int64_t stage = 0;  // its virtual stage
  bool has_embedding = false;
  bool has_head = false;
  std::int64_t microbatches = 0;

  [[nodiscard]] std::size_t number() const { return static_cast<std::size_t>(place.chunk); }
  // Index in the model of a layer of the chunk, and index of the unit of its weights.
  [[nodiscard]] std::int32_t in_model(std::int64_t layer) const {
    return static_cast<std::int32_t>(first_layer + layer);
  }
  [[nodiscard]] std::size_t unit_of(std::int64_t layer) const {
    return static_cast<std::size_t>(layer + (has_embedding ? 1 : 0));
  }
};

class StageLayout {
 public:
  StageLayout(const PipelineOptions& options, std::int64_t rank);

  [[nodiscard]] const std::vector<StageChunk>& chunks() const { return chunks_; }
  [[nodiscard]] const StageChunk& chunk(std::int32_t number) const {
    return chunks_[static_cast<std::size_t>(number)];
  }
  // Whether another rank holds the layers before this chunk, or those after it.
  [[nodiscard]] bool receives_from_rank(const StageChunk& chunk) const;
  [[nodiscard]] bool goes_to_rank(const StageChunk& chunk) const;
  [[nodiscard]] bool backwards(const StageChunk& chunk) const;  // runs_backwards
  // Whether the backward goes back as far as this layer of the chunk. -1: as far as the embedding
  // or the stage before the chunk.
  [[nodiscard]] bool reaches(const StageChunk& chunk, std::int64_t layer) const;
  // Whether the chunk has a backward, and whether it sends a gradient to the stage before it.
  [[nodiscard]] bool has_backward(const StageChunk& chunk) const;
  [[nodiscard]] bool sends_gradient(const StageChunk& chunk) const;
  // Order in which a backward reads the weights of units, for prefetching. used_first: the unit
  // that the backward of the layers in `unit` reads first. used_after: the unit that is read next
  // after the backward of `layer`. recomputed_after: the unit that is read next after the
  // recomputed forward of `layer`. nullopt: the backward does not go back that far.
  [[nodiscard]] std::optional<std::size_t> used_first(const StageChunk& chunk,
                                                      const RecomputeUnit& unit) const;
  [[nodiscard]] std::optional<std::size_t> used_after(const StageChunk& chunk,
                                                      const RecomputeUnit& unit,
                                                      std::int64_t layer) const;
  [[nodiscard]] std::optional<std::size_t> recomputed_after(const StageChunk& chunk,
                                                            const RecomputeUnit& unit,
                                                            std::int64_t layer) const;

 private:
  PipelineShape pipeline_;
  std::int64_t first_trained_;
  std::vector<StageChunk> chunks_;
};

}  // namespace trainyard
