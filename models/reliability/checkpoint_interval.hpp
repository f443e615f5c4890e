// How often to write checkpoints, and what failures then cost: closed forms.
//
// The job fails after exponentially distributed times with mean M (mtbf, mean time between
// failures). It works for an interval tau, then stops for a time delta to write a checkpoint. After
// a failure it restarts in a time R and repeats the work since the last checkpoint. All times of
// one call have the same unit.
//
//    // 60 s of writing, a failure every 11 135 s
//    young_interval(60, 11135);    // sqrt(2 x 60 x 11135) = 1155.9 s
//    exact_interval(60, 11135);    // 1116.3 s
//    efficiency({.interval = 1116.3, .write = 60, .restart = 600, .mtbf = 11135});   // 0.8526
#pragma once

#include <cstdint>

namespace trainyard::reliability {

// sqrt(2 delta M): the first-order optimum (Young 1974, "A first order approximation to the optimum
// checkpoint interval", CACM 17(9)). Returns the time of work between two checkpoints.
[[nodiscard]] double young_interval(double write, double mtbf);

// The higher-order estimate of the optimum (Daly 2006, "A higher order estimate of the optimum
// checkpoint interval for restart dumps", FGCS 22(3), equation 37).
[[nodiscard]] double daly_interval(double write, double mtbf);

// The exact optimum, M (1 + W0(-exp(-1 - delta/M))) with Lambert's W. It minimises Daly's expected
// time (segment_time) over the interval, and does not depend on the restart.
[[nodiscard]] double exact_interval(double write, double mtbf);

// Work of one interval with a checkpoint that stops the job.
struct Segment {
  double interval = 0.0;  // tau: time of work
  double write = 0.0;     // delta: time that writing stops the job
  double restart = 0.0;   // R: from a failure until work goes on
  double mtbf = 0.0;      // M
};

// Expected time to complete one segment, M e^(R/M) (e^((tau + delta)/M) - 1). Failures may hit
// work, writing and restart (Daly 2006, equation 13).
[[nodiscard]] double segment_time(const Segment& segment);

// interval / segment_time.
[[nodiscard]] double efficiency(const Segment& segment);

// Expected time until a restart of length R is complete, where failures can hit it:
// M (e^(R/M) - 1).
[[nodiscard]] double restart_time(double restart, double mtbf);

// E[ETTR] of Kokolis et al. 2024 (arXiv 2410.21680), to first order in the failure rate:
// (1 - rate (restart + interval/2)) / (1 + write/interval). ETTR is the productive run time of a
// job over its wall time.
[[nodiscard]] double kokolis_ettr(const Segment& segment);

// A checkpoint that stops the job for `stall` and is written during the next interval for `write`.
// After a failure, the job reads the last checkpoint that is written completely.
struct AsynchronousSegment {
  double interval = 0.0;
  double stall = 0.0;
  double write = 0.0;
  double restart = 0.0;
  double mtbf = 0.0;
};

// Mean work that a failure destroys if its time is uniform over the cycle of interval and stall:
// interval/2 + write to first order in stall and write, here exact. REQUIRES: write <= interval.
[[nodiscard]] double asynchronous_loss(const AsynchronousSegment& segment);

// tau/(tau + stall) / (1 + (R + loss)/M): a renewal argument to first order in the loss.
[[nodiscard]] double asynchronous_efficiency(const AsynchronousSegment& segment);

// Expected time from one complete checkpoint to the next, exact for exponential failures. Without a
// failure it is the cycle c = tau + stall. After a failure, work restarts at the last complete
// checkpoint, and the next one is complete after c + write. Both together:
// (1 - e^(-c/M)) M e^((R + c + write)/M). It equals segment_time where write = 0.
[[nodiscard]] double asynchronous_segment_time(const AsynchronousSegment& segment);

// The same for the first checkpoint of a run, which has no write before it:
// M e^(R/M) (e^((c + write)/M) - 1).
[[nodiscard]] double asynchronous_first_time(const AsynchronousSegment& segment);

// Checkpoints of two levels: frequent ones in memory, which a share of the failures spare, and rare
// ones in storage.
struct Level {
  double write = 0.0;    // time that writing stops the job
  double restart = 0.0;  // time of a restart from this level
};
struct TwoLevels {
  Level memory = {};
  Level storage = {};
  double memory_share = 0.0;  // share of failures that the level in memory recovers
  double mtbf = 0.0;
};
struct TwoIntervals {
  double memory = 0.0;
  double storage = 0.0;
  double waste = 0.0;  // sum over levels: write/interval + rate (interval/2 + restart)
};
// Young's interval for each level with the rate of its own failures, and the first-order waste.
[[nodiscard]] TwoIntervals two_level_intervals(const TwoLevels& levels);

// First-order waste at Young's interval, with one level: sqrt(2 delta/M) + R/M.
[[nodiscard]] double young_waste(const Level& level, double mtbf);

// The interval of SPARe (arXiv 2603.00357): Ts + sqrt(Ts^2 + 2 Ts (Tf + Tr)) for a time to save, a
// mean time to a failure that redundancy cannot mask, and a time to restart.
[[nodiscard]] double spare_interval(double save, double failure, double restart);

// Time to write a checkpoint of so many parameters at one rate.
[[nodiscard]] double write_time(double parameters, double bytes_per_parameter,
                                double bytes_per_second);

// The time of a step, from the time that a checkpoint in every step blocks it and the MFU relative
// to steps without checkpoints: block r/(1 - r), where r = T/(T + block).
[[nodiscard]] double step_behind_block(double block, double relative_mfu);

}  // namespace trainyard::reliability
