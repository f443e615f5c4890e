#include "tools/studies/goodput/tables.hpp"

#include <fmt/format.h>

namespace trainyard {

namespace {

std::string count_text(double count) { return fmt::format("{:.4g}", count); }

}  // namespace

std::string time_text(double seconds) {
  if (seconds == 0.0) return "0 s";
  if (seconds >= kSecondsPerDay) return fmt::format("{:.2f} days", seconds / kSecondsPerDay);
  return to_text(Seconds{seconds});
}

std::string kind_text(FailureKind kind) {
  switch (kind) {
    case FailureKind::Fatal:
      return "fatal";
    case FailureKind::Transient:
      return "transient";
    case FailureKind::Degrading:
      return "degrading";
    case FailureKind::Silent:
      return "silent";
    case FailureKind::Planned:
      break;
  }
  return "planned";
}

TextTable summary_table(const GoodputReport& report) {
  const Goodput& all = report.result;
  TextTable table({"", "mean", "+- (95 %)", "P10", "P50", "P90"});
  const auto row = [&](const char* name, const Summary& one, const auto& shown) {
    table.row({name, shown(one.mean), shown(one.half_width), shown(one.p10), shown(one.p50),
               shown(one.p90)});
  };
  const auto share = [](double value) { return fmt::format("{:.4f}", value); };
  row("goodput", all.goodput, share);
  row("ETTR", all.ettr, share);
  row("wall time", all.wall_s, time_text);
  row("interruptions", all.interruptions, count_text);
  row("tokens", all.tokens, count_text);
  row("MFU over the calendar", all.mfu, percent);
  return table;
}

TextTable training_phase_table(const GoodputReport& report) {
  TextTable table({"from tokens", "sequences", "of tokens", "step", "MFU", "productive (mean)"});
  for (std::size_t i = 0; i < report.job.phases.size(); ++i) {
    const TrainingPhase& phase = report.job.phases[i];
    table.row({count_text(phase.from_tokens), std::to_string(phase.global_batch_size),
               std::to_string(phase.sequence_length), to_text(Seconds{phase.step_s}),
               percent(phase.mfu), time_text(report.result.training_phases_s[i])});
  }
  return table;
}

TextTable cause_table(const GoodputReport& report) {
  TextTable table({"interruptions by cause", "kind", "in a run", "share"});
  for (std::size_t i = 0; i < report.job.causes.size(); ++i) {
    const double count = report.result.by_cause[i];
    const double all = report.result.interruptions.mean;
    table.row({report.job.causes[i].name, kind_text(report.job.causes[i].kind), count_text(count),
               percent(all > 0.0 ? count / all : 0.0)});
  }
  return table;
}

// Tables align their columns to the right. A bar of the whole width, 50 characters, begins at the
// left.
TextTable phase_table(const GoodputReport& report) {
  TextTable table({"time by phase (mean)", "time", "share", ""});
  const double wall_s = report.result.wall_s.mean;
  for (std::size_t i = 0; i < kPhases; ++i) {
    const double time_s = report.result.phases_s[i];
    if (time_s <= 0.0) continue;
    table.row({std::string(kPhaseNames[i]), time_text(time_s), percent(time_s / wall_s),
               fmt::format("{:<50}", bar(time_s / wall_s))});
  }
  table.row({"wall time", time_text(wall_s), percent(1.0), std::string(50, ' ')});
  return table;
}

TextTable interval_table(const GoodputReport& report) {
  TextTable table({"interval between checkpoints", "steps", "goodput", "+- (95 %)"});
  for (const IntervalPoint& point : report.result.intervals) {
    const std::string mark = point.mark.empty() ? "" : fmt::format("  {}", point.mark);
    table.row({to_text(Seconds{point.interval_s}) + mark, std::to_string(point.steps),
               fmt::format("{:.4f}", point.goodput), fmt::format("{:.4f}", point.half_width)});
  }
  return table;
}

TextTable halved_table(const GoodputReport& report) {
  TextTable table({"what would help (each halved)", "gain in goodput", "+- (95 %)"});
  for (const HalvedQuantity& one : report.result.halved)
    table.row({one.name, fmt::format("{:+.4f}", one.gain), fmt::format("{:.4f}", one.half_width)});
  return table;
}

TextTable alternative_table(const std::vector<Alternative>& alternatives) {
  TextTable table({"alternative, same failures", "goodput", "+- (95 %)", "gain", "+- (95 %)",
                   "GPUs", "tokens/GPU-hour"});
  for (const Alternative& one : alternatives)
    table.row({one.name, fmt::format("{:.4f}", one.goodput.mean),
               fmt::format("{:.4f}", one.goodput.half_width), fmt::format("{:+.4f}", one.gain.mean),
               fmt::format("{:.4f}", one.gain.half_width), std::to_string(one.gpus),
               fmt::format("{:.4g}", one.tokens_per_gpu_hour)});
  return table;
}

}  // namespace trainyard
