// Interleaved 1F1B (Narayanan et al. 2104.04473, section 2.2; the order is that of Megatron-LM's
// core/pipeline_parallel/schedules.py). A rank holds v chunks of the model. Virtual stage k*p + r
// is chunk k of rank r, so that a microbatch passes all ranks v times and the bubble is v times
// smaller: the makespan is m(F+B) + (p-1)(F+B)/v when G = p divides m. Example: p = 4, v = 2, m =
// 8, F = 1, B = 2 give 28.5 (tests/models/schedules/schedules_test.cpp).
#include <fmt/core.h>

#include <algorithm>

#include "models/schedules/generators.hpp"

namespace trainyard {
namespace {

std::int64_t group_size(const PipelineShape& shape) {
  return shape.group_size == 0 ? shape.stages : shape.group_size;
}

// The order of forwards, equal on every rank: groups of G microbatches go through chunk 0, then
// through chunk 1, and so on.
std::vector<ScheduleStep> forward_order(const PipelineShape& shape) {
  std::vector<ScheduleStep> order;
  for (std::int64_t first = 0; first < shape.microbatches; first += group_size(shape)) {
    const std::int64_t last = std::min(first + group_size(shape), shape.microbatches);
    for (std::int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
      for (std::int64_t microbatch = first; microbatch < last; ++microbatch) {
        order.push_back({.kind = StepKind::Forward,
                         .microbatch = static_cast<std::int32_t>(microbatch),
                         .chunk = static_cast<std::int32_t>(chunk)});
      }
    }
  }
  return order;
}

// The k-th backward is the k-th forward with the order of the chunks reversed.
ScheduleStep mirrored(ScheduleStep forward, std::int64_t chunks) {
  return {.kind = StepKind::Backward,
          .microbatch = forward.microbatch,
          .chunk = static_cast<std::int32_t>(chunks) - 1 - forward.chunk};
}

class Interleaved1F1B final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "interleaved_1f1b"; }
  [[nodiscard]] std::string_view summary() const override {
    return "1f1b over several model chunks per rank; a smaller bubble for more messages";
  }
  [[nodiscard]] std::int64_t usual_chunks() const override { return 2; }
  [[nodiscard]] bool takes_any_chunks() const override { return true; }
  [[nodiscard]] bool is_one_f_one_b() const override { return true; }
  [[nodiscard]] bool may_overlap_pairs(std::int64_t /*stages*/) const override { return true; }

  [[nodiscard]] std::optional<std::string> refusal(const PipelineShape& shape) const override {
    if (const auto refused = refuse_counts(shape)) return refused;
    const std::int64_t group = group_size(shape);
    if (shape.chunks < 2) {
      return fmt::format(
          "interleaved_1f1b needs at least 2 chunks per rank, not {}; with one "
          "chunk the schedule is 1f1b",
          shape.chunks);
    }
    if (group < shape.stages || group > shape.microbatches) {
      return fmt::format(
          "interleaved_1f1b needs a microbatch group of at least the {} stages and "
          "at most the {} microbatches, not {}",
          shape.stages, shape.microbatches, group);
    }
    const std::int64_t rest = shape.microbatches % group;
    if (rest != 0 && rest < shape.stages) {
      return fmt::format(
          "interleaved_1f1b leaves {} of {} microbatches in its last group of {}, "
          "fewer than the {} stages; choose microbatches that are a multiple of {}",
          rest, shape.microbatches, group, shape.stages, group);
    }
    return std::nullopt;
  }

  [[nodiscard]] std::vector<ScheduleStep> steps(const PipelineShape& shape,
                                                std::int64_t rank) const override {
    const std::vector<ScheduleStep> order = forward_order(shape);
    // After this number of forwards the first microbatch has come back to this rank for its last
    // chunk. With p = 4, v = 2 and G = 4 these are 10, 8, 6 and 4 forwards on ranks 0 to 3.
    const std::int64_t ahead =
        2 * (shape.stages - rank - 1) + (shape.chunks - 1) * group_size(shape);
    const std::size_t warm_up = std::min(static_cast<std::size_t>(ahead), order.size());
    std::vector<ScheduleStep> result(order.begin(),
                                     order.begin() + static_cast<std::ptrdiff_t>(warm_up));
    for (std::size_t k = 0; k < order.size(); ++k) {
      if (warm_up + k < order.size()) result.push_back(order[warm_up + k]);
      result.push_back(mirrored(order[k], shape.chunks));
    }
    return result;
  }
};

}  // namespace

const Schedule& interleaved_1f1b_schedule() {
  static const Interleaved1F1B schedule;
  return schedule;
}

}  // namespace trainyard
