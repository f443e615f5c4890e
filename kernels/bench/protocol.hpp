// How often each task runs. Fixed, so that profiles of different days compare.
#pragma once

namespace trainyard::bench {

inline constexpr int warm_up_runs = 10;
inline constexpr int timed_runs = 21;  // odd: the median is one of them

// cuBLASLt's heuristic orders algorithms by its own estimate; the best of the first few is taken.
inline constexpr int algorithms_tried = 8;
inline constexpr int trial_runs = 4;

}  // namespace trainyard::bench
