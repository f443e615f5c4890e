#include "tools/studies/goodput/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/report/interval.hpp"
#include "tools/studies/goodput/step_error.hpp"
#include "tools/studies/goodput/tables.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kSecondsPerHour = 3600.0;

constexpr std::string_view kGoodputDefinition =
    "goodput: time that the steps take with all replicas / wall time";
constexpr std::string_view kEttrDefinition =
    "ETTR: productive run time / wall time (Kokolis et al. 2024; waits in a queue count as wall "
    "time); "
    "steps with fewer replicas or slow parts count in full";
constexpr std::string_view kNotSimulated =
    "Not simulated: preemption by other jobs, failures that cause others, and parts that the "
    "reliability block does not name.";

std::string states_text(const Job& job) {
  if (!job.states) return "";
  const auto [simulated, asked] = job.states();
  if (simulated == 0) return "";
  return fmt::format("; {} other states simulated, asked for {} times", simulated, asked);
}

// The closed form of the optimum knows no failures that hit several nodes by chance.
const char* optimum_text(const Job& job) {
  if (!job.optimal_interval) return "";
  if (job.interval_is_run) return ", as the optimum is longer than the run";
  return job.has_cause_that_reads_storage() ? ", the optimum"
                                            : ", the optimum if every failure read storage";
}

// Sharded over fewer replicas, each rank holds more.
std::string elastic_text(const Job& job) {
  if (job.policy != FailurePolicy::Elastic) return "";
  const std::int64_t lost = job.replicas_lost(1);
  if (lost >= job.replicas || job.trains_without(lost)) return "";
  return wrapped(fmt::format("DOES NOT FIT with {} of {} replicas, so elastic waits for a node",
                             job.replicas - lost, job.replicas),
                 12);
}

std::string near_text(const Job& job) {
  std::string text;
  for (std::size_t i = 0; i + 1 < job.levels.size(); ++i) {
    const CheckpointLevel& level = job.levels[i];
    text += fmt::format("            {} every {} steps, {} copies, stalls {}\n", level.name,
                        level.interval_steps, level.copies, to_text(Seconds{level.stall_s}));
  }
  return text;
}

std::string setup_text(const GoodputReport& report) {
  const Job& job = report.job;
  const double interval_s = static_cast<double>(job.storage().interval_steps) * job.step_s;
  std::string text = fmt::format(
      "step        {}, MFU {}, on {} GPUs, those of spare nodes included\n"
      "checkpoint  {:.4g} TB every {} steps ({}{}), stalls {}, writes {} beside training\n"
      "failures    one every {}\n"
      "sampled     {} runs{}\n",
      to_text(Seconds{job.step_s}), percent(job.mfu), job.gpus, job.checkpoint_bytes / 1e12,
      job.storage().interval_steps, to_text(Seconds{interval_s}), optimum_text(job),
      to_text(Seconds{job.storage().stall_s}), to_text(Seconds{job.storage().write_s}),
      time_text(job.mtbf_s()), report.result.runs.size(), states_text(job));
  text += near_text(job) + elastic_text(job);
  if (!job.memory_problem.empty()) text.insert(0, job.memory_problem);
  if (!job.absent.empty())
    text += wrapped(fmt::format("NOT GIVEN, so without time: {}", fmt::join(job.absent, ", ")), 12);
  return text;
}

double gpu_hours(const GoodputReport& report) {
  return report.result.wall_s.mean / kSecondsPerHour * static_cast<double>(report.job.gpus);
}

// Whether the question was how much a run of so many days trains, not how long so many tokens take.
bool is_of_days(const GoodputReport& report) { return std::isfinite(report.length.wall_s); }

// The range that the error of the predicted step leaves: of the tokens of a run of so many days, or
// of the wall time of a run of so many tokens. Nothing where the step is no prediction.
std::optional<ValueRange> range_of_run(const GoodputReport& report) {
  const std::optional<StepInterval>& step = report.job.step_interval;
  if (!step) return {};
  std::vector<double> samples;
  for (const SampledRun& run : report.result.runs)
    samples.push_back(is_of_days(report) ? report.job.tokens_of(static_cast<double>(run.steps))
                                         : run.wall_s);
  // The range is one of logarithms. A run that trains no token has none.
  if (samples.empty() || std::ranges::min(samples) <= 0.0) return {};
  return range_with_step_error(samples, step->deviation());
}

std::string cost_text(const GoodputReport& report) {
  std::string text =
      fmt::format("GPU-hours   {:.4g}, those of spare nodes included\n", gpu_hours(report));
  if (const std::optional<double>& price = report.job.gpu_hour_price) {
    text += fmt::format("cost        {:.4g} at {:.6g} per GPU-hour\n", gpu_hours(report) * *price,
                        *price);
    if (!report.job.price_source.empty())
      text += wrapped(fmt::format("{:12}{}", "", report.job.price_source), 12);
  }
  if (report.result.nodes_lost > 0.0)
    text += fmt::format("spares      {:.4g} of {:.4g} failed nodes found no spare\n",
                        report.result.without_spare, report.result.nodes_lost);
  return text;
}

Json summary_json(const Summary& one) {
  return {{"mean", one.mean},
          {"half_width_95", one.half_width},
          {"p10", one.p10},
          {"p50", one.p50},
          {"p90", one.p90}};
}

Json training_phases_json(const GoodputReport& report) {
  Json list = Json::array();
  for (std::size_t i = 0; i < report.job.phases.size(); ++i) {
    const TrainingPhase& phase = report.job.phases[i];
    list.push_back({{"from_tokens", phase.from_tokens},
                    {"from_step", phase.from_step},
                    {"global_batch_size", phase.global_batch_size},
                    {"sequence_length", phase.sequence_length},
                    {"step_time_s", phase.step_s},
                    {"mfu", phase.mfu},
                    {"checkpoint_interval_steps", phase.interval_steps},
                    {"productive_s", report.result.training_phases_s[i]}});
  }
  return list;
}

// "slowed by checkpoint" becomes the key slowed_by_checkpoint.
std::string phase_key(std::size_t phase) {
  std::string key(kPhaseNames[phase]);
  std::replace_if(
      key.begin(), key.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  return key;
}

Json job_json(const Job& job) {
  return {{"step_time_s", job.step_s},
          {"mfu", job.mfu},
          {"gpus", job.gpus},
          {"fits", job.memory_problem.empty()},
          {"tokens_per_step", job.tokens_per_step},
          {"checkpoint_bytes", job.checkpoint_bytes},
          {"checkpoint_interval_steps", job.storage().interval_steps},
          {"checkpoint_stall_s", job.storage().stall_s},
          {"checkpoint_write_s", job.storage().write_s},
          {"mtbf_s", std::isfinite(job.mtbf_s()) ? Json(job.mtbf_s()) : Json()},
          {"absent", job.absent}};
}

}  // namespace

std::string range_sentence(const GoodputReport& report) {
  const std::optional<ValueRange> range = range_of_run(report);
  if (!range) return "";
  const std::string limits =
      is_of_days(report)
          ? fmt::format("train {:.4g} to {:.4g} tokens", range->low, range->high)
          : fmt::format("take {} to {}", time_text(range->low), time_text(range->high));
  return fmt::format("nine of ten runs {}, the error of the step included: {}", limits,
                     interval_sentence(*report.job.step_interval));
}

std::string goodput_text(const GoodputReport& report) {
  const std::string range = range_sentence(report);
  std::string text = fmt::format("{}\n\n{}\n", report.title, setup_text(report));
  text += summary_table(report).text() + "\n" + (range.empty() ? "" : wrapped(range, 2) + "\n");
  if (!report.job.phases.empty()) text += training_phase_table(report).text() + "\n";
  if (!report.alternatives.empty()) text += alternative_table(report.alternatives).text() + "\n";
  for (const auto& table : {phase_table, cause_table, halved_table, interval_table})
    text += table(report).text() + "\n";
  return text + cost_text(report) + "\n" + wrapped(kGoodputDefinition, 2) +
         wrapped(kEttrDefinition, 2) + wrapped(kNotSimulated, 2);
}

Json alternatives_json(const std::vector<Alternative>& alternatives) {
  Json json = Json::array();
  for (const Alternative& one : alternatives)
    json.push_back({{"name", one.name},
                    {"goodput", summary_json(one.goodput)},
                    {"gain", summary_json(one.gain)},
                    {"gpus", one.gpus},
                    {"tokens_per_gpu_hour", one.tokens_per_gpu_hour}});
  return json;
}

Json goodput_json(const GoodputReport& report) {
  const Goodput& all = report.result;
  Json json{{"title", report.title},
            {"definitions", {kGoodputDefinition, kEttrDefinition}},
            {"not_simulated", kNotSimulated},
            {"job", job_json(report.job)},
            {"runs", all.runs.size()},
            {"goodput", summary_json(all.goodput)},
            {"ettr", summary_json(all.ettr)},
            {"wall_s", summary_json(all.wall_s)},
            {"tokens", summary_json(all.tokens)},
            {"mfu_over_calendar", all.mfu.mean},
            {"interruptions", summary_json(all.interruptions)}};
  if (const std::optional<ValueRange> range = range_of_run(report)) {
    json["step_interval"] = interval_json(*report.job.step_interval);
    json["range_90"] = {{"quantity", is_of_days(report) ? "tokens" : "wall_s"},
                        {"low", range->low},
                        {"high", range->high}};
  }
  for (std::size_t i = 0; i < report.job.causes.size(); ++i)
    json["causes"].push_back({{"cause", report.job.causes[i].name},
                              {"kind", kind_text(report.job.causes[i].kind)},
                              {"mean", all.by_cause[i]}});
  if (!report.job.phases.empty()) json["training_phases"] = training_phases_json(report);
  for (std::size_t i = 0; i < kPhases; ++i) json["phases_s"][phase_key(i)] = all.phases_s[i];
  for (const IntervalPoint& point : all.intervals)
    json["intervals"].push_back({{"mark", point.mark},
                                 {"steps", point.steps},
                                 {"interval_s", point.interval_s},
                                 {"goodput", point.goodput},
                                 {"half_width_95", point.half_width}});
  for (const HalvedQuantity& one : all.halved)
    json["halved"].push_back(
        {{"quantity", one.name}, {"gain", one.gain}, {"half_width_95", one.half_width}});
  if (!report.alternatives.empty()) json["alternatives"] = alternatives_json(report.alternatives);
  json["gpu_hours"] = gpu_hours(report);
  if (const std::optional<double>& price = report.job.gpu_hour_price) {
    json["cost"] = gpu_hours(report) * *price;
    json["gpu_hour_price"] = *price;
    if (!report.job.price_source.empty()) json["gpu_hour_price_source"] = report.job.price_source;
  }
  json["nodes_lost"] = all.nodes_lost;
  json["nodes_lost_without_spare"] = all.without_spare;
  return json;
}

std::string goodput_csv(const GoodputReport& report) {
  std::string text = "run,wall_s,steps,goodput";
  for (std::size_t i = 0; i < kPhases; ++i) text += fmt::format(",{}_s", phase_key(i));
  text += ",interruptions,nodes_lost,nodes_lost_without_spare\n";
  std::size_t number = 0;
  for (const SampledRun& run : report.result.runs) {
    std::int64_t interruptions = 0;
    for (const std::int64_t count : run.interruptions) interruptions += count;
    text += fmt::format("{},{},{},{}", number++, run.wall_s, run.steps,
                        run.phase(RunPhase::Productive) / run.wall_s);
    for (const double time_s : run.phases_s) text += fmt::format(",{}", time_s);
    text += fmt::format(",{},{},{}\n", interruptions, run.nodes_lost, run.without_spare);
  }
  return text;
}

}  // namespace trainyard
