#include "tools/studies/run_log/fit_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/median.hpp"
#include "sim/base/units.hpp"
#include "sim/render/text_table.hpp"
#include "tools/studies/run_log/timestamp.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kNotExplained = "not explained";

std::string duration_text(double seconds) {
  constexpr double kRounding = 1e-6;  // what is less is the rounding of sums
  if (std::abs(seconds) < kRounding) return "0 s";
  if (std::abs(seconds) >= kSecondsPerDay)
    return fmt::format("{:.2f} days", seconds / kSecondsPerDay);
  return seconds < 0.0 ? "-" + to_text(Seconds{-seconds}) : to_text(Seconds{seconds});
}

std::string kind_word(FailureKind kind) {
  if (kind == FailureKind::Fatal) return "fatal";
  return kind == FailureKind::Transient ? "transient" : "planned";
}

// A moment so many seconds after the end of the log.
std::string moment_text(const RunLog& log, double after_s) {
  return log.dated ? date_text(log.end_s + after_s) : duration_text(after_s) + " after the log";
}

// Name and time of every phase that has any.
std::vector<std::pair<std::string, double>> named_phases(const PhaseSplit& split) {
  std::vector<std::pair<std::string, double>> all;
  for (std::size_t i = 0; i < kPhases; ++i)
    if (split.phases_s[i] > 0.0) all.emplace_back(kPhaseNames[i], split.phases_s[i]);
  for (const auto& [name, time_s] : split.others_s) all.emplace_back(name, time_s);
  all.emplace_back(kNotExplained, split.not_explained_s);
  return all;
}

std::string header_text(const FitReport& report) {
  const RunLog& log = report.log;
  std::string text =
      fmt::format("{}\n\nlog         {}, {} of wall time", log.title.empty() ? log.file : log.title,
                  log.format, duration_text(log.wall_s()));
  if (log.dated) text += fmt::format(", {} to {}", date_text(log.begin_s), date_text(log.end_s));
  text += "\n";
  if (log.nodes > 0) text += fmt::format("nodes       {}\n", log.nodes);
  if (!log.source.empty()) text += wrapped("source      " + log.source, 12);
  if (!log.reconstructed.empty()) text += wrapped("RECONSTRUCTED: " + log.reconstructed, 2);
  for (const std::string& note : log.notes) text += wrapped("note        " + note, 12);
  return text;
}

std::string goodput_line(const FitReport& report) {
  const PhaseSplit& split = report.fit.split;
  if (!split.step_times) return "goodput     not known: the log has no steps\n";
  std::string text = fmt::format("goodput     {:.4f}: {:.0f} steps kept\n",
                                 report.fit.goodput(report.log), split.steps_kept);
  text += fmt::format("step        median {}, P10 {}, P90 {}, over {:.0f} steps\n",
                      to_text(Seconds{split.step_times->median_s}),
                      to_text(Seconds{split.step_times->p10_s}),
                      to_text(Seconds{split.step_times->p90_s}), split.step_times->steps);
  if (report.fit.interval_steps)
    text += fmt::format("checkpoint  every {:.0f} steps ({}){}\n", *report.fit.interval_steps,
                        report.fit.interval_from,
                        report.fit.checkpoint_stall_s
                            ? ", stalls " + to_text(Seconds{*report.fit.checkpoint_stall_s})
                            : std::string());
  return text;
}

std::string downtime_line(const FitReport& report) {
  std::vector<double> times = report.fit.downtimes_s;
  if (times.empty()) return "";
  const double mean =
      std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  const double longest = *std::ranges::max_element(times);
  return fmt::format("recovery    mean {}, median {}, longest {}, over {} that were complete\n",
                     duration_text(mean), duration_text(median(times)), duration_text(longest),
                     times.size());
}

std::string phases_table(const FitReport& report) {
  TextTable table({"time by phase", "time", "share", ""});
  const double wall_s = report.log.wall_s();
  for (const auto& [name, time_s] : named_phases(report.fit.split))
    table.row({name, duration_text(time_s), percent(time_s / wall_s),
               fmt::format("{:<50}", bar(time_s / wall_s))});
  table.row({"wall time", duration_text(wall_s), percent(1.0), std::string(50, ' ')});
  return table.text();
}

std::string per_day(double rate) { return fmt::format("{:.4g}", rate * kSecondsPerDay); }

std::string causes_table(const FitReport& report) {
  if (report.fit.causes.empty()) return "  no interruptions in the log\n";
  TextTable table({"interruptions by cause", "kind", "events", "a day", "90 % interval"});
  const auto row = [&](const std::string& name, const std::string& kind, std::int64_t events,
                       const GammaRate& rate) {
    table.row({name, kind, std::to_string(events), per_day(rate.mean()),
               fmt::format("{} to {}", per_day(rate.low()), per_day(rate.high()))});
  };
  for (const CauseFit& one : report.fit.causes)
    row(one.cause, kind_word(one.kind), one.events, one.rate);
  row("all failures", "fatal", report.fit.failures, report.fit.failure_rate);
  return table.text();
}

std::string prior_line(const FitReport& report) {
  if (report.prior.preset.empty())
    return "rates       events in the wall time with Jeffreys' prior\n";
  return wrapped(
      fmt::format("rates       the preset {} counts as {:.4g} failures more, in the time "
                  "in which this job has so many by its rates",
                  report.prior.preset, report.prior.events),
      12);
}

std::string gaps_table(const FitReport& report) {
  TextTable table(
      {"gaps between failures", "gaps", "Weibull shape", "90 % interval", "p of exponential"});
  const auto row = [&](const std::string& name, const WeibullShape& gaps) {
    table.row({name, std::to_string(gaps.gaps), fmt::format("{:.3f}", gaps.shape),
               fmt::format("{:.3f} to {:.3f}", gaps.low, gaps.high),
               fmt::format("{:.3g}{}", gaps.p_exponential,
                           gaps.rejects_exponential() ? ", rejected" : "")});
  };
  if (report.fit.gaps) row("all failures", *report.fit.gaps);
  for (const CauseFit& one : report.fit.causes)
    // The row of a cause that has all failures of the log would repeat that of all failures.
    if (one.gaps && one.events < report.fit.failures) row(one.cause, *one.gaps);
  if (!report.log.reconstructed.empty())
    return "  gaps between failures are not tested, since their times are reconstructed\n";
  return table.rows().empty() ? "  fewer than five gaps between failures\n" : table.text();
}

std::string lemons_text(const FitReport& report) {
  const LogFit& fit = report.fit;
  if (fit.nodes_compared == 0) return "";
  if (fit.lemons.empty())
    return wrapped(
               fmt::format("  no lemon nodes: no count among {} nodes is improbable under their "
                           "common rate",
                           fit.nodes_compared),
               2) +
           "\n";
  TextTable table({"lemon nodes", "failures", "p under the common rate"});
  for (const LemonNode& one : fit.lemons)
    table.row({one.node, std::to_string(one.failures), fmt::format("{:.2g}", one.p_value)});
  return table.text() +
         wrapped(
             fmt::format("  among {} nodes; at most {} of the nodes named are expected to be none",
                         fit.nodes_compared, percent(kFalseDiscoveries)),
             2) +
         "\n";
}

std::string forecast_text(const FitReport& report) {
  if (!report.forecast) return "";
  const Forecast& forecast = *report.forecast;
  TextTable table({fmt::format("{} steps remain", grouped(forecast.steps)), "time", "finished"});
  for (const auto& [name, time_s] :
       {std::pair{"P10", forecast.p10_s}, {"P50", forecast.p50_s}, {"P90", forecast.p90_s}})
    table.row({name, duration_text(time_s), moment_text(report.log, time_s)});
  TextTable inputs({"the forecast hangs on", "at its P10", "at its P90", "swing"});
  for (const ForecastInput& one : forecast.inputs)
    inputs.row({one.name, duration_text(one.at_p10_s), duration_text(one.at_p90_s),
                duration_text(one.swing_s())});
  return table.text() + "\n" + inputs.text() + "\n";
}

std::string replay_text(const FitReport& report) {
  if (!report.replay) return "";
  TextTable table(
      {"the same failures again", "failures", "goodput", "wall time", "saved", "+- (95 %)"});
  const auto row = [&](const ReplayedRuns& one) {
    table.row({one.name, fmt::format("{:.4g}", one.interruptions.mean),
               fmt::format("{:.4f}", one.goodput.mean), duration_text(one.wall_s.mean),
               duration_text(one.saved_s.mean), duration_text(one.saved_s.half_width)});
  };
  row(report.replay->original);
  for (const ReplayedRuns& one : report.replay->variants) row(one);
  return table.text() + "\n";
}

Json shape_json(const std::optional<WeibullShape>& gaps) {
  if (!gaps) return nullptr;
  return {{"gaps", gaps->gaps},
          {"shape", gaps->shape},
          {"low", gaps->low},
          {"high", gaps->high},
          {"p_exponential", gaps->p_exponential}};
}

Json rate_json(const GammaRate& rate) {
  return {{"per_day", rate.mean() * kSecondsPerDay},
          {"low_per_day", rate.low() * kSecondsPerDay},
          {"high_per_day", rate.high() * kSecondsPerDay},
          {"gamma_shape", rate.shape},
          {"gamma_exposure_days", rate.exposure / kSecondsPerDay}};
}

Json cause_json(const CauseFit& one) {
  Json json{{"cause", one.cause}, {"kind", kind_word(one.kind)}, {"events", one.events}};
  json.update(rate_json(one.rate));
  json["weibull"] = shape_json(one.gaps);
  return json;
}

Json mean_json(const Summary& one) {
  return {{"mean", one.mean}, {"half_width_95", one.half_width}};
}

Json forecast_json(const RunLog& log, const Forecast& forecast) {
  Json json{{"steps", forecast.steps},
            {"p10_s", forecast.p10_s},
            {"p50_s", forecast.p50_s},
            {"p90_s", forecast.p90_s}};
  if (log.dated)
    for (const auto& [key, time_s] : {std::pair{"p10_date", forecast.p10_s},
                                      {"p50_date", forecast.p50_s},
                                      {"p90_date", forecast.p90_s}})
      json[key] = date_text(log.end_s + time_s);
  for (const ForecastInput& one : forecast.inputs)
    json["inputs"].push_back(
        {{"input", one.name}, {"at_p10_s", one.at_p10_s}, {"at_p90_s", one.at_p90_s}});
  return json;
}

Json replay_json(const Replay& replay) {
  const auto row = [](const ReplayedRuns& one) {
    return Json{{"name", one.name},
                {"interruptions", mean_json(one.interruptions)},
                {"goodput", mean_json(one.goodput)},
                {"wall_s", mean_json(one.wall_s)},
                {"saved_s", mean_json(one.saved_s)}};
  };
  Json json = Json::array({row(replay.original)});
  for (const ReplayedRuns& one : replay.variants) json.push_back(row(one));
  return json;
}

Json step_json(const StepTimes& times) {
  return {{"median_s", times.median_s},
          {"p10_s", times.p10_s},
          {"p90_s", times.p90_s},
          {"steps", times.steps}};
}

}  // namespace

std::string fit_text(const FitReport& report) {
  std::string text = header_text(report);
  for (const auto& part : {goodput_line, downtime_line, prior_line}) text += part(report);
  for (const auto& part : {phases_table, causes_table, gaps_table}) text += "\n" + part(report);
  text += "\n";
  for (const auto& part : {lemons_text, forecast_text, replay_text}) text += part(report);
  return text;
}

Json fit_json(const FitReport& report) {
  const RunLog& log = report.log;
  const LogFit& fit = report.fit;
  Json json{{"title", log.title},
            {"format", log.format},
            {"source", log.source},
            {"reconstructed", log.reconstructed},
            {"notes", log.notes},
            {"wall_s", log.wall_s()},
            {"goodput", fit.split.step_times ? Json(fit.goodput(log)) : Json()},
            {"steps_kept", fit.split.steps_kept},
            {"last_step", fit.split.last_step},
            {"step", fit.split.step_times ? step_json(*fit.split.step_times) : Json()}};
  for (const auto& [name, time_s] : named_phases(fit.split)) json["phases_s"][name] = time_s;
  json["causes"] = Json::array();
  for (const CauseFit& one : fit.causes) json["causes"].push_back(cause_json(one));
  json["failures"] = rate_json(fit.failure_rate);
  json["failures"]["events"] = fit.failures;
  json["failures"]["weibull"] = shape_json(fit.gaps);
  json["recoveries_s"] = fit.downtimes_s;
  json["lemon_nodes"] = Json::array();
  for (const LemonNode& one : fit.lemons)
    json["lemon_nodes"].push_back(
        {{"node", one.node}, {"failures", one.failures}, {"p_value", one.p_value}});
  if (report.forecast) json["forecast"] = forecast_json(log, *report.forecast);
  if (report.replay) json["replay"] = replay_json(*report.replay);
  return json;
}

}  // namespace trainyard
