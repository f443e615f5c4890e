#include "models/schedules/walk.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

constexpr double kNotYet = std::numeric_limits<double>::infinity();

// A step's output is either an activation (Forward) or an input gradient (Backward, BackwardInput).
bool is_forward(StepKind kind) { return kind == StepKind::Forward; }

class Walker {
 public:
  Walker(const ScheduleLists& lists, const PipelineShape& shape, const StepDurations& durations)
      : lists_(lists),
        shape_(shape),
        durations_(durations),
        activation_at_(static_cast<std::size_t>(virtual_stages(shape) * shape.microbatches),
                       kNotYet),
        gradient_at_(activation_at_),
        free_at_(lists.size(), 0.0) {
    walk_.played.resize(lists.size());
    walk_.next.resize(lists.size(), 0);
    walk_.missing.resize(lists.size());
  }

  // A rank that misses an input is tried again when the rank that produces it has come further.
  Walk run() {
    std::vector<std::vector<std::size_t>> waiting(lists_.size());  // by producer
    std::vector<std::size_t> ready(lists_.size());
    std::iota(ready.rbegin(), ready.rend(), std::size_t{0});
    while (!ready.empty()) {
      const std::size_t rank = ready.back();
      ready.pop_back();
      const std::size_t before = walk_.next[rank];
      while (try_next(rank)) {
      }
      if (walk_.missing[rank])
        waiting[static_cast<std::size_t>(walk_.missing[rank]->rank)].push_back(rank);
      if (walk_.next[rank] == before) continue;
      ready.insert(ready.end(), waiting[rank].begin(), waiting[rank].end());
      waiting[rank].clear();
    }
    return std::move(walk_);
  }

 private:
  // Executes the rank's next step, or overlapped pair, if its inputs exist.
  bool try_next(std::size_t rank) {
    const std::size_t index = walk_.next[rank];
    walk_.missing[rank].reset();
    if (index == lists_[rank].size()) return false;
    const auto at_rank = static_cast<std::int64_t>(rank);
    const ScheduleStep& step = lists_[rank][index];
    const bool pair = step.overlapped && index + 1 < lists_[rank].size();
    double inputs_at = arrival(step, at_rank);
    double seconds = duration(step, rank);
    if (pair && inputs_at != kNotYet) {
      const ScheduleStep& second = lists_[rank][index + 1];
      inputs_at = std::max(inputs_at, arrival(second, at_rank));
      seconds = durations_.overlapped_share * (seconds + duration(second, rank));
    }
    if (inputs_at == kNotYet) return false;
    const double start = std::max(free_at_[rank], inputs_at);
    for (std::size_t done = index; done <= index + (pair ? 1 : 0); ++done) {
      walk_.played[rank].push_back(
          {.step = lists_[rank][done], .start_s = start, .end_s = start + seconds});
      produce(lists_[rank][done], at_rank, start + seconds);
      ++walk_.next[rank];
    }
    free_at_[rank] = start + seconds;
    return true;
  }

  // When everything the step reads is there; kNotYet, and walk_.missing set, when something is not.
  double arrival(const ScheduleStep& step, std::int64_t rank) {
    const ChunkPlace here{.rank = rank, .chunk = step.chunk};
    if (is_forward(step.kind)) {
      const std::optional<ChunkPlace> before = place_before(shape_, here);
      return before ? input(step, StepKind::Forward, {.reader = rank, .producer = *before}) : 0.0;
    }
    if (step.kind == StepKind::BackwardWeight) {
      return input(step, StepKind::BackwardInput, {.reader = rank, .producer = here});
    }
    const double own = input(step, StepKind::Forward, {.reader = rank, .producer = here});
    const std::optional<ChunkPlace> after = place_after(shape_, here);
    if (own == kNotYet || !after) return own;
    return std::max(own, input(step, StepKind::Backward, {.reader = rank, .producer = *after}));
  }

  struct Source {
    std::int64_t reader = 0;  // rank
    ChunkPlace producer;
  };
  double input(const ScheduleStep& step, StepKind producer_kind, const Source& source) {
    const ChunkPlace& producer = source.producer;
    const auto& times = is_forward(producer_kind) ? activation_at_ : gradient_at_;
    const double at = times[slot(stage_of(shape_, producer), step.microbatch)];
    if (at == kNotYet) {
      walk_.missing[static_cast<std::size_t>(source.reader)] = {
          .input = {.kind = producer_kind,
                    .microbatch = step.microbatch,
                    .chunk = static_cast<std::int32_t>(producer.chunk)},
          .rank = producer.rank};
      return kNotYet;
    }
    return producer.rank == source.reader ? at : at + durations_.transfer_s;
  }

  void produce(const ScheduleStep& step, std::int64_t rank, double at) {
    if (step.kind == StepKind::BackwardWeight) return;
    auto& times = is_forward(step.kind) ? activation_at_ : gradient_at_;
    times[slot(stage_of(shape_, {.rank = rank, .chunk = step.chunk}), step.microbatch)] = at;
  }

  [[nodiscard]] std::size_t slot(std::int64_t stage, std::int64_t microbatch) const {
    return static_cast<std::size_t>(stage * shape_.microbatches + microbatch);
  }

  [[nodiscard]] double duration(const ScheduleStep& step, std::size_t rank) const {
    const double backward = durations_.backward_s[rank];
    const double weight = durations_.weight_s.empty() ? backward / 2.0 : durations_.weight_s[rank];
    const auto chunks = static_cast<double>(chunks_per_share(shape_));
    switch (step.kind) {
      case StepKind::Forward:
        return durations_.forward_s[rank] / chunks;
      case StepKind::Backward:
        return backward / chunks;
      case StepKind::BackwardInput:
        return (backward - weight) / chunks;
      case StepKind::BackwardWeight:
        return weight / chunks;
    }
    return 0.0;
  }

  const ScheduleLists& lists_;
  const PipelineShape& shape_;
  const StepDurations& durations_;
  std::vector<double> activation_at_;  // by virtual stage and microbatch
  std::vector<double> gradient_at_;
  std::vector<double> free_at_;  // by rank
  Walk walk_;
};

}  // namespace

Walk walk_schedule(const ScheduleLists& lists, const PipelineShape& shape,
                   const StepDurations& durations) {
  TY_CHECK(std::cmp_equal(lists.size(), shape.stages), lists.size(), shape.stages);
  TY_CHECK(durations.forward_s.size() == lists.size(), durations.forward_s.size(), lists.size());
  TY_CHECK(durations.backward_s.size() == lists.size(), durations.backward_s.size(), lists.size());
  TY_CHECK(durations.weight_s.empty() || durations.weight_s.size() == lists.size(),
           durations.weight_s.size(), lists.size());
  return Walker(lists, shape, durations).run();
}

}  // namespace trainyard
