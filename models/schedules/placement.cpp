#include "models/schedules/placement.hpp"

#include "sim/base/check.hpp"

namespace trainyard {

std::int64_t virtual_stages(const PipelineShape& shape) {
  return shape.stages * chunks_per_share(shape);
}

std::int64_t stage_of(const PipelineShape& shape, const ChunkPlace& place) {
  TY_CHECK(place.rank >= 0 && place.rank < shape.stages, place.rank, shape.stages);
  TY_CHECK(place.chunk >= 0 && place.chunk < shape.chunks, place.chunk, shape.chunks);
  switch (shape.placement) {
    case StagePlacement::Wrap:
      return place.chunk * shape.stages + place.rank;
    case StagePlacement::Vee:
      return place.chunk == 0 ? place.rank : 2 * shape.stages - 1 - place.rank;
    case StagePlacement::Bidirectional:
      return place.chunk == 0 ? place.rank : shape.stages - 1 - place.rank;
  }
  return 0;
}

ChunkPlace place_of(const PipelineShape& shape, std::int64_t stage, const ChunkPlace& neighbour) {
  TY_CHECK(stage >= 0 && stage < virtual_stages(shape), stage, virtual_stages(shape));
  switch (shape.placement) {
    case StagePlacement::Wrap:
      return {.rank = stage % shape.stages, .chunk = stage / shape.stages};
    case StagePlacement::Vee:
      if (stage < shape.stages) return {.rank = stage, .chunk = 0};
      return {.rank = 2 * shape.stages - 1 - stage, .chunk = 1};
    case StagePlacement::Bidirectional:
      return {.rank = neighbour.chunk == 0 ? stage : shape.stages - 1 - stage,
              .chunk = neighbour.chunk};
  }
  return {};
}

std::optional<ChunkPlace> place_before(const PipelineShape& shape, const ChunkPlace& place) {
  const std::int64_t stage = stage_of(shape, place);
  if (stage == 0) return std::nullopt;
  return place_of(shape, stage - 1, place);
}

std::optional<ChunkPlace> place_after(const PipelineShape& shape, const ChunkPlace& place) {
  const std::int64_t stage = stage_of(shape, place);
  if (stage == virtual_stages(shape) - 1) return std::nullopt;
  return place_of(shape, stage + 1, place);
}

bool runs_backwards(const PipelineShape& shape, std::int64_t chunk) {
  return shape.placement != StagePlacement::Wrap && chunk == 1;
}

MicrobatchRange microbatches_of(const PipelineShape& shape, std::int64_t chunk) {
  if (shape.placement != StagePlacement::Bidirectional)
    return {.begin = 0, .end = shape.microbatches};
  const std::int64_t half = shape.microbatches / 2;
  return chunk == 0 ? MicrobatchRange{.begin = 0, .end = half}
                    : MicrobatchRange{.begin = half, .end = shape.microbatches};
}

std::int64_t chunks_per_share(const PipelineShape& shape) {
  return shape.placement == StagePlacement::Bidirectional ? 1 : shape.chunks;
}

}  // namespace trainyard
