// The start and end times of the pieces of a region, computed in one pass.
//
// No operation inside waits for anything outside. The times therefore follow from the durations and
// from what slows computation. A computation runs at the rate of its GPU less the losses of two
// kinds: collectives inside that run concurrently with it, and communications outside, which start
// and end during the region.
//
// Worked: 2 s of computation concurrent with a collective of 1 s that takes half of the speed:
// after 1 s, when the collective ends, 0.5 s are done, and the rest takes 1.5 s: 2.5 s
// (tests/sim/engine/regions_test.cpp).
//
//    RegionTimes times = region_times(shape, costs, {{{.from_s = 0.0}}});
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/engine/regions.hpp"
#include "sim/engine/slowdown.hpp"
#include "sim/engine/tick.hpp"
#include "sim/timeline/timeline.hpp"

namespace trainyard {

// The time of a piece: at full speed for a computation, its whole time for others.
struct PieceCost {
  double seconds = 0.0;
  // Loss of the computation that runs concurrently; 0 for computations.
  double loss = 0.0;
  // The flows of a collective, from its start; may be null.
  const std::vector<FlowSpan>* flows = nullptr;
};

// From `from_s` on, this slows computations from outside the region: a fault of the GPU, and
// communications.
struct OutsideSlowing {
  double from_s = 0.0;
  Slowing slowing = {};
  bool operator==(const OutsideSlowing&) const = default;
};

// All times are seconds since the head started.
struct RegionTimes {
  struct Seen {
    double end_s = 0.0;
    OpIndex offset = 0;  // number of the operation, relative to the head
    bool operator==(const Seen&) const = default;
  };
  std::vector<double> start_s;  // by piece; a piece starts when it is ready
  std::vector<double> end_s;
  std::vector<Seen> seen;  // pieces that others wait for, in order of their ends
  double seconds = 0.0;    // time of the whole region
};

// Computes the times of one region after the other; it reuses its buffers.
class RegionPlayer {
 public:
  RegionPlayer() = default;
  // `tick`: all dates are whole multiples of it. REQUIRES: regions start at such a date.
  explicit RegionPlayer(const Tick& tick) : tick_(tick) {}
  // Returns the times, in the lists of `storage`. REQUIRES: `outside` begins with an entry from 0
  // on, and its dates rise.
  [[nodiscard]] RegionTimes played(const RegionShape& shape, std::span<const PieceCost> costs,
                                   std::span<const OutsideSlowing> outside,
                                   RegionTimes storage = {});

 private:
  struct Running {
    std::uint32_t piece = 0;
    double left_s = 0.0;   // work left of a computation, in seconds at full speed
    double since_s = 0.0;  // when left_s was measured
    double end_s = std::numeric_limits<double>::infinity();
  };

  void prepare();
  [[nodiscard]] bool computes(std::uint32_t piece) const {
    return shape_->pieces[piece].kind == OpKind::Compute;
  }
  void begin(std::uint32_t piece);
  void end(std::uint32_t piece);
  void end_due();
  void reprice();
  [[nodiscard]] double next_date() const;

  Tick tick_;
  const RegionShape* shape_ = nullptr;
  std::span<const PieceCost> costs_;
  std::span<const OutsideSlowing> outside_;
  std::size_t changes_ = 1;  // entries of outside_ whose dates have come
  std::vector<std::uint32_t> waits_for_;
  std::vector<Running> running_;
  std::vector<std::uint32_t> ended_;
  double now_s_ = 0.0;
  double speed_ = 1.0;
  RegionTimes times_;
};

[[nodiscard]] RegionTimes region_times(const RegionShape& shape, std::span<const PieceCost> costs,
                                       std::span<const OutsideSlowing> outside);

}  // namespace trainyard
