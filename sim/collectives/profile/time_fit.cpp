#include "sim/collectives/profile/time_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

constexpr std::size_t kSizesLeast = 3;    // sizes in a segment
constexpr std::size_t kSegmentsMost = 8;  // more than the protocols of any library
constexpr double kErrorLeast = 2e-3;      // smaller relative errors are not distinguished
constexpr std::size_t kSizesMost = 512;   // the search is quadratic
constexpr double kStall = 1.5;            // factor over the shortest time of any larger size

struct Line {
  double latency_s = 0.0;
  double seconds_per_byte = 0.0;
  double error_squared = 0.0;  // sum of squared relative errors
};

double relative_error(const Line& line, const SizeTime& point) {
  return (line.latency_s + static_cast<double>(point.bytes) * line.seconds_per_byte) /
             point.time_s -
         1.0;
}

// Least squares in relative errors: the best a and b for a u + b v = 1 with u = 1 / t and v = S /
// t. A negative a or b is set to zero and the other one is fitted alone.
Line fitted_line(std::span<const SizeTime> points) {
  double uu = 0.0, uv = 0.0, vv = 0.0, u1 = 0.0, v1 = 0.0;
  for (const SizeTime& point : points) {
    const double u = 1.0 / point.time_s;
    const double v = static_cast<double>(point.bytes) / point.time_s;
    uu += u * u, uv += u * v, vv += v * v, u1 += u, v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  Line line;
  // One size, or sizes that are equal to rounding, do not determine a slope. The time is then a
  // constant.
  if (points.size() > 1 && determinant > 1e-12 * uu * vv) {
    line.latency_s = (u1 * vv - v1 * uv) / determinant;
    line.seconds_per_byte = (v1 * uu - u1 * uv) / determinant;
  } else {
    line.latency_s = u1 / uu;
  }
  if (line.seconds_per_byte < 0.0) line = {.latency_s = u1 / uu};
  if (line.latency_s < 0.0) line = {.seconds_per_byte = v1 / vv};
  for (const SizeTime& point : points)
    line.error_squared += relative_error(line, point) * relative_error(line, point);
  return line;
}

// Removes stalls (see the header). The scan goes from the largest size to the smallest and keeps
// the shortest time of all larger sizes.
std::vector<SizeTime> without_stalls(std::span<const SizeTime> points) {
  std::vector<SizeTime> kept;
  double quickest_s = std::numeric_limits<double>::infinity();
  for (std::size_t i = points.size(); i-- > 0;) {
    const bool grew = i == 0 || points[i].time_s * static_cast<double>(points[i - 1].bytes) >
                                    points[i - 1].time_s * static_cast<double>(points[i].bytes);
    if (points[i].time_s <= kStall * quickest_s || !grew) kept.push_back(points[i]);
    quickest_s = std::min(quickest_s, points[i].time_s);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

// The best partition of the sizes into a given number of segments, by dynamic programming:
// best[k][end] = min over begin of best[k-1][begin] + error(begin, end). The partition is optimal.
// With n sizes the table of segment errors has n^2 entries, and each additional segment takes n^2
// steps.
class Cuts {
 public:
  explicit Cuts(std::span<const SizeTime> points) : points_(points) {
    const std::size_t n = points.size();
    errors_.assign(n * (n + 1), std::numeric_limits<double>::infinity());
    for (std::size_t begin = 0; begin < n; ++begin)
      for (std::size_t end = begin + 1; end <= n; ++end)
        if (end - begin >= std::min(kSizesLeast, n))
          errors_[begin * (n + 1) + end] =
              fitted_line(points.subspan(begin, end - begin)).error_squared;
    best_.emplace_back(n + 1, std::numeric_limits<double>::infinity());
    best_[0][0] = 0.0;
    from_.emplace_back(n + 1, 0);
  }

  // The sum of squared errors of the best partition; infinite if there are too few sizes for it.
  double error_with(std::size_t count) {
    while (best_.size() <= count) add_range();
    return best_[count].back();
  }

  [[nodiscard]] std::vector<std::size_t> begins(std::size_t count) const {
    std::vector<std::size_t> result(count);
    std::size_t end = points_.size();
    for (std::size_t i = count; i > 0; --i) {
      end = from_[i][end];
      result[i - 1] = end;
    }
    return result;
  }

 private:
  void add_range() {
    const std::size_t n = points_.size();
    std::vector<double> best(n + 1, std::numeric_limits<double>::infinity());
    std::vector<std::size_t> from(n + 1, 0);
    for (std::size_t end = 1; end <= n; ++end) {
      for (std::size_t begin = 0; begin < end; ++begin) {
        const double error = best_.back()[begin] + errors_[begin * (n + 1) + end];
        if (error < best[end]) best[end] = error, from[end] = begin;
      }
    }
    best_.push_back(std::move(best));
    from_.push_back(std::move(from));
  }

  std::span<const SizeTime> points_;
  std::vector<double> errors_;                  // error of one segment [begin, end)
  std::vector<std::vector<double>> best_;       // [segments][end]
  std::vector<std::vector<std::size_t>> from_;  // where the last segment begins
};

// Schwarz's criterion (see the header).
double criterion(double error_squared, std::size_t sizes, std::size_t segments) {
  const auto n = static_cast<double>(sizes);
  const double mean = std::max(error_squared / n, kErrorLeast * kErrorLeast);
  // Each segment has a latency and a rate, and each but the first has a threshold.
  return n * std::log(mean) + (3.0 * static_cast<double>(segments) - 1.0) * std::log(n);
}

std::vector<std::size_t> best_begins(std::span<const SizeTime> points) {
  Cuts cuts(points);
  std::size_t best = 1;
  // More segments must improve the criterion by more than rounding errors, so ties keep the fewer
  // segments. The search ends when the sizes do not suffice for `count` segments.
  for (std::size_t count = 2; count <= kSegmentsMost; ++count) {
    if (!std::isfinite(cuts.error_with(count))) break;
    if (criterion(cuts.error_with(count), points.size(), count) <
        criterion(cuts.error_with(best), points.size(), best) - 1e-9)
      best = count;
  }
  (void)cuts.error_with(best);
  return cuts.begins(best);
}

FitSegment segment_of(std::span<const SizeTime> points) {
  const Line line = fitted_line(points);
  FitSegment segment{.from_bytes = points.front().bytes,
                     .to_bytes = points.back().bytes,
                     .latency_s = line.latency_s,
                     .seconds_per_byte = line.seconds_per_byte,
                     .sizes = points.size()};
  for (const SizeTime& point : points) segment.error += std::abs(relative_error(line, point));
  segment.error /= static_cast<double>(points.size());
  return segment;
}

// The size from which the upper segment applies.
// It is the intersection of the two lines if that lies between the segments, else the geometric
// mean of their ends.
double threshold(const FitSegment& below, const FitSegment& above) {
  const auto low = static_cast<double>(below.to_bytes);
  const auto high = static_cast<double>(above.from_bytes);
  // Parallel lines give an infinite or undefined intersection. Both comparisons below are then
  // false.
  const double meet =
      (above.latency_s - below.latency_s) / (below.seconds_per_byte - above.seconds_per_byte);
  return meet > low && meet <= high ? meet : std::sqrt(low * high);
}

}  // namespace

const FitSegment& TimeFit::segment(double bytes) const {
  std::size_t found = 0;
  while (found + 1 < segments.size() && bytes >= segments[found + 1].threshold_bytes) ++found;
  return segments.at(found);
}

TimeFit fit_times(std::span<const SizeTime> points) {
  TY_CHECK(!points.empty() && points.size() <= kSizesMost, points.size());
  TimeFit fit;
  const std::vector<SizeTime> kept = without_stalls(points);
  const std::span<const SizeTime> steady(kept);
  fit.stalls = points.size() - steady.size();
  const std::vector<std::size_t> begins = best_begins(steady);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const std::size_t end = i + 1 < begins.size() ? begins[i + 1] : steady.size();
    fit.segments.push_back(segment_of(steady.subspan(begins[i], end - begins[i])));
    if (i > 0) fit.segments[i].threshold_bytes = threshold(fit.segments[i - 1], fit.segments[i]);
  }
  // The reported errors include the stalls, which the fit ignored.
  for (const SizeTime& point : points) {
    const auto bytes = static_cast<double>(point.bytes);
    const double error = std::abs(fit.segment(bytes).time_s(bytes) / point.time_s - 1.0);
    fit.error += error / static_cast<double>(points.size());
    fit.error_worst = std::max(fit.error_worst, error);
  }
  return fit;
}

}  // namespace trainyard
