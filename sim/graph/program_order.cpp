#include "sim/graph/program_order.hpp"

#include <algorithm>

namespace trainyard {

std::size_t streams_in_use(const Program& program) {
  std::size_t streams = 0;
  for (const Operation& op : program.operations)
    streams = std::max(streams, std::size_t{op.stream} + 1);
  return streams;
}

ProgramOrder::ProgramOrder(const Program& program, std::size_t streams)
    : program_(program), streams_(streams), after_(program.operations.size() * streams, 0) {
  std::vector<OpIndex> last_of_stream(streams, kNone);
  for (OpIndex op = 0; op < program.operations.size(); ++op) {
    const Operation& operation = program.operations[op];
    OpIndex* row = after_.data() + op * streams_;
    const auto follow = [&](OpIndex before) {
      const OpIndex* other = after_.data() + before * streams_;
      for (std::size_t stream = 0; stream < streams_; ++stream)
        row[stream] = std::max(row[stream], other[stream]);
      OpIndex& own = row[program.operations[before].stream];
      own = std::max(own, before + 1);
    };
    if (last_of_stream[operation.stream] != kNone) follow(last_of_stream[operation.stream]);
    for (const OpIndex before : program.dependencies_of(operation)) follow(before);
    last_of_stream[operation.stream] = op;
  }
}

}  // namespace trainyard
