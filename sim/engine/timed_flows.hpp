// Flows whose end is a date rather than SimGrid's affair, and whose speed may change on the way.
//
// A flow of `seconds` at full speed is started at the speed its group class has now. When the class
// slows, the work left of its flows is measured and their ends announced anew; ends announced
// before are stale, which their ticket tells.
//
// Flows of groups that nothing slows cost nothing here: their only end counts.
//
//   TimedFlows flows(partition, communication_loss);
//   heap.add(now + flows.start(token, flow_class, 2.0, now).seconds, ...);    // ends after 2 s
//   for (const TimedFlows::End& end : flows.set_speed(group_class, 0.5, now + 1.0)) ...;  // 2 s
//   more
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/engine/pricing.hpp"
#include "sim/fold/fold.hpp"

namespace trainyard {

class TimedFlows {
 public:
  // `loss`: by group class, or empty: nothing slows any communication.
  TimedFlows(const Partition& partition, std::span<const double> loss)
      : partition_(partition), loss_(loss), speeds_(partition.groups.size(), 1.0) {}

  // An end as things stand: so many seconds from now, known by its ticket.
  struct End {
    Token token = 0;
    std::uint32_t flow_class = 0;
    std::uint32_t ticket = 0;
    double seconds = 0.0;
  };

  [[nodiscard]] End start(Token token, std::uint32_t flow_class, double seconds, double now);
  // The new ends of the class's flows, in the order of their tokens. REQUIRES: 0 < speed <= 1.
  [[nodiscard]] std::vector<End> set_speed(std::uint32_t group_class, double speed, double now);
  // True when the announced end counts; the flow is then gone.
  [[nodiscard]] bool finish(Token token, std::uint32_t flow_class, std::uint32_t ticket);

 private:
  struct Live {
    std::uint32_t flow_class = 0;
    double left_s = 0.0;   // at full speed
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
  std::vector<double> speeds_;                                      // by group class
  std::unordered_map<std::uint32_t, std::map<Token, Live>> alive_;  // by group class
  std::uint32_t tickets_ = 0;
};

}  // namespace trainyard
