#include "models/lower/stage_layout.hpp"

#include <algorithm>
#include <iterator>

namespace trainyard {

namespace {

StageChunk make_chunk(const PipelineOptions& options, const ChunkId& place) {
  const std::int64_t stage = stage_of(options.shape, place);
  StageChunk chunk{options.stages[static_cast<std::size_t>(stage)]};
  chunk.place = place;
  chunk.stage = stage;
  chunk.has_embedding = !place_before(options.shape, place).has_value();
  chunk.has_head = !place_after(options.shape, place).has_value();
  const MicrobatchRange microbatches = microbatches_of(options.shape, place.chunk);
  chunk.microbatches = microbatches.end - microbatches.begin;
  return chunk;
}

}  // namespace

StageLayout::StageLayout(const PipelineOptions& options, std::int64_t rank)
    : pipeline_(options.shape), first_trained_(options.first_trained) {
  for (std::int64_t chunk = 0; chunk < pipeline_.chunks; ++chunk)
    chunks_.push_back(make_chunk(options, {.rank = rank, .chunk = chunk}));
}

bool StageLayout::receives_from_rank(const StageChunk& chunk) const {
  const auto source = place_before(pipeline_, chunk.place);
  return source && source->rank != chunk.place.rank;
}

bool StageLayout::goes_to_rank(const StageChunk& chunk) const {
  const auto target = place_after(pipeline_, chunk.place);
  return target && target->rank != chunk.place.rank;
}

bool StageLayout::backwards(const StageChunk& chunk) const {
  return runs_backwards(pipeline_, chunk.place.chunk);
}

bool StageLayout::reaches(const StageChunk& chunk, std::int64_t layer) const {
  return chunk.first_layer + layer >= first_trained_;
}

// A chunk has a backward if the backward reaches its last unit: the head, or the last layer. A
// chunk that holds only the embedding has one if the embedding is trained (-1).
bool StageLayout::has_backward(const StageChunk& chunk) const {
  const std::int64_t last = chunk.layers - (chunk.has_head ? 0 : 1);
  return reaches(chunk, chunk.has_embedding ? std::max<std::int64_t>(last, -1) : last);
}

bool StageLayout::sends_gradient(const StageChunk& chunk) const {
  return !chunk.has_embedding && reaches(chunk, -1);
}

// The backward of layers that are recomputed together starts with the forward of the first one;
// that of other layers starts with the last one.
std::optional<std::size_t> StageLayout::used_first(const StageChunk& chunk,
                                                   const RecomputeUnit& unit) const {
  const std::int64_t last = unit.first + unit.layers - 1;
  if (!reaches(chunk, last)) return std::nullopt;
  return chunk.unit_of(unit.recomputed ? unit.first : last);
}

// The backward goes from the last layer to the first. After the first layer of a recompute unit it
// continues with the unit before, if there is one.
std::optional<std::size_t> StageLayout::used_after(const StageChunk& chunk,
                                                   const RecomputeUnit& unit,
                                                   std::int64_t layer) const {
  if (layer > unit.first) {
    if (!reaches(chunk, layer - 1)) return std::nullopt;
    return chunk.unit_of(layer - 1);
  }
  const auto own = std::ranges::lower_bound(chunk.units, unit.first, {}, &RecomputeUnit::first);
  if (own == chunk.units.begin()) return std::nullopt;
  return used_first(chunk, *std::prev(own));
}

// The recomputation goes forward. Its last layer is followed by the backward of the same layer,
// whose weights are still there, so that the next weights to fetch are those of the layer before.
std::optional<std::size_t> StageLayout::recomputed_after(const StageChunk& chunk,
                                                         const RecomputeUnit& unit,
                                                         std::int64_t layer) const {
  const bool last = layer + 1 == unit.first + unit.layers;
  return last ? used_after(chunk, unit, layer) : chunk.unit_of(layer + 1);
}

}  // namespace trainyard
