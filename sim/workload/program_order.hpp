// The operations of a program that surely end before others start, however long anything takes.
//
// An operation comes before another when a path of stream order and dependencies leads from one to
// the other. Operations of a stream are in order, so what an operation comes after is one number
// per stream in use: one past the last operation of that stream on such a path.
//
// A block's own order holds for all its instances, in whatever program (BlockOrders). What comes
// before an instance enters it through its entries: the block's inputs, and for each stream the
// operation before the instance's first one there. It is worked out once for all operations that
// the same entries lead to.
//
//   ProgramOrder order(program);
//   if (order.before(send, gemm)) ...;   // the message is away when the product starts
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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

// The order within each block of a list, and the ways that lead into it. Operations are numbered as
// written.
class BlockOrders {
 public:
  explicit BlockOrders(const OperationList& list);

  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::uint8_t column(OpIndex written) const { return column_[written]; }
  // One past the place of the last operation of a column that an operation comes after in its
  // block, 0 where there is none.
  [[nodiscard]] OpIndex after(OpIndex written, std::size_t column) const {
    return rows_[written * stride_ + column];
  }
  [[nodiscard]] const BlockEntries& entries_of(std::uint32_t block) const {
    return entries_[block];
  }
  // A way is a set of entries, in words of a bit each. Some may be there twice.
  [[nodiscard]] std::uint32_t ways_of(std::uint32_t block) const { return ways_[block].count; }
  [[nodiscard]] std::span<const std::uint64_t> way(std::uint32_t block, std::uint32_t way) const {
    const Ways& ways = ways_[block];
    return std::span(ways.entries).subspan(way * ways.words, ways.words);
  }
  // The way of its block whose entries lead to an operation.
  [[nodiscard]] std::uint32_t way_to(OpIndex written) const { return way_to_[written]; }

 private:
  struct Ways {
    std::size_t words = 0;  // of one
    std::uint32_t count = 0;
    std::vector<std::uint64_t> entries = {};
  };

  void number_columns(const OperationList& list);
  void find_entries(const OperationList& list, std::uint32_t block);
  void write_rows(const OperationList& list, const Block& block);
  void find_ways(const OperationList& list, std::uint32_t block);
  [[nodiscard]] std::uint32_t number_of(Ways& ways, std::span<const std::uint64_t> entries,
                                        std::span<const std::uint32_t> likely) const;

  std::size_t columns_ = 0;
  std::size_t stride_ = 0;             // columns, in whole steps of kAtOnce
  std::vector<std::uint8_t> column_;   // of its stream
  std::vector<BlockEntries> entries_;  // by block
  std::vector<OpIndex> rows_;          // [operation][column]
  std::vector<Ways> ways_;             // by block
  std::vector<std::uint32_t> way_to_;
};

class ProgramOrder {
 public:
  // `blocks`: of a program with the same blocks; null: they are found.
  explicit ProgramOrder(const Program& program,
                        std::shared_ptr<const BlockOrders> blocks = nullptr);

  // Returns false for an operation and itself.
  [[nodiscard]] bool before(OpIndex first, OpIndex then) const {
    return after(then, column(first)) > first;
  }
  // Streams in use have columns, counted from 0.
  [[nodiscard]] std::size_t columns() const { return blocks_->columns(); }
  [[nodiscard]] std::uint8_t column(OpIndex op) const {
    return blocks_->column(written(list_.position_of(op)));
  }
  // One past the last operation of a column that `op` comes after, 0 where there is none.
  [[nodiscard]] OpIndex after(OpIndex op, std::size_t column) const {
    return after(list_.position_of(op), column);
  }
  // The one before it on its stream; kNone: it is the first.
  [[nodiscard]] OpIndex previous(OpIndex op) const {
    const OperationList::Position position = list_.position_of(op);
    return after(position, blocks_->column(written(position))) - 1;
  }

  [[nodiscard]] const OperationList& list() const { return list_; }
  [[nodiscard]] const std::shared_ptr<const BlockOrders>& blocks() const { return blocks_; }
  [[nodiscard]] const BlockEntries& entries_of(std::uint32_t block) const {
    return blocks_->entries_of(block);
  }
  // Returns for each entry of an instance the operation before it; kNone where there is none.
  [[nodiscard]] std::span<const OpIndex> outside_of(std::uint32_t instance) const {
    return std::span(outside_).subspan(outside_begin_[instance],
                                       outside_begin_[instance + 1] - outside_begin_[instance]);
  }

 private:
  // An instance as it looks for its order.
  struct Place {
    OpIndex first = 0;
    OpIndex written = 0;      // of its block, among the operations written
    std::size_t entered = 0;  // the row of its first way
  };

  [[nodiscard]] OpIndex written(const OperationList::Position& position) const {
    return places_[position.instance].written + position.place;
  }
  [[nodiscard]] OpIndex after(const OperationList::Position& position, std::size_t column) const {
    const Place& place = places_[position.instance];
    const OpIndex op = place.written + position.place;
    const OpIndex inside = blocks_->after(op, column);
    if (inside != 0) return place.first + inside;
    return entered_[(place.entered + blocks_->way_to(op)) * columns() + column];
  }

  void find_outside();
  void place_instances();
  void write_entered(std::uint32_t instance, std::vector<OpIndex>& rows);
  void write_past(OpIndex op, std::span<OpIndex> row) const;

  OperationList list_;
  std::shared_ptr<const BlockOrders> blocks_;
  std::vector<OpIndex> outside_;            // of all instances
  std::vector<std::size_t> outside_begin_;  // by instance, and their end
  std::vector<Place> places_;               // by instance
  std::vector<OpIndex> entered_;            // [instance and way][column]
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
