#include "sim/engine/stretch_times.hpp"

#include <algorithm>
#include <limits>

#include "sim/base/check.hpp"
#include "sim/engine/engine.hpp"

namespace trainyard {
namespace {

constexpr double kNoDate = std::numeric_limits<double>::infinity();

class StretchPlay {
 public:
  StretchPlay(const StretchShape& shape, std::span<const PieceCost> costs,
              std::span<const OutsideLoss> outside)
      : shape_(shape), costs_(costs), outside_(outside) {
    TY_CHECK(costs.size() == shape.pieces.size(), costs.size(), shape.pieces.size());
    TY_CHECK(!outside.empty() && outside.front().from_s == 0.0, outside.size());
    times_.start_s.resize(shape.pieces.size());
    times_.end_s.resize(shape.pieces.size());
    for (const StretchShape::Piece& piece : shape.pieces) waits_for_.push_back(piece.waits_for);
  }

  StretchTimes played() {
    begin(0);
    for (reprice(); !running_.empty(); reprice()) {
      now_s_ = next_date();
      while (changes_ < outside_.size() && outside_[changes_].from_s <= now_s_) ++changes_;
      end_due();
    }
    times_.seconds = now_s_;
    for (std::uint32_t piece = 0; piece < shape_.pieces.size(); ++piece)
      if (shape_.pieces[piece].seen) times_.seen.push_back(piece);
    std::ranges::stable_sort(times_.seen, {}, [this](std::uint32_t i) { return times_.end_s[i]; });
    return std::move(times_);
  }

 private:
  struct Running {
    std::uint32_t piece = 0;
    double left_s = 0.0;   // of a computation, at full speed
    double since_s = 0.0;  // when left_s was measured
    double end_s = kNoDate;
  };

  [[nodiscard]] bool computes(std::uint32_t piece) const {
    return shape_.pieces[piece].kind == OpKind::Compute;
  }

  void begin(std::uint32_t piece) {
    times_.start_s[piece] = now_s_;
    const double seconds = costs_[piece].seconds;
    if (!(seconds > 0.0)) return end(piece);
    running_.push_back({.piece = piece,
                        .left_s = seconds,
                        .since_s = now_s_,
                        .end_s = computes(piece) ? kNoDate : now_s_ + seconds});
  }

  void end(std::uint32_t piece) {
    times_.end_s[piece] = now_s_;
    for (const std::uint32_t next : shape_.next_of(shape_.pieces[piece]))
      if (--waits_for_[next] == 0) begin(next);
  }

  void end_due() {
    for (std::size_t i = 0; i < running_.size();) {
      if (running_[i].end_s > now_s_) {
        ++i;
        continue;
      }
      const std::uint32_t piece = running_[i].piece;
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      ended_.push_back(piece);
    }
    for (const std::uint32_t piece : ended_) end(piece);
    ended_.clear();
  }

  // The ends of computations at the speed from now on.
  void reprice() {
    double loss = outside_[changes_ - 1].loss;
    for (const Running& running : running_) loss += costs_[running.piece].loss;
    const double speed = 1.0 - std::min(loss, kComputeLossMost);
    for (Running& running : running_) {
      if (!computes(running.piece)) continue;
      if (running.end_s == kNoDate) {
        running.end_s = now_s_ + running.left_s / speed;
      } else if (speed != speed_) {
        running.left_s = std::max(0.0, running.left_s - (now_s_ - running.since_s) * speed_);
        running.since_s = now_s_;
        if (running.left_s > 0.0) running.end_s = now_s_ + running.left_s / speed;
      }
    }
    speed_ = speed;
  }

  [[nodiscard]] double next_date() const {
    double date = changes_ < outside_.size() ? outside_[changes_].from_s : kNoDate;
    for (const Running& running : running_) date = std::min(date, running.end_s);
    return date;
  }

  const StretchShape& shape_;
  const std::span<const PieceCost> costs_;
  const std::span<const OutsideLoss> outside_;
  std::size_t changes_ = 1;  // entries of outside_ that have come
  std::vector<std::uint32_t> waits_for_;
  std::vector<Running> running_;
  std::vector<std::uint32_t> ended_;
  double now_s_ = 0.0;
  double speed_ = 1.0;
  StretchTimes times_;
};

}  // namespace

StretchTimes stretch_times(const StretchShape& shape, std::span<const PieceCost> costs,
                           std::span<const OutsideLoss> outside) {
  return StretchPlay(shape, costs, outside).played();
}

}  // namespace trainyard
