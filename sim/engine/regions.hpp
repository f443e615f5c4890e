// Contracted regions: parts of a program that nothing outside can delay on the way, run as one
// event.
//
// A region is a set of operations of one program with one beginning and one end: every other
// operation of it comes after the first, the head, and before the last. The operations wait for
// others of the region, or for operations that end before the head starts. So once the head may
// start, all times inside follow from the operations' own durations and from the computation speed
// of the rank class (design D7). Members are computations, delays and those collectives that the
// caller names: those of ranks of one class among themselves, on links that no other flow ever
// holds back. Computations outside end before the head or start after the end, so that no
// collective inside slows them; messages and other calls may start and end beside a region
// (active_regions.hpp).
//
// Regions that are alike, such as those of all microbatches of a stage, share one shape. They are
// searched for in one instance of a block.
//
//   ProgramRegions regions = find_regions(program, may_join, ProgramOrder(program));
//   regions.shape_of(op);   // the shape of the region that begins with op
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sim/workload/program_order.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct RegionShape {
  struct Piece {
    OpIndex offset = 0;  // operation number, from the head's
    OpKind kind = OpKind::Compute;
    std::uint16_t slot = 0;
    std::uint32_t payload = 0;
    std::uint32_t waits_for = 0;   // pieces that lead to it
    std::uint32_t next_begin = 0;  // range in `next`
    std::uint32_t next_end = 0;    //
    bool seen = false;             // something outside waits for it
    bool operator==(const Piece&) const = default;
  };
  std::vector<Piece> pieces;        // in issue order; [0] is the head
  std::vector<std::uint32_t> next;  // pieces that wait for a piece, by number

  [[nodiscard]] std::span<const std::uint32_t> next_of(const Piece& piece) const {
    return std::span(next).subspan(piece.next_begin, piece.next_end - piece.next_begin);
  }
};

inline constexpr std::uint32_t kAlone = kNone;       // no part of a region
inline constexpr std::uint32_t kWithin = kNone - 1;  // of a region that began before

// The result of searching an instance of a block. It holds for all instances that are entered and
// left alike. Numbers of operations are places in the block.
struct RegionSearchResult {
  // A region that was grown, or a head that nothing follows.
  struct Tried {
    OpIndex head = 0;
    OpIndex last = 0;
    bool alone = true;            // no computation issued later starts before its end
    std::vector<bool> done = {};  // by entry of the block: it has ended before the head starts
  };
  // Variants follow from what later instances wait for: members, in order.
  struct Seen {
    std::vector<OpIndex> awaited = {};
    std::uint32_t variant = 0;
  };
  std::uint32_t block = 0;
  std::vector<Tried> tried = {};
  std::vector<std::vector<OpIndex>> regions = {};  // their members, in issue order
  std::vector<std::uint32_t> within = {};          // by place; kWithin, and kAlone for heads too
  std::vector<std::uint32_t> piece = {};           // by place: its number in its region; kNone
  // By place: 1 where one outside its region, but of its instance, waits for it.
  std::vector<std::uint8_t> seen = {};
  std::vector<Seen> variants = {};
};

struct ProgramRegions {
  // The regions of an instance of a block, which others of the block may have too: by place the
  // shape of the one that begins there; kAlone, kWithin.
  using Variant = std::vector<std::uint32_t>;

  OperationList operations = {};
  std::vector<RegionShape> shapes = {};
  std::vector<Variant> variants = {};
  // The searches that they were found by, for other programs of the same blocks.
  std::shared_ptr<const std::vector<RegionSearchResult>> searches = {};
  std::vector<std::uint32_t> variant_of = {};  // by instance; kNone: it has no region
  std::uint32_t regions = 0;

  // The shape of the region that begins with the operation; kAlone, kWithin.
  [[nodiscard]] std::uint32_t shape_of(OpIndex op) const {
    if (regions == 0) return kAlone;
    const OperationList::Position position = operations.position_of(op);
    const std::uint32_t variant = variant_of[position.instance];
    return variant == kNone ? kAlone : variants[variant][position.place];
  }
  [[nodiscard]] bool begins_with(OpIndex op) const { return shape_of(op) < kWithin; }
};

// Whether an operation may be a member. REQUIRES: of operations that are alike in kind, slot and
// payload it says the same.
using MayJoin = std::function<bool(OpIndex)>;

// Every region has at least two members and is as long as the rules allow, within one microbatch.
// `order`: of the program. `like`: regions of a program that may be made of the same blocks, of
// which the same operations may be members; null: there are none.
[[nodiscard]] ProgramRegions find_regions(const Program& program, const MayJoin& may_join,
                                          const ProgramOrder& order,
                                          const ProgramRegions* like = nullptr);

}  // namespace trainyard
