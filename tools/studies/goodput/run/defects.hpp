// The parts of a job that work, but not as they should: slow ones, and those that have computed a
// wrong result. The job does not know of them until someone finds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tools/studies/goodput/run/draws.hpp"
#include "tools/studies/goodput/run/job.hpp"
#include "tools/studies/goodput/run/progress.hpp"

namespace trainyard {

struct SlowNode {
  std::size_t cause = 0;
  std::int64_t slot = 0;
  std::int64_t stage = 0;
  double recovers_at = 0.0;
  double found_at = 0.0;
};

struct SilentError {
  std::size_t cause = 0;
  std::optional<std::int64_t> slot = {};  // none: its node has left the job
  double found_at = 0.0;
  Point clean = {};  // the last checkpoint before it
};

class Defects {
 public:
  // REQUIRES: both outlive the object. It draws from the random numbers of the causes.
  Defects(const Job& job, Arrivals& arrivals) : job_(job), arrivals_(arrivals) {}

  // A part of the node becomes slow.
  void slow_down(std::size_t cause, std::int64_t slot, double now);
  // A node computes a wrong result, which costs nothing until it is found. `clean` is the last
  // checkpoint that storage has now: later ones may hold wrong numbers.
  void corrupt(std::size_t cause, std::optional<std::int64_t> slot, double now, const Point& clean);

  [[nodiscard]] const std::vector<SlowNode>& slow() const { return slow_; }
  [[nodiscard]] const std::vector<SilentError>& errors() const { return errors_; }
  // What slows a step, sorted. Two parts of a stage that are slow for the same cause count as one,
  // because the step waits for the slowest.
  [[nodiscard]] std::vector<SlowPart> slow_parts() const;

  // The slow node with this number is as quick as the others again.
  void end_slow(std::size_t number);
  // Other nodes take these slots: they are not slow, and their results are right.
  void leave(const std::vector<std::int64_t>& slots);
  // The job has fallen back to this point. Errors that came after it are undone with the work. One
  // whose last clean checkpoint is older may be in what was restored, and remains.
  void undo_after(const Point& point);

 private:
  [[nodiscard]] std::int64_t stage_of_part(std::size_t cause, std::int64_t slot);
  [[nodiscard]] double found_after(std::size_t cause);

  const Job& job_;
  Arrivals& arrivals_;
  std::vector<SlowNode> slow_;
  std::vector<SilentError> errors_;
};

}  // namespace trainyard
