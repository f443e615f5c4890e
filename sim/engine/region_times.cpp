#include "sim/engine/region_times.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

constexpr double kNoDate = std::numeric_limits<double>::infinity();

}  // namespace

void RegionPlayer::prepare() {
  const std::size_t count = shape_->pieces.size();
  TY_CHECK(costs_.size() == count, costs_.size(), count);
  TY_CHECK(!outside_.empty() && outside_.front().from_s == 0.0, outside_.size());
  times_.start_s.resize(count);
  times_.end_s.resize(count);
  times_.seen.clear();
  waits_for_.resize(count);
  std::ranges::transform(shape_->pieces, waits_for_.begin(), &RegionShape::Piece::waits_for);
  changes_ = 1;
  now_s_ = 0.0;
  speed_ = 1.0;
}

// An event loop over the few operations that run at a time. Cost: events times running operations.
// The arithmetic is that of SlowedCompute, on the same ticks, so that dates are those of operations
// with events of their own.
RegionTimes RegionPlayer::played(const RegionShape& shape, std::span<const PieceCost> costs,
                                 std::span<const OutsideSlowing> outside, RegionTimes storage) {
  shape_ = &shape;
  costs_ = costs;
  outside_ = outside;
  times_ = std::move(storage);
  prepare();
  begin(0);
  for (reprice(); !running_.empty(); reprice()) {
    now_s_ = next_date();
    // Changes of this date take effect first, so that reprice() uses the slowing that holds from
    // here on.
    while (changes_ < outside_.size() && outside_[changes_].from_s <= now_s_) ++changes_;
    end_due();
  }
  times_.seconds = now_s_;
  for (std::uint32_t piece = 0; piece < shape.pieces.size(); ++piece) {
    if (shape.pieces[piece].seen)
      times_.seen.push_back({times_.end_s[piece], shape.pieces[piece].offset});
  }
  std::ranges::sort(times_.seen, [](const RegionTimes::Seen& a, const RegionTimes::Seen& b) {
    return std::pair(a.end_s, a.offset) < std::pair(b.end_s, b.offset);
  });
  return std::move(times_);
}

void RegionPlayer::begin(std::uint32_t piece) {
  times_.start_s[piece] = now_s_;
  const double seconds = costs_[piece].seconds;
  if (!(seconds > 0.0)) return end(piece);
  running_.push_back({.piece = piece,
                      .left_s = seconds,
                      .since_s = now_s_,
                      .end_s = computes(piece) ? kNoDate : now_s_ + tick_.duration(seconds)});
}

// Starts the pieces that wait for nothing else. A piece without duration ends at once, which
// recurses.
void RegionPlayer::end(std::uint32_t piece) {
  times_.end_s[piece] = now_s_;
  for (const std::uint32_t next : shape_->next_of(shape_->pieces[piece]))
    if (--waits_for_[next] == 0) begin(next);
}

// Pieces that end leave the list before end() runs, because end() adds the pieces that they
// release.
void RegionPlayer::end_due() {
  for (std::size_t i = 0; i < running_.size();) {
    if (running_[i].end_s > now_s_) {
      ++i;
      continue;
    }
    ended_.push_back(running_[i].piece);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const std::uint32_t piece : ended_) end(piece);
  ended_.clear();
}

// Computes the ends of computations at the speed from now on. Where the speed has not changed, the
// known end stays as it is, to the last bit.
void RegionPlayer::reprice() {
  Slowing slowing = outside_[changes_ - 1].slowing;
  for (const Running& running : running_) slowing.loss += costs_[running.piece].loss;
  const double speed = slowing.speed();
  for (Running& running : running_) {
    if (!computes(running.piece)) continue;
    // A computation without a date has only just begun.
    if (running.end_s == kNoDate) {
      running.end_s = now_s_ + tick_.duration(running.left_s / speed);
    } else if (speed != speed_) {
      running.left_s = std::max(0.0, running.left_s - (now_s_ - running.since_s) * speed_);
      running.since_s = now_s_;
      // A computation with no work left keeps its date, which is this very one.
      if (running.left_s > 0.0) running.end_s = now_s_ + tick_.duration(running.left_s / speed);
    }
  }
  speed_ = speed;
}

double RegionPlayer::next_date() const {
  double date = changes_ < outside_.size() ? outside_[changes_].from_s : kNoDate;
  for (const Running& running : running_) date = std::min(date, running.end_s);
  return date;
}

RegionTimes region_times(const RegionShape& shape, std::span<const PieceCost> costs,
                         std::span<const OutsideSlowing> outside) {
  return RegionPlayer().played(shape, costs, outside);
}

}  // namespace trainyard
