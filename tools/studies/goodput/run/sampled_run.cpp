#include "tools/studies/goodput/run/sampled_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "tools/studies/goodput/run/defects.hpp"
#include "tools/studies/goodput/run/draws.hpp"
#include "tools/studies/goodput/run/joining.hpp"
#include "tools/studies/goodput/run/nodes.hpp"
#include "tools/studies/goodput/run/policy.hpp"
#include "tools/studies/goodput/run/progress.hpp"

namespace trainyard {

namespace {

// A run alternates between train() and recover(). train() jumps from one moment of `What` to the
// next until something stops the job. recover() passes the phases of a restart, and a further
// failure makes it begin again. Nothing happens step by step, so the cost grows with the number of
// events and not with that of steps.
//
// Training is cut into segments in which the time of a step is constant (RunProgress). The engine
// simulates whole steps only, so whatever changes the time of a step sets change_at_ to the end of
// the step under way, where change_state() begins the next segment.
class Run {
 public:
  Run(const Job& job, const RunLength& length, std::uint64_t seed, std::uint64_t index,
      std::vector<RunEvent>* events);
  SampledRun result();

 private:
  // Why training has stopped. Without a cause it was planned.
  struct Stop {
    std::optional<std::size_t> cause = {};
    bool trains_on = false;  // the others go on without the failed node
    bool detected = false;   // the cause is known
  };
  // The next moment at which something happens to a job that trains.
  enum class What : std::uint8_t {
    End,
    Calendar,
    StateChange,
    NodeBack,
    Repair,
    Interruption,
    Pause,
    PartRecovers,
    PartFound,
    ErrorFound,
    TrainingPhaseEnds
  };
  struct Next {
    double time;
    What what;
    std::size_t index = 0;
  };

  Stop train();
  [[nodiscard]] Next next() const;
  // Handles what happens. Returns why training stops, or nothing if it goes on.
  std::optional<Stop> handle(const Next& next);
  std::optional<Stop> interrupted_by(std::size_t cause);
  std::optional<Stop> stalled_by(std::size_t cause);
  std::optional<Stop> pause(std::size_t index);
  std::optional<Stop> repaired();
  std::optional<Stop> take_node_back();
  std::optional<Stop> change_state();
  std::optional<Stop> end_training_phase();
  Stop save_and_stop();
  Stop evict(std::size_t index);
  Stop undo_error(std::size_t index);

  // The nodes that a failure takes leave, and the job trains on without them or falls back to a
  // checkpoint.
  Stop on_failure(std::size_t cause);
  void fall_back();
  // Goes through the phases of a recovery until one is complete.
  void recover(Stop stop);
  std::optional<Stop> recover_once(const Stop& stop);
  std::optional<Stop> replace_nodes();
  [[nodiscard]] bool can_run_without(std::int64_t missing) const;
  [[nodiscard]] double date_after(double date, double every_s) const;
  // Lets time pass without training. Returns a failure that ends it early.
  std::optional<Stop> wait(RunPhase phase, double duration_s);
  std::optional<Stop> wait_through(std::initializer_list<std::pair<RunPhase, double>> phases);

  void slow_down(std::size_t cause);
  void corrupt(std::size_t cause);
  // Counts the first event and draws the next one. Returns false if it hits a missing node.
  [[nodiscard]] bool take(std::size_t cause);
  void lose(const std::vector<std::int64_t>& slots);
  void close() { progress_.close(now_, length_.steps); }
  void begin_segment();
  void set_state();
  // Whether the diagnosis of a failure has taken a sound node out, which then goes to repair too.
  [[nodiscard]] bool misdiagnosed(const Stop& stop);
  [[nodiscard]] JobState state() const;
  [[nodiscard]] bool has_backups_for_slow_parts() const;
  [[nodiscard]] double share_of_replicas(const JobState& state) const;
  [[nodiscard]] double share_of_parts(const JobState& state) const;
  void rescale(double share);
  void check_progress();
  void note(RunPhase phase, double begin_s);

  const Job& job_;
  RunLength length_;
  SampledRun run_;
  std::vector<RunEvent>* events_;
  Arrivals arrivals_;
  std::vector<bool> of_parts_;  // by cause: fewer parts have fewer events; a trace keeps its own
  Draws queue_draws_;
  Draws diagnosis_draws_;
  Nodes nodes_;
  RunProgress progress_;
  double now_ = 0.0;
  bool ended_ = false;
  double place_ = 0.0;       // of the event that is handled
  double part_share_ = 1.0;  // of the failures of a whole job of average nodes
  std::size_t training_phase_ = 0;
  JobState state_ = {};  // of the steps that the job trains
  double step_s_;
  double share_;
  bool restarted_ = true;   // since the last time it trained; so begins the run
  bool down_ = false;       // stopped: no failure leaves anything that could train on
  double furthest_ = -1.0;  // the most steps that a restart began with
  std::size_t stops_without_progress_ = 0;
  double change_at_ = kNever;  // when the steps begin to take another time
  double load_s_;
  double trained_from_ = 0.0;
  std::vector<double> pause_at_;  // by pause
  Defects defects_;
  // A node that fills a slot has none of the copies that the lost node held.
  std::vector<std::int64_t> emptied_;  // slots that have changed since every copy was whole
  JoiningNodes joining_;               // of policies that train on
  std::string_view cause_name_ = {};
};

Run::Run(const Job& job, const RunLength& length, std::uint64_t seed, std::uint64_t index,
         std::vector<RunEvent>* events)
    : job_(job),
      length_(length),
      events_(events),
      queue_draws_({.seed = seed, .run = index, .stream = job.causes.size() + 1}),
      diagnosis_draws_({.seed = seed, .run = index, .stream = job.causes.size() + 2}),
      nodes_(job, {.seed = seed, .run = index, .stream = job.causes.size()}),
      progress_(job),
      step_s_(job.policy_step_of(0)),
      share_(share_of_replicas({})),
      load_s_(job.storage().load_s),
      pause_at_(job.pauses.size(), kNever),
      defects_(job, arrivals_),
      joining_(job, nodes_) {
  run_.interruptions.resize(job.causes.size());
  for (std::size_t i = 0; i < job.causes.size(); ++i) {
    const InterruptionCause& cause = job.causes[i];
    arrivals_.add(cause.rate, cause.weibull_shape, {.seed = seed, .run = index, .stream = i},
                  cause.trace_s ? &*cause.trace_s : nullptr);
    of_parts_.push_back(cause.of_parts && !cause.trace_s);
  }
  for (std::size_t i = 0; i < job.pauses.size(); ++i)
    if (job.pauses[i].every) pause_at_[i] = job.pauses[i].every->value();
  // The lemons that this run has drawn may be more or fewer than their mean number.
  rescale(share_of_parts({}));
}

// ---- state

JobState Run::state() const {
  JobState state;
  if (job_.policy == FailurePolicy::Elastic)
    state.replicas_lost =
        job_.replicas_lost(static_cast<std::int64_t>(nodes_.empty_slots().size()));
  if (job_.policy == FailurePolicy::Redundant || job_.policy == FailurePolicy::Reroute)
    state.empty_stages = missing_stages(job_, nodes_.empty_slots());
  // Sorted lists without duplicates make equal states equal keys of StateSteps.
  if (!has_backups_for_slow_parts()) state.slow = defects_.slow_parts();
  state.phase = training_phase_;
  return state;
}

// Under policy backup a step does not wait for slow replicas while these, with those that lack a
// node, are no more than the backups.
bool Run::has_backups_for_slow_parts() const {
  if (job_.policy != FailurePolicy::Backup) return false;
  std::vector<std::int64_t> slots = nodes_.empty_slots();
  for (const SlowNode& one : defects_.slow()) slots.push_back(one.slot);
  return can_do_without(job_, slots);
}

// The share of the replicas whose work counts.
double Run::share_of_replicas(const JobState& state) const {
  const std::int64_t unused =
      job_.policy == FailurePolicy::Backup ? job_.backup_replicas : state.replicas_lost;
  return static_cast<double>(job_.replicas - unused) / static_cast<double>(job_.replicas);
}

// The nodes of a replica that cannot run are idle, and do not fail.
double Run::share_of_parts(const JobState& state) const {
  const double weight = nodes_.failure_weight();
  if (job_.policy != FailurePolicy::Elastic || weight == 0.0) return weight;
  const auto all = static_cast<double>(job_.nodes());
  return weight * all / (all - static_cast<double>(nodes_.empty_slots().size())) *
         share_of_replicas(state);
}

void Run::rescale(double share) {
  if (share == part_share_) return;
  arrivals_.rescale(of_parts_, now_, part_share_, share);
  part_share_ = share;
}

// A slow part that has left the job does not slow it any more.
void Run::set_state() {
  defects_.leave(nodes_.empty_slots());
  state_ = state();
  const bool whole = state_ == JobState{.phase = training_phase_};
  step_s_ = whole ? job_.policy_step_of(training_phase_) : job_.step_in(state_);
  progress_.enter(training_phase_);
  share_ = share_of_replicas(state_);
  rescale(share_of_parts(state_));
}

void Run::begin_segment() {
  progress_.begin(step_s_, share_);
  // Nodes that were about to join when another one failed still do, after this step.
  change_at_ = joining_.any_ready() ? now_ + progress_.time_to_end_of_step() : kNever;
  trained_from_ = now_;
}

// The next event is drawn at the rate of before this one. If this one changes the parts at work,
// rescale() moves the next one once the job trains again, and not before: no part may be left, and
// a rate of zero cannot be rescaled. Until then an event whose place is beyond the share of the
// parts that are left hits a missing node.
bool Run::take(std::size_t cause) {
  const double place = arrivals_.place(cause);
  arrivals_.draw(cause, now_, of_parts_[cause] ? part_share_ : 1.0);
  const bool may_miss = of_parts_[cause] && !nodes_.empty_slots().empty();
  const double left = may_miss ? std::min(1.0, share_of_parts(state()) / part_share_) : 1.0;
  if (place >= left) return false;
  ++run_.interruptions[cause];
  place_ = place / left;
  return true;
}

void Run::note(RunPhase phase, double begin_s) {
  if (events_ == nullptr || now_ <= begin_s) return;
  events_->push_back({.begin_s = begin_s,
                      .duration_s = now_ - begin_s,
                      .phase = phase,
                      .cause = phase == RunPhase::Productive ? "" : cause_name_});
}

// ---- waiting

std::optional<Run::Stop> Run::wait(RunPhase phase, double duration_s) {
  const double begin = now_;
  const double end = std::min(now_ + duration_s, length_.wall_s);
  const auto pass = [&](double until) {
    run_.phases_s[static_cast<std::size_t>(phase)] += until - now_;
    now_ = until;
  };
  while (!ended_) {
    if (arrivals_.first_time() >= end) break;
    const std::size_t cause = arrivals_.first();
    pass(arrivals_.first_time());
    if (!take(cause)) continue;
    // A part can become slow; others than failures have no effect on a job that does not train.
    if (job_.causes[cause].kind == FailureKind::Degrading) slow_down(cause);
    if (job_.causes[cause].kind != FailureKind::Fatal) continue;
    note(phase, begin);
    return on_failure(cause);
  }
  if (ended_) return {};
  pass(end);
  note(phase, begin);
  ended_ = now_ >= length_.wall_s;
  return {};
}

std::optional<Run::Stop> Run::wait_through(
    std::initializer_list<std::pair<RunPhase, double>> phases) {
  for (const auto& [phase, duration_s] : phases)
    if (const auto stop = wait(phase, duration_s)) return stop;
  return {};
}

// ---- failures

void Run::lose(const std::vector<std::int64_t>& slots) {
  nodes_.collect_repairs(now_);
  const auto empty = static_cast<std::int64_t>(nodes_.empty_slots().size());
  const auto count = static_cast<std::int64_t>(slots.size());
  // Slots that are empty already have the first claim to the spares.
  const std::int64_t spares = std::max<std::int64_t>(0, nodes_.standing_by() - empty);
  run_.nodes_lost += count;
  run_.without_spare += std::max<std::int64_t>(0, count - spares);
  nodes_.lose(slots, now_);
  defects_.leave(slots);
  for (const std::int64_t slot : slots)
    if (std::ranges::find(emptied_, slot) == emptied_.end()) emptied_.push_back(slot);
}

// A level survives if the slots that have changed leave a copy of each part.
void Run::fall_back() {
  std::vector<bool> whole;
  for (const CheckpointLevel& level : job_.levels)
    whole.push_back(copies_survive(level.copies, job_.nodes(), emptied_));
  const std::size_t level = progress_.fall_back(whole, now_);
  load_s_ = job_.levels[level].load_s;
  if (level + 1 < job_.levels.size()) ++run_.restored_near;
  defects_.undo_after(progress_.here());
}

Run::Stop Run::on_failure(std::size_t cause) {
  const InterruptionCause& one = job_.causes[cause];
  const std::vector<std::int64_t> lost =
      one.nodes > 0 ? nodes_.hit(place_, one.nodes) : std::vector<std::int64_t>{};
  close();
  lose(lost);
  // A failure that takes no node is one of software, which stops all ranks under every policy. If a
  // node is lost, the step under way lacks its part and is done again.
  if (!down_ && !lost.empty() && can_do_without(job_, nodes_.empty_slots())) {
    progress_.drop_unfinished_step();
    ++run_.trained_on;
    joining_.need(static_cast<std::int64_t>(lost.size()));
    joining_.schedule(now_);
    return {.cause = cause, .trains_on = true};
  }
  fall_back();
  return {.cause = cause};
}

void Run::slow_down(std::size_t cause) {
  const std::vector<std::int64_t> slots = nodes_.hit(place_, 1);
  if (!slots.empty()) defects_.slow_down(cause, slots.front(), now_);
}

void Run::corrupt(std::size_t cause) {
  const std::vector<std::int64_t> slots = nodes_.hit(place_, 1);
  defects_.corrupt(cause, slots.empty() ? std::nullopt : std::optional(slots.front()), now_,
                   progress_.stored(now_, length_.steps));
}

// ---- training

Run::Next Run::next() const {
  Next first{now_ + progress_.time_to(length_.steps), What::End};
  const auto offer = [&](double time, What what, std::size_t index = 0) {
    // A moment that passed while the job did not train is due at once. Of equal times the first one
    // wins, so that a run whose work is done ends before anything else happens to it.
    if (std::max(time, now_) < first.time) first = {std::max(time, now_), what, index};
  };
  offer(length_.wall_s, What::Calendar);
  offer(change_at_, What::StateChange);
  const double phase_end = job_.end_of(training_phase_);
  if (phase_end < length_.steps)
    offer(now_ + progress_.time_to_steps(phase_end), What::TrainingPhaseEnds);
  const bool elastic = job_.policy == FailurePolicy::Elastic;
  if (elastic && !nodes_.empty_slots().empty()) offer(nodes_.next_repair(), What::Repair);
  offer(joining_.next_ready(), What::NodeBack);
  if (joining_.needs_repair()) offer(nodes_.next_repair(), What::Repair);
  for (std::size_t i = 0; i < pause_at_.size(); ++i) offer(pause_at_[i], What::Pause, i);
  const std::vector<SlowNode>& slow = defects_.slow();
  for (std::size_t i = 0; i < slow.size(); ++i) {
    offer(slow[i].recovers_at, What::PartRecovers, i);
    offer(slow[i].found_at, What::PartFound, i);
  }
  const std::vector<SilentError>& errors = defects_.errors();
  for (std::size_t i = 0; i < errors.size(); ++i) offer(errors[i].found_at, What::ErrorFound, i);
  if (!arrivals_.empty()) offer(arrivals_.first_time(), What::Interruption, arrivals_.first());
  return first;
}

Run::Stop Run::train() {
  // A time limit, such as Slurm's, begins again with the job, but not where the job went on without
  // a failed node. Pauses on the calendar keep their dates.
  for (std::size_t i = 0; i < job_.pauses.size(); ++i)
    if (restarted_ && job_.pauses[i].limit) pause_at_[i] = now_ + job_.pauses[i].limit->value();
  restarted_ = false;
  begin_segment();
  for (;;) {
    const Next event = next();
    progress_.train(event.time - now_);
    now_ = event.time;
    if (const std::optional<Stop> stop = handle(event)) return *stop;
  }
}

std::optional<Run::Stop> Run::handle(const Next& next) {
  switch (next.what) {
    case What::End:
    case What::Calendar:
      close();
      note(RunPhase::Productive, trained_from_);
      ended_ = true;
      return Stop{};
    case What::StateChange:
      return change_state();
    case What::NodeBack:
      return take_node_back();
    case What::Repair:
      return repaired();
    case What::Interruption:
      return interrupted_by(next.index);
    case What::Pause:
      return pause(next.index);
    case What::PartRecovers:
      defects_.end_slow(next.index);
      change_at_ = now_ + progress_.time_to_end_of_step();
      return {};
    case What::PartFound:
      return evict(next.index);
    case What::ErrorFound:
      return undo_error(next.index);
    case What::TrainingPhaseEnds:
      return end_training_phase();
  }
  return {};
}

// A slow part or a wrong result does not stop the job, which does not know of it yet.
std::optional<Run::Stop> Run::interrupted_by(std::size_t cause) {
  if (!take(cause)) return {};
  cause_name_ = job_.causes[cause].name;
  switch (job_.causes[cause].kind) {
    case FailureKind::Planned:
      return save_and_stop();
    case FailureKind::Transient:
      return stalled_by(cause);
    case FailureKind::Degrading:
      slow_down(cause);
      change_at_ = now_ + progress_.time_to_end_of_step();
      return {};
    case FailureKind::Silent:
      corrupt(cause);
      return {};
    case FailureKind::Fatal:
      break;
  }
  note(RunPhase::Productive, trained_from_);
  return on_failure(cause);
}

// The job waits, and its step with it, as for a link that flaps while the transport sends again. It
// stops if the cause lasts longer than the transport tries, or if something fails meanwhile.
// Otherwise the segment goes on where it was: no time of training has passed.
std::optional<Run::Stop> Run::stalled_by(std::size_t cause) {
  const InterruptionCause& one = job_.causes[cause];
  const double lasts = arrivals_.draws(cause).exponential(one.duration_s);
  note(RunPhase::Productive, trained_from_);
  const std::optional<Stop> failed = wait(RunPhase::Stalled, std::min(lasts, one.give_up_s));
  if (failed) return failed;
  if (ended_ || lasts > one.give_up_s) close();
  if (ended_) return Stop{};
  trained_from_ = now_;
  if (lasts <= one.give_up_s) return {};
  fall_back();
  return Stop{.cause = cause};
}

Run::Stop Run::save_and_stop() {
  close();
  note(RunPhase::Productive, trained_from_);
  const CheckpointLevel& storage = job_.storage();
  if (const auto failed = wait(RunPhase::Checkpoint, storage.stall_s + storage.write_s))
    return *failed;
  progress_.save();
  load_s_ = storage.load_s;
  ended_ = ended_ || progress_.has_done(length_.steps);
  return {};
}

// The first date after now of those that are `every_s` apart.
double Run::date_after(double date, double every_s) const {
  return date + every_s * (std::floor(std::max(0.0, now_ - date) / every_s) + 1.0);
}

std::optional<Run::Stop> Run::pause(std::size_t index) {
  const PauseSettings& pause = job_.pauses[index];
  cause_name_ = pause.cause;
  // One of the dates on which the job did not train is made up for.
  pause_at_[index] = pause.every ? date_after(pause_at_[index], pause.every->value()) : kNever;
  const Stop stop = save_and_stop();
  if (stop.cause || ended_) return stop;
  down_ = true;
  const auto failed = wait(RunPhase::Paused, pause.duration ? pause.duration->value() : 0.0);
  return failed ? *failed : Stop{};
}

// A node has been repaired. An elastic job saves and starts again where a replica more can train;
// in a replica of two nodes that lacks both, the first of them changes nothing.
std::optional<Run::Stop> Run::repaired() {
  if (job_.policy != FailurePolicy::Elastic) {
    joining_.schedule(now_);
    return {};
  }
  nodes_.collect_repairs(now_);
  const auto missing = static_cast<std::int64_t>(nodes_.empty_slots().size());
  const std::int64_t left = std::max<std::int64_t>(0, missing - nodes_.standing_by());
  if (job_.replicas_lost(left) >= state_.replicas_lost) return {};
  ++run_.rejoins;
  cause_name_ = {};
  return save_and_stop();
}

// The node joins the next step.
std::optional<Run::Stop> Run::take_node_back() {
  ++run_.rejoins;
  joining_.make_ready();
  change_at_ = now_ + progress_.time_to_end_of_step();
  return {};
}

// Between two steps: nodes join, and steps begin to take another time. The step in the new state is
// looked up after the wait, because a node may become slow during it.
std::optional<Run::Stop> Run::change_state() {
  close();
  note(RunPhase::Productive, trained_from_);
  const bool joins = joining_.any_ready();
  joining_.join();
  if (nodes_.empty_slots().empty()) emptied_.clear();
  double reconfigure_s = joins ? job_.reconfigure_s : 0.0;
  if (job_.move_s) reconfigure_s += job_.move_s(state_, state());
  if (reconfigure_s > 0.0)
    if (const auto failed = wait(RunPhase::Reconfigure, reconfigure_s)) return failed;
  if (ended_) return Stop{};
  set_state();
  begin_segment();
  return {};
}

// The phase ends with a step, as changes of state do.
std::optional<Run::Stop> Run::end_training_phase() {
  ++training_phase_;
  return change_state();
}

// The job saves, and another node takes the place of the slow one. No work is lost, and nothing
// remains to be detected.
Run::Stop Run::evict(std::size_t index) {
  const SlowNode one = defects_.slow()[index];
  cause_name_ = job_.causes[one.cause].name;
  // Where another failure prevents the save, the slow node stays, and is found again.
  const Stop stop = save_and_stop();
  if (stop.cause || ended_) return stop;
  defects_.end_slow(index);
  if (job_.causes[one.cause].nodes > 0) lose({one.slot});
  return {.cause = one.cause, .detected = true};
}

// The work since the last checkpoint before a wrong result is lost, or all work if storage has
// replaced that checkpoint.
Run::Stop Run::undo_error(std::size_t index) {
  const SilentError one = defects_.errors()[index];
  cause_name_ = job_.causes[one.cause].name;
  close();
  note(RunPhase::Productive, trained_from_);
  progress_.fall_back_to(progress_.keeps(one.clean) ? one.clean : Point{});
  load_s_ = job_.storage().load_s;
  defects_.undo_after(progress_.here());
  if (job_.causes[one.cause].nodes > 0 && one.slot) lose({*one.slot});
  return {.cause = one.cause, .detected = true};
}

// ---- recovery

// Spare nodes and nodes from elsewhere replace missing ones at the same time. Without a spare, a
// job that can go on with fewer replicas does. Otherwise the next repair or the nodes from
// elsewhere are awaited, whichever comes first.
std::optional<Run::Stop> Run::replace_nodes() {
  std::int64_t placing = 0;   // spares that take their slots
  double placed_at = kNever;  // when they have
  double cold_at = kNever;    // when nodes from elsewhere come, if any were asked for
  while (!nodes_.empty_slots().empty() && !ended_) {
    nodes_.collect_repairs(now_);
    const auto missing = static_cast<std::int64_t>(nodes_.empty_slots().size());
    if (placed_at <= now_) {
      nodes_.replace_from_spares(placing);
      placing = 0;
      placed_at = kNever;
      continue;
    }
    if (cold_at <= now_) {
      nodes_.replace_from_elsewhere(std::min(nodes_.elsewhere(), missing - placing));
      cold_at = kNever;
      continue;
    }
    if (placing == 0 && nodes_.standing_by() > 0) {
      placing = std::min(nodes_.standing_by(), missing);
      placed_at = now_ + job_.spares.replace_s;
    }
    const bool waits = placing < missing && !can_run_without(missing - placing);
    if (placing == 0 && !waits) break;
    if (waits && cold_at == kNever && nodes_.elsewhere() > 0)
      cold_at = now_ + *job_.spares.cold_replace_s;
    const double until = std::min({placed_at, cold_at, waits ? nodes_.next_repair() : kNever});
    TY_CHECK(until < kNever, missing);
    if (const auto stop = wait(RunPhase::Replace, until - now_)) return stop;
  }
  return {};
}

// Whether an elastic job trains while so many nodes are missing.
bool Run::can_run_without(std::int64_t missing) const {
  if (job_.policy != FailurePolicy::Elastic) return false;
  const std::int64_t lost = job_.replicas_lost(missing);
  return lost < job_.replicas && job_.trains_without(lost);
}

std::optional<Run::Stop> Run::recover_once(const Stop& stop) {
  if (stop.cause) {
    const InterruptionCause& one = job_.causes[*stop.cause];
    const double detect_s = stop.detected ? 0.0 : one.detect_s;
    if (const auto failed = wait(RunPhase::Detect, detect_s)) return failed;
    if (stop.trains_on) {
      const double moves_s = job_.move_s ? job_.move_s(state_, state()) : 0.0;
      return wait(RunPhase::Reconfigure, job_.reconfigure_s + moves_s);
    }
    if (const auto failed = wait(RunPhase::Diagnose, one.diagnose_s)) return failed;
  }
  joining_.clear();
  if (const auto failed = replace_nodes()) return failed;
  if (ended_) return {};
  ++run_.restarts;
  restarted_ = true;
  const double queue_s = job_.queue_s > 0.0 ? queue_draws_.exponential(job_.queue_s) : 0.0;
  const std::optional<Stop> failed =
      wait_through({{RunPhase::Queue, queue_s},
                    {RunPhase::Start, job_.start_s},
                    {RunPhase::CommunicatorInit, job_.communicator_init_s},
                    {RunPhase::Load, load_s_},
                    {RunPhase::WarmUp, job_.warm_up_s}});
  // Nodes hold copies again once the job has loaded them, not when they have taken their slots.
  if (!failed) emptied_.clear();
  return failed;
}

void Run::recover(Stop stop) {
  while (!ended_) {
    if (stop.cause) cause_name_ = job_.causes[*stop.cause].name;
    down_ = !stop.trains_on;
    check_progress();
    const std::optional<Stop> failed = recover_once(stop);
    if (failed) stop = *failed;
    if (!failed && !misdiagnosed(stop)) break;
  }
  down_ = false;
  if (ended_) return;
  training_phase_ = job_.phase_at(progress_.here().steps);
  set_state();
}

// The failed node is still in the job, which fails again as soon as it has started. The order in
// which the sound and the failed node leave makes no difference to the time.
bool Run::misdiagnosed(const Stop& stop) {
  if (job_.misdiagnosis <= 0.0 || ended_ || !stop.cause || stop.detected || stop.trains_on)
    return false;
  const InterruptionCause& cause = job_.causes[*stop.cause];
  if (cause.nodes == 0 || diagnosis_draws_.uniform() >= job_.misdiagnosis) return false;
  lose(nodes_.hit(diagnosis_draws_.uniform(), cause.nodes));
  return true;
}

// A run of so many steps, unlike one of so many days, may never end.
void Run::check_progress() {
  constexpr std::size_t kStopsMost = 100'000;
  const double steps = progress_.here().steps;
  stops_without_progress_ = steps > furthest_ ? 0 : stops_without_progress_ + 1;
  furthest_ = std::max(furthest_, steps);
  if (length_.wall_s < kNever || stops_without_progress_ < kStopsMost) return;
  throw RunError(
      fmt::format("the job does not get beyond {:.4g} of {:.4g} steps: it has stopped {} times "
                  "since (save more often, or look at the rates of failures and at the pauses)",
                  furthest_, length_.steps, kStopsMost));
}

// Waiting is counted in run_ and training in progress_. No second is in both, so the phases sum up
// to the wall time.
SampledRun Run::result() {
  while (!ended_) {
    const Stop stop = train();
    if (!ended_) recover(stop);
  }
  run_.wall_s = now_;
  run_.steps = progress_.here().steps;
  const std::array<double, kPhases> trained = progress_.phases();
  for (std::size_t i = 0; i < kPhases; ++i) run_.phases_s[i] += trained[i];
  return run_;
}

}  // namespace

SampledRun sampled_run(const Job& job, const RunLength& length, std::uint64_t seed,
                       std::uint64_t index, std::vector<RunEvent>* events) {
  TY_CHECK(length.steps < kNever || length.wall_s < kNever, length.steps, length.wall_s);
  TY_CHECK(job.step_s > 0.0 && job.storage().interval_steps >= 1, job.step_s);
  return Run(job, length, seed, index, events).result();
}

}  // namespace trainyard
