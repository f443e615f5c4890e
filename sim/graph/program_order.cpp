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
  after_.assign(program.operations.size() * columns_, 0);
  std::array<OpIndex, 256> last_of_stream{};
  last_of_stream.fill(kNone);
  for (OpIndex op = 0; op < program.operations.size(); ++op) {
    const Operation& operation = program.operations[op];
    OpIndex* row = after_.data() + op * columns_;
    const auto follow = [&](OpIndex before) {
      const OpIndex* other = after_.data() + before * columns_;
      for (std::size_t column = 0; column < columns_; ++column)
        row[column] = std::max(row[column], other[column]);
      OpIndex& own = row[column_[program.operations[before].stream]];
      own = std::max(own, before + 1);
    };
    if (last_of_stream[operation.stream] != kNone) follow(last_of_stream[operation.stream]);
    for (const OpIndex before : program.dependencies_of(operation)) follow(before);
    last_of_stream[operation.stream] = op;
  }
}

}  // namespace trainyard
