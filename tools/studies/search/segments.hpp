// The least time and memory that each step of a schedule takes on a rank, from a lowered program.
//
//    const SteppedWorkload step = lower_steps(plan, lists);      // lists = step_lists(plan)
//    const RankLeast least = rank_least({.workload = step.workload, .kernel_seconds = seconds,
//                                        .begins = step.begins[0], .steps = lists[0],
//                                        .times = times});       // program 0, which has one chunk
//    least.of({.kind = StepKind::Forward, .chunk = 0}).occupied_s;
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

// The times of collectives that have their links for themselves. The communication model computes
// each kind of call and group once.
class CallTimes {
 public:
  // Both references must outlive this object. `uniform` means that groups with equal positions in
  // their nodes take equally long. Otherwise nothing is known, and every result is 0, which is also
  // a lower bound.
  CallTimes(const Cluster& cluster, const CommunicationModel& communication, bool uniform)
      : cluster_(cluster), communication_(communication), uniform_(uniform) {}

  // The least time of a collective of the group. It is 0 if the call is not the same for all
  // members, or if the group is not a run of neighbours within one node.
  [[nodiscard]] double least_seconds(const Workload& workload, GroupId group,
                                     std::uint32_t call) const;

 private:
  using Key = std::tuple<Call, std::size_t, std::uint32_t, std::uint32_t>;

  const Cluster& cluster_;
  const CommunicationModel& communication_;
  bool uniform_;
  mutable std::map<Key, double> known_;
};

// One kind of step of one chunk, as the least over its microbatches.
struct StepLeast {
  double occupied_s = 0.0;    // from the start of its first kernel to the end of its last kernel
  double output_s = 0.0;      // from the start of its first kernel to when its message may be sent
  double left_bytes = 0.0;    // memory of the chunk that its microbatch holds after the step
  double needed_bytes = 0.0;  // most additional memory that it holds while it runs
};

[[nodiscard]] StepLeast least_of(const StepLeast& a, const StepLeast& b);

struct RankLeast {
  double head_s = 0.0;  // kernels before the first step
  double tail_s = 0.0;  // kernels after the last step
  double held_bytes = 0.0;
  std::array<std::vector<StepLeast>, 4> steps = {};  // by kind, then by chunk

  [[nodiscard]] const StepLeast& of(const ScheduleStep& step) const {
    return steps.at(static_cast<std::size_t>(step.kind)).at(static_cast<std::size_t>(step.chunk));
  }
};

// The least of two ranks of one stage that run different programs, such as ranks that share a
// sequence.
[[nodiscard]] RankLeast least_of(RankLeast a, const RankLeast& b);

struct RankQuestion {
  const Workload& workload;
  std::uint32_t program = 0;
  std::span<const double> kernel_seconds;  // by index into Workload::kernels
  const std::vector<OpIndex>& begins;      // of the program's steps (SteppedWorkload)
  const std::vector<ScheduleStep>& steps;  // of the same rank and number of microbatches
  std::size_t chunks = 1;
  const CallTimes& times;
  // Steps may run as one block with other steps, whose kernels hide their collectives.
  bool kernels_only = false;
};

// REQUIRES: the program was lowered from these steps, and a rank runs it. A kind of step that does
// not occur takes nothing.
[[nodiscard]] RankLeast rank_least(const RankQuestion& question);

}  // namespace trainyard
