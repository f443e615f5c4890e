#include "tools/studies/goodput/run/job.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tools/studies/goodput/run/draws.hpp"
#include "tools/studies/goodput/run/policy.hpp"

namespace trainyard {

// nodes_per_replica may be a fraction: 8 replicas on 2 nodes have 0.25 each.
std::int64_t Job::nodes() const {
  const std::int64_t one =
      std::max<std::int64_t>(1, std::llround(nodes_per_replica * static_cast<double>(replicas)));
  return copies() * one;
}

namespace {

// Failures per second that stop the job. Durations are exponential: of transient causes, this share
// exceeds give_up_s.
double rate_of_failures(const InterruptionCause& cause) {
  if (cause.kind == FailureKind::Fatal || cause.kind == FailureKind::Silent) return cause.rate;
  if (cause.kind != FailureKind::Transient) return 0.0;
  return cause.rate * std::exp(-cause.give_up_s / cause.duration_s);
}

// Whether an event of the cause alone makes the job read storage.
bool reads_storage(const Job& job, const InterruptionCause& cause) {
  if (cause.kind == FailureKind::Silent) return true;
  std::vector<std::int64_t> slots(static_cast<std::size_t>(std::min(cause.nodes, job.nodes())));
  std::iota(slots.begin(), slots.end(), 0);
  if (!slots.empty() && can_do_without(job, slots)) return false;
  return std::none_of(job.levels.begin(), job.levels.end() - 1, [&](const CheckpointLevel& level) {
    return copies_survive(level.copies, job.nodes(), slots);
  });
}

// Infinite where no cause reads storage.
double mtbf_of_storage(const Job& job) {
  double rate = 0.0;
  for (const InterruptionCause& cause : job.causes)
    if (reads_storage(job, cause)) rate += rate_of_failures(cause);
  return 1.0 / rate;
}

}  // namespace

double Job::mtbf_s() const {
  double rate = 0.0;
  for (const InterruptionCause& cause : causes) rate += rate_of_failures(cause);
  return 1.0 / rate;
}

bool Job::has_cause_that_reads_storage() const { return std::isfinite(mtbf_of_storage(*this)); }

double Job::storage_mtbf_s() const {
  const double of_storage_s = mtbf_of_storage(*this);
  return std::isfinite(of_storage_s) ? of_storage_s : mtbf_s();
}

double Job::step_of(std::size_t phase) const {
  return phases.empty() ? step_s : phases[phase].step_s;
}

double Job::policy_step_of(std::size_t phase) const {
  const double with_policy_s = phases.empty() ? policy_step_s : phases[phase].policy_step_s;
  return with_policy_s > 0.0 ? with_policy_s : step_of(phase);
}

std::int64_t Job::interval_of(std::size_t phase) const {
  return phases.empty() ? storage().interval_steps : phases[phase].interval_steps;
}

double Job::drag_of(std::size_t phase, std::size_t level) const {
  return phases.empty() || phases[phase].drags_s.empty() ? levels[level].drag_s
                                                         : phases[phase].drags_s[level];
}

double Job::end_of(std::size_t phase) const {
  return phase + 1 < phases.size() ? phases[phase + 1].from_step : kNever;
}

// Rounding of steps with fewer replicas does not put a run into the phase before.
std::size_t Job::phase_at(double steps) const {
  constexpr double kRounding = 1e-6;
  std::size_t phase = 0;
  while (end_of(phase) <= steps + kRounding) ++phase;
  return phase;
}

double Job::steps_for(double tokens) const {
  if (phases.empty()) return std::ceil(tokens / tokens_per_step);
  std::size_t phase = 0;
  // The phase in which the tokens are reached, then whole steps of that phase for the rest.
  while (phase + 1 < phases.size() && tokens_of(end_of(phase)) < tokens) ++phase;
  const double left = tokens - tokens_of(phases[phase].from_step);
  return phases[phase].from_step + std::ceil(left / phases[phase].tokens_per_step);
}

double Job::tokens_of(double steps) const {
  if (phases.empty()) return steps * tokens_per_step;
  double tokens = 0.0;
  for (std::size_t i = 0; i < phases.size() && phases[i].from_step < steps; ++i)
    tokens += (std::min(steps, end_of(i)) - phases[i].from_step) * phases[i].tokens_per_step;
  return tokens;
}

void Job::set_interval(std::int64_t steps) {
  const double factor = static_cast<double>(steps) / static_cast<double>(storage().interval_steps);
  for (TrainingPhase& phase : phases) {
    const double scaled = static_cast<double>(phase.interval_steps) * factor;
    phase.interval_steps = std::max<std::int64_t>(1, std::llround(scaled));
  }
  storage().interval_steps = steps;
}

// The restart puts the nodes that are left together anew, so it does not matter in which replicas
// nodes are missing. With 4 nodes a replica, 5 missing nodes cost 2 replicas, or the next multiple
// of those that leave together.
std::int64_t Job::replicas_lost(std::int64_t missing_nodes) const {
  const double lost = std::ceil(static_cast<double>(missing_nodes) / nodes_per_replica);
  const double units = std::ceil(lost / static_cast<double>(replica_unit));
  return std::min(replicas, replica_unit * static_cast<std::int64_t>(units));
}

}  // namespace trainyard
