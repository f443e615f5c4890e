#include "tools/studies/goodput/run/progress.hpp"

#include <algorithm>
#include <cmath>

#include "tools/studies/goodput/run/draws.hpp"

namespace trainyard {

// Seconds are counted in two places. here_ has the productive and the degraded ones up to the
// position, and a checkpoint has a copy of it, so one assignment takes lost work away again.
// phases_s_ has all other phases, which no failure undoes. Lost work is added to Redone, so the
// phases still sum up to the time of training.
//
// A segment is not updated step by step: TrainingTime gives the position and the last complete
// checkpoint after any number of seconds.
namespace {

std::int64_t whole_steps(Seconds every, double step_s) {
  return std::max<std::int64_t>(1, std::llround(every.value() / step_s));
}

// Rounding must not make a step that is done look unfinished: its stalls would come twice.
double snapped(double position) {
  constexpr double kRounding = 1e-9;
  const double whole = std::round(position);
  return std::abs(position - whole) < kRounding ? whole : position;
}

}  // namespace

RunProgress::RunProgress(const Job& job)
    : job_(job),
      saved_(job.levels.size()),
      time_(job.step_of(0), {}, 0.0),
      nominal_step_s_(job.step_of(0)),
      step_s_(job.step_of(0)) {
  saved_.back().complete = Point{};
  enter(0);
}

// The intervals between checkpoints in storage and between health checks are times, which are
// other numbers of steps in each phase.
void RunProgress::enter(std::size_t phase) {
  nominal_step_s_ = job_.step_of(phase);
  stalls_.clear();
  phase_of_stall_.clear();
  // Stalls of levels come first: latest() takes the index of a level for that of its stall.
  const auto add = [this](RunPhase of, std::int64_t every_steps, double stall_s) {
    stalls_.push_back({.every_steps = every_steps, .stall_s = stall_s});
    phase_of_stall_.push_back(of);
  };
  const auto interval = [&](const CheckpointLevel& level) {
    return &level == &job_.storage() ? job_.interval_of(phase) : level.interval_steps;
  };
  for (const CheckpointLevel& level : job_.levels)
    add(RunPhase::Checkpoint, interval(level), level.stall_s);
  drags_s_.clear();
  // A write beside training delays the steps after the checkpoint. The delay is modelled as a
  // second stall right after that of the checkpoint, in a phase of its own.
  for (const CheckpointLevel& level : job_.levels) {
    drags_s_.push_back(job_.drag_of(phase, drags_s_.size()));
    if (drags_s_.back() > 0.0) add(RunPhase::Dragged, interval(level), drags_s_.back());
  }
  for (const PauseSettings& pause : job_.pauses)
    if (pause.every_steps > 0) add(RunPhase::Paused, pause.every_steps, pause.duration->value());
  if (const auto& check = job_.health_check)
    add(RunPhase::Checked, whole_steps(*check->every, nominal_step_s_), check->duration->value());
}

void RunProgress::begin(double step_s, double share) {
  step_s_ = step_s;
  share_ = share;
  start_ = here_;
  trained_s_ = 0.0;
  time_ = TrainingTime(step_s, stalls_, start_.position);
}

Point RunProgress::point_at(double position) const {
  const double steps = (position - start_.position) * share_;
  const double work_s = (position - start_.position) * step_s_;
  // With backup replicas a step can be shorter than the nominal one of all replicas, hence the
  // minimum: all of its time is productive then.
  const double productive_s = std::min(work_s, steps * nominal_step_s_);
  return {.position = position,
          .steps = start_.steps + steps,
          .productive_s = start_.productive_s + productive_s,
          .degraded_s = start_.degraded_s + work_s - productive_s};
}

double RunProgress::last_step(double steps) const {
  constexpr double kRounding = 1e-9;
  if (steps == kNever) return kNever;
  // Half the replicas need two steps of the optimizer for one whole step. The last step is done
  // whole, also where the segment begins within a step.
  return std::ceil(start_.position + (steps - start_.steps) / share_ - kRounding);
}

bool RunProgress::has_done(double steps) const {
  constexpr double kRounding = 1e-9;
  return here_.steps >= steps * (1.0 - kRounding);
}

// The last checkpoint comes after the last step, wherever that is in its interval.
double RunProgress::time_to(double steps) const {
  const double last = last_step(steps);
  if (last == kNever) return kNever;
  const CheckpointLevel& storage = job_.storage();
  return time_.before_stalls(last) + storage.stall_s + storage.write_s - trained_s_;
}

double RunProgress::time_to_steps(double steps) const {
  const double last = last_step(steps);
  return last == kNever ? kNever : std::max(0.0, time_.after_stalls(last) - trained_s_);
}

double RunProgress::time_to_end_of_step() const {
  const double step = std::floor(time_.passed_by(trained_s_)) + 1.0;
  return std::max(0.0, time_.after_stalls(step) - trained_s_);
}

std::optional<Point> RunProgress::latest(std::size_t level, double now, double last) const {
  const Saved& saved = saved_[level];
  const CheckpointLevel& of = job_.levels[level];
  // A checkpoint is complete once its write has passed after its stall. passed_by() counts the drag
  // as a stall after the same step, though the write goes on during it.
  const double written_s = trained_s_ - (of.write_s - drags_s_[level]);
  if (written_s > 0.0) {
    const double passed = std::min(time_.passed_by(written_s), last);
    const double position = time_.last_multiple(level, passed);
    if (position > start_.position) return point_at(position);
  }
  // No checkpoint of this segment is complete. A write that an earlier segment began may be.
  return saved.complete_at <= now ? saved.writing : saved.complete;
}

// Notes which checkpoints of the segment are complete and which are still being written. Step
// `passed` is the last one whose stalls have passed.
void RunProgress::note_checkpoints(double now, double passed, double last) {
  for (std::size_t level = 0; level < saved_.size(); ++level) {
    Saved& saved = saved_[level];
    const std::optional<Point> complete = latest(level, now, last);
    const double begun = time_.last_multiple(level, passed);
    const bool writes = begun > start_.position && begun > (complete ? complete->position : -1.0);
    // If neither branch applies, the write that an earlier segment began goes on.
    if (writes) {
      const CheckpointLevel& of = job_.levels[level];
      const double written_s = trained_s_ - time_.after_stalls(begun) + drags_s_[level];
      saved = {.complete = complete,
               .writing = point_at(begun),
               .complete_at = now + of.write_s - written_s};
    } else if (saved.complete_at <= now || begun > start_.position) {
      saved = {.complete = complete, .writing = {}};
    }
  }
}

void RunProgress::close(double now, double steps) {
  const double last = last_step(steps);
  // After the last step, time_to() waits for one more checkpoint, which TrainingTime does not know.
  const double most = last == kNever ? kNever : time_.before_stalls(last);
  const TrainingTime::Split split = time_.split(std::min(trained_s_, most));
  note_checkpoints(now, split.passed, last);
  here_ = point_at(snapped(split.position));
  double rest_s = trained_s_ - (here_.position - start_.position) * step_s_;
  for (std::size_t i = 0; i < stalls_.size(); ++i) {
    if (phase_of_stall_[i] == RunPhase::Checkpoint) continue;
    credit(phase_of_stall_[i], split.stalls_s[i]);
    rest_s -= split.stalls_s[i];
  }
  // The rest is stalls of checkpoints, that of the end of the run included. Rounding may make it
  // slightly negative.
  credit(RunPhase::Checkpoint, std::max(0.0, rest_s));
  begin(step_s_, share_);
}

void RunProgress::save() { saved_.back() = {.complete = here_, .writing = {}}; }

void RunProgress::fall_back_to(const Point& point) {
  const double lost_s =
      here_.productive_s + here_.degraded_s - point.productive_s - point.degraded_s;
  credit(RunPhase::Redone, lost_s);
  here_ = point;
  for (Saved& saved : saved_) {
    saved.writing.reset();
    saved.complete_at = kNever;
    if (saved.complete && saved.complete->position > point.position) saved.complete.reset();
  }
  if (!saved_.back().complete) saved_.back().complete = point;
  begin(step_s_, share_);
}

std::size_t RunProgress::fall_back(const std::vector<bool>& survives, double now) {
  // From storage, the last level, to the quickest. Of equally recent checkpoints the quicker one is
  // loaded. Storage survives everything, so there always is one.
  std::size_t best = saved_.size() - 1;
  for (std::size_t level = saved_.size(); level-- > 0;) {
    Saved& saved = saved_[level];
    saved.complete = survives[level] ? latest(level, now, kNever) : std::nullopt;
    if (saved.complete && saved.complete->position >= saved_[best].complete->position) best = level;
  }
  const Point point = *saved_[best].complete;
  fall_back_to(point);
  return best;
}

void RunProgress::drop_unfinished_step() {
  const double whole = std::floor(here_.position);
  // Takes back what point_at() counts for the share of a step.
  const double share = here_.position - whole;
  if (share <= 0.0) return;
  const double work_s = share * step_s_;
  const double productive_s = std::min(work_s, share * share_ * nominal_step_s_);
  here_.position = whole;
  here_.steps -= share * share_;
  here_.productive_s -= productive_s;
  here_.degraded_s -= work_s - productive_s;
  credit(RunPhase::Redone, work_s);
  begin(step_s_, share_);
}

Point RunProgress::stored(double now, double steps) const {
  return *latest(saved_.size() - 1, now, last_step(steps));
}

bool RunProgress::keeps(const Point& point) const {
  if (job_.kept == 0) return true;
  const std::int64_t every_steps = stalls_[job_.levels.size() - 1].every_steps;
  // Checkpoints that storage has received since. With 2 kept and one each 100 steps, the one of
  // step 100 is replaced at step 300.
  const double later = (here_.position - point.position) / static_cast<double>(every_steps);
  return later < static_cast<double>(job_.kept);
}

std::array<double, kPhases> RunProgress::phases() const {
  std::array<double, kPhases> all = phases_s_;
  all[static_cast<std::size_t>(RunPhase::Productive)] = here_.productive_s;
  all[static_cast<std::size_t>(RunPhase::Degraded)] = here_.degraded_s;
  return all;
}

}  // namespace trainyard
