// The operations of a program that surely end before others start, however long anything takes.
//
// An operation comes before another when a path of stream order and dependencies leads from one to
// the other. Operations of a stream are in order, so what an operation comes after is one number
// per stream in use: one past the last operation of that stream on such a path.
//
// A block's own order is worked out once, for its first instance, and holds for the others. What
// comes before an instance enters it through its entries: the block's inputs, and for each stream
// the operation before the instance's first one there. It is worked out once for all operations
// that the same entries lead to.
//
//   ProgramOrder order(program);
//   if (order.before(send, gemm)) ...;   // the message is away when the product starts
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// The edges through which earlier operations enter an instance of a block.
struct BlockEntries {
  struct Edge {
    OpIndex place = 0;        // of the operation that waits, in the block
    std::uint32_t entry = 0;  // below the number of the block's inputs: that input; else a stream's
  };
  std::uint32_t count = 0;
  std::vector<Edge> edges = {};  // in issue order
  // Streams in the order of first use, with the places of their first and last operations.
  struct StreamUse {
    std::uint8_t column = 0;
    OpIndex first = 0;
    OpIndex last = 0;
  };
  std::vector<StreamUse> streams = {};
};

class ProgramOrder {
 public:
  explicit ProgramOrder(const Program& program);

  // Returns false for an operation and itself.
  [[nodiscard]] bool before(OpIndex first, OpIndex then) const {
    return after(then, column(first)) > first;
  }
  // Streams in use have columns, counted from 0.
  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::uint8_t column(OpIndex op) const { return column_of(list_.position_of(op)); }
  // One past the last operation of a column that `op` comes after, 0 where there is none.
  [[nodiscard]] OpIndex after(OpIndex op, std::size_t column) const {
    return after(list_.position_of(op), column);
  }
  // The one before it on its stream; kNone: it is the first.
  [[nodiscard]] OpIndex previous(OpIndex op) const {
    const OperationList::Position position = list_.position_of(op);
    return after(position, column_of(position)) - 1;
  }

  [[nodiscard]] std::size_t operations() const { return list_.size(); }
  // Operations that have rows of their own: those of first instances.
  [[nodiscard]] std::size_t rows() const { return way_.size(); }
  [[nodiscard]] const BlockEntries& entries_of(std::uint32_t block) const {
    return entries_[block];
  }
  // Returns for each entry of an instance the operation before it; kNone where there is none.
  [[nodiscard]] std::span<const OpIndex> outside_of(std::uint32_t instance) const {
    return std::span(outside_).subspan(outside_begin_[instance],
                                       outside_begin_[instance + 1] - outside_begin_[instance]);
  }

 private:
  static constexpr std::size_t kAtOnce = 4;  // columns raised together

  // An instance as it looks for its order.
  struct Place {
    OpIndex first = 0;
    OpIndex written = 0;      // of its block, among the operations written
    OpIndex shift = 0;        // from the instance whose rows hold for it; 0: its own
    std::size_t rows = 0;     // of its first operation
    std::size_t entered = 0;  // its rows in entered_, where it is shifted
  };
  // The entries that lead to an operation of a block, a bit each.
  using Entries = std::uint64_t;
  static constexpr std::uint32_t kMostEntries = 64;

  [[nodiscard]] std::uint8_t column_of(const OperationList::Position& position) const {
    return column_[places_[position.instance].written + position.place];
  }
  [[nodiscard]] OpIndex after(const OperationList::Position& position, std::size_t column) const {
    const Place& place = places_[position.instance];
    const std::size_t row = place.rows + position.place;
    const OpIndex known = rows_[row * stride_ + column];
    if (place.shift == 0 || known > place.first - place.shift) return known + place.shift;
    return entered_[(place.entered + way_[row]) * stride_ + column];
  }

  void number_columns();
  void find_entries(std::uint32_t block);
  void find_outside();
  void place_instances();
  void write_rows(std::uint32_t instance);
  void find_ways(std::uint32_t block);
  void write_entered(std::uint32_t instance);
  void raise_past(OpIndex* row, OpIndex op) const;
  void copy(OpIndex* __restrict row, const OpIndex* __restrict other) const;
  // Makes `row` come after all that `other` comes after.
  void raise(OpIndex* __restrict row, const OpIndex* __restrict other) const;

  OperationList list_;
  std::size_t columns_ = 0;
  std::size_t stride_ = 0;                  // columns, in whole steps of kAtOnce
  std::vector<std::uint8_t> column_;        // by operation written, of its stream
  std::vector<std::uint32_t> first_of_;     // by block: its first instance; kNone: it has none
  std::vector<BlockEntries> entries_;       // by block
  std::vector<OpIndex> outside_;            // of all instances
  std::vector<std::size_t> outside_begin_;  // by instance, and their end
  std::vector<Place> places_;               // by instance
  std::vector<OpIndex> rows_;               // [operation of a first instance][column]
  std::vector<std::uint32_t> way_;          // by row: which entries lead to it
  std::vector<std::vector<Entries>> ways_;  // by block; empty: it has no second instance yet
  std::vector<OpIndex> entered_;            // [later instance and way][column]
};

// Calls visit(input) for all that an operation waits for: the one before it on its stream and its
// dependencies.
template <class Visit>
void for_each_input(const Program& program, const ProgramOrder& order, OpIndex op,
                    const Visit& visit) {
  if (const OpIndex previous = order.previous(op); previous != kNone) visit(previous);
  for (const OpIndex input : program.dependencies_of(op)) visit(input);
}

}  // namespace trainyard
