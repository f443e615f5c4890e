#include "tools/studies/search/segments.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// The flows of a phase may slow one another down. Here each has its links for itself, so the result
// is a lower bound.
double flow_seconds(const Cluster& cluster, const MultiLinkFlow& flow) {
  double payload = 0.0;
  for (const LinkLoad& load : flow.loads) payload = std::max(payload, load.bytes);
  if (payload <= 0.0) return 0.0;
  double seconds = payload / flow.rate_cap_bytes_per_s;
  for (const LinkLoad& load : flow.loads)
    seconds = std::max(seconds, load.bytes / cluster.link(load.link).capacity.value());
  return seconds;
}

double alone_seconds(const Cluster& cluster, const std::vector<Phase>& phases) {
  double seconds = 0.0;
  for (const Phase& phase : phases) {
    double longest = 0.0;
    for (const MultiLinkFlow& flow : phase.flows)
      longest = std::max(longest, flow_seconds(cluster, flow));
    seconds += phase.latency.value() + longest;
  }
  return seconds;
}

}  // namespace

double CallTimes::least_seconds(const Workload& workload, GroupId group, std::uint32_t call) const {
  const Call& asked = workload.calls.at(call);
  if (!uniform_ || !matrix_of(asked).empty() || std::holds_alternative<RelayCall>(asked))
    return 0.0;
  std::vector<std::uint32_t> gpus;
  for (const RankId member : workload.groups.at(group).members)
    gpus.push_back(workload.ranks.at(member).gpu);
  if (gpus.size() < 2) return 0.0;
  // The members are neighbours within one node, so the local index of the first one determines the
  // positions of all.
  for (std::size_t i = 1; i < gpus.size(); ++i) {
    if (gpus[i] != gpus[0] + i || cluster_.node_of(gpus[i]) != cluster_.node_of(gpus[0]))
      return 0.0;
  }
  const Key key{asked, gpus.size(), cluster_.local_index(gpus[0]), 1};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const double seconds = alone_seconds(cluster_, communication_.phases(asked, gpus));
  known_.emplace(key, seconds);
  return seconds;
}

namespace {

constexpr std::uint8_t kComputeStream = 0;

// The operations begin..end of a program that belong to one step, from its first kernel on. A block
// of two steps is shared; then only the operations of the step's direction belong to it.
struct Segment {
  OpIndex begin = 0;
  OpIndex end = 0;
  bool shared = false;
  bool forward = false;

  [[nodiscard]] bool holds(const Operation& op) const {
    return !shared || (op.part == StepPart::Forward) == forward;
  }
};

bool is_kernel(const Operation& op) {
  return op.stream == kComputeStream && op.kind == OpKind::Compute;
}

// Whether an operation is a kernel of a microbatch. Kernels of the optimizer and of combined
// gradients are not.
bool is_step_kernel(const Operation& op) { return is_kernel(op) && op.microbatch >= 0; }

// Reads the least times and memory of a rank's steps from its lowered program. Everything that may
// be faster in some simulation counts as 0, so the results are lower bounds.
class RankReader {
 public:
  explicit RankReader(const RankQuestion& question)
      : question_(question),
        program_(question.workload.programs[question.program]),
        end_s_(program_.operations.size(), 0.0) {
    const auto of_program = [&](const Rank& rank) { return rank.program == question.program; };
    const auto rank = std::ranges::find_if(question.workload.ranks, of_program);
    TY_CHECK(rank != question.workload.ranks.end(), question.program);
    rank_ = &*rank;
    program_.for_each_effect([&](OpIndex, const Operation& op, const MemoryEffect& effect) {
      if (!is_kernel(op) && effect.bytes < 0) freed_by_others_.insert(effect.category);
    });
  }

  [[nodiscard]] RankLeast read() {
    TY_CHECK(question_.begins.size() == question_.steps.size() + 1, question_.begins.size());
    RankLeast least;
    for (auto& chunks : least.steps) chunks.resize(question_.chunks);
    std::array<std::vector<bool>, 4> seen;
    for (auto& chunks : seen) chunks.resize(question_.chunks, false);
    for (std::size_t i = 0; i < question_.steps.size(); ++i) {
      const ScheduleStep& step = question_.steps[i];
      const StepLeast now = step_of(segment_of(i), step);
      const auto kind = static_cast<std::size_t>(step.kind);
      const auto chunk = static_cast<std::size_t>(step.chunk);
      StepLeast& known = least.steps.at(kind).at(chunk);
      known = seen.at(kind).at(chunk) ? least_of(known, now) : now;
      seen.at(kind).at(chunk) = true;
    }
    add_head_and_tail(least);
    for (const ResidentMemory& part : program_.resident)
      least.held_bytes += static_cast<double>(part.bytes);
    return least;
  }

 private:
  // Whether a step and the next one form one block, which begins with both. A step that begins
  // together with the next may also have no operation at all, such as the backward of frozen layers
  // that pass nothing on.
  [[nodiscard]] bool is_overlapped(std::size_t i) const {
    return question_.steps[i].overlapped && question_.begins[i] == question_.begins[i + 1];
  }

  [[nodiscard]] Segment segment_of(std::size_t i) const {
    const std::vector<OpIndex>& begins = question_.begins;
    const bool first = is_overlapped(i);
    const bool second = i > 0 && is_overlapped(i - 1);
    Segment segment{.begin = begins[i],
                    .end = begins[first ? i + 2 : i + 1],
                    .shared = first || second,
                    .forward = question_.steps[i].kind == StepKind::Forward};
    const auto skipped = [&](const Operation& op) {
      return !is_step_kernel(op) || !segment.holds(op);
    };
    while (segment.begin < segment.end && skipped(program_.operations[segment.begin]))
      ++segment.begin;
    return segment;
  }

  [[nodiscard]] StepLeast step_of(const Segment& segment, const ScheduleStep& step) {
    StepLeast least;
    if (segment.shared || question_.kernels_only) {
      for (OpIndex i = segment.begin; i < segment.end; ++i) {
        const Operation& op = program_.operations[i];
        if (is_step_kernel(op) && segment.holds(op)) least.occupied_s += seconds_of(op);
      }
      least.output_s = least.occupied_s;
    } else {
      add_path(segment, least);
    }
    add_memory(segment, step, least);
    return least;
  }

  // Computes the longest path within the segment. Operations before the segment count as done.
  void add_path(const Segment& segment, StepLeast& least) {
    std::vector<double> stream_s(question_.workload.streams.size(), 0.0);
    double sent_s = -1.0;
    for (OpIndex i = segment.begin; i < segment.end; ++i) {
      const Operation& op = program_.operations[i];
      double start_s = stream_s[op.stream];
      bool follows = is_kernel(op);  // other operations may have begun before the step
      for (const OpIndex other : program_.dependencies_of(i)) {
        if (other < segment.begin) continue;
        start_s = std::max(start_s, end_s_[other]);
        follows = true;
      }
      end_s_[i] = start_s + (follows ? seconds_of(op) : 0.0);
      stream_s[op.stream] = end_s_[i];
      if (is_step_kernel(op)) least.occupied_s = end_s_[i];
      // The first send decides when another stage may begin. A step that sends nothing has its
      // output at its end.
      if (op.kind == OpKind::Send && sent_s < 0.0) sent_s = start_s;
    }
    least.output_s = sent_s < 0.0 ? least.occupied_s : std::min(sent_s, least.occupied_s);
  }

  [[nodiscard]] double seconds_of(const Operation& op) const {
    if (is_kernel(op)) return question_.kernel_seconds[program_.kernel_of(op)];
    if (op.kind != OpKind::Collective) return 0.0;
    const GroupId group = rank_->slots.at(op.slot).group;
    if (group == kNone) return 0.0;
    const GroupKind kind = question_.workload.groups[group].kind;
    const bool within_step =
        kind == GroupKind::Tensor || kind == GroupKind::Expert || kind == GroupKind::Context;
    if (!within_step) return 0.0;
    return question_.times.least_seconds(question_.workload, group, op.payload);
  }

  // Only the effects of kernels count, because the times of others depend on communication. Memory
  // that communication frees, such as whole gradients after their reduction, may be freed at once
  // and does not count. A microbatch never holds less than nothing: a step that frees more than its
  // microbatch holds frees memory of others.
  void add_memory(const Segment& segment, const ScheduleStep& step, StepLeast& least) {
    double here = 0.0;
    for (OpIndex i = segment.begin; i < segment.end; ++i) {
      const Operation& op = program_.operations[i];
      if (!is_step_kernel(op) || !segment.holds(op)) continue;
      const std::vector<MemoryEffect> effects = program_.effects_of(i);
      for (const bool at_end : {false, true}) {
        for (const MemoryEffect& effect : effects)
          if (effect.at_end == at_end && !freed_by_others_.contains(effect.category))
            here += static_cast<double>(effect.bytes);
        least.needed_bytes = std::max(least.needed_bytes, here);
      }
    }
    const std::pair microbatch(step.chunk, step.microbatch);
    if (step.kind == StepKind::Forward) forward_bytes_[microbatch] = here;
    if (step.kind == StepKind::BackwardInput) here += forward_bytes_[microbatch];
    const bool leaves = step.kind == StepKind::Forward || step.kind == StepKind::BackwardInput;
    least.left_bytes = leaves ? std::max(0.0, here) : 0.0;
  }

  void add_head_and_tail(RankLeast& least) const {
    for (OpIndex i = 0; i < program_.operations.size(); ++i) {
      const Operation& op = program_.operations[i];
      if (!is_kernel(op)) continue;
      if (i < question_.begins.front())
        least.head_s += question_.kernel_seconds[program_.kernel_of(op)];
      if (i >= question_.begins.back())
        least.tail_s += question_.kernel_seconds[program_.kernel_of(op)];
    }
  }

  const RankQuestion& question_;
  const Program& program_;
  const Rank* rank_ = nullptr;
  std::vector<double> end_s_;
  std::set<decltype(MemoryEffect::category)> freed_by_others_;
  // by chunk and microbatch
  std::map<std::pair<std::int32_t, std::int32_t>, double> forward_bytes_;
};

}  // namespace

StepLeast least_of(const StepLeast& a, const StepLeast& b) {
  return {.occupied_s = std::min(a.occupied_s, b.occupied_s),
          .output_s = std::min(a.output_s, b.output_s),
          .left_bytes = std::min(a.left_bytes, b.left_bytes),
          .needed_bytes = std::min(a.needed_bytes, b.needed_bytes)};
}

RankLeast least_of(RankLeast a, const RankLeast& b) {
  a.head_s = std::min(a.head_s, b.head_s);
  a.tail_s = std::min(a.tail_s, b.tail_s);
  a.held_bytes = std::min(a.held_bytes, b.held_bytes);
  for (std::size_t kind = 0; kind < a.steps.size(); ++kind) {
    for (std::size_t chunk = 0; chunk < a.steps[kind].size(); ++chunk)
      a.steps[kind][chunk] = least_of(a.steps[kind][chunk], b.steps[kind].at(chunk));
  }
  return a;
}

RankLeast rank_least(const RankQuestion& question) { return RankReader(question).read(); }

}  // namespace trainyard
