#include "tools/studies/run_log/phases.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace trainyard {

// The log is cut into segments at its interruptions. Each segment is a recovery, up to its first
// count of steps, and training after it. Three passes give every second to one phase:
// 1. Spans that overlap (a restore within a start, a save that several hosts log) become disjoint.
// 2. From the last segment to the first, the lowest count at which a later segment begins is found.
//    Steps above it were lost.
// 3. The time between two counts, less the spans within, is shared between productive and redone by
//    the steps that were kept.

namespace {

constexpr double kAll = std::numeric_limits<double>::infinity();

// Spans that do not overlap: where several do, the time belongs to the one that began last. A span
// within another is the more precise statement, such as the load of a checkpoint within the start
// of the processes.
class DisjointSpans {
 public:
  explicit DisjointSpans(const RunLog& log);

  // Calls `use(span, time)` for every part of a span within the bounds.
  template <class Use>
  void within(double begin_s, double end_s, const Use& use) const {
    // Parts are disjoint and sorted, so their ends rise too.
    auto part = std::ranges::upper_bound(parts_, begin_s, {}, &Part::end_s);
    for (; part != parts_.end() && part->begin_s < end_s; ++part)
      use(*part->span, std::min(end_s, part->end_s) - std::max(begin_s, part->begin_s));
  }
  [[nodiscard]] double covered(double begin_s, double end_s) const {
    double sum = 0.0;
    within(begin_s, end_s, [&](const PhaseSpan&, double time_s) { sum += time_s; });
    return sum;
  }

 private:
  struct Part {
    double begin_s, end_s;
    const PhaseSpan* span;
  };
  std::vector<Part> parts_;
};

// An interruption ends the spans that it falls into.
double clipped_end(const PhaseSpan& span, const RunLog& log) {
  const auto next =
      std::ranges::upper_bound(log.interruptions, span.begin_s, {}, &LoggedInterruption::time_s);
  return next == log.interruptions.end() ? span.end_s : std::min(span.end_s, next->time_s);
}

DisjointSpans::DisjointSpans(const RunLog& log) {
  struct Edge {
    double time_s;
    bool begins;
    std::size_t span;
  };
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < log.spans.size(); ++i) {
    const double end_s = clipped_end(log.spans[i], log);
    if (end_s <= log.spans[i].begin_s) continue;
    edges.push_back({log.spans[i].begin_s, true, i});
    edges.push_back({end_s, false, i});
  }
  std::ranges::stable_sort(edges, {}, &Edge::time_s);
  // The time between two neighbouring edges has the same set of open spans. The greatest begin is
  // at the end of the set.
  std::set<std::pair<double, std::size_t>> open;  // by their begin
  double since_s = 0.0;
  for (const Edge& edge : edges) {
    if (!open.empty() && edge.time_s > since_s)
      parts_.push_back({since_s, edge.time_s, &log.spans[open.rbegin()->second]});
    since_s = edge.time_s;
    const std::pair key{log.spans[edge.span].begin_s, edge.span};
    edge.begins ? void(open.insert(key)) : void(open.erase(key));
  }
}

// A segment with its counts of steps.
struct MarkedSegment {
  RunSegment segment;
  std::vector<StepMark> marks;
  bool interrupted = false;  // at its end
  double kept_most = kAll;   // steps above this count were lost
};

// A count at the very time and line of an interruption belongs to the segment before it.
bool comes_before(const StepMark& mark, const LoggedInterruption& one) {
  return std::tie(mark.time_s, mark.place) <= std::tie(one.time_s, one.place);
}

std::vector<MarkedSegment> marked_segments(const RunLog& log) {
  std::vector<MarkedSegment> all;
  auto mark = log.marks.begin();
  for (std::size_t i = 0; i <= log.interruptions.size(); ++i) {
    MarkedSegment one;
    one.interrupted = i < log.interruptions.size();
    one.segment.begin_s = i == 0 ? log.begin_s : log.interruptions[i - 1].time_s;
    one.segment.end_s = one.interrupted ? log.interruptions[i].time_s : log.end_s;
    if (i > 0) one.segment.interruption = i - 1;
    while (mark != log.marks.end() &&
           (!one.interrupted || comes_before(*mark, log.interruptions[i])))
      one.marks.push_back(*mark++);
    // In a log with steps, the first count after an interruption says when the job trains again. A
    // log without any, such as Slurm's, says it by itself; there it may be in the same second.
    const auto up = std::ranges::lower_bound(log.resumed_s, one.segment.begin_s);
    if (!one.marks.empty())
      one.segment.up_s = one.marks.front().time_s;
    else if (log.marks.empty() && up != log.resumed_s.end() && *up < one.segment.end_s)
      one.segment.up_s = *up;
    all.push_back(std::move(one));
  }
  // A later segment may load an older checkpoint than the next one does, so the lowest first count
  // of all later segments decides. With segments that begin at 0, 300 and 200 steps, the first
  // keeps 200 steps.
  double most = kAll;
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    one->kept_most = most;
    if (!one->marks.empty()) most = std::min(most, one->marks.front().steps);
  }
  return all;
}

// The value that so much of the weight lies below. REQUIRES: not empty.
double weighted_quantile(const std::vector<std::pair<double, double>>& sorted, double share) {
  double weight = 0.0;
  for (const auto& [value, own] : sorted) weight += own;
  double below = 0.0;
  for (const auto& [value, own] : sorted) {
    below += own;
    if (below >= share * weight) return value;
  }
  return sorted.back().first;
}

// Counts may be sparse: each pair of counts is one sample, with its number of steps as the weight.
std::optional<StepTimes> step_times_of(const std::vector<MarkedSegment>& all,
                                       const DisjointSpans& spans) {
  std::vector<std::pair<double, double>> samples;  // time of a step, number of steps
  for (const MarkedSegment& one : all) {
    for (std::size_t i = 1; i < one.marks.size(); ++i) {
      const StepMark& from = one.marks[i - 1];
      const StepMark& to = one.marks[i];
      const double time_s = to.time_s - from.time_s - spans.covered(from.time_s, to.time_s);
      const double steps = to.steps - from.steps;
      if (steps > 0.0 && time_s > 0.0) samples.emplace_back(time_s / steps, steps);
    }
  }
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  StepTimes times{.p10_s = weighted_quantile(samples, 0.1),
                  .median_s = weighted_quantile(samples, 0.5),
                  .p90_s = weighted_quantile(samples, 0.9)};
  for (const auto& [time_s, steps] : samples) times.steps += steps;
  return times;
}

class Splitting {
 public:
  explicit Splitting(const RunLog& log) : spans_(log), all_(marked_segments(log)) {
    split_.step_times = step_times_of(all_, spans_);
  }
  PhaseSplit result();

 private:
  void add(RunPhase phase, double time_s) {
    split_.phases_s[static_cast<std::size_t>(phase)] += time_s;
  }
  void add_spans(double begin_s, double end_s);
  void recover(MarkedSegment& one);
  void train(MarkedSegment& one);
  void train_after_last_count(MarkedSegment& one);
  [[nodiscard]] double free_time(double begin_s, double end_s) const {
    return std::max(0.0, end_s - begin_s - spans_.covered(begin_s, end_s));
  }

  DisjointSpans spans_;
  std::vector<MarkedSegment> all_;
  PhaseSplit split_;
  double between_ = 1.0;  // steps between two counts, as last seen
};

void Splitting::add_spans(double begin_s, double end_s) {
  spans_.within(begin_s, end_s, [&](const PhaseSpan& span, double time_s) {
    if (span.phase)
      add(*span.phase, time_s);
    else
      split_.others_s[span.name] += time_s;
  });
}

// The time from the interruption until the job trains, or until the next interruption. `add_spans`
// has added the spans to the phases of the whole log, so only what they leave free is added here.
void Splitting::recover(MarkedSegment& one) {
  RunSegment& segment = one.segment;
  const double end_s = segment.up_s.value_or(segment.end_s);
  const double missing_s = free_time(segment.begin_s, end_s);
  split_.not_explained_s += missing_s;
  segment.recovery_not_explained_s = missing_s;
  spans_.within(segment.begin_s, end_s, [&](const PhaseSpan& span, double time_s) {
    if (span.phase)
      segment.recovery_s[static_cast<std::size_t>(*span.phase)] += time_s;
    else
      segment.recovery_not_explained_s += time_s;
  });
}

// The time between each two counts is productive as far as its steps were kept. From 100 to 200
// steps, if a later segment begins at 150: half of the time is productive, half is redone.
void Splitting::train(MarkedSegment& one) {
  for (std::size_t i = 1; i < one.marks.size(); ++i) {
    const StepMark& from = one.marks[i - 1];
    const StepMark& to = one.marks[i];
    const double steps = to.steps - from.steps;
    const double time_s = free_time(from.time_s, to.time_s);
    // Equal counts, such as a checkpoint and a step of the same number: no step explains the time.
    if (steps <= 0.0) {
      split_.not_explained_s += time_s;
      continue;
    }
    const double kept = std::clamp(one.kept_most - from.steps, 0.0, steps);
    add(RunPhase::Productive, time_s * kept / steps);
    add(RunPhase::Redone, time_s * (1.0 - kept / steps));
    split_.steps_kept += kept;
    one.segment.steps += steps;
  }
  train_after_last_count(one);
}

// After the last count before an interruption, work goes on until the next count would have come,
// as many steps later as between the two counts before, in this segment or an earlier one. Later
// time is not explained: the job may have hung. Of that work, the steps that a later segment holds
// (a checkpoint newer than the last count) are kept, and the rest is redone. For example, counts
// come every 10 steps of 100 s, the last is 200, and the next segment begins at 205. If the failure
// is 1500 s after the last count, 500 s are kept, 500 s are redone, and 500 s are not explained.
void Splitting::train_after_last_count(MarkedSegment& one) {
  const StepMark& last = one.marks.back();
  double time_s = free_time(last.time_s, one.segment.end_s);
  if (one.interrupted && split_.step_times) {
    const double step_s = split_.step_times->median_s;
    // A checkpoint and a step of one number are one count.
    const auto before = std::find_if(one.marks.rbegin(), one.marks.rend(),
                                     [&](const StepMark& m) { return m.steps < last.steps; });
    if (before != one.marks.rend()) between_ = last.steps - before->steps;
    const double between = between_;
    const double known = one.kept_most == kAll ? 0.0 : one.kept_most - last.steps;
    const double kept_s = std::clamp(known * step_s, 0.0, time_s);
    const double work_s = std::clamp(between * step_s, kept_s, std::max(kept_s, time_s));
    const double redone_s = std::min(work_s, time_s) - kept_s;
    add(RunPhase::Productive, kept_s);
    add(RunPhase::Redone, redone_s);
    split_.steps_kept += std::max(0.0, std::min(known, kept_s / step_s));
    one.segment.steps += (kept_s + redone_s) / step_s;
    time_s -= kept_s + redone_s;
  }
  split_.not_explained_s += time_s;
}

// Training time without checkpoints and transient stalls, which a job of `goodput` has beside its
// steps. Evaluations and time that is not explained stay in it, so that they lengthen the fitted
// step.
double training_time(const RunSegment& segment, const DisjointSpans& spans) {
  double time_s = segment.end_s - *segment.up_s;
  spans.within(*segment.up_s, segment.end_s, [&](const PhaseSpan& span, double part_s) {
    if (span.phase == RunPhase::Checkpoint || span.phase == RunPhase::Stalled) time_s -= part_s;
  });
  return time_s;
}

PhaseSplit Splitting::result() {
  for (MarkedSegment& one : all_) {
    add_spans(one.segment.begin_s, one.segment.end_s);
    recover(one);
    if (!one.marks.empty())
      train(one);
    else if (one.segment.up_s)
      split_.not_explained_s += free_time(*one.segment.up_s, one.segment.end_s);
    if (one.segment.up_s) one.segment.training_s = training_time(one.segment, spans_);
    if (!one.marks.empty()) split_.last_step = one.marks.back().steps;
    split_.segments.push_back(one.segment);
  }
  return std::move(split_);
}

}  // namespace

double PhaseSplit::sum_s() const {
  double sum = std::accumulate(phases_s.begin(), phases_s.end(), not_explained_s);
  for (const auto& [name, time_s] : others_s) sum += time_s;
  return sum;
}

PhaseSplit split_phases(const RunLog& log) { return Splitting(log).result(); }

}  // namespace trainyard
