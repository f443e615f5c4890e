// How long live work takes: the interface below the ready queue (ready_queue.hpp).
//
// The ready queue knows which operations may start. A Pricing owns the clock: it receives delays,
// which nothing slows, and flows, which may share links, and it reports when each of them has
// ended. The engines "ideal" and "simgrid" differ only in their Pricing.
//
//    pricing.run(sink);             // calls sink.settled() at time 0, where the first work starts
//    pricing.start_flow(token, 3);  // from settled(): a flow of flow class 3
//    sink.completed(token);         // later, when the flow has ended
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/tick.hpp"
#include "sim/timeline/timeline.hpp"

namespace trainyard {

// Identifies a piece of live work. The caller that starts the work chooses it; a Pricing never
// interprets it.
using Token = std::uint64_t;

class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  // The work has ended now. The callee starts no work here.
  virtual void completed(Token token) = 0;
  // Every completion of this instant has been reported. The work that follows from them starts
  // here, in the order of the callee.
  virtual void settled() = 0;
};

// The counters of a Pricing run.
struct PricingRecord {
  std::vector<LinkUse> links;    // by link class, without bytes (LinkLedger::watched)
  std::uint64_t activities = 0;  // SimGrid Comms created
  // Weights on links that had to be rounded up (simgrid/platform.hpp).
  std::uint64_t rounded_weights = 0;
};

class Pricing {
 public:
  explicit Pricing(const Tick& tick) : tick_(tick) {}
  virtual ~Pricing() = default;
  // Every date is a whole multiple of the tick, and so is the time that a delay or a flow takes.
  [[nodiscard]] const Tick& tick() const { return tick_; }
  // Seconds since the run began.
  [[nodiscard]] virtual double now() const = 0;
  // REQUIRES: called from settled(); seconds > 0.
  virtual void start_delay(Token token, double seconds) = 0;
  // Starts a delay that ends at the date. REQUIRES: called from settled(); the date is not in the
  // past and is a whole multiple of the tick.
  virtual void start_delay_until(Token token, double date_s) = 0;
  // Returns the time of a flow that only its own cap limits, whatever else is alive. Returns
  // nothing for a flow that shares links. REQUIRES: the flow class has bytes to move.
  [[nodiscard]] virtual std::optional<double> seconds_unshared(std::uint32_t flow_class) const = 0;
  // REQUIRES: called from settled(); the flow class has bytes to move.
  virtual void start_flow(Token token, std::uint32_t flow_class) = 0;
  // From now on each flow of the group class, alive or future, moves at most this share of the rate
  // that it would have alone. REQUIRES: called from settled(); 0 < speed <= 1.
  virtual void set_speed(std::uint32_t group_class, double speed) = 0;
  // From now on each link of the class has this share of its capacity. REQUIRES: called from
  // settled(); rate > 0; the cluster has timed faults of the link.
  virtual void set_link_rate(std::uint32_t link_class, double rate) = 0;
  // Returns when nothing is alive.
  virtual void run(CompletionSink& sink) = 0;
  // REQUIRES: run() has returned.
  [[nodiscard]] virtual PricingRecord record() const = 0;

 private:
  Tick tick_;
};

}  // namespace trainyard
