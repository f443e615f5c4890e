// Which layers and which ends of the model the chunks of a pipeline rank have, who comes before and
// after them, and how far back their backward goes.
//
//   const StageLayout layout(pipeline_options(plan, options), 3);
//   layout.chunks().front().first_layer;
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
  std::int64_t mtp_layers = 0;                // layers of multi-token prediction behind the head
  std::vector<RecomputeUnit> units = {};      // its layers, as they are computed again
  std::vector<RecomputeUnit> mtp_units = {};  // those of multi-token prediction
};

// How a model is cut into stages, and when which of their steps may be written or run as one.
struct PipelineOptions {
  PipelineShape shape = {};
  std::vector<StageSpan> stages = {};  // every virtual stage
  std::int64_t first_trained = -1;     // TrainedWeights::first
  bool overlaps_steps = false;         // a forward and a backward, where the schedule pairs them
  bool microbatches_differ = false;
  std::int64_t ring_programs = 1;  // ContextShape::programs
};

// Consecutive layers of the model on one rank. Its weights have units: the embedding, each layer,
// the head, each layer of multi-token prediction.
struct StageChunk : StageSpan {
  ChunkPlace place = {};
  std::int64_t stage = 0;  // its virtual stage
  bool has_embedding = false;
  bool has_head = false;
  std::int64_t microbatches = 0;

  [[nodiscard]] std::size_t number() const { return static_cast<std::size_t>(place.chunk); }
  // The number in the model of a layer of the chunk, and the unit of its weights.
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
  // Another rank has the layers before the chunk's, or after them.
  [[nodiscard]] bool comes_from_rank(const StageChunk& chunk) const;
  [[nodiscard]] bool goes_to_rank(const StageChunk& chunk) const;
  [[nodiscard]] bool backwards(const StageChunk& chunk) const;  // runs_backwards
  // A gradient comes back as far as to that layer of the chunk; -1 is what stands before it.
  [[nodiscard]] bool reaches(const StageChunk& chunk, std::int64_t layer) const;
  // A gradient comes back into the chunk, or leaves it for the one before.
  [[nodiscard]] bool has_backward(const StageChunk& chunk) const;
  [[nodiscard]] bool hands_on(const StageChunk& chunk) const;
  // Units whose weights a backward reads: the first of some layers', the one behind a layer's, and
  // while they are computed again the one behind that. Nothing where no gradient comes back to
  // them.
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
