#include "tools/studies/goodput/run/defects.hpp"

#include <algorithm>
#include <span>

#include "tools/studies/goodput/run/policy.hpp"

namespace trainyard {

// When a part that is slow or wrong is found: by those who look for it, or by a health check.
double Defects::found_after(std::size_t cause) {
  double after_s = job_.causes[cause].detect_s;
  if (!job_.health_check) return after_s;
  const HealthCheckSettings& check = *job_.health_check;
  Draws& draws = arrivals_.draws(cause);
  // The part goes wrong somewhere between two checks. A check misses it with 1 - coverage.
  const double until_next = draws.uniform();
  const double intervals = until_next + draws.failed_trials(check.coverage);
  return std::min(after_s, intervals * check.every->value());
}

// The stage of a GPU of the node, any of them where it holds several stages. Policies that train on
// without a node number slots stage by stage, and a slot is of one stage.
std::int64_t Defects::stage_of_part(std::size_t cause, std::int64_t slot) {
  const bool by_slot = trains_on(job_.policy) && job_.policy != FailurePolicy::Mirrored;
  if (!job_.stage_of_gpu || by_slot) return stage_of(job_, slot);
  const std::int64_t nodes = job_.nodes() / job_.copies();
  const auto gpus = job_.stage_of_gpu->size() / static_cast<std::size_t>(nodes);
  const auto first = static_cast<std::size_t>(slot % nodes) * gpus;
  const std::span stages = std::span(*job_.stage_of_gpu).subspan(first, gpus);
  if (std::ranges::count(stages, stages.front()) == static_cast<std::ptrdiff_t>(gpus))
    return stages.front();
  const double place = arrivals_.draws(cause).uniform() * static_cast<double>(gpus);
  return stages[static_cast<std::size_t>(place)];
}

void Defects::slow_down(std::size_t cause, std::int64_t slot, double now) {
  const InterruptionCause& one = job_.causes[cause];
  const double lasts =
      one.duration_s == kNever ? kNever : arrivals_.draws(cause).exponential(one.duration_s);
  slow_.push_back({.cause = cause,
                   .slot = slot,
                   .stage = stage_of_part(cause, slot),
                   .recovers_at = now + lasts,
                   .found_at = now + found_after(cause)});
}

void Defects::corrupt(std::size_t cause, std::optional<std::int64_t> slot, double now,
                      const Point& clean) {
  errors_.push_back(
      {.cause = cause, .slot = slot, .found_at = now + found_after(cause), .clean = clean});
}

std::vector<SlowPart> Defects::slow_parts() const {
  std::vector<SlowPart> parts;
  for (const SlowNode& one : slow_) parts.push_back({.cause = one.cause, .stage = one.stage});
  std::ranges::sort(parts);
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

void Defects::end_slow(std::size_t number) {
  slow_.erase(slow_.begin() + static_cast<std::ptrdiff_t>(number));
}

void Defects::leave(const std::vector<std::int64_t>& slots) {
  const auto leaves = [&slots](std::int64_t slot) {
    return std::ranges::find(slots, slot) != slots.end();
  };
  std::erase_if(slow_, [&](const SlowNode& one) { return leaves(one.slot); });
  for (SilentError& one : errors_)
    if (one.slot && leaves(*one.slot)) one.slot.reset();
}

void Defects::undo_after(const Point& point) {
  std::erase_if(errors_,
                [&point](const SilentError& one) { return one.clean.position >= point.position; });
}

}  // namespace trainyard
