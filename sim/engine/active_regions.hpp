// The regions (regions.hpp) under way: at most one of a rank class.
//
// A region is planned when its head starts: the dates at which something outside may go on are
// known at once, and nothing else of it needs an event; one date is awaited at a time. When what
// communications outside take of the computation has changed, what is left is planned anew; what
// has happened by then stays as it is, to the last bit. Plans of equal regions under equal loss
// are made once.
//
//   ActiveRegions active(input, pricing);
//   if (active.of_program(program).regions.begins_with(op)) active.start(rank_class, op, now);
//   active.plan(rank_class, loss, now);
//   wake_at(active.next_date(rank_class), active.ticket(rank_class));
//   active.pass(rank_class, ticket, now, [](OpIndex ended) { ... });
//   if (active.over(rank_class)) active.retire(rank_class, timeline);
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
  // Finds the regions of all programs in use. None where the input forbids it, where hosts take
  // time to issue operations, or where computation slows communication: then all that happens
  // inside matters outside.
  ActiveRegions(const EngineInput& input, Pricing& pricing);

  // REQUIRES: a rank class runs the program.
  [[nodiscard]] const EngineProgram& of_program(std::uint32_t program) const {
    return *programs_[program];
  }
  [[nodiscard]] bool alive(std::uint32_t rank_class) const {
    return active_[rank_class].shape != nullptr;
  }
  // The region that begins with `head` starts, to be planned before time goes on. REQUIRES: none
  // of the class is alive.
  void start(std::uint32_t rank_class, OpIndex head, double now);
  // Communications outside take `loss` from now on. False where the plan before holds, because they
  // did already. REQUIRES: alive.
  bool plan(std::uint32_t rank_class, double loss, double now);

  // Known by it, the dates of a plan are told from those of plans before. REQUIRES: alive.
  [[nodiscard]] std::uint32_t ticket(std::uint32_t rank_class) const {
    return active_[rank_class].ticket;
  }
  // When something outside may next go on, or all is over. REQUIRES: alive and not over.
  [[nodiscard]] double next_date(std::uint32_t rank_class) const {
    const Active& region = active_[rank_class];
    return region.start_s + region.next->end_s;
  }
  // The plan of that ticket holds still.
  [[nodiscard]] bool awaits(std::uint32_t rank_class, std::uint32_t ticket) const {
    return active_[rank_class].times != nullptr && active_[rank_class].ticket == ticket;
  }

  // Tells `ended` of all operations that something outside waits for and that end by now. False
  // when the ticket is of an older plan.
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
  // Writes the times of its operations and flows, and gives the number of operations. REQUIRES:
  // over.
  std::size_t retire(std::uint32_t rank_class, Timeline& timeline);

 private:
  [[nodiscard]] const ProgramRegions& regions_of(std::uint32_t rank_class) const {
    return programs_[program_of_[rank_class]]->regions;
  }
  // A collective that may be a member: what it takes, and its flows from its start.
  struct ClosedCall {
    double seconds = 0.0;
    std::vector<FlowSpan> flows;
  };
  struct Plan {
    double loss = 0.0;
    std::unique_ptr<const RegionTimes> times;
  };
  // A shape as one rank class plays it.
  struct PricedShape {
    struct PieceFlow {
      std::uint32_t piece = 0;
      FlowSpan span;  // from the piece's start
    };
    std::vector<PieceCost> costs;
    std::vector<PieceFlow> flows;
    // How many are of a flow class.
    std::vector<std::pair<std::uint32_t, std::uint64_t>> flows_of_class;
    std::vector<Plan> plans;
  };
  struct Active {
    OpIndex head = 0;
    const RegionShape* shape = nullptr;  // null: none is alive
    PricedShape* priced = nullptr;
    const RegionTimes* times = nullptr;  // null: to be planned
    std::uint32_t ticket = 0;
    double start_s = 0.0;
    // The part of times->seen that has not passed.
    const RegionTimes::Seen* next = nullptr;
    const RegionTimes::Seen* last = nullptr;
    RegionTimes own;  // where the plan changed on the way
    std::vector<OutsideLoss> outside;
  };

  [[nodiscard]] std::vector<bool> joinable(std::uint32_t program,
                                           std::span<const std::uint32_t> rank_classes);
  [[nodiscard]] const ClosedCall* closed_call(std::uint32_t group_class, std::uint32_t call);
  [[nodiscard]] std::optional<ClosedCall> priced_call(std::uint32_t group_class,
                                                      std::uint32_t call) const;
  [[nodiscard]] PricedShape& priced(std::uint32_t rank_class, std::uint32_t shape);
  [[nodiscard]] PieceCost cost(std::uint32_t rank_class, const RegionShape::Piece& piece);
  // Adds the times of all its operations and flows.
  void record(std::uint32_t rank_class, Timeline& timeline) const;
  void plan(Active& region);
  [[nodiscard]] const RegionTimes* planned(Active& region);
  [[nodiscard]] RegionTimes times_of(const Active& region, RegionTimes storage);

  const EngineInput& input_;
  Pricing& pricing_;
  std::vector<std::uint32_t> program_of_;                       // by rank class
  std::vector<std::shared_ptr<const EngineProgram>> programs_;  // null: no class runs it
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::optional<ClosedCall>> calls_;
  std::vector<std::vector<PricedShape>> priced_;  // [rank class][shape]
  std::vector<Active> active_;                    // by rank class
  RegionPlayer player_;
};

}  // namespace trainyard
