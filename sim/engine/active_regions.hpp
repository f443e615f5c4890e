// The regions (regions.hpp) that are active: at most one per rank class.
//
// A region is planned when its head starts: the dates at which operations outside may go on are
// then known, and nothing else of the region needs an event. The engine awaits one date at a time.
// When the loss by communications outside changes, the region is planned again; everything that has
// happened by then stays as it is, to the last bit. Plans of equal regions under equal losses are
// computed once: the microbatches of a stage meet the same communications at the same time after
// their start, once the pipeline is full.
//
//    const std::uint32_t shape = active.of_program(program).regions.shape_of(op);
//    if (shape < kInsideRegion) active.start(rank_class, op, shape, now);
//    active.plan(rank_class, slowing, now);
//    use(active.next_date(rank_class), active.ticket(rank_class));   // the engine sets a timer
//    active.pass(rank_class, ticket, date, [&](OpIndex ended) { release(ended); });
//    if (active.over(rank_class)) active.retire(rank_class, timeline);
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/engine/engine_programs.hpp"
#include "sim/engine/pricing.hpp"
#include "sim/engine/region_times.hpp"

namespace trainyard {

class ActiveRegions {
 public:
  // Finds the regions of all programs in use. There are none where the input forbids them, where
  // hosts take time to issue operations, or where computation slows communication: there,
  // everything that happens inside a region matters outside.
  ActiveRegions(const EngineInput& input, Pricing& pricing);

  // REQUIRES: a rank class runs the program.
  [[nodiscard]] const EngineProgram& of_program(std::uint32_t program) const {
    return *programs_[program];
  }
  [[nodiscard]] bool alive(std::uint32_t rank_class) const {
    return active_[rank_class].shape != nullptr;
  }
  // Starts the region of `shape` that begins with `head`. It must be planned before time goes on.
  // REQUIRES: no region of the class is alive; `shape` is ProgramRegions::shape_of(head).
  void start(std::uint32_t rank_class, OpIndex head, std::uint32_t shape, double now);
  // Sets what slows computation from outside from now on, and plans the region. Returns false
  // where that is unchanged and the present plan holds. REQUIRES: alive.
  bool plan(std::uint32_t rank_class, const Slowing& slowing, double now);

  // The ticket distinguishes the dates of the present plan from those of earlier plans. REQUIRES:
  // alive.
  [[nodiscard]] std::uint32_t ticket(std::uint32_t rank_class) const {
    return active_[rank_class].ticket;
  }
  // The next date at which an operation outside may go on, or at which the region is over.
  // REQUIRES: alive and not over.
  [[nodiscard]] double next_date(std::uint32_t rank_class) const {
    const Active& region = active_[rank_class];
    return region.start_s + region.next->end_s;
  }
  // Whether the plan of that ticket still holds.
  [[nodiscard]] bool awaits(std::uint32_t rank_class, std::uint32_t ticket) const {
    return active_[rank_class].times != nullptr && active_[rank_class].ticket == ticket;
  }

  // Calls `ended` with all operations that end by now and that operations outside wait for. Returns
  // false when the ticket is of an older plan.
  template <class Ended>
  bool pass(std::uint32_t rank_class, std::uint32_t ticket, double now, const Ended& ended) {
    if (!awaits(rank_class, ticket)) return false;
    Active& region = active_[rank_class];
    for (; region.next != region.last; ++region.next) {
      if (region.start_s + region.next->end_s > now) break;
      ended(region.head + region.next->offset);
    }
    return true;
  }
  [[nodiscard]] bool over(std::uint32_t rank_class) const {
    return active_[rank_class].next == active_[rank_class].last;
  }
  // Writes the times of the region's operations and flows, and returns the number of operations.
  // REQUIRES: over.
  std::size_t retire(std::uint32_t rank_class, Timeline& timeline);

 private:
  [[nodiscard]] const ProgramRegions& regions_of(std::uint32_t rank_class) const {
    return programs_[program_of_[rank_class]]->regions;
  }
  // A collective that may be a member: its time, and its flows relative to its start.
  struct ClosedCall {
    double seconds = 0.0;
    std::vector<FlowSpan> flows;
  };
  struct Plan {
    std::vector<OutsideSlowing> outside;
    std::shared_ptr<const RegionTimes> times;
  };
  // The costs of a shape for one rank class, and its plans.
  struct PricedShape {
    struct PieceFlow {
      std::uint32_t piece = 0;
      FlowSpan span;  // relative to the start of the piece
    };
    std::vector<PieceCost> costs;
    std::vector<PieceFlow> flows;
    std::vector<Plan> plans;  // the latest ones
    std::size_t oldest = 0;   // of the plans, when they are as many as are kept
  };
  struct Active {
    OpIndex head = 0;
    const RegionShape* shape = nullptr;  // null: none is alive
    PricedShape* priced = nullptr;
    std::shared_ptr<const RegionTimes> times;  // null: not planned yet
    std::uint32_t ticket = 0;
    double start_s = 0.0;
    // The part of times->seen that has not passed.
    const RegionTimes::Seen* next = nullptr;
    const RegionTimes::Seen* last = nullptr;
    std::vector<OutsideSlowing> outside;
  };

  [[nodiscard]] std::vector<bool> joinable(std::uint32_t program,
                                           std::span<const std::uint32_t> rank_classes);
  [[nodiscard]] const ClosedCall* closed_call(std::uint32_t group_class, std::uint32_t call);
  [[nodiscard]] std::optional<ClosedCall> priced_call(std::uint32_t group_class,
                                                      std::uint32_t call) const;
  [[nodiscard]] PricedShape& priced(std::uint32_t rank_class, std::uint32_t shape);
  [[nodiscard]] PieceCost cost(std::uint32_t rank_class, const RegionShape::Piece& piece);
  // Adds the times of all its operations and flows to the timeline.
  void record(std::uint32_t rank_class, Timeline& timeline) const;
  void plan(Active& region);
  [[nodiscard]] std::shared_ptr<const RegionTimes> planned(const Active& region);

  const EngineInput& input_;
  Pricing& pricing_;
  std::vector<std::uint32_t> program_of_;  // indexed by rank class
  // By program; null where no class runs it.
  std::vector<std::shared_ptr<const EngineProgram>> programs_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::optional<ClosedCall>> calls_;
  std::vector<std::vector<PricedShape>> priced_;  // [rank class][shape]
  std::vector<Active> active_;                    // indexed by rank class
  RegionPlayer player_;
};

}  // namespace trainyard
