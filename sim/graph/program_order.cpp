#include "sim/graph/program_order.hpp"

#include <algorithm>

namespace trainyard {

std::size_t streams_in_use(const Program& program) {
  std::size_t streams = 0;
  for (const Operation& op : program.operations)
    streams = std::max(streams, std::size_t{op.stream} + 1);
  return streams;
}

ProgramOrder::ProgramOrder(const Program& program) : program_(program) {
  std::array<bool, 256> used{};
  for (const Operation& op : program.operations) used[op.stream] = true;
  for (std::size_t stream = 0; stream < used.size(); ++stream)
    if (used[stream]) column_[stream] = static_cast<std::uint8_t>(columns_++);
  stride_ = (columns_ + kBlock - 1) / kBlock * kBlock;
  after_.assign(program.operations.size() * stride_, 0);
  std::array<OpIndex, 256> last_of_stream{};
  last_of_stream.fill(kNone);
  for (OpIndex op = 0; op < program.operations.size(); ++op) {
    const Operation& operation = program.operations[op];
    OpIndex* const row = after_.data() + op * stride_;
    OpIndex& last = last_of_stream[operation.stream];
    if (last != kNone) {
      std::copy_n(after_.data() + last * stride_, stride_, row);
      row[column_[operation.stream]] = last + 1;
    }
    last = op;
    for (const OpIndex before : program.dependencies_of(operation)) {
      OpIndex& own = row[column_[program.operations[before].stream]];
      if (own > before) continue;  // and with it all that comes before it
      raise(row, after_.data() + before * stride_);
      own = before + 1;
    }
  }
}

void ProgramOrder::raise(OpIndex* __restrict row, const OpIndex* __restrict other) const {
  for (std::size_t block = 0; block < stride_; block += kBlock) {
    for (std::size_t i = block; i < block + kBlock; ++i) row[i] = std::max(row[i], other[i]);
  }
}

}  // namespace trainyard
