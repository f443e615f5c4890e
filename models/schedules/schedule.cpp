#include "models/schedules/schedule.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "models/schedules/generators.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

std::int64_t virtual_stages(const PipelineShape& shape) {
  return shape.stages * chunks_per_share(shape);
}

// Wrap: chunk 0 of all ranks, then chunk 1, and so on. Vee: chunk 0 runs down the ranks and chunk 1
// back up. Bidirectional: chunk 1 holds a second copy of the model, in the reverse order of ranks.
std::int64_t stage_of(const PipelineShape& shape, const ChunkId& place) {
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

ChunkId holder_of(const PipelineShape& shape, std::int64_t stage, const ChunkId& neighbour) {
  TY_CHECK(stage >= 0 && stage < virtual_stages(shape), stage, virtual_stages(shape));
  switch (shape.placement) {
    case StagePlacement::Wrap:
      return {.rank = stage % shape.stages, .chunk = stage / shape.stages};
    case StagePlacement::Vee:
      if (stage < shape.stages) return {.rank = stage, .chunk = 0};
      return {.rank = 2 * shape.stages - 1 - stage, .chunk = 1};
    case StagePlacement::Bidirectional:
      // Two chunks hold the stage. Messages stay within one direction, so the chunk is that of the
      // neighbour.
      return {.rank = neighbour.chunk == 0 ? stage : shape.stages - 1 - stage,
              .chunk = neighbour.chunk};
  }
  return {};
}

std::optional<ChunkId> place_before(const PipelineShape& shape, const ChunkId& place) {
  const std::int64_t stage = stage_of(shape, place);
  if (stage == 0) return std::nullopt;
  return holder_of(shape, stage - 1, place);
}

std::optional<ChunkId> place_after(const PipelineShape& shape, const ChunkId& place) {
  const std::int64_t stage = stage_of(shape, place);
  if (stage == virtual_stages(shape) - 1) return std::nullopt;
  return holder_of(shape, stage + 1, place);
}

bool runs_backwards(const PipelineShape& shape, std::int64_t chunk) {
  return shape.placement != StagePlacement::Wrap && chunk == 1;
}

// Each direction of a bidirectional pipeline processes half of the microbatches.
MicrobatchRange microbatches_of(const PipelineShape& shape, std::int64_t chunk) {
  if (shape.placement != StagePlacement::Bidirectional)
    return {.begin = 0, .end = shape.microbatches};
  const std::int64_t half = shape.microbatches / 2;
  return chunk == 0 ? MicrobatchRange{.begin = 0, .end = half}
                    : MicrobatchRange{.begin = half, .end = shape.microbatches};
}

// The two chunks of a bidirectional rank belong to two copies of the model, so each copy has one
// chunk per rank.
std::int64_t chunks_per_share(const PipelineShape& shape) {
  return shape.placement == StagePlacement::Bidirectional ? 1 : shape.chunks;
}

// ---- registry

std::span<const Schedule* const> schedules() {
  static const std::array rows = {
      &naive_schedule(),  &gpipe_schedule(), &one_f_one_b_schedule(), &interleaved_1f1b_schedule(),
      &zb_h1_schedule(),  &zb_h2_schedule(), &zb_v_schedule(),        &zb_auto_schedule(),
      &v_half_schedule(), &v_min_schedule(), &dualpipe_schedule(),    &dualpipe_v_schedule()};
  return rows;
}

const Schedule* find_schedule(std::string_view name) {
  for (const Schedule* schedule : schedules()) {
    if (schedule->name() == name) return schedule;
  }
  return nullptr;
}

const Schedule& one_f_one_b(std::int64_t chunks) {
  return chunks > 1 ? interleaved_1f1b_schedule() : one_f_one_b_schedule();
}

namespace {

// Moves one more forward in front of each backward and marks that forward as overlapped. A backward
// that has no forward left to put in front of it stays alone.
std::vector<ScheduleStep> with_overlapped_pairs(const std::vector<ScheduleStep>& steps) {
  std::vector<ScheduleStep> forwards;
  std::vector<std::size_t> ahead;  // number of forwards before each backward in the original list
  std::vector<ScheduleStep> backwards;
  for (const ScheduleStep& step : steps) {
    if (step.kind == StepKind::Forward) {
      forwards.push_back(step);
      continue;
    }
    TY_CHECK(step.kind == StepKind::Backward);
    backwards.push_back(step);
    ahead.push_back(forwards.size());
  }
  std::vector<ScheduleStep> result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < backwards.size(); ++i) {
    const std::size_t before = next;
    while (next < std::min(ahead[i] + 1, forwards.size())) result.push_back(forwards[next++]);
    // Only the forward beyond the original order overlaps with this backward.
    if (next > before && next > ahead[i]) result.back().overlapped = true;
    result.push_back(backwards[i]);
  }
  return result;
}

}  // namespace

ScheduleLists with_overlapped_pairs(const ScheduleLists& lists) {
  ScheduleLists result;
  for (const std::vector<ScheduleStep>& steps : lists)
    result.push_back(with_overlapped_pairs(steps));
  return result;
}

ScheduleLists all_steps(const Schedule& schedule, const PipelineShape& shape) {
  TY_CHECK(!schedule.refusal(shape), schedule.name(), *schedule.refusal(shape));
  return schedule.lists(shape);
}

ScheduleLists Schedule::lists(const PipelineShape& shape) const {
  ScheduleLists result;
  for (std::int64_t rank = 0; rank < shape.stages; ++rank) result.push_back(steps(shape, rank));
  return result;
}

FoundSchedule open_schedule(const std::string& name) {
  if (name.ends_with(".json")) return FoundSchedule(read_schedule_file(name));
  return FoundSchedule(find_schedule(name));
}

PipelineShape placed(const Schedule& schedule, PipelineShape shape) {
  shape.placement = schedule.placement();
  return shape;
}

// This and the following functions return the reason why a schedule cannot run the shape, or
// nothing.
std::optional<std::string> refuse_counts(const PipelineShape& shape) {
  if (shape.stages >= 1 && shape.microbatches >= 1 && shape.chunks >= 1 && shape.group_size >= 0) {
    return std::nullopt;
  }
  return fmt::format("a pipeline has at least 1 stage, 1 microbatch and 1 chunk, not {}, {} and {}",
                     shape.stages, shape.microbatches, shape.chunks);
}

std::optional<std::string> refuse_chunks(std::string_view name, const PipelineShape& shape) {
  if (const auto refused = refuse_counts(shape)) return refused;
  if (shape.chunks != 1) {
    return fmt::format("{} has one model chunk per rank, not {}; interleaved_1f1b has several",
                       name, shape.chunks);
  }
  if (shape.group_size != 0) {
    return fmt::format("{} knows no microbatch groups (group size {}); interleaved_1f1b does", name,
                       shape.group_size);
  }
  return std::nullopt;
}

std::optional<std::string> refuse_not_two_chunks(std::string_view name,
                                                 const PipelineShape& shape) {
  if (const auto refused = refuse_counts(shape)) return refused;
  if (shape.chunks != 2) {
    return fmt::format("{} has 2 model chunks per rank, not {}; set interleave (--chunks) to 2",
                       name, shape.chunks);
  }
  if (shape.group_size != 0) {
    return fmt::format("{} knows no microbatch groups (group size {}); interleaved_1f1b does", name,
                       shape.group_size);
  }
  return std::nullopt;
}

}  // namespace trainyard
