// The random numbers of sampled runs. Every distribution is the inverse of its distribution
// function, so that a run and its antithetic partner, which takes 1 - u for each u, are as opposed
// as they can be.
//
//    Draws draws({.seed = 7, .run = 0, .stream = 3});
//    draws.exponential(600.0);   // seconds, mean 600
#pragma once

#include <boost/random/mersenne_twister.hpp>
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

  [[nodiscard]] double uniform();                       // between 0 and 1, both excluded
  [[nodiscard]] double exponential(double mean);        //
  [[nodiscard]] double weibull(double shape);           // mean 1
  [[nodiscard]] double lognormal(double mean, double sigma);  // sigma of the logarithm
  // The number of failed trials before the first success of the given probability.
  [[nodiscard]] double failed_trials(double probability);

 private:
  boost::random::mt19937_64 engine_;
  bool antithetic_;
};

// The times of one cause: a renewal process with Weibull distributed times. Each event has a place,
// a number between 0 and 1 that says which part it hits.
class Arrivals {
 public:
  Arrivals(double rate, double weibull_shape, const DrawsOf& what);

  // Draws the next event, where a share of the parts is at work. REQUIRES: share > 0.
  void draw(double now, double share);
  // The share of the parts at work changes.
  void rescale(double now, double before, double after) {
    if (next_ != kNever) next_ = now + (next_ - now) * before / after;
  }
  [[nodiscard]] double next() const { return next_; }
  [[nodiscard]] double place() const { return place_; }
  // For what else is random about an event.
  [[nodiscard]] Draws& draws() { return draws_; }

 private:
  double mean_;
  double shape_;
  Draws draws_;
  double next_ = kNever;
  double place_ = 0.0;
};

}  // namespace trainyard
