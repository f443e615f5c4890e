// Counters of a trace besides memory and links.
//
// - "power": watts over time of the cluster with switches and cooling, of one rack and node of each
//   kind at the wall, and of one GPU of each rank class. A trace has whole nanoseconds. A point's
//   watts are the mean until the next point, so the integral over the trace equals the energy of
//   the run.
// - "timed faults": the share of its rate, in percent, that each part with a timed fault has left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/run_view.hpp"

namespace trainyard {

inline constexpr std::size_t kTracePowerTracksMax = 16;  // nodes, racks and GPUs, each

struct CounterPoint {
  std::int64_t at_ns = 0;
  double value = 0.0;
};

struct CounterTrack {
  std::string name;                  // "rack 0 (16 equal)"
  std::vector<CounterPoint> points;  // by time; the last is at the end of the step
};

struct CounterGroup {
  std::uint64_t process = 0;  // above that of the link counters
  std::string name;           // of the process
  std::string unit;           // "W"
  std::vector<CounterTrack> tracks;
};

// Returns the groups that have tracks.
[[nodiscard]] std::vector<CounterGroup> counter_groups(const RunView& view);

}  // namespace trainyard
