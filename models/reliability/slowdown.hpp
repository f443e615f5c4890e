// Closed forms of slowdowns give the time that a run loses without stopping: to the slowest of many
// ranks, to checks for silent errors, to links that fail for seconds, to jobs that share a link.
//
//    normal_maximum(1024);    // 3.248: the slowest of 1024 ranks is 3.248 sigma above their mean
#pragma once

#include <cstdint>

namespace trainyard::reliability {

// Expected maximum of n standard normal values, by quadrature of 1 - F^n above zero and -F^n below.
[[nodiscard]] double normal_maximum(std::int64_t ranks);

// The same by the limit of extreme values (Gumbel): b - (ln ln n + ln 4 pi)/(2 b) + 0.5772/b with
// b = sqrt(2 ln n). It is 0.5 % too high for 16 384 ranks.
[[nodiscard]] double normal_maximum_gumbel(std::int64_t ranks);

// Expected maximum of n exponential values of mean 1: H_n = 1 + 1/2 + ... + 1/n.
[[nodiscard]] double exponential_maximum(std::int64_t ranks);

// Expected time until n of n + b exponential values of mean 1 have come: H_(n+b) - H_b. A step that
// waits for n workers and ignores b backup workers (Chen et al. 2016, "Revisiting distributed
// synchronous SGD").
[[nodiscard]] double backup_wait(std::int64_t needed, std::int64_t backups);

// Share of steps in which at least one of n nodes is slow: 1 - (1 - p)^n.
[[nodiscard]] double slow_step_share(double slow_probability, std::int64_t nodes);

// Share of the time that a slowdown S wastes: 1 - 1/S.
[[nodiscard]] double slowdown_waste(double slowdown);

// Checks for silent data corruption: each takes a time and finds an error with a probability.
struct SilentErrorCheck {
  double time = 0.0;      // of one check
  double coverage = 0.0;  // probability that a check finds an error, 0 to 1
  double rate = 0.0;      // errors per time
};
struct CheckInterval {
  double interval = 0.0;
  double delay = 0.0;  // mean time from an error to its detection
  double waste = 0.0;  // time/interval + rate x delay
};
// The interval that wastes least. An error waits interval (1/q - 1/2) in the mean for a check that
// finds it, so T* = sqrt(time / (rate (1/q - 1/2))).
[[nodiscard]] CheckInterval best_check_interval(const SilentErrorCheck& check);

// Time after which an InfiniBand transport gives up a message: 4.096 us x 2^timeout for each try
// (InfiniBand Architecture Specification, "local ACK timeout").
[[nodiscard]] double give_up_time(int timeout, int retries);

// Links that fail for an exponentially distributed time and come back. A flap that is longer than
// the transport's give-up time stops the job.
struct LinkFlaps {
  std::int64_t links = 0;
  double rate = 0.0;      // flaps of one link per time
  double duration = 0.0;  // mean, in seconds
  double give_up = 0.0;   // in seconds
};
struct FlapCost {
  double kills = 0.0;    // stopped jobs per time
  double stalled = 0.0;  // seconds that the job waits, per time
};
// kills = links rate e^(-give_up/duration); every flap stalls for min(duration, give_up), in the
// mean duration (1 - e^(-give_up/duration)).
[[nodiscard]] FlapCost flap_cost(const LinkFlaps& flaps);

// Period of two equal jobs that share one link: each computes, then transfers alone in `transfer`.
// Two transfers at the same time have half the rate each. The offset between the jobs never
// changes: the period is compute + 2 transfer - offset, or compute + transfer from offset =
// transfer on.
[[nodiscard]] double shared_link_period(double compute, double transfer, double offset);

// A job that uses a link fully during the first `up` of every `period`, in whole units of time.
struct OnOffJob {
  std::int64_t period = 0;
  std::int64_t up = 0;
};
struct Interleaving {
  double score = 0.0;      // 1: the transfers never meet
  std::int64_t shift = 0;  // of the second job
};
// The best shift of the second job and its score, 1 - mean excess demand over the least common
// multiple of the periods (Rajasekaran et al. 2024, "CASSINI", NSDI, for two jobs). Of shifts with
// equal scores the result is the first.
[[nodiscard]] Interleaving best_interleaving(const OnOffJob& first, const OnOffJob& second);

}  // namespace trainyard::reliability
