#include "models/lower/stage_layout.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "models/frozen.hpp"
#include "models/pipeline_shape.hpp"

namespace trainyard {

namespace {

StageChunk make_chunk(const TrainingPlan& plan, const PipelineShape& pipeline,
                      const std::vector<std::int64_t>& split, const ChunkPlace& place) {
  StageChunk chunk;
  chunk.place = place;
  chunk.stage = stage_of(pipeline, place);
  const auto begin = split.begin();
  chunk.first_layer = std::accumulate(begin, begin + chunk.stage, std::int64_t{0});
  chunk.layers = split[static_cast<std::size_t>(chunk.stage)];
  chunk.has_embedding = !place_before(pipeline, place).has_value();
  chunk.has_head = !place_after(pipeline, place).has_value();
  chunk.further = chunk.has_head ? plan.training.mtp_layers : 0;
  chunk.units = recompute_units(
      plan.training,
      {.first = chunk.first_layer, .layers = chunk.layers, .further = chunk.further});
  chunk.further_units.assign(chunk.units.end() - chunk.further, chunk.units.end());
  chunk.units.erase(chunk.units.end() - chunk.further, chunk.units.end());
  const MicrobatchRange microbatches = microbatches_of(pipeline, place.chunk);
  chunk.microbatches = microbatches.end - microbatches.begin;
  return chunk;
}

}  // namespace

StageLayout::StageLayout(const TrainingPlan& plan, const std::vector<std::int64_t>& split,
                         std::int64_t rank)
    : pipeline_(pipeline_shape(plan)), first_trained_(first_trained(plan)) {
  for (std::int64_t chunk = 0; chunk < pipeline_.chunks; ++chunk)
    chunks_.push_back(make_chunk(plan, pipeline_, split, {.rank = rank, .chunk = chunk}));
}

bool StageLayout::comes_from_rank(const StageChunk& chunk) const {
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

bool StageLayout::has_backward(const StageChunk& chunk) const {
  const std::int64_t last = chunk.layers - (chunk.has_head ? 0 : 1);
  return reaches(chunk, chunk.has_embedding ? std::max<std::int64_t>(last, -1) : last);
}

bool StageLayout::hands_on(const StageChunk& chunk) const {
  return !chunk.has_embedding && reaches(chunk, -1);
}

// What is computed again begins with its first layer.
std::optional<std::size_t> StageLayout::used_first(const StageChunk& chunk,
                                                   const RecomputeUnit& again) const {
  const std::int64_t last = again.first + again.layers - 1;
  if (!reaches(chunk, last)) return std::nullopt;
  return chunk.unit_of(again.again ? again.first : last);
}

std::optional<std::size_t> StageLayout::used_after(const StageChunk& chunk,
                                                   const RecomputeUnit& again,
                                                   std::int64_t layer) const {
  if (layer > again.first) {
    if (!reaches(chunk, layer - 1)) return std::nullopt;
    return chunk.unit_of(layer - 1);
  }
  const auto unit = std::ranges::lower_bound(chunk.units, again.first, {}, &RecomputeUnit::first);
  if (unit == chunk.units.begin()) return std::nullopt;
  return used_first(chunk, *std::prev(unit));
}

std::optional<std::size_t> StageLayout::used_again_after(const StageChunk& chunk,
                                                         const RecomputeUnit& again,
                                                         std::int64_t layer) const {
  const bool last = layer + 1 == again.first + again.layers;
  return last ? used_after(chunk, again, layer) : chunk.unit_of(layer + 1);
}

}  // namespace trainyard
