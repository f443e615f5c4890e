#include "sim/graph/program_order.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace trainyard {

namespace {
constexpr std::uint16_t kUnused = 0xFFFF;
}  // namespace

ProgramOrder::ProgramOrder(const Program& program) {
  std::array<std::uint16_t, 256> column{};
  column.fill(kUnused);
  const std::span<const Operation> operations = program.operations;
  const OpIndex* const dependencies = program.dependencies.data();
  column_.reserve(operations.size());
  for (const Operation& op : operations) {
    if (column[op.stream] == kUnused) column[op.stream] = static_cast<std::uint16_t>(columns_++);
    column_.push_back(static_cast<std::uint8_t>(column[op.stream]));
  }
  stride_ = (columns_ + kBlock - 1) / kBlock * kBlock;
  after_.assign(operations.size() * stride_, 0);
  std::vector<OpIndex> last(columns_, kNone);
  for (OpIndex op = 0; op < operations.size(); ++op) {
    OpIndex* const row = after_.data() + op * stride_;
    OpIndex& previous = last[column_[op]];
    if (previous != kNone) {
      copy(row, after_.data() + previous * stride_);
      row[column_[op]] = previous + 1;
    }
    previous = op;
    const Operation& operation = operations[op];
    for (std::uint32_t i = operation.dependencies_begin; i < operation.dependencies_end; ++i) {
      const OpIndex before = dependencies[i];
      OpIndex& own = row[column_[before]];
      if (own > before) continue;  // and with it all that comes before it
      raise(row, after_.data() + before * stride_);
      own = before + 1;
    }
  }
}

void ProgramOrder::copy(OpIndex* __restrict row, const OpIndex* __restrict other) const {
  for (std::size_t block = 0; block < stride_; block += kBlock)
    std::memcpy(row + block, other + block, kBlock * sizeof(OpIndex));
}

void ProgramOrder::raise(OpIndex* __restrict row, const OpIndex* __restrict other) const {
  for (std::size_t block = 0; block < stride_; block += kBlock) {
    for (std::size_t i = block; i < block + kBlock; ++i) row[i] = std::max(row[i], other[i]);
  }
}

}  // namespace trainyard
