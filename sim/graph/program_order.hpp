// What of a program surely ends before what else of it starts, whatever anything takes.
//
// An operation comes before another when a path of stream order and dependencies leads from one to
// the other. Operations of a stream are in order, so what an operation comes after is one number
// per stream: one past the last operation of that stream on such a path.
//
//   ProgramOrder order(program);
//   if (order.before(send, gemm)) ...;   // the message is away when the product starts
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/graph/workload.hpp"

namespace trainyard {

// One more than the highest stream in use.
[[nodiscard]] std::size_t streams_in_use(const Program& program);

class ProgramOrder {
 public:
  // `program` must outlive the order; `streams`: at least streams_in_use(program).
  ProgramOrder(const Program& program, std::size_t streams);
  explicit ProgramOrder(const Program& program) : ProgramOrder(program, streams_in_use(program)) {}

  // Of an operation with itself: false.
  [[nodiscard]] bool before(OpIndex first, OpIndex then) const {
    return after_[then * streams_ + program_.operations[first].stream] > first;
  }
  // By stream: one past the last operation that `op` comes after, 0 where there is none.
  [[nodiscard]] std::span<const OpIndex> after(OpIndex op) const {
    return std::span(after_).subspan(op * streams_, streams_);
  }

 private:
  const Program& program_;
  std::size_t streams_;
  std::vector<OpIndex> after_;  // [operation][stream]
};

}  // namespace trainyard
