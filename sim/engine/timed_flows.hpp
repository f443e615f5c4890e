// Flows that end at a known date, without SimGrid, and whose speed may change before that.
//
// A flow that takes `seconds` at full speed starts at the present speed of its group class, and its
// end becomes a deadline. When the speed of the class changes, the work left of its flows is
// computed and their new ends become deadlines. Earlier deadlines are then stale: their tickets no
// longer count.
//
// Flows of groups that nothing slows have no such cost: their only deadline counts.
//
//    TimedFlows flows(partition, communication_loss, tick, deadlines);
//    flows.start(token, flow_class, 2.0, now);          // its deadline is now + 2 s
//    flows.set_speed(group_class, 0.5, now + 1.0);      // and now that of now + 3 s counts
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/engine/deadline_heap.hpp"
#include "sim/engine/pricing.hpp"
#include "sim/engine/tick.hpp"
#include "sim/fold/fold.hpp"

namespace trainyard {

class TimedFlows {
 public:
  // `loss`: by group class, or empty: nothing slows any communication. `deadlines` outlives the
  // object.
  TimedFlows(const Partition& partition, std::span<const double> loss, const Tick& tick,
             DeadlineHeap& deadlines)
      : partition_(partition),
        loss_(loss),
        tick_(tick),
        deadlines_(deadlines),
        speeds_(partition.groups.size(), 1.0) {}

  void start(Token token, std::uint32_t flow_class, double seconds, double now);
  // Adds the new ends of the class's flows, in the order of their tokens. REQUIRES: 0 < speed <= 1.
  void set_speed(std::uint32_t group_class, double speed, double now);
  // Returns true when the deadline counts; the flow is then gone.
  [[nodiscard]] bool finish(Token token, std::uint32_t flow_class, std::uint32_t ticket);

 private:
  struct Live {
    std::uint32_t flow_class = 0;
    double left_s = 0.0;   // work left, in seconds at full speed
    double since_s = 0.0;  // when left_s was measured
    std::uint32_t ticket = 0;
  };
  [[nodiscard]] std::uint32_t group_of(std::uint32_t flow_class) const {
    return partition_.flows[flow_class].group_class;
  }

  [[nodiscard]] bool slowable(std::uint32_t group_class) const {
    return !loss_.empty() && loss_[group_class] > 0.0;
  }

  const Partition& partition_;
  std::span<const double> loss_;
  Tick tick_;
  DeadlineHeap& deadlines_;
  std::vector<double> speeds_;                                      // indexed by group class
  std::unordered_map<std::uint32_t, std::map<Token, Live>> alive_;  // indexed by group class
  std::uint32_t tickets_ = 0;
};

}  // namespace trainyard
