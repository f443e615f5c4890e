#include "models/reliability/checkpoint_interval.hpp"

#include <boost/math/special_functions/lambert_w.hpp>
#include <cmath>

#include "sim/base/check.hpp"

namespace trainyard::reliability {

double young_interval(double write, double mtbf) { return std::sqrt(2.0 * write * mtbf); }

double daly_interval(double write, double mtbf) {
  if (write >= 2.0 * mtbf) return mtbf;
  const double x = write / (2.0 * mtbf);
  return young_interval(write, mtbf) * (1.0 + std::sqrt(x) / 3.0 + x / 9.0) - write;
}

double exact_interval(double write, double mtbf) {
  return mtbf * (1.0 + boost::math::lambert_w0(-std::exp(-1.0 - write / mtbf)));
}

double segment_time(const Segment& s) {
  return s.mtbf * std::exp(s.restart / s.mtbf) * std::expm1((s.interval + s.write) / s.mtbf);
}

double efficiency(const Segment& segment) { return segment.interval / segment_time(segment); }

double restart_time(double restart, double mtbf) { return mtbf * std::expm1(restart / mtbf); }

double kokolis_ettr(const Segment& s) {
  return (1.0 - (s.restart + s.interval / 2.0) / s.mtbf) / (1.0 + s.write / s.interval);
}

namespace {

// The integral, over the time u of a failure from `from` to `to`, of the work done in this cycle,
// max(0, u - stall).
double work_integral(double from, double to, double stall) {
  const double start = std::fmax(from, stall);
  if (to <= start) return 0.0;
  return ((to - stall) * (to - stall) - (start - stall) * (start - stall)) / 2.0;
}

}  // namespace

// A failure before the write is complete destroys the work of the previous interval as well.
double asynchronous_loss(const AsynchronousSegment& s) {
  TY_CHECK(s.write <= s.interval, s.write);
  const double cycle = s.interval + s.stall;
  const double complete = s.stall + s.write;
  return (work_integral(0.0, cycle, s.stall) + s.interval * complete) / cycle;
}

double asynchronous_efficiency(const AsynchronousSegment& s) {
  return s.interval / (s.interval + s.stall) / (1.0 + (s.restart + asynchronous_loss(s)) / s.mtbf);
}

double asynchronous_segment_time(const AsynchronousSegment& s) {
  const double cycle = s.interval + s.stall;
  return -std::expm1(-cycle / s.mtbf) * s.mtbf * std::exp((s.restart + cycle + s.write) / s.mtbf);
}

double asynchronous_first_time(const AsynchronousSegment& s) {
  return s.mtbf * std::exp(s.restart / s.mtbf) *
         std::expm1((s.interval + s.stall + s.write) / s.mtbf);
}

TwoIntervals two_level_intervals(const TwoLevels& levels) {
  const double memory_mtbf = levels.mtbf / levels.memory_share;
  const double storage_mtbf = levels.mtbf / (1.0 - levels.memory_share);
  return {
      .memory = young_interval(levels.memory.write, memory_mtbf),
      .storage = young_interval(levels.storage.write, storage_mtbf),
      .waste = young_waste(levels.memory, memory_mtbf) + young_waste(levels.storage, storage_mtbf)};
}

// write/interval and interval/(2 M) are equal at Young's interval, so their sum is twice one.
double young_waste(const Level& level, double mtbf) {
  return std::sqrt(2.0 * level.write / mtbf) + level.restart / mtbf;
}

double spare_interval(double save, double failure, double restart) {
  return save + std::sqrt(save * save + 2.0 * save * (failure + restart));
}

double write_time(double parameters, double bytes_per_parameter, double bytes_per_second) {
  return parameters * bytes_per_parameter / bytes_per_second;
}

double step_behind_block(double block, double relative_mfu) {
  return block * relative_mfu / (1.0 - relative_mfu);
}

}  // namespace trainyard::reliability
