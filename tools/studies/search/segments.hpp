// The least that each step of a schedule takes of a rank in time and memory, read from a lowered
// program.
//
//   const ScheduleLists lists = step_lists(plan);
//   const SteppedWorkload step = lower_steps(plan, lists);
//   RankLeast least = rank_least({.workload = step.workload, .program = 0,
//                                 .kernel_seconds = seconds, .begins = step.begins[0],
//                                 .steps = lists[0], .chunks = 1, .times = times});
//   least.of({.kind = StepKind::Forward, .chunk = 0}).occupied_s;
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "models/schedules/schedule.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/cluster/communication_model.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// How long collectives take that have their links for themselves, asked of the communication model
// once for each kind of call and group.
class CallTimes {
 public:
  // Both must outlive this. `alike`: groups that lie alike in their nodes take alike long; else
  // nothing is known, and every answer is 0, which is a bound too.
  CallTimes(const Cluster& cluster, const CommunicationModel& communication, bool alike)
      : cluster_(cluster), communication_(communication), alike_(alike) {}

  // The least time of a collective of the group; 0 where the call is not the same for all members.
  [[nodiscard]] double least_seconds(const Workload& workload, GroupId group,
                                     std::uint32_t call) const;

 private:
  using Key = std::tuple<Call, std::size_t, std::uint32_t, std::uint32_t>;

  const Cluster& cluster_;
  const CommunicationModel& communication_;
  bool alike_;
  mutable std::map<Key, double> known_;
};

// One kind of step of one chunk: the least of its microbatches.
struct StepLeast {
  double occupied_s = 0.0;    // from its first kernel's start to its last kernel's end
  double output_s = 0.0;      // from its first kernel's start to when its message may leave
  double left_bytes = 0.0;    // what its microbatch holds of the chunk after it
  double needed_bytes = 0.0;  // the most it holds while it runs, beyond what was there
};

[[nodiscard]] StepLeast least_of(const StepLeast& a, const StepLeast& b);

struct RankLeast {
  double head_s = 0.0;  // kernels before the first step
  double tail_s = 0.0;  // kernels after the last
  double held_bytes = 0.0;
  std::array<std::vector<StepLeast>, 4> steps = {};  // by kind, then by chunk

  [[nodiscard]] const StepLeast& of(const ScheduleStep& step) const {
    return steps.at(static_cast<std::size_t>(step.kind)).at(static_cast<std::size_t>(step.chunk));
  }
};

// The least of two ranks of one stage that run different programs, as ranks that share a sequence
// do.
[[nodiscard]] RankLeast least_of(RankLeast a, const RankLeast& b);

struct RankQuestion {
  const Workload& workload;
  std::uint32_t program = 0;
  std::span<const double> kernel_seconds;  // by index into Workload::kernels
  const std::vector<OpIndex>& begins;      // of the program's steps (SteppedWorkload)
  const std::vector<ScheduleStep>& steps;  // of the same rank and number of microbatches
  std::size_t chunks = 1;
  const CallTimes& times;
  // Steps may run as one block with others, under whose kernels their collectives hide.
  bool kernels_only = false;
};

// REQUIRES: the program was lowered from these steps, and a rank runs it. A kind of step that is
// not among them takes nothing.
[[nodiscard]] RankLeast rank_least(const RankQuestion& question);

}  // namespace trainyard
