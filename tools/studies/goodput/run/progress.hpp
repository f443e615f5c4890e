// How far a run has come, what its checkpoints hold, and which phases its training time belongs to.
//
// Training is a sequence of segments within which the time of a step does not change. Work counts
// as productive until a failure makes the job fall back to a checkpoint; what lies between is then
// work that is done again.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "tools/studies/goodput/run/job.hpp"
#include "tools/studies/goodput/run/sampled_run.hpp"
#include "tools/studies/goodput/run/training_time.hpp"

namespace trainyard {

// A moment of a run, as a checkpoint holds it.
struct Point {
  double position = 0.0;  // steps of the optimizer
  double steps = 0.0;     // the same in steps of all replicas
  double productive_s = 0.0;
  double degraded_s = 0.0;
};

class RunProgress {
 public:
  explicit RunProgress(const Job& job);

  // The next segments belong to a phase of Job::phases, with its steps and its intervals between
  // checkpoints.
  void enter(std::size_t phase);
  // A segment begins: steps of a length, each of which does a share of the work of a whole step.
  void begin(double step_s, double share);
  void train(double seconds) { trained_s_ += seconds; }
  // Seconds of training until the run has so many steps and its last checkpoint is complete.
  [[nodiscard]] double time_to(double steps) const;
  // Seconds of training until the run has so many steps and the stalls after them have passed.
  [[nodiscard]] double time_to_steps(double steps) const;
  // Seconds until the step under way and the stalls after it have passed.
  [[nodiscard]] double time_to_end_of_step() const;
  // The segment ends now. `steps` is the length of the run; at its end all of them are done.
  void close(double now, double steps);

  // A checkpoint that the job has waited for.
  void save();
  // The job falls back to its latest checkpoint among the levels that survive. Returns the level.
  std::size_t fall_back(const std::vector<bool>& survives, double now);
  // The same to a point that storage holds, which all levels then lack or hold.
  void fall_back_to(const Point& point);
  // The step under way is lost; the whole steps before it are not.
  void drop_unfinished_step();

  // Returns the point that storage would restore if the job failed now.
  [[nodiscard]] Point stored(double now, double steps) const;
  // Whether storage still has a checkpoint, or has replaced it by later ones.
  [[nodiscard]] bool keeps(const Point& point) const;

  [[nodiscard]] const Point& here() const { return here_; }
  [[nodiscard]] bool has_done(double steps) const;  // rounding does not matter
  // The seconds of each phase until the last closed segment.
  [[nodiscard]] std::array<double, kPhases> phases() const;

 private:
  struct Saved {
    std::optional<Point> complete;
    std::optional<Point> writing;
    double complete_at = std::numeric_limits<double>::infinity();
  };
  [[nodiscard]] Point point_at(double position) const;  // in this segment
  [[nodiscard]] double last_step(double steps) const;   // position at which they are done
  // The last checkpoint that is complete, of a step up to `last`: after that one the job trains no
  // more and waits for its last checkpoint.
  [[nodiscard]] std::optional<Point> latest(std::size_t level, double now, double last) const;
  void note_checkpoints(double now, double passed, double last);
  void credit(RunPhase phase, double seconds) {
    phases_s_[static_cast<std::size_t>(phase)] += seconds;
  }

  const Job& job_;
  std::vector<RegularStall> stalls_;      // the levels first
  std::vector<RunPhase> phase_of_stall_;  //
  std::vector<Saved> saved_;              // by level
  std::vector<double> drags_s_;           // of writes in this phase, by level
  TrainingTime time_;
  double nominal_step_s_;  // with all replicas at their full rate
  Point start_;            // of the segment
  Point here_;
  double step_s_;
  double share_ = 1.0;
  double trained_s_ = 0.0;
  std::array<double, kPhases> phases_s_{};  // without those of the points
};

}  // namespace trainyard
