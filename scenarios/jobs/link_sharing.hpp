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

// Returns the job of each group class.
[[nodiscard]] std::vector<std::uint32_t> job_of_group_class(std::span<const JobPart> jobs,
                                                            const Partition& partition);

}  // namespace trainyard
