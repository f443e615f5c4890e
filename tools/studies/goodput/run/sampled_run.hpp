// One sampled run of a job, from its start to its last step or to the end of the calendar.
//
// Interruptions come between steps and within them; all steps and stalls without an interruption
// are one jump. Failures may hit recovery, which then starts again. The time since the last
// checkpoint that is complete, and that the failure spares, is lost and done again. Every second
// belongs to one phase, so the phases add up to the wall time.
//
//    const SampledRun run = sampled_run(job, {.steps = 1e6}, seed, 0);
//    run.phase(RunPhase::Productive) / run.wall_s;   // goodput
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

#include "tools/studies/goodput/run/job.hpp"

namespace trainyard {

// Productive is the time that the steps would take with every node at its full rate; Degraded is
// what they took longer with fewer replicas, slow parts or work for missing nodes. Dragged is what
// a write of a checkpoint beside training delays it. Replace contains the wait for a node.
enum class RunPhase : std::uint8_t {
  Productive,
  Degraded,
  Checkpoint,
  Dragged,
  Redone,
  Stalled,
  Paused,
  Checked,
  Detect,
  Diagnose,
  Replace,
  Queue,
  Start,
  CommunicatorInit,
  Load,
  WarmUp,
  Reconfigure
};
inline constexpr std::array<std::string_view, 17> kPhaseNames{"productive",
                                                              "degraded",
                                                              "checkpoint stall",
                                                              "slowed by checkpoint",
                                                              "redone work",
                                                              "transient stall",
                                                              "pause",
                                                              "health check",
                                                              "detection",
                                                              "diagnosis",
                                                              "replacement",
                                                              "queue",
                                                              "start of processes",
                                                              "communicator init",
                                                              "load checkpoint",
                                                              "warm-up",
                                                              "reconfiguration"};
inline constexpr std::size_t kPhases = kPhaseNames.size();

// A run ends after so many steps, whose last checkpoint is complete, or after so much time.
struct RunLength {
  double steps = std::numeric_limits<double>::infinity();
  double wall_s = std::numeric_limits<double>::infinity();
};

// An event of a run: a phase that began, with its cause where it has one.
struct RunEvent {
  double begin_s = 0.0;
  double duration_s = 0.0;
  RunPhase phase = RunPhase::Productive;  // Productive: training with all that belongs to it
  std::string_view cause = {};
};

struct SampledRun {
  double wall_s = 0.0;
  double steps = 0.0;  // of all replicas
  std::array<double, kPhases> phases_s{};
  std::vector<std::int64_t> interruptions;  // by cause, those during recovery too
  std::int64_t nodes_lost = 0;
  std::int64_t without_spare = 0;  // of these, lost while no spare stood by
  std::int64_t rejoins = 0;        // nodes, or replicas, that came back to a job that trained on
  std::int64_t trained_on = 0;     // failures that did not stop the job
  std::int64_t restored_near = 0;  // restarts from a checkpoint that is not in storage
  std::int64_t restarts = 0;

  [[nodiscard]] double phase(RunPhase phase) const {
    return phases_s[static_cast<std::size_t>(phase)];
  }
  // Interruptions of all causes.
  [[nodiscard]] double all_interruptions() const {
    return static_cast<double>(
        std::accumulate(interruptions.begin(), interruptions.end(), std::int64_t{0}));
  }
};

// Equal arguments give equal runs. Each cause has its own sequence of random numbers for a seed and
// an index, so runs of two jobs with the same seed see the same failures. Runs 2k and 2k + 1 are
// antithetic. `events` receives what happened, in the order of time.
[[nodiscard]] SampledRun sampled_run(const Job& job, const RunLength& length, std::uint64_t seed,
                                     std::uint64_t index, std::vector<RunEvent>* events = nullptr);

}  // namespace trainyard
