#include "tools/studies/run_log/log_fit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include "scenarios/reader/reliability.hpp"
#include "sim/base/error.hpp"
#include "sim/base/median.hpp"
#include "tools/studies/goodput/run/job.hpp"
#include "tools/studies/goodput/scenario_job.hpp"

namespace trainyard {

namespace {

constexpr double kJeffreys = 0.5;

// The rates of a preset for the nodes of the log, per second, by cause in lower case.
std::map<std::string, InterruptionCause> preset_causes(const RunLog& log, const FitPrior& prior) {
  std::map<std::string, InterruptionCause> known;
  if (prior.preset.empty()) return known;
  if (log.nodes == 0 || log.gpus_per_node == 0)
    throw InputError(Problem{.file = log.file,
                             .pointer = {},
                             .problem = "does not tell how many parts failed",
                             .hint = "give --nodes and --gpus-per-node, by which the rates of the "
                                     "preset are scaled"});
  Scenario scenario;
  scenario.cluster.nodes = static_cast<std::uint32_t>(log.nodes);
  // A log does not tell the number of NICs; one for each GPU is assumed.
  scenario.cluster.node.gpus = scenario.cluster.node.nics =
      static_cast<std::uint32_t>(log.gpus_per_node);
  scenario.reliability = load_reliability(prior.preset);
  // A job needs a checkpoint. Only its causes are read, so that of the preset is replaced by one
  // that needs no model.
  scenario.reliability->checkpoint = {
      .bytes = Bytes{0.0}, .stall = Seconds{0.0}, .interval_steps = 1};
  for (const InterruptionCause& cause : job_with_step(scenario, 1.0).causes)
    // A cause that never fails says nothing, and its rate would have a distribution without shape.
    if (cause.kind == FailureKind::Fatal && cause.rate > 0.0)
      known[normalised_word(cause.name)] = cause;
  return known;
}

// A preset that shares no cause with the log would add its own causes to those of the log, and the
// same failures would count twice under two names.
void check_shared_causes(const RunLog& log, const FitPrior& prior,
                         const std::map<std::string, InterruptionCause>& known) {
  const bool shared = std::ranges::any_of(log.interruptions, [&](const LoggedInterruption& one) {
    return known.contains(normalised_word(one.cause));
  });
  if (known.empty() || shared || log.interruptions.empty()) return;
  std::vector<std::string> names;
  for (const auto& [word, cause] : known) names.push_back(cause.name);
  throw InputError(Problem{.file = log.file,
                           .pointer = {},
                           .problem = fmt::format("has no cause of the preset {}: {}", prior.preset,
                                                  log.interruptions.front().cause),
                           .hint = fmt::format("name the causes in the log as the preset does: {}",
                                               fmt::join(names, ", "))});
}

// The first gap begins with the log.
std::vector<double> gaps_between(const std::vector<double>& times_s, double begin_s) {
  std::vector<double> gaps;
  for (const double time_s : times_s) {
    gaps.push_back(time_s - begin_s);
    begin_s = time_s;
  }
  return gaps;
}

std::optional<WeibullShape> shape_of(const std::vector<double>& times_s, const RunLog& log) {
  if (times_s.empty()) return {};
  return weibull_shape(gaps_between(times_s, log.begin_s), log.end_s - times_s.back());
}

class Fitting {
 public:
  Fitting(const RunLog& log, const FitPrior& prior)
      : log_(log), prior_(prior), preset_(preset_causes(log, prior)) {
    check_shared_causes(log, prior, preset_);
    fit_.split = split_phases(log);
  }
  LogFit result();

 private:
  void count_causes();
  void count_stalls();
  void set_rates();
  void set_gaps();
  void find_lemons();
  void set_recovery();
  void set_checkpoints();
  void set_interval();
  CauseFit& cause_named(const std::string& name, FailureKind kind);
  [[nodiscard]] double preset_rate() const;

  const RunLog& log_;
  const FitPrior& prior_;
  std::map<std::string, InterruptionCause> preset_;
  LogFit fit_;
};

CauseFit& Fitting::cause_named(const std::string& name, FailureKind kind) {
  const auto found = std::ranges::find_if(fit_.causes, [&](const CauseFit& one) {
    return normalised_word(one.cause) == normalised_word(name) && one.kind == kind;
  });
  if (found != fit_.causes.end()) return *found;
  return fit_.causes.emplace_back(CauseFit{.cause = name, .kind = kind});
}

void Fitting::count_causes() {
  std::map<std::string, std::int64_t> with_node;
  for (const LoggedInterruption& one : log_.interruptions) {
    CauseFit& cause = cause_named(one.cause, one.kind);
    ++cause.events;
    if (one.kind == FailureKind::Fatal) ++fit_.failures;
    if (!one.node.empty() && one.kind == FailureKind::Fatal) ++with_node[cause.cause];
  }
  for (CauseFit& cause : fit_.causes) cause.names_nodes = 2 * with_node[cause.cause] > cause.events;
  count_stalls();
  std::ranges::stable_sort(
      fit_.causes, [](const CauseFit& a, const CauseFit& b) { return a.events > b.events; });
  // Causes of the preset that the log does not have follow with no events.
  for (const auto& [word, cause] : preset_) (void)cause_named(cause.name, FailureKind::Fatal);
}

void Fitting::count_stalls() {
  for (const PhaseSpan& span : log_.spans) {
    if (span.phase != RunPhase::Stalled) continue;
    CauseFit& cause = cause_named(span.name, FailureKind::Transient);
    ++cause.events;
    // The running mean of the durations.
    cause.duration_s +=
        (span.end_s - span.begin_s - cause.duration_s) / static_cast<double>(cause.events);
  }
}

double Fitting::preset_rate() const {
  double rate = 0.0;
  for (const auto& [word, cause] : preset_) rate += cause.rate;
  return rate;
}

// With a preset, all fatal causes share the exposure, so the sum of their rates has a Gamma
// distribution too. Other kinds have Jeffreys' prior. For example, 10 failures of a preset that has
// 5 a day add 2 days of exposure, and a cause with 30 % of the preset's rate adds 3 to its count.
void Fitting::set_rates() {
  const double wall_s = log_.wall_s();
  const double all = preset_rate();
  const double weight = all > 0.0 ? prior_.events : 0.0;
  const double exposure = wall_s + (all > 0.0 ? weight / all : 0.0);
  for (CauseFit& cause : fit_.causes) {
    const auto count = static_cast<double>(cause.events);
    cause.rate = {.shape = count + kJeffreys, .exposure = wall_s};
    if (all <= 0.0 || cause.kind != FailureKind::Fatal) continue;
    const auto known = preset_.find(normalised_word(cause.cause));
    const double share = known == preset_.end() ? 0.0 : known->second.rate / all;
    cause.rate = {.shape = count + weight * share, .exposure = exposure};
  }
  fit_.failure_rate = {
      .shape = static_cast<double>(fit_.failures) + (all > 0.0 ? weight : kJeffreys),
      .exposure = exposure};
}

void Fitting::set_gaps() {
  // Reconstructed times were placed by a rule, so their gaps say nothing about the shape.
  if (!log_.reconstructed.empty()) return;
  std::map<std::string, std::vector<double>> by_cause;
  std::vector<double> all;
  for (const LoggedInterruption& one : log_.interruptions) {
    if (one.kind != FailureKind::Fatal) continue;
    all.push_back(one.time_s);
    by_cause[normalised_word(one.cause)].push_back(one.time_s);
  }
  fit_.gaps = shape_of(all, log_);
  for (CauseFit& cause : fit_.causes)
    if (cause.kind == FailureKind::Fatal)
      cause.gaps = shape_of(by_cause[normalised_word(cause.cause)], log_);
}

void Fitting::find_lemons() {
  std::map<std::string, std::int64_t> failures;
  for (const LoggedInterruption& one : log_.interruptions)
    if (one.kind == FailureKind::Fatal && !one.node.empty()) ++failures[one.node];
  if (failures.empty()) return;
  fit_.nodes_compared = std::max<std::int64_t>(log_.nodes + log_.spare_nodes,
                                               static_cast<std::int64_t>(failures.size()));
  fit_.lemons = lemon_nodes(failures, fit_.nodes_compared);
}

void Fitting::set_recovery() {
  const auto recoveries = [&](FailureKind kind) {
    std::vector<const RunSegment*> found;
    for (const RunSegment& segment : fit_.split.segments)
      if (segment.interruption && segment.up_s &&
          log_.interruptions[*segment.interruption].kind == kind)
        found.push_back(&segment);
    return found;
  };
  // A recovery that another interruption cuts short is not a sample of the whole recovery. A run
  // without failures still tells by its planned stops how long a restart takes.
  std::vector<const RunSegment*> complete = recoveries(FailureKind::Fatal);
  if (complete.empty()) complete = recoveries(FailureKind::Planned);
  const auto count = static_cast<double>(complete.size());
  double replaced = 0.0;
  for (const RunSegment* segment : complete) {
    if (!log_.interruptions[*segment->interruption].node.empty()) replaced += 1.0;
    fit_.downtimes_s.push_back(*segment->up_s - segment->begin_s);
    for (std::size_t i = 0; i < kPhases; ++i) fit_.recovery_s[i] += segment->recovery_s[i] / count;
    fit_.recovery_not_explained_s += segment->recovery_not_explained_s / count;
  }
  const double replacement_s = fit_.recovery_s[static_cast<std::size_t>(RunPhase::Replace)];
  // All time of replacement over the failures that name their node, as only these replace one.
  fit_.replacement_s = replaced > 0.0 ? replacement_s * count / replaced : 0.0;
  double steps = 0.0;
  double training_s = 0.0;
  for (const RunSegment& segment : fit_.split.segments) {
    steps += segment.steps;
    training_s += segment.training_s;
  }
  if (steps > 0.0) fit_.step_s = training_s / steps;
}

void Fitting::set_checkpoints() {
  double stall_s = 0.0;
  double count = 0.0;
  for (const PhaseSpan& span : log_.spans) {
    if (span.phase != RunPhase::Checkpoint) continue;
    stall_s += span.end_s - span.begin_s;
    count += 1.0;
  }
  if (count > 0.0) fit_.checkpoint_stall_s = stall_s / count;
  set_interval();
}

// The median distance of two checkpoints. Without checkpoints in the log, a failure falls on
// average half an interval after one, so the interval is twice the mean of the redone work.
void Fitting::set_interval() {
  std::vector<double> distances;
  const PhaseSpan* last = nullptr;
  for (const PhaseSpan& span : log_.spans) {
    if (span.phase != RunPhase::Checkpoint || !span.steps) continue;
    // After a restart the counts fall, and several hosts may log the same checkpoint. Neither is a
    // distance.
    if (last != nullptr && *span.steps > *last->steps)
      distances.push_back(*span.steps - *last->steps);
    last = &span;
  }
  if (!distances.empty()) {
    fit_.interval_steps = median(distances);
    fit_.interval_from = "the median distance of the checkpoints in the log";
    return;
  }
  const double redone_s = fit_.split.phase(RunPhase::Redone);
  if (!fit_.step_s || fit_.failures == 0 || redone_s <= 0.0) return;
  fit_.interval_steps =
      std::max(1.0, 2.0 * redone_s / static_cast<double>(fit_.failures) / *fit_.step_s);
  fit_.interval_from = "twice the mean work that was redone after a failure";
}

// Rates need the counts of their causes, and the interval between checkpoints needs the time of a
// step, so these run in this order.
LogFit Fitting::result() {
  count_causes();
  set_rates();
  set_gaps();
  find_lemons();
  set_recovery();
  set_checkpoints();
  return std::move(fit_);
}

// ---- the block `reliability`

std::optional<Seconds> phase_time(const LogFit& fit, RunPhase phase) {
  const double time_s = fit.recovery_s[static_cast<std::size_t>(phase)];
  return time_s > 0.0 ? std::optional(Seconds{time_s}) : std::nullopt;
}

// The share of the failures' rate that a cause has, times that rate: the sum of causes with
// Jeffreys' prior each would be half an event a cause too high.
double mean_rate(const LogFit& fit, const CauseFit& cause) {
  if (cause.kind != FailureKind::Fatal) return cause.rate.mean();
  double shapes = 0.0;
  for (const CauseFit& one : fit.causes)
    if (one.kind == FailureKind::Fatal) shapes += one.rate.shape;
  return fit.failure_rate.mean() * cause.rate.shape / shapes;
}

// The block gives a rate as events in component-days. The events are those of the posterior mean,
// so they differ from the whole number in the log.
FailureProcess process_of(const RunLog& log, const LogFit& fit, const CauseFit& cause) {
  const bool of_nodes = log.nodes > 0 && cause.kind == FailureKind::Fatal;
  const double parts = of_nodes ? static_cast<double>(log.nodes) : 1.0;
  const double days = cause.rate.exposure / kSecondsPerDay;
  FailureProcess process{.cause = cause.cause,
                         .kind = cause.kind,
                         .component = of_nodes ? FailingComponent::Node : FailingComponent::Job,
                         .events = mean_rate(fit, cause) * cause.rate.exposure,
                         .component_days = days * parts,
                         .replaces_node = cause.names_nodes,
                         .source = fmt::format("{}: {} events in {:.4g} days; posterior mean",
                                               std::filesystem::path(log.file).filename().string(),
                                               cause.events, log.wall_s() / kSecondsPerDay)};
  if (cause.gaps && cause.gaps->rejects_exponential()) process.weibull_shape = cause.gaps->shape;
  if (cause.kind == FailureKind::Transient) process.duration = Seconds{cause.duration_s};
  return process;
}

// The distribution of the repairs in the log, by their coefficient of variation. It is 1 for an
// exponential; repairs that vary clearly less are lognormal, and those of one length, to the
// rounding of a log, fixed. Less than five say nothing of their distribution.
void fit_repairs(const std::vector<double>& repairs_s, SpareSettings& spares) {
  constexpr std::size_t kFew = 5;
  constexpr double kEqual = 0.01;
  constexpr double kExponential = 0.8;
  const auto count = static_cast<double>(repairs_s.size());
  const double mean = std::accumulate(repairs_s.begin(), repairs_s.end(), 0.0) / count;
  spares.repair = Seconds{mean};
  if (repairs_s.size() < kFew || mean <= 0.0) return;
  double squares = 0.0;
  for (const double one : repairs_s) squares += (one / mean - 1.0) * (one / mean - 1.0);
  const double variation = std::sqrt(squares / (count - 1.0));
  if (variation > kExponential) return;
  spares.repair_distribution =
      variation < kEqual ? RepairDistribution::Fixed : RepairDistribution::Lognormal;
  spares.repair_sigma = std::sqrt(std::log1p(variation * variation));
}

SpareSettings fitted_spares(const RunLog& log, const LogFit& fit, const std::string& source) {
  SpareSettings spares{.nodes = log.spare_nodes, .source = source};
  spares.cold_replace = Seconds{fit.replacement_s};
  if (spares.nodes > 0) spares.replace = spares.cold_replace;
  if (!log.repairs_s.empty()) fit_repairs(log.repairs_s, spares);
  return spares;
}

}  // namespace

LogFit fit_log(const RunLog& log, const FitPrior& prior) { return Fitting(log, prior).result(); }

Reliability fitted_reliability(const RunLog& log, const LogFit& fit) {
  const std::string name = std::filesystem::path(log.file).filename().string();
  Reliability all{.title = log.title.empty() ? fmt::format("Fit to {}", name) : log.title,
                  .source = fmt::format("fitted to {} by trainyard goodput fit{}", name,
                                        log.source.empty() ? "" : "; " + log.source)};
  for (const CauseFit& cause : fit.causes) all.failures.push_back(process_of(log, fit, cause));
  const std::string source =
      fmt::format("{}: means over {} recoveries", name, fit.downtimes_s.size());
  const auto mean_s = [&](RunPhase phase) {
    return fit.recovery_s[static_cast<std::size_t>(phase)];
  };
  // The block has a time of replacement only for failures that take a node out. Where no failure
  // names its node, `start` holds the logged time of replacement instead.
  const bool replaces = fit.replacement_s > 0.0;  // else the log replaces without naming nodes
  all.recovery = {
      .detect = phase_time(fit, RunPhase::Detect),
      .diagnose = phase_time(fit, RunPhase::Diagnose),
      .queue = phase_time(fit, RunPhase::Queue),
      .start = Seconds{mean_s(RunPhase::Start) + fit.recovery_not_explained_s +
                       (replaces ? 0.0 : mean_s(RunPhase::Replace))},
      .communicator_init = phase_time(fit, RunPhase::CommunicatorInit),
      .warm_up = phase_time(fit, RunPhase::WarmUp),
      .source = fmt::format("{}; start holds {:.4g} s that no phase of the log explains", source,
                            fit.recovery_not_explained_s)};
  if (fit.interval_steps) {
    all.checkpoint = {
        .stall = Seconds{fit.checkpoint_stall_s.value_or(0.0)},
        .interval_steps = std::max<std::int64_t>(1, std::llround(*fit.interval_steps)),
        .source = fmt::format("{}: interval is {}", name, fit.interval_from)};
    all.checkpoint.load = phase_time(fit, RunPhase::Load);
  } else {
    all.checkpoint = {.source = fmt::format("{} tells no checkpoints", name)};
  }
  all.spares = fitted_spares(log, fit, source);
  return all;
}

}  // namespace trainyard
