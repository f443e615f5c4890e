// What of a program surely ends before what else of it starts, whatever anything takes.
//
// An operation comes before another when a path of stream order and dependencies leads from one to
// the other. Operations of a stream are in order, so what an operation comes after is one number
// per stream in use: one past the last operation of that stream on such a path.
//
//   ProgramOrder order(program);
//   if (order.before(send, gemm)) ...;   // the message is away when the product starts
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/workload.hpp"

namespace trainyard {

class ProgramOrder {
 public:
  explicit ProgramOrder(const Program& program);

  // Of an operation with itself: false.
  [[nodiscard]] bool before(OpIndex first, OpIndex then) const {
    return after_[then * stride_ + column_[first]] > first;
  }
  // Streams in use have columns, counted from 0.
  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::uint8_t column(OpIndex op) const { return column_[op]; }
  [[nodiscard]] std::span<const std::uint8_t> column_of() const { return column_; }
  // By column: one past the last operation that `op` comes after, 0 where there is none.
  [[nodiscard]] std::span<const OpIndex> after(OpIndex op) const {
    return std::span(after_).subspan(op * stride_, columns_);
  }

 private:
  static constexpr std::size_t kBlock = 4;  // columns raised together

  void copy(OpIndex* __restrict row, const OpIndex* __restrict other) const;
  // Makes `row` come after all that `other` comes after.
  void raise(OpIndex* __restrict row, const OpIndex* __restrict other) const;

  std::size_t columns_ = 0;
  std::size_t stride_ = 0;            // columns, in whole blocks
  std::vector<std::uint8_t> column_;  // by operation, of its stream
  std::vector<OpIndex> after_;        // [operation][column]
};

}  // namespace trainyard
