#include <fmt/core.h>

#include <array>

#include "models/schedules/generators.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

std::span<const Schedule* const> schedules() {
  static const std::array rows = {&naive_schedule(), &gpipe_schedule(), &one_f_one_b_schedule(),
                                  &interleaved_1f1b_schedule()};
  return rows;
}

const Schedule* find_schedule(std::string_view name) {
  for (const Schedule* schedule : schedules()) {
    if (schedule->name() == name) return schedule;
  }
  return nullptr;
}

ScheduleLists all_steps(const Schedule& schedule, const PipelineShape& shape) {
  TY_CHECK(!schedule.refusal(shape), schedule.name(), *schedule.refusal(shape));
  ScheduleLists lists;
  for (std::int64_t rank = 0; rank < shape.stages; ++rank) {
    lists.push_back(schedule.steps(shape, rank));
  }
  return lists;
}

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

}  // namespace trainyard
