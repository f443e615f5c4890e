// The links that several jobs use, and for how long they use them at the same time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scenarios/jobs/joint_workload.hpp"
#include "sim/fold/fold.hpp"
#include "sim/timeline/timeline.hpp"

namespace trainyard {

// The use of one class of links in a time.
struct LinkSharing {
  std::uint32_t link_class = 0;
  std::vector<std::uint32_t> jobs = {};  // that use it, ascending; at least two
  std::vector<double> busy_s = {};       // by entry of `jobs`: time with a flow of that job
  double shared_s = 0.0;                 // time with flows of two jobs or more
  bool contended = false;                // false: these flows never limit each other
};

// Returns the links that flows of two jobs or more load between the two dates, the most shared time
// first. REQUIRES: the timeline has recorded its flows.
[[nodiscard]] std::vector<LinkSharing> link_sharing(std::span<const JobPart> jobs,
                                                    const Partition& partition,
                                                    const Timeline& timeline, double begin_s,
                                                    double end_s);

// Whether a job has a flow on a link, and whether another job has one at the same time.
enum class LinkState : std::uint8_t { Unused, OwnFlows, SharedFlows };

// A time in which that does not change.
struct LinkStateSpan {
  double start_s = 0.0;
  double end_s = 0.0;
  LinkState state = LinkState::Unused;
};

// Returns the spans of each job on a class of links, by job: in order and without holes from
// `begin_s` to `end_s`. REQUIRES: begin_s < end_s, and the timeline has recorded its flows.
[[nodiscard]] std::vector<std::vector<LinkStateSpan>> link_states(std::span<const JobPart> jobs,
                                                                  const Partition& partition,
                                                                  const Timeline& timeline,
                                                                  std::uint32_t link_class,
                                                                  double begin_s, double end_s);

// Returns the job of each group class.
[[nodiscard]] std::vector<std::uint32_t> job_of_group_class(std::span<const JobPart> jobs,
                                                            const Partition& partition);

}  // namespace trainyard
