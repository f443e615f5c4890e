#include "scenarios/search/segments.hpp"

#include <algorithm>
#include <limits>

namespace trainyard {

namespace {

constexpr std::uint8_t kComputeStream = 0;

// Operations begin..end of a program: one step, from its first kernel to before the next one's.
struct Segment {
  OpIndex begin = 0;
  OpIndex end = 0;
};

bool goes_forward(const Operation& op) { return op.part == StepPart::Forward; }

bool is_kernel(const Operation& op) {
  return op.stream == kComputeStream && op.kind == OpKind::Compute;
}

std::vector<Segment> segments_of(const Program& program) {
  std::vector<Segment> segments;
  const Operation* before = nullptr;
  for (OpIndex i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    if (!is_kernel(op)) continue;
    const bool outside = op.microbatch < 0;
    const bool same = before != nullptr && !outside && before->microbatch == op.microbatch &&
                      goes_forward(*before) == goes_forward(op);
    if (same) continue;
    if (before != nullptr) segments.back().end = i;
    before = outside ? nullptr : &op;
    if (!outside) segments.push_back({i, static_cast<OpIndex>(program.operations.size())});
  }
  return segments;
}

class Reading {
 public:
  explicit Reading(const RankQuestion& question)
      : question_(question),
        program_(question.workload.programs[question.program]),
        end_s_(program_.operations.size(), 0.0) {
    const auto of_program = [&](const Rank& rank) { return rank.program == question.program; };
    rank_ =
        &*std::find_if(question.workload.ranks.begin(), question.workload.ranks.end(), of_program);
  }

  [[nodiscard]] std::optional<RankLeast> read() {
    const std::vector<Segment> segments = segments_of(program_);
    if (segments.size() != question_.steps.size()) return std::nullopt;
    RankLeast least;
    const StepLeast most{std::numeric_limits<double>::max(), std::numeric_limits<double>::max(),
                         std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
    least.forward.assign(question_.chunks, most);
    least.backward.assign(question_.chunks, most);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const ScheduleStep& step = question_.steps[i];
      const Operation& first = program_.operations[segments[i].begin];
      const bool forward = step.kind == StepKind::Forward;
      if (first.microbatch != step.microbatch || goes_forward(first) != forward)
        return std::nullopt;
      StepLeast& known =
          (forward ? least.forward : least.backward).at(static_cast<std::size_t>(step.chunk));
      lower_to(known, step_of(segments[i]));
    }
    add_ends(segments, least);
    for (const ResidentMemory& part : program_.resident)
      least.held_bytes += static_cast<double>(part.bytes);
    return least;
  }

 private:
  static void lower_to(StepLeast& known, const StepLeast& seen) {
    known.occupied_s = std::min(known.occupied_s, seen.occupied_s);
    known.output_s = std::min(known.output_s, seen.output_s);
    known.kept_bytes = std::min(known.kept_bytes, seen.kept_bytes);
    known.needed_bytes = std::min(known.needed_bytes, seen.needed_bytes);
  }

  // The longest path within the segment; what lies before it counts as done.
  [[nodiscard]] StepLeast step_of(const Segment& segment) {
    StepLeast step;
    std::vector<double> stream_s(question_.workload.streams.size(), 0.0);
    double sent_s = -1.0;
    for (OpIndex i = segment.begin; i < segment.end; ++i) {
      const Operation& op = program_.operations[i];
      double start_s = stream_s[op.stream];
      for (const OpIndex other : program_.dependencies_of(op))
        if (other >= segment.begin) start_s = std::max(start_s, end_s_[other]);
      end_s_[i] = start_s + seconds_of(op);
      stream_s[op.stream] = end_s_[i];
      if (is_kernel(op) && op.microbatch >= 0) step.occupied_s = end_s_[i];
      if (op.kind == OpKind::Send && sent_s < 0.0) sent_s = start_s;
    }
    step.output_s = sent_s < 0.0 ? step.occupied_s : std::min(sent_s, step.occupied_s);
    add_memory(segment, step);
    return step;
  }

  [[nodiscard]] double seconds_of(const Operation& op) const {
    if (is_kernel(op)) return question_.kernel_seconds[op.payload];
    if (op.kind != OpKind::Collective) return 0.0;
    const GroupId group = rank_->slots.at(op.slot).group;
    if (group == kNone) return 0.0;
    const GroupKind kind = question_.workload.groups[group].kind;
    if (kind != GroupKind::Tensor) return 0.0;
    return question_.times.least_seconds(question_.workload, group, op.payload);
  }

  // Only kernels' effects: when others happen depends on communication. What a step leaves is never
  // less than nothing: what it frees beyond its own, it frees of others.
  void add_memory(const Segment& segment, StepLeast& step) const {
    double here = 0.0;
    for (OpIndex i = segment.begin; i < segment.end; ++i) {
      const Operation& op = program_.operations[i];
      if (!is_kernel(op) || op.microbatch < 0) continue;
      const auto effects = program_.effects_of(op);
      for (const bool at_end : {false, true}) {
        for (const MemoryEffect& effect : effects)
          if (effect.at_end == at_end) here += static_cast<double>(effect.bytes);
        step.needed_bytes = std::max(step.needed_bytes, here);
      }
    }
    step.kept_bytes = std::max(0.0, here);
  }

  void add_ends(const std::vector<Segment>& segments, RankLeast& least) const {
    if (segments.empty()) return;
    for (OpIndex i = 0; i < program_.operations.size(); ++i) {
      const Operation& op = program_.operations[i];
      if (!is_kernel(op) || op.microbatch >= 0) continue;
      if (i < segments.front().begin) least.head_s += question_.kernel_seconds[op.payload];
      if (i > segments.back().begin) least.tail_s += question_.kernel_seconds[op.payload];
    }
  }

  const RankQuestion& question_;
  const Program& program_;
  const Rank* rank_ = nullptr;
  std::vector<double> end_s_;
};

}  // namespace

std::optional<RankLeast> rank_least(const RankQuestion& question) {
  return Reading(question).read();
}

}  // namespace trainyard
