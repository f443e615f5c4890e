// How long live work takes: the seam below the ready queue (ready_queue.hpp).
//
// The ready queue knows what may start; a Pricing knows the clock. It is handed delays, which
// nothing slows, and flows, which may share links, and says when each has ended. "ideal" and
// "simgrid" differ in their Pricing and in nothing else.
//
//   pricing.run(sink);                    // calls sink.settled() at time 0, where the first work
//   starts pricing.start_flow(token, 3);         // from settled(): a flow of flow class 3
//   sink.completed(token);                // later, when it has ended
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/tick.hpp"
#include "sim/timeline/timeline.hpp"

namespace trainyard {

// Names a piece of live work; chosen by who starts it, never looked into.
using Token = std::uint64_t;

class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  // The work has ended now. Starts nothing.
  virtual void completed(Token token) = 0;
  // Every completion of this instant has been told: what follows from them starts here, in its
  // order.
  virtual void settled() = 0;
};

// The counts of a Pricing while it ran.
struct PricingRecord {
  std::vector<LinkUse> links;    // by link class
  std::uint64_t activities = 0;  // SimGrid Comms created
  std::uint64_t rounded_weights =
      0;  // weights on links that had to be rounded up (see simgrid/platform.hpp)
};

class Pricing {
 public:
  explicit Pricing(const Tick& tick) : tick_(tick) {}
  virtual ~Pricing() = default;
  // Every date is a whole multiple of it, and so is what a delay or a flow takes.
  [[nodiscard]] const Tick& tick() const { return tick_; }
  // Seconds since the run began.
  [[nodiscard]] virtual double now() const = 0;
  // REQUIRES: called from settled(); seconds > 0.
  virtual void start_delay(Token token, double seconds) = 0;
  // Likewise, to a date from now on. REQUIRES: it is a whole multiple of the tick.
  virtual void start_delay_until(Token token, double date_s) = 0;
  // Returns the time of a flow that its own cap alone limits, whatever is alive beside it; nothing
  // for one that shares links. REQUIRES: the flow class has bytes to move.
  [[nodiscard]] virtual std::optional<double> seconds_unshared(std::uint32_t flow_class) const = 0;
  // So many flows that nobody started here have moved their bytes. REQUIRES: seconds_unshared gives
  // their time.
  virtual void passed(std::uint32_t flow_class, std::uint64_t flows) = 0;
  // REQUIRES: called from settled(); the flow class has bytes to move.
  virtual void start_flow(Token token, std::uint32_t flow_class) = 0;
  // From now on the class's flows, alive or to come, can move at most this share of what each
  // would move alone. REQUIRES: called from settled(); 0 < speed <= 1.
  virtual void set_speed(std::uint32_t group_class, double speed) = 0;
  // Returns when nothing is alive.
  virtual void run(CompletionSink& sink) = 0;
  // REQUIRES: run() has returned.
  [[nodiscard]] virtual PricingRecord record() const = 0;

 private:
  Tick tick_;
};

}  // namespace trainyard
