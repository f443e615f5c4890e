// Contracted regions: parts of a program that nothing outside can delay once they have started. The
// engine runs such a part as one event.
//
// A region is a set of operations of one program with one beginning and one end: every other
// operation of it comes after the first, the head, and before the last. Its operations wait for
// others of the region, or for operations that end before the head starts. Once the head may start,
// all times inside therefore follow from two things: the operations' own durations and the
// computation speed of the rank class (decision D7).
//
// Members are computations, delays and the collectives that the caller names. Such a collective
// runs between ranks of one class, on links where no other flow ever holds it back. Computations
// outside the region end before the head starts or start after the end, so that no collective
// inside slows them. Messages and other calls may start and end while a region is active
// (active_regions.hpp).
//
// Isomorphic regions, such as those of all microbatches of a stage, share one shape. The search
// looks at one instance of a block and reuses the result for the others.
//
//    ProgramRegions regions = find_regions(program, may_join, ProgramOrder(program));
//    regions.shape_of(op);   // the shape of the region that begins with op
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
    OpIndex offset = 0;  // number of the operation, relative to the head
    OpKind kind = OpKind::Compute;
    std::uint16_t slot = 0;
    std::uint32_t payload = 0;
    std::uint32_t waits_for = 0;   // number of pieces with an edge to it
    std::uint32_t next_begin = 0;  // range in `next`
    std::uint32_t next_end = 0;
    bool seen = false;  // an operation outside waits for it
    bool operator==(const Piece&) const = default;
  };
  std::vector<Piece> pieces;        // sorted by issue order; [0] is the head
  std::vector<std::uint32_t> next;  // for each piece, the numbers of the pieces that wait for it

  [[nodiscard]] std::span<const std::uint32_t> next_of(const Piece& piece) const {
    return std::span(next).subspan(piece.next_begin, piece.next_end - piece.next_begin);
  }
};

inline constexpr std::uint32_t kAlone = kNone;             // not in a region
inline constexpr std::uint32_t kInsideRegion = kNone - 1;  // inside a region, not its head

// The result of searching one instance of a block. It holds for all instances of the block that
// have the same order relative to the operations before and after them. Operations are numbered by
// their index in the block.
struct RegionSearchResult {
  // An attempt to grow a region from a head. The region may consist of the head alone.
  struct Tried {
    OpIndex head = 0;
    OpIndex last = 0;
    bool alone = true;            // no computation issued later starts before its end
    std::vector<bool> done = {};  // by entry of the block: it has ended before the head starts
  };
  // A variant follows from the members that operations of later instances wait for, in order.
  struct Seen {
    std::vector<OpIndex> awaited = {};
    std::uint32_t variant = 0;
  };
  std::uint32_t block = 0;
  std::vector<Tried> tried = {};
  std::vector<std::vector<OpIndex>> regions = {};  // their members, in issue order
  // By index in the block: kInsideRegion for members; kAlone for heads too.
  std::vector<std::uint32_t> within = {};
  // By index in the block: its number in its region; kNone: in no region.
  std::vector<std::uint32_t> piece = {};
  // By index in the block: 1 where an operation of the same instance, outside the region, waits for
  // it.
  std::vector<std::uint8_t> seen = {};
  // The entries of the block (BlockEntries) through which operations outside the regions wait for
  // operations of earlier instances.
  std::vector<std::uint32_t> entries = {};
  std::vector<Seen> variants = {};
};

struct ProgramRegions {
  // The regions of an instance of a block; other instances of the block may have the same variant.
  // By index in the block: the shape of the region that begins there; kAlone, kInsideRegion.
  using Variant = std::vector<std::uint32_t>;

  OperationList operations = {};
  std::vector<RegionShape> shapes = {};
  std::vector<Variant> variants = {};
  // The searches that found the regions. Other programs of the same blocks reuse them.
  std::shared_ptr<const std::vector<RegionSearchResult>> searches = {};
  std::vector<std::uint32_t> variant_of = {};  // by instance; kNone: it has no region
  std::uint32_t regions = 0;

  // The shape of the region that begins with the operation; kAlone, kInsideRegion.
  [[nodiscard]] std::uint32_t shape_of(OpIndex op) const {
    if (regions == 0) return kAlone;
    const OperationList::Position position = operations.position_of(op);
    const std::uint32_t variant = variant_of[position.instance];
    return variant == kNone ? kAlone : variants[variant][position.place];
  }
  [[nodiscard]] bool begins_with(OpIndex op) const { return shape_of(op) < kInsideRegion; }
};

// Whether an operation may be a member. REQUIRES: the answer is the same for operations of equal
// kind, slot and payload.
using MayJoin = std::function<bool(OpIndex)>;

// Finds the regions of a program. Every region has at least two members, stays within one
// microbatch, and is as long as the rules allow. `order`: that of the program. `like`: the regions
// of a program that may be made of the same blocks, and where the same operations may be members;
// null: there is none.
[[nodiscard]] ProgramRegions find_regions(const Program& program, const MayJoin& may_join,
                                          const ProgramOrder& order,
                                          const ProgramRegions* like = nullptr);

}  // namespace trainyard
