#include "sim/graph/program_order.hpp"

#include <algorithm>
#include <array>

namespace trainyard {

namespace {
constexpr std::uint16_t kUnused = 0xFFFF;
}  // namespace

ProgramOrder::ProgramOrder(const Program& program) {
  std::array<std::uint16_t, 256> column{};
  column.fill(kUnused);
  column_.reserve(program.operations.size());
  for (const Operation& op : program.operations) {
    if (column[op.stream] == kUnused) column[op.stream] = static_cast<std::uint16_t>(columns_++);
    column_.push_back(static_cast<std::uint8_t>(column[op.stream]));
  }
  stride_ = (columns_ + kBlock - 1) / kBlock * kBlock;
  after_.assign(program.operations.size() * stride_, 0);
  std::vector<OpIndex> last(columns_, kNone);
  for (OpIndex op = 0; op < program.operations.size(); ++op) {
    OpIndex* const row = after_.data() + op * stride_;
    OpIndex& previous = last[column_[op]];
    if (previous != kNone) {
      std::copy_n(after_.data() + previous * stride_, stride_, row);
      row[column_[op]] = previous + 1;
    }
    previous = op;
    for (const OpIndex before : program.dependencies_of(program.operations[op])) {
      OpIndex& own = row[column_[before]];
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
