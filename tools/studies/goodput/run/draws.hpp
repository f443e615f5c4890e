// The random numbers of sampled runs. Every distribution is the inverse of its distribution
// function, so that a run and its antithetic partner, which takes 1 - u for each u, are as opposed
// as they can be.
//
//    Draws draws({.seed = 7, .run = 0, .stream = 3});
//    draws.exponential(600.0);   // seconds, mean 600
#pragma once

#include <boost/random/taus88.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace trainyard {

inline constexpr double kNever = std::numeric_limits<double>::infinity();  // a time

struct DrawsOf {
  std::uint64_t seed = 0;
  std::uint64_t run = 0;     // runs 2k and 2k + 1 are antithetic partners
  std::uint64_t stream = 0;  // independent for each number
};

class Draws {
 public:
  explicit Draws(const DrawsOf& what);

  [[nodiscard]] double uniform();                 // between 0 and 1, both excluded
  [[nodiscard]] double exponential(double mean);  //
  [[nodiscard]] double weibull(double shape);     // mean 1
  // From a moment at random until the next of events that are `weibull` apart. Mean 1 for shape 1.
  [[nodiscard]] double weibull_residual(double shape);
  [[nodiscard]] double lognormal(double mean, double sigma);  // sigma of the logarithm
  // The number of failed trials before the first success of the given probability.
  [[nodiscard]] double failed_trials(double probability);

 private:
  boost::random::taus88 engine_;  // of three words, since a run has a stream for each cause
  bool antithetic_;
};

// The events of several causes. Each cause is a renewal process with Weibull distributed times and
// random numbers of its own. An event has a place, a number between 0 and 1 that says which part it
// hits.
class Arrivals {
 public:
  // Events of a cause per second, with all parts at work, and the shape of the times between them.
  // The first time is that from a moment at random, so that the expected number of events is rate
  // times time for every shape.
  // With a trace, increasing times of events that outlives this object, these come in place of
  // random ones.
  void add(double rate, double weibull_shape, const DrawsOf& what,
           const std::vector<double>* trace_s = nullptr);

  [[nodiscard]] bool empty() const { return next_.empty(); }
  // The cause whose event is next. REQUIRES: !empty().
  [[nodiscard]] std::size_t first() const { return first_; }
  [[nodiscard]] double first_time() const { return empty() ? kNever : next_[first_]; }
  [[nodiscard]] double place(std::size_t cause) const { return place_[cause]; }
  // Draws the next event of a cause, where a share of its parts is at work. REQUIRES: share > 0.
  void draw(std::size_t cause, double now, double share);
  // The share of the parts of some causes that are at work changes.
  void rescale(const std::vector<bool>& causes, double now, double before, double after);
  // For what else is random about an event.
  [[nodiscard]] Draws& draws(std::size_t cause) { return causes_[cause].draws; }

 private:
  struct Cause {
    double mean;
    double shape;
    Draws draws;
    const std::vector<double>* trace_s;  // nullptr: random times
    std::size_t taken = 0;               // from the trace
  };
  void find_first();
  [[nodiscard]] double next_of_trace(Cause& cause);

  std::vector<Cause> causes_;
  std::vector<double> next_;
  std::vector<double> place_;
  std::size_t first_ = 0;
};

}  // namespace trainyard
