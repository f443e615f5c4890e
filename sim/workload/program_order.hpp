// The happens-before relation of a program's operations, independent of durations.
//
// An operation comes before another if a path of stream order and dependencies leads from the one
// to the other. The operations of a stream are in order, so one number per stream describes all
// predecessors of an operation: one past the last operation of that stream on such a path (a vector
// clock with a component, or column, per stream in use).
//
// The order within a block holds in all its instances, in any program (BlockOrders). Earlier
// operations reach an instance only through its entries: the inputs of the block, and for each of
// its streams the last earlier operation on that stream. ProgramOrder computes predecessors outside
// of the instance once for all operations that are reached from the same set of entries.
//
//    ProgramOrder order(program);
//    order.before(send, gemm);   // true: the send has ended when the GEMM starts
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// The edges through which earlier operations reach an instance of a block.
struct BlockEntries {
  struct Edge {
    OpIndex place = 0;        // index in the block of the operation that waits
    std::uint32_t entry = 0;  // an input of the block if below their number; else a stream
  };
  std::uint32_t count = 0;
  std::vector<Edge> edges = {};  // in issue order
  // The streams of a block in the order of first use, with its first and last operation on each.
  struct StreamUse {
    std::uint8_t column = 0;
    OpIndex first = 0;
    OpIndex last = 0;
  };
  std::vector<StreamUse> streams = {};
};

// The order within each block of a list, and the sets of entries that reach its operations. The
// argument `written` is an index into OperationList::written().
class BlockOrders {
 public:
  explicit BlockOrders(const OperationList& list);

  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::uint8_t column(OpIndex written) const { return column_[written]; }
  // Returns one past the index in the block of the last operation of a column that comes before
  // this one in the block; 0 if there is none.
  [[nodiscard]] OpIndex after(OpIndex written, std::size_t column) const {
    return rows_[written * stride_ + column];
  }
  // The same for all columns: a row of stride() entries, of which those beyond columns() are 0.
  [[nodiscard]] const OpIndex* row(OpIndex written) const {
    return rows_.data() + written * stride_;
  }
  [[nodiscard]] std::size_t stride() const { return stride_; }
  [[nodiscard]] const BlockEntries& entries_of(std::uint32_t block) const {
    return entries_[block];
  }
  // A way is a set of entries: those of an earlier way of the block, which is its largest known
  // subset, and others. A block may list an equal set twice.
  struct Way {
    std::uint32_t like = kNone;               // kNone: there is no such way
    std::vector<std::uint32_t> entries = {};  // the others
  };
  [[nodiscard]] const std::vector<Way>& ways_of(std::uint32_t block) const {
    return ways_[block].all;
  }
  // Returns the way (the set of entries) that reaches an operation.
  [[nodiscard]] std::uint32_t entry_set_of(OpIndex written) const { return way_to_[written]; }

 private:
  struct Ways {
    std::vector<Way> all = {};
    std::size_t words = 0;                 // of 64 bits per set
    std::vector<std::uint64_t> sets = {};  // of all ways, as bit sets

    [[nodiscard]] std::span<const std::uint64_t> set(std::uint32_t way) const {
      return std::span(sets).subspan(way * words, words);
    }
  };

  void number_columns(const OperationList& list);
  void find_entries(const OperationList& list, std::uint32_t block);
  void write_rows(const OperationList& list, const Block& block);
  void find_ways(const OperationList& list, std::uint32_t block);
  [[nodiscard]] std::uint32_t number_of(Ways& ways, std::span<const std::uint64_t> entries,
                                        std::span<const std::uint32_t> before) const;

  std::size_t columns_ = 0;
  std::size_t stride_ = 0;             // columns, rounded up to a multiple of kAtOnce
  std::vector<std::uint8_t> column_;   // by operation: the column of its stream
  std::vector<BlockEntries> entries_;  // by block
  std::vector<OpIndex> rows_;          // [operation][column]
  std::vector<Ways> ways_;             // by block
  std::vector<std::uint32_t> way_to_;
};

class ProgramOrder {
 public:
  // `blocks` belongs to a program with the same blocks; null: the constructor computes it.
  explicit ProgramOrder(const Program& program,
                        std::shared_ptr<const BlockOrders> blocks = nullptr);

  // Returns false if both are the same operation.
  [[nodiscard]] bool before(OpIndex first, OpIndex then) const {
    return after(then, column(first)) > first;
  }
  // Each stream in use has a column, counted from 0.
  [[nodiscard]] std::size_t columns() const { return blocks_->columns(); }
  [[nodiscard]] std::uint8_t column(OpIndex op) const {
    return blocks_->column(written(list_.position_of(op)));
  }
  // Returns one past the last operation of a column that comes before `op`; 0 if there is none.
  [[nodiscard]] OpIndex after(OpIndex op, std::size_t column) const {
    return after(list_.position_of(op), column);
  }
  // Returns the previous operation on the stream of `op`; kNone if `op` is the first.
  [[nodiscard]] OpIndex previous(OpIndex op) const {
    const OperationList::Position position = list_.position_of(op);
    return after(position, blocks_->column(written(position))) - 1;
  }

  [[nodiscard]] const OperationList& list() const { return list_; }
  [[nodiscard]] const std::shared_ptr<const BlockOrders>& blocks() const { return blocks_; }
  [[nodiscard]] const BlockEntries& entries_of(std::uint32_t block) const {
    return blocks_->entries_of(block);
  }
  // Returns, for each entry of an instance, the operation that it leads from; kNone if there is
  // none.
  [[nodiscard]] std::span<const OpIndex> entry_operations(std::uint32_t instance) const {
    return std::span(outside_).subspan(outside_begin_[instance],
                                       outside_begin_[instance + 1] - outside_begin_[instance]);
  }

 private:
  // The data of an instance that a query needs.
  struct Place {
    OpIndex first = 0;
    OpIndex written = 0;      // start of its block in OperationList::written()
    std::size_t entered = 0;  // first of its rows in entered_
  };

  [[nodiscard]] OpIndex written(const OperationList::Position& position) const {
    return places_[position.instance].written + position.place;
  }
  [[nodiscard]] OpIndex after(const OperationList::Position& position, std::size_t column) const {
    const Place& place = places_[position.instance];
    const OpIndex op = place.written + position.place;
    const OpIndex inside = blocks_->after(op, column);
    if (inside != 0) return place.first + inside;
    return entered_row(place, op)[column];
  }
  // Returns the operations outside of the instance that come before an operation of it, by column.
  // `op`: an index into OperationList::written().
  [[nodiscard]] const OpIndex* entered_row(const Place& place, OpIndex op) const {
    return entered_.data() + (place.entered + blocks_->entry_set_of(op)) * blocks_->stride();
  }

  void find_outside();
  void place_instances();
  void write_entered(std::uint32_t instance, std::vector<OpIndex>& rows);
  void write_past(OpIndex op, OpIndex* row) const;

  OperationList list_;
  std::shared_ptr<const BlockOrders> blocks_;
  std::vector<OpIndex> outside_;            // of all instances
  std::vector<std::size_t> outside_begin_;  // by instance, and the end
  std::vector<Place> places_;               // by instance
  std::vector<OpIndex> entered_;            // [instance and way][BlockOrders::stride()]
};

// Calls visit(input) for all direct predecessors of an operation: the previous operation on its
// stream, and its dependencies.
template <class Visit>
void for_each_input(const Program& program, const ProgramOrder& order, OpIndex op,
                    const Visit& visit) {
  if (const OpIndex previous = order.previous(op); previous != kNone) visit(previous);
  for (const OpIndex input : program.dependencies_of(op)) visit(input);
}

}  // namespace trainyard
