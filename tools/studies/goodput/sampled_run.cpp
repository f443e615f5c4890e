#include "tools/studies/goodput/sampled_run.hpp"

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/random/exponential_distribution.hpp>
#include <boost/random/lognormal_distribution.hpp>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/seed_seq.hpp>
#include <boost/random/weibull_distribution.hpp>
#include <cmath>
#include <functional>
#include <optional>
#include <queue>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

using Random = boost::random::mt19937_64;

constexpr double kNever = std::numeric_limits<double>::infinity();

Random random_stream(std::uint64_t seed, std::uint64_t run, std::uint64_t stream) {
  constexpr int kHalf = 32;
  const auto low = [](std::uint64_t number) { return static_cast<std::uint32_t>(number); };
  const auto high = [](std::uint64_t number) {
    return static_cast<std::uint32_t>(number >> kHalf);
  };
  boost::random::seed_seq words{low(seed), high(seed), low(run), high(run), low(stream)};
  return Random(words);
}

// The times of one cause: a renewal process with Weibull distributed times.
class Arrivals {
 public:
  Arrivals(const InterruptionCause& cause, Random random)
      : mean_(cause.rate > 0.0 ? 1.0 / cause.rate : kNever),
        times_(cause.weibull_shape, 1.0 / boost::math::tgamma(1.0 + 1.0 / cause.weibull_shape)),
        random_(random) {}

  // Draws the next one, where a share of the parts is at work.
  void draw(double now, double share) {
    next_ = mean_ == kNever ? kNever : now + mean_ / share * times_(random_);
  }
  // The share of the parts at work changes.
  void rescale(double now, double before, double after) {
    if (next_ != kNever) next_ = now + (next_ - now) * before / after;
  }
  [[nodiscard]] double next() const { return next_; }
  [[nodiscard]] double duration(double mean) {
    return boost::random::exponential_distribution<double>(1.0 / mean)(random_);
  }

 private:
  double mean_;
  boost::random::weibull_distribution<double> times_;  // mean 1
  Random random_;
  double next_ = kNever;
};

class Run {
 public:
  Run(const Job& job, const RunLength& length, std::uint64_t seed, std::uint64_t index);
  SampledRun result();

 private:
  using Cause = std::optional<std::size_t>;

  // Training goes on until a failure (the result) or a stop after a saved checkpoint (nothing).
  Cause train();
  // Goes through the phases of a recovery until one is complete.
  void recover(Cause cause);
  // Returns a failure that interrupts the recovery.
  Cause recover_once(Cause cause);
  Cause replace_nodes();
  // Lets time pass without training. Returns a failure that ends it early.
  Cause wait(RunPhase phase, double duration_s);
  // Handles an interruption of the training.
  Cause interrupted_by(std::size_t cause, bool& stopped);
  Cause saved(bool& stopped);

  [[nodiscard]] std::size_t next_cause() const;
  [[nodiscard]] double share_at_work(std::size_t cause) const;
  [[nodiscard]] double share_of_replicas() const;
  [[nodiscard]] double steps_left() const;  // with the replicas at work
  [[nodiscard]] double end_of_work() const;
  [[nodiscard]] double rejoin_time() const;
  void take(std::size_t cause);  // counts it and draws the next one
  void lose_node();
  void collect_repairs();
  void set_lost(std::int64_t replicas);

  enum class Kept : std::uint8_t { Complete, All, End };
  void settle(Kept kept);
  void credit(RunPhase phase, double time_s) {
    run_.phases_s[static_cast<std::size_t>(phase)] += time_s;
  }

  const Job& job_;
  RunLength length_;
  SampledRun run_;
  std::vector<Arrivals> arrivals_;
  Random repair_random_;
  std::priority_queue<double, std::vector<double>, std::greater<>> repairs_;
  double now_ = 0.0;
  bool ended_ = false;
  double trained_ = 0.0;      // time of training since the last start, stalls included
  double step_s_ = 0.0;       // of the replicas at work
  std::int64_t lost_ = 0;     // replicas
  std::int64_t missing_ = 0;  // nodes
  std::int64_t spares_ = 0;
  std::int64_t borrowed_ = 0;  // nodes from elsewhere, to which as many repaired ones go back
};

Run::Run(const Job& job, const RunLength& length, std::uint64_t seed, std::uint64_t index)
    : job_(job),
      length_(length),
      repair_random_(random_stream(seed, index, job.causes.size())),
      step_s_(job.step_s),
      spares_(job.spares.nodes) {
  run_.interruptions.resize(job.causes.size());
  for (std::size_t i = 0; i < job.causes.size(); ++i) {
    arrivals_.emplace_back(job.causes[i], random_stream(seed, index, i));
    arrivals_.back().draw(0.0, 1.0);
  }
}

double Run::share_at_work(std::size_t cause) const {
  return job_.causes[cause].of_parts ? share_of_replicas() : 1.0;
}

std::size_t Run::next_cause() const {
  const auto first =
      std::min_element(arrivals_.begin(), arrivals_.end(),
                       [](const Arrivals& a, const Arrivals& b) { return a.next() < b.next(); });
  return static_cast<std::size_t>(first - arrivals_.begin());
}

void Run::take(std::size_t cause) {
  ++run_.interruptions[cause];
  arrivals_[cause].draw(now_, share_at_work(cause));
}

void Run::set_lost(std::int64_t replicas) {
  if (replicas == lost_) return;
  std::vector<double> before;
  for (std::size_t i = 0; i < arrivals_.size(); ++i) before.push_back(share_at_work(i));
  lost_ = replicas;
  for (std::size_t i = 0; i < arrivals_.size(); ++i)
    arrivals_[i].rescale(now_, before[i], share_at_work(i));
  step_s_ = lost_ == 0 ? job_.step_s : job_.step_with_fewer(lost_);
}

double Run::share_of_replicas() const {
  return static_cast<double>(job_.replicas - lost_) / static_cast<double>(job_.replicas);
}

double Run::steps_left() const {
  constexpr double kRounding = 1e-9;
  return std::ceil((length_.steps - run_.steps) / share_of_replicas() - kRounding);
}

// The training time since the last start at which the last step is done and its checkpoint
// complete.
double Run::end_of_work() const {
  const double steps = steps_left();
  if (steps == kNever) return kNever;
  const auto interval = static_cast<double>(job_.interval_steps);
  const double checkpoints = std::ceil(steps / interval);
  return steps * step_s_ + checkpoints * job_.stall_s + job_.write_s;
}

// Charges the time that was trained since the last start: its work is kept, or lost behind the last
// complete checkpoint. At the end of the run, the last interval may be short.
void Run::settle(Kept kept) {
  const double interval = static_cast<double>(job_.interval_steps) * step_s_;
  const double cycle = interval + job_.stall_s;
  const double cycles = std::floor(trained_ / cycle);
  const double left = steps_left() * step_s_;
  double work = std::min(left, cycles * interval + std::min(trained_ - cycles * cycle, interval));
  double safe = work;
  if (kept == Kept::Complete)
    safe = std::max(0.0, std::floor((trained_ - job_.write_s) / cycle)) * interval;
  if (kept == Kept::End) safe = work = left;
  const double steps = safe / step_s_ * share_of_replicas();
  const double productive = lost_ == 0 ? safe : std::min(safe, steps * job_.step_s);
  run_.steps += steps;
  credit(RunPhase::Productive, productive);
  credit(RunPhase::Degraded, safe - productive);
  credit(RunPhase::Redone, work - safe);
  credit(RunPhase::Checkpoint, trained_ - work);
  trained_ = 0.0;
}

Run::Cause Run::wait(RunPhase phase, double duration_s) {
  const double end = std::min(now_ + duration_s, length_.wall_s);
  while (!ended_) {
    const std::size_t cause = arrivals_.empty() ? 0 : next_cause();
    if (arrivals_.empty() || arrivals_[cause].next() >= end) {
      credit(phase, end - now_);
      now_ = end;
      ended_ = now_ >= length_.wall_s;
      return {};
    }
    credit(phase, arrivals_[cause].next() - now_);
    now_ = arrivals_[cause].next();
    take(cause);  // others than failures have no effect on a job that does not train
    if (job_.causes[cause].kind == FailureKind::Fatal) return cause;
  }
  return {};
}

double Run::rejoin_time() const {
  if (job_.policy != FailurePolicy::Elastic || missing_ == 0 || repairs_.empty()) return kNever;
  return std::max(now_, repairs_.top());
}

Run::Cause Run::train() {
  for (;;) {
    const double end = now_ + end_of_work() - trained_;
    const double rejoin = rejoin_time();
    const std::size_t cause = arrivals_.empty() ? 0 : next_cause();
    const double interruption = arrivals_.empty() ? kNever : arrivals_[cause].next();
    const double until = std::min({end, length_.wall_s, rejoin, interruption});
    trained_ += until - now_;
    now_ = until;
    if (until == end || until == length_.wall_s) {
      settle(until == end ? Kept::End : Kept::All);
      ended_ = true;
      return {};
    }
    bool stopped = false;
    Cause failure;
    if (until == rejoin) {
      ++run_.rejoins;
      failure = saved(stopped);
    } else {
      failure = interrupted_by(cause, stopped);
    }
    if (stopped) return failure;
  }
}

// The job writes a checkpoint and waits until it is complete.
Run::Cause Run::saved(bool& stopped) {
  stopped = true;
  const Cause failure = wait(RunPhase::Checkpoint, job_.stall_s + job_.write_s);
  settle(failure ? Kept::Complete : Kept::All);
  return failure;
}

Run::Cause Run::interrupted_by(std::size_t cause, bool& stopped) {
  const InterruptionCause& one = job_.causes[cause];
  take(cause);
  if (one.kind == FailureKind::Planned) return saved(stopped);
  if (one.kind == FailureKind::Transient) {
    const double duration = arrivals_[cause].duration(one.duration_s);
    const Cause failure = wait(RunPhase::Stalled, std::min(duration, one.give_up_s));
    stopped = failure || ended_ || duration > one.give_up_s;
    if (!stopped) return {};
    settle(ended_ ? Kept::All : Kept::Complete);
    return failure ? failure : Cause(cause);
  }
  stopped = true;
  settle(Kept::Complete);
  return cause;
}

void Run::collect_repairs() {
  while (!repairs_.empty() && repairs_.top() <= now_) {
    repairs_.pop();
    (borrowed_ > 0 ? --borrowed_ : ++spares_);
  }
}

void Run::lose_node() {
  collect_repairs();
  ++run_.nodes_lost;
  if (spares_ <= missing_) ++run_.without_spare;
  ++missing_;
  if (!job_.spares.repair_s) return;
  const double mean = *job_.spares.repair_s;
  double repair = mean;
  if (job_.spares.repair_distribution == RepairDistribution::Exponential)
    repair = boost::random::exponential_distribution<double>(1.0 / mean)(repair_random_);
  if (job_.spares.repair_distribution == RepairDistribution::Lognormal) {
    const double sigma = job_.spares.repair_sigma;
    const double mu = std::log(mean) - sigma * sigma / 2.0;
    repair = boost::random::lognormal_distribution<double>(mu, sigma)(repair_random_);
  }
  repairs_.push(now_ + repair);
}

// Spare nodes replace missing ones at the same time. Without any, a job that can go on with fewer
// replicas does; otherwise a node comes from elsewhere, or the next repair is awaited.
Run::Cause Run::replace_nodes() {
  while (missing_ > 0 && !ended_) {
    collect_repairs();
    if (spares_ > 0) {
      const std::int64_t nodes = std::min(spares_, missing_);
      if (const Cause failure = wait(RunPhase::Replace, job_.spares.replace_s)) return failure;
      spares_ -= nodes;
      missing_ -= nodes;
      continue;
    }
    if (job_.policy == FailurePolicy::Elastic && job_.replicas_lost(missing_) < job_.replicas)
      break;
    const bool elsewhere = job_.spares.cold_replace_s.has_value();
    TY_CHECK(elsewhere || !repairs_.empty(), missing_);
    const double time = elsewhere ? *job_.spares.cold_replace_s : repairs_.top() - now_;
    if (const Cause failure = wait(RunPhase::Replace, time)) return failure;
    if (!elsewhere || ended_) continue;
    borrowed_ += missing_;
    missing_ = 0;
  }
  if (!ended_) set_lost(job_.replicas_lost(missing_));
  return {};
}

Run::Cause Run::recover_once(Cause cause) {
  if (cause) {
    const InterruptionCause& one = job_.causes[*cause];
    if (one.replaces_node) lose_node();
    if (const Cause failure = wait(RunPhase::Detect, one.detect_s)) return failure;
    if (const Cause failure = wait(RunPhase::Diagnose, one.diagnose_s)) return failure;
  }
  if (const Cause failure = replace_nodes()) return failure;
  const std::array<std::pair<RunPhase, double>, 4> phases{
      {{RunPhase::Start, job_.start_s},
       {RunPhase::CommunicatorInit, job_.communicator_init_s},
       {RunPhase::Load, job_.load_s},
       {RunPhase::WarmUp, job_.warm_up_s}}};
  for (const auto& [phase, time_s] : phases)
    if (const Cause failure = wait(phase, time_s)) return failure;
  return {};
}

void Run::recover(Cause cause) {
  do cause = recover_once(cause);
  while (cause && !ended_);
}

SampledRun Run::result() {
  while (!ended_) {
    const Cause failure = train();
    if (!ended_) recover(failure);
  }
  run_.wall_s = now_;
  return run_;
}

}  // namespace

SampledRun sampled_run(const Job& job, const RunLength& length, std::uint64_t seed,
                       std::uint64_t index) {
  TY_CHECK(length.steps < kNever || length.wall_s < kNever, length.steps, length.wall_s);
  TY_CHECK(job.step_s > 0.0 && job.interval_steps >= 1, job.step_s, job.interval_steps);
  return Run(job, length, seed, index).result();
}

}  // namespace trainyard
