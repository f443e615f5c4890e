// Power over time as counters of a trace: the cluster with switches and cooling, one rack and node
// of each kind at the wall, and one GPU of each rank class.
//
// A trace has whole nanoseconds. A point's watts are the mean until the next point, so the integral
// over the trace equals the energy of the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/run_view.hpp"

namespace trainyard {

// The process number of the power counters, above that of the link counters.
inline constexpr std::uint64_t kPowerProcess = 1'000'001;
inline constexpr std::size_t kTracePowerTracksMax = 16;  // nodes, racks and GPUs, each

struct PowerPoint {
  std::int64_t at_ns = 0;
  double watts = 0.0;
};

struct PowerTrack {
  std::string name;                // "rack 0 (16 equal)"
  std::vector<PowerPoint> points;  // by time; the last has 0 W, at the end of the step
};

// Returns no tracks where the run has no power.
[[nodiscard]] std::vector<PowerTrack> power_tracks(const RunView& view);

}  // namespace trainyard
