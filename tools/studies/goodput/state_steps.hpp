// The step of a job in another state, simulated by the engine: with fewer replicas, with slow
// parts, with work for missing nodes. Each state is simulated once.
//
// A slow part is slow alone, as a fault of the cluster (topologies/faults.hpp): the step is what
// the engine says of the ranks that wait for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/base/memo.hpp"
#include "tools/studies/goodput/phases.hpp"
#include "tools/studies/goodput/run/job.hpp"

namespace trainyard {

class StateSteps {
 public:
  // REQUIRES: the memo lives as long as this.
  StateSteps(Scenario scenario, Memo& memo);

  // Seconds of a step. Throws InputError where the state cannot be simulated.
  [[nodiscard]] double step_in(const JobState& state);
  // Whether the job fits into its memory with so many replicas less, in every phase of the run.
  [[nodiscard]] bool fits_without(std::int64_t replicas);
  // Seconds in which layers move between stages when a job that trains on goes from one state to
  // another of as many replicas; 0 where `"balance": "auto"` does not divide layers.
  [[nodiscard]] double move_s(const JobState& from, const JobState& to);
  // Seconds of a step of this scenario while the first `nodes` nodes write a checkpoint through
  // their NICs, each `node_rate` bytes per second: training has the rest of the NICs' rate, or half
  // of it where the two share. A cluster of one node has no such traffic.
  [[nodiscard]] double step_beside_write(const Scenario& scenario, double node_rate,
                                         std::int64_t nodes);
  // The same without writes, in a job whose stages compute the forward of the next one as well.
  [[nodiscard]] double redundant_step(const Scenario& scenario);

  // The scenarios of the phases of the run (scenario_phases).
  [[nodiscard]] const std::vector<ScenarioPhase>& phases() const { return phases_; }

  [[nodiscard]] std::size_t simulated() const { return known_.size(); }
  [[nodiscard]] std::size_t asked() const { return asked_; }

 private:
  struct KnownState {
    double step_s = 0.0;
    std::vector<std::int64_t> layers = {};  // of each stage, where balancing divides them
  };
  [[nodiscard]] const KnownState& known(const JobState& state);
  [[nodiscard]] Scenario scenario_in(const JobState& state) const;

  [[nodiscard]] const Scenario& scenario_of(std::size_t phase) const;

  Scenario scenario_;
  std::vector<ScenarioPhase> phases_;
  Memo& memo_;
  std::map<JobState, KnownState> known_;
  std::map<std::int64_t, bool> fits_;  // by the replicas that are lost
  std::map<std::pair<JobState, JobState>, double> moves_s_;
  std::size_t asked_ = 0;
};

}  // namespace trainyard
