// `trainyard import nccl-tests`: converts logs of nccl-tests to a collective profile.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "scenarios/import/nccl_log.hpp"
#include "sim/base/files.hpp"
#include "sim/base/units.hpp"
#include "sim/base/utf8.hpp"
#include "sim/collectives/profile/collective_profile.hpp"
#include "sim/render/text_table.hpp"
#include "sim/report/result_json.hpp"
#include "sim/workload/call.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/collective/arguments.hpp"

namespace trainyard {

namespace {

std::string run_text(const MeasuredRun& run) {
  std::string text = fmt::format("{}: {} over {} ranks on {} node{}, {} times{}{}{}\n", run.file,
                                 to_string(run.op), run.ranks, run.nodes, run.nodes == 1 ? "" : "s",
                                 run.rows.size(), run.gpu.empty() ? "" : ", " + run.gpu,
                                 run.nccl_version.empty() ? "" : ", NCCL " + run.nccl_version,
                                 run.cuda_graph ? ", from a CUDA graph" : "");
  for (const std::string& note : run.notes) text += "  note: " + note + "\n";
  return text;
}

std::string segments_text(const MeasuredCurve& curve) {
  TextTable table(
      {"from", "sizes measured", "latency (us)", "algbw (GB/s)", "busbw (GB/s)", "mean error"});
  const double factor = bus_bandwidth_factor(curve.op, curve.ranks);
  for (const FitSegment& segment : curve.fit.segments) {
    // The time of small sizes does not grow with the size, so such a segment has a latency and no
    // rate.
    const bool flat = segment.seconds_per_byte <= 0.0;
    const double rate = flat ? 0.0 : 1e-9 / segment.seconds_per_byte;
    table.row({to_text(Bytes{segment.threshold_bytes}),
               fmt::format("{} .. {}", size_text(segment.from_bytes), size_text(segment.to_bytes)),
               fmt::format("{:.2f}", segment.latency_s * 1e6),
               flat ? "any" : fmt::format("{:.2f}", rate),
               flat ? "any" : fmt::format("{:.2f}", rate * factor), percent(segment.error)});
  }
  return table.text();
}

std::string residuals_text(const MeasuredCurve& curve) {
  TextTable table({"size", "measured (us)", "fit (us)", "residual"});
  for (const SizeTime& point : curve.points) {
    const auto bytes = static_cast<double>(point.bytes);
    const double fitted = curve.fit.segment(bytes).time_s(bytes);
    table.row({size_text(point.bytes), fmt::format("{:.2f}", point.time_s * 1e6),
               fmt::format("{:.2f}", fitted * 1e6), signed_percent(fitted / point.time_s - 1.0)});
  }
  return table.text();
}

// A collective profile as text: the runs that were read, the fit of each curve, and its residuals.
std::string profile_text(const CollectiveProfile& profile) {
  std::string text;
  for (const MeasuredRun& run : profile.runs) text += run_text(run);
  for (const MeasuredCurve& curve : profile.curves) {
    text += fmt::format("\n{} over {} ranks on {} node{}, {}, {}\n{}", to_string(curve.op),
                        curve.ranks, curve.nodes, curve.nodes == 1 ? "" : "s", curve.dtype,
                        curve.in_place ? "in place" : "out of place", segments_text(curve));
    if (curve.fit.stalls > 0)
      text += fmt::format("  {} time{} left out of the fit: over 1.5 times that of a larger size\n",
                          curve.fit.stalls, curve.fit.stalls == 1 ? "" : "s");
    text += fmt::format("  mean error {}, worst {}\n\n{}", percent(curve.fit.error),
                        percent(curve.fit.error_worst), residuals_text(curve));
  }
  return text;
}

struct LogChoice {
  std::vector<std::string> logs;
  std::string out;
  std::string op;
  std::uint32_t ranks = 0;  // 0: as in the log
  std::uint32_t nodes = 0;
  std::string gpu;
};

LogHints hints_of(const LogChoice& choice) {
  LogHints hints;
  if (!choice.op.empty()) hints.op = collective_named(choice.op, "--op");
  if (choice.ranks > 0) hints.ranks = choice.ranks;
  if (choice.nodes > 0) hints.nodes = choice.nodes;
  if (!choice.gpu.empty()) hints.gpu = choice.gpu;
  return hints;
}

Exit import_logs(const LogChoice& choice) {
  refuse_outputs({choice.out}, {choice.logs.begin(), choice.logs.end()});
  const LogHints hints = hints_of(choice);
  std::vector<MeasuredRun> runs;
  for (const std::string& log : choice.logs)
    for (MeasuredRun& run : read_nccl_log(log, as_utf8(read_file(log)), hints))
      runs.push_back(std::move(run));
  const CollectiveProfile profile = make_collective_profile(std::move(runs), import_date());
  write_file(choice.out, to_text(to_json(profile), 1));
  say("{}\nProfile  {}   (trainyard collective ... --profile {})\n", profile_text(profile),
      choice.out, choice.out);
  return Exit::Fine;
}

}  // namespace

void add_import_nccl_tests(CLI::App& import, Action& action) {
  auto choice = std::make_shared<LogChoice>();
  CLI::App* command = import.add_subcommand(
      "nccl-tests", "Logs of all_reduce_perf and its siblings, as a profile with a fit");
  command->add_option("logs", choice->logs, "Logs, as text or the JSON of -J")->required();
  command->add_option("-o,--output", choice->out, "The profile to write")->required();
  command->add_option("--op", choice->op, "The collective, where the log does not say");
  command->add_option("--ranks", choice->ranks, "Ranks, where the log does not list them");
  command->add_option("--nodes", choice->nodes, "Nodes, where the log does not list them");
  command->add_option("--gpu", choice->gpu, "The GPU's name, where the log does not say");
  command->footer(
      "Example:\n  trainyard import nccl-tests tests/scenarios/import/h8.log "
      "-o profile.json");
  command->callback([choice, &action] { action = [choice] { return import_logs(*choice); }; });
}

}  // namespace trainyard
