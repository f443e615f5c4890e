// The times of a finished run: when every operation of every rank class was ready, started and
// ended.
//
// The engine appends while it runs. Afterwards the timeline is a value that reports read. Times are
// seconds since the step began. Arrays are indexed [rank class][operation of its program].
#pragma once

#include <cstdint>
#include <vector>

namespace trainyard {

struct OpTimes {
  // The rank has reached the operation: its stream and dependencies allow it.
  std::vector<double> ready_s;
  // The operation starts. A communication starts when all members have reached it.
  std::vector<double> start_s;
  std::vector<double> end_s;
};

// One transfer of a flow class, for link counters in traces.
struct FlowSpan {
  std::uint32_t flow_class = 0;
  double start_s = 0.0;
  double end_s = 0.0;
};

struct LinkUse {
  double bytes = 0.0;             // on one link of the class
  double busy_s = 0.0;            // time with at least one flow alive
  double peak_utilisation = 0.0;  // largest share of capacity in use at an instant, 0..1
};

struct EngineCounters {
  std::uint64_t operations = 0;
  std::uint64_t activities = 0;  // SimGrid Comms created
  std::uint64_t events = 0;      // completions handled
  std::uint64_t regions = 0;     // regions run as one event (sim/engine/regions.hpp)
  std::uint64_t repeated = 0;    // operations of repeated periods (sim/engine/steady_state.hpp)
  // Weights of flows on links that SimGrid cannot express exactly. They were rounded up by at most
  // 1/32 of the flow's most loaded link (sim/engine/simgrid/platform.hpp): an approximation to
  // report.
  std::uint64_t rounded_weights = 0;
};

struct Timeline {
  std::vector<OpTimes> classes;  // indexed by rank class
  std::vector<FlowSpan> flows;   // sorted by start
  std::vector<LinkUse> links;    // indexed by link class
  EngineCounters counters;
  double makespan_s = 0.0;
};

}  // namespace trainyard
