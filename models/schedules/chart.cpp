#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/schedules/schedule.hpp"

namespace trainyard {

namespace {

constexpr std::size_t kWidthLeast = 40;

// The letter of a step. After 26 chunks the alphabet starts again.
char letter(const ScheduleStep& step, const PipelineShape& shape) {
  const bool forward = step.kind == StepKind::Forward;
  if (shape.chunks > 1) return static_cast<char>((forward ? 'A' : 'a') + step.chunk % 26);
  switch (step.kind) {
    case StepKind::Forward:
      return 'F';
    case StepKind::Backward:
      return 'B';
    case StepKind::BackwardInput:
      return 'b';
    case StepKind::BackwardWeight:
      return 'w';
  }
  return '?';
}

char fill(StepKind kind) {
  if (kind == StepKind::Forward) return '-';
  return kind == StepKind::BackwardWeight ? '~' : '=';
}

std::string label(const ScheduleStep& step, const PipelineShape& shape) {
  const bool weight = shape.chunks > 1 && step.kind == StepKind::BackwardWeight;
  return fmt::format("{}{}", weight ? '~' : letter(step, shape), step.microbatch);
}

// Columns of the chart: enough for the label of the shortest step, but at most `most`.
std::size_t chart_columns(const PlayedSchedule& played, const PipelineShape& shape,
                          std::size_t most) {
  double shortest = std::numeric_limits<double>::infinity();
  std::size_t longest_label = 1;
  for (const auto& rank : played.ranks) {
    for (const PlayedStep& step : rank) {
      const double duration = step.end_s - step.start_s;
      if (duration > 0.0) shortest = std::min(shortest, duration);
      longest_label = std::max(longest_label, label(step.step, shape).size());
    }
  }
  const double wanted = played.makespan_s / shortest * static_cast<double>(longest_label);
  if (!(wanted < static_cast<double>(most))) return most;
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(wanted)));
}

class Row {
 public:
  Row(std::size_t columns, double makespan_s)
      : text_(columns, '.'), columns_per_s_(static_cast<double>(columns) / makespan_s) {}

  void draw(const PlayedStep& played, const PipelineShape& shape) {
    const std::size_t begin = column(played.start_s);
    const std::size_t end = std::max(column(played.end_s), begin);
    const std::string text = label(played.step, shape);
    for (std::size_t at = begin; at < end && at < text_.size(); ++at) {
      text_[at] = at - begin < text.size() ? text[at - begin] : fill(played.step.kind);
    }
  }
  // An overlapped pair shares its time. The forward is drawn in the first half, the backward in the
  // second.
  void draw_all(const std::vector<PlayedStep>& steps, const PipelineShape& shape) {
    bool second = false;
    for (PlayedStep step : steps) {
      const double middle = (step.start_s + step.end_s) / 2.0;
      if (step.step.overlapped) step.end_s = middle;
      if (second) step.start_s = middle;
      second = step.step.overlapped;
      draw(step, shape);
    }
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  [[nodiscard]] std::size_t column(double time_s) const {
    return static_cast<std::size_t>(std::lround(time_s * columns_per_s_));
  }

  std::string text_;
  double columns_per_s_;
};

std::string legend(const PlayedSchedule& played, const PipelineShape& shape) {
  bool split = false;
  for (const auto& rank : played.ranks) {
    for (const PlayedStep& step : rank) split |= step.step.kind == StepKind::BackwardWeight;
  }
  std::string text = shape.chunks == 1 ? "F forward, B backward"
                                       : "letter: chunk (A first), capital forward, small backward";
  if (split && shape.chunks == 1) text = "F forward, b input gradient, w weight gradient";
  if (split && shape.chunks > 1) text += ", ~ weight gradient";
  return text + "; the number is the microbatch, dots are bubbles\n";
}

}  // namespace

std::string schedule_chart(const PlayedSchedule& played, const PipelineShape& shape,
                           std::size_t width) {
  if (played.ranks.empty() || !(played.makespan_s > 0.0)) return "nothing to draw\n";
  const std::size_t digits = fmt::format("{}", played.ranks.size() - 1).size();
  const std::size_t margin = std::string("rank  |").size() + digits;
  const std::size_t columns = chart_columns(played, shape, std::max(width, kWidthLeast) - margin);
  std::string text;
  for (std::size_t rank = 0; rank < played.ranks.size(); ++rank) {
    Row row(columns, played.makespan_s);
    row.draw_all(played.ranks[rank], shape);
    text += fmt::format("rank {:>{}} |{}\n", rank, digits, row.text());
  }
  return text + legend(played, shape);
}

std::string schedule_table(const PlayedSchedule& played, const PipelineShape& shape) {
  std::string text = fmt::format("makespan {:.6g}\n", played.makespan_s);
  text += fmt::format("{:>6} {:>12} {:>12} {:>9} {:>18}\n", "rank", "busy", "bubble", "bubble %",
                      "activations held");
  for (std::size_t rank = 0; rank < played.ranks.size(); ++rank) {
    const double bubble = played.makespan_s - played.busy_s[rank];
    const double share = played.makespan_s > 0.0 ? 100.0 * bubble / played.makespan_s : 0.0;
    const double held = static_cast<double>(played.peak_activations[rank]) /
                        static_cast<double>(chunks_per_share(shape));
    text += fmt::format("{:>6} {:>12.6g} {:>12.6g} {:>9.2f} {:>18.4g}\n", rank, played.busy_s[rank],
                        bubble, share, held);
  }
  return text;
}

}  // namespace trainyard
