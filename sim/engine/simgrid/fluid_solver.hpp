// The services of SimGrid that the engine uses: transfers that share links by max-min fairness, and
// calls at dates of the same clock.
//
// This interface exists because SimGrid is loaded when it is first needed (solver_module.hpp).
// Loading it with all its libraries takes longer than a small simulation, and many commands and
// runs do not need it.
//
//    solver.add_link({.units_per_s = 1e9});   // link 0
//    solver.close({{{0}, {0}}});              // routes 0 and 1
//    const auto begin = [&] { solver.start({.transfer = 0, .route = 1, .units = 5}); };
//    solver.call_at(solver.clock_s(), begin);
//    solver.run();                            // calls transfer_ended(0) of its listener
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace trainyard {

class FluidSolver {
 public:
  // Receives events inside run().
  class Listener {
   public:
    Listener() = default;
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    Listener(Listener&&) = delete;
    Listener& operator=(Listener&&) = delete;
    virtual ~Listener() = default;

    virtual void transfer_ended(std::uint32_t transfer) = 0;
    // The clock has advanced by `seconds`, during which rates were constant.
    virtual void time_advanced(double seconds) = 0;
  };
  struct LinkSpec {
    double units_per_s = 0.0;
    bool shared = true;  // false: it limits each transfer alone
  };
  struct Start {
    // Any number that is free; small numbers keep the table small.
    std::uint32_t transfer = 0;
    std::uint32_t route = 0;
    std::uint64_t units = 0;
  };

  FluidSolver() = default;
  FluidSolver(const FluidSolver&) = delete;
  FluidSolver& operator=(const FluidSolver&) = delete;
  FluidSolver(FluidSolver&&) = delete;
  FluidSolver& operator=(FluidSolver&&) = delete;
  virtual ~FluidSolver() = default;

  // Links are numbered in the order in which they are added.
  virtual void add_link(const LinkSpec& link) = 0;
  // Adds all routes by number; each is the list of links it crosses. A link that is listed twice is
  // charged twice. Nothing can be added afterwards.
  virtual void close(std::span<const std::vector<std::uint32_t>> routes) = 0;

  // The clock belongs to the process: an earlier solver may have advanced it.
  [[nodiscard]] virtual double clock_s() const = 0;
  // REQUIRES: `date_s` is not before clock_s().
  virtual void call_at(double date_s, std::function<void()> call) = 0;
  // REQUIRES: called inside a call of call_at(), and no transfer of that number has started since
  // forget().
  virtual void start(const Start& start) = 0;
  // Frees the number of a transfer that has ended. REQUIRES: called outside transfer_ended().
  virtual void forget(std::uint32_t transfer) = 0;
  // Sets the bandwidth from now on, also for transfers that are alive.
  virtual void set_bandwidth(std::uint32_t link, double units_per_s) = 0;
  // Returns the rate through a link now, in units per second.
  [[nodiscard]] virtual double usage_of(std::uint32_t link) const = 0;
  // Returns when no transfer is alive and no call is left.
  virtual void run() = 0;
};

}  // namespace trainyard
