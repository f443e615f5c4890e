#include "sim/workload/program_order.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace trainyard {

// ---- within blocks

namespace {

// A row is a vector clock: for each column (stream) one past the last operation that comes before.
//
// Example with two columns, compute and communication:
//
//     op  column  waits for       row (compute, communication)
//     0   0                       0, 0
//     1   1       0               1, 0     after operation 0
//     2   0       0 (stream)      1, 0     concurrent with 1
//     3   0       2 (stream), 1   3, 2     after all of them
constexpr std::uint16_t kUnused = 0xFFFF;
// Columns per iteration of copy(), raise() and join(), so that the compiler can vectorise them.
constexpr std::size_t kAtOnce = 4;
constexpr std::size_t kWordBits = 64;

std::span<const OpIndex> dependencies_of(const OperationList& list, const Operation& op) {
  return list.dependencies().subspan(op.dependencies_begin,
                                     op.dependencies_end - op.dependencies_begin);
}

void copy(OpIndex* __restrict row, const OpIndex* __restrict other, std::size_t size) {
  for (std::size_t at = 0; at < size; at += kAtOnce)
    std::memcpy(row + at, other + at, kAtOnce * sizeof(OpIndex));
}

// Takes the maximum per column: `row` then also comes after all predecessors of `other`.
void raise(OpIndex* __restrict row, const OpIndex* __restrict other, std::size_t size) {
  for (std::size_t at = 0; at < size; at += kAtOnce) {
    for (std::size_t i = at; i < at + kAtOnce; ++i) row[i] = std::max(row[i], other[i]);
  }
}

// Joins the two parts of a row: `inside`, counted from operation `first`, where it is not 0, and
// `outside` elsewhere.
void join(OpIndex* __restrict row, const OpIndex* __restrict inside, OpIndex first,
          const OpIndex* __restrict outside, std::size_t size) {
  for (std::size_t at = 0; at < size; at += kAtOnce)
    for (std::size_t i = at; i < at + kAtOnce; ++i)
      row[i] = inside[i] != 0 ? first + inside[i] : outside[i];
}

}  // namespace

BlockOrders::BlockOrders(const OperationList& list)
    : column_(list.written().size()),
      entries_(list.blocks().size()),
      ways_(list.blocks().size()),
      way_to_(list.written().size()) {
  number_columns(list);
  stride_ = (columns_ + kAtOnce - 1) / kAtOnce * kAtOnce;
  rows_.assign(list.written().size() * stride_, 0);
  for (std::uint32_t block = 0; block < list.blocks().size(); ++block) {
    find_entries(list, block);
    write_rows(list, list.blocks()[block]);
    find_ways(list, block);
  }
}

void BlockOrders::number_columns(const OperationList& list) {
  std::array<std::uint16_t, 256> column{};
  column.fill(kUnused);
  const std::span<const Operation> written = list.written();
  for (std::size_t i = 0; i < written.size(); ++i) {
    std::uint16_t& of_stream = column[written[i].stream];
    if (of_stream == kUnused) of_stream = static_cast<std::uint16_t>(columns_++);
    column_[i] = static_cast<std::uint8_t>(of_stream);
  }
}

// The entries of a block are its inputs, then its streams in the order of first use. An edge leads
// from an entry to each operation that waits for it: for a stream, to its first operation in the
// block.
void BlockOrders::find_entries(const OperationList& list, std::uint32_t block) {
  const Block& it = list.blocks()[block];
  BlockEntries& entries = entries_[block];
  entries.count = it.inputs;
  for (OpIndex place = 0; place < it.count; ++place) {
    const std::uint8_t column = column_[it.begin + place];
    const auto known = std::ranges::find(entries.streams, column, &BlockEntries::StreamUse::column);
    if (known != entries.streams.end()) {
      known->last = place;
    } else {
      entries.streams.push_back({.column = column, .first = place, .last = place});
      entries.edges.push_back({place, entries.count++});
    }
    for (const OpIndex input : dependencies_of(list, list.written()[it.begin + place]))
      if (input >= kBlockInput) entries.edges.push_back({place, input - kBlockInput});
  }
}

// Computes the vector clock of each operation from those of its direct predecessors in the block.
// Cost: operations times dependencies times columns at most.
void BlockOrders::write_rows(const OperationList& list, const Block& block) {
  OpIndex* const rows = rows_.data() + block.begin * stride_;
  std::vector<OpIndex> last(columns_, kNone);
  for (OpIndex place = 0; place < block.count; ++place) {
    OpIndex* const row = rows + place * stride_;
    const OpIndex previous = std::exchange(last[column_[block.begin + place]], place);
    if (previous != kNone) {
      copy(row, rows + previous * stride_, stride_);
      row[column_[block.begin + place]] = previous + 1;
    }
    for (const OpIndex input : dependencies_of(list, list.written()[block.begin + place])) {
      if (input >= kBlockInput) continue;
      OpIndex& own = row[column_[block.begin + input]];
      if (own > input) continue;  // then row[] includes all that comes before it already
      raise(row, rows + input * stride_, stride_);
      own = input + 1;
    }
  }
}

// Computes, for each operation, the set of entries that reach it: its own edges, and the sets of
// its direct predecessors in the block. Most operations have the set of a predecessor, so few
// distinct sets remain.
//
// Example: the entries of the forward of a microbatch are its receive (entry 0) and the last
// operation before it on the compute stream (entry 1). The first kernel is reached through {0, 1},
// and so are all kernels after it: one way.
void BlockOrders::find_ways(const OperationList& list, std::uint32_t block) {
  const Block& it = list.blocks()[block];
  Ways& ways = ways_[block];
  ways.words = (entries_[block].count + kWordBits - 1) / kWordBits;
  std::vector<std::uint64_t> leading(ways.words);
  std::vector<std::uint32_t> before;  // the ways of the direct predecessors
  auto edge = entries_[block].edges.begin();
  for (OpIndex place = 0; place < it.count; ++place) {
    // The union of the entries of its own edges and of the sets of its predecessors.
    std::ranges::fill(leading, 0);
    before.clear();
    for (; edge != entries_[block].edges.end() && edge->place == place; ++edge)
      leading[edge->entry / kWordBits] |= std::uint64_t{1} << edge->entry % kWordBits;
    const auto add = [&](OpIndex input) {
      before.push_back(way_to_[it.begin + input]);
      const std::span<const std::uint64_t> its = ways.set(before.back());
      for (std::size_t word = 0; word < its.size(); ++word) leading[word] |= its[word];
    };
    const OpIndex previous = after(it.begin + place, column_[it.begin + place]);
    if (previous != 0) add(previous - 1);
    for (const OpIndex input : dependencies_of(list, list.written()[it.begin + place]))
      if (input < kBlockInput) add(input);
    way_to_[it.begin + place] = number_of(ways, leading, before);
  }
}

// Returns the number of an entry set. `before`: ways that are subsets of it. It compares the set
// only with these and the newest one, so an equal set may be added twice. That costs memory but no
// correctness. A new way lists only the entries that its largest known subset lacks, so that its
// row is the row of that subset, raised by a few others.
std::uint32_t BlockOrders::number_of(Ways& ways, std::span<const std::uint64_t> entries,
                                     std::span<const std::uint32_t> before) const {
  const auto is = [&](std::uint32_t way) { return std::ranges::equal(entries, ways.set(way)); };
  for (const std::uint32_t way : before)
    if (is(way)) return way;
  const auto count = static_cast<std::uint32_t>(ways.all.size());
  if (count > 0 && is(count - 1)) return count - 1;
  const auto size_of = [&](std::uint32_t way) {
    int size = 0;
    for (const std::uint64_t word : ways.set(way)) size += std::popcount(word);
    return size;
  };
  const auto largest = std::ranges::max_element(before, {}, size_of);
  Way fresh{.like = largest == before.end() ? kNone : *largest};
  for (std::size_t word = 0; word < entries.size(); ++word) {
    const std::uint64_t known = fresh.like == kNone ? 0 : ways.set(fresh.like)[word];
    for (std::uint64_t left = entries[word] & ~known; left != 0; left &= left - 1)
      fresh.entries.push_back(static_cast<std::uint32_t>(
          word * kWordBits + static_cast<std::size_t>(std::countr_zero(left))));
  }
  ways.sets.insert(ways.sets.end(), entries.begin(), entries.end());
  ways.all.push_back(std::move(fresh));
  return count;
}

// ---- between instances

ProgramOrder::ProgramOrder(const Program& program, std::shared_ptr<const BlockOrders> blocks)
    : list_(program.operations), blocks_(std::move(blocks)) {
  if (!blocks_) blocks_ = std::make_shared<const BlockOrders>(list_);
  find_outside();
  place_instances();
  std::vector<OpIndex> rows;
  for (std::uint32_t number = 0; number < places_.size(); ++number) write_entered(number, rows);
}

// Resolves the entries of each instance to operations of the program: its bindings, then, for each
// of its streams, the last operation of earlier instances on that stream.
void ProgramOrder::find_outside() {
  std::vector<OpIndex> last(columns(), kNone);  // by column: last operation of earlier instances
  outside_begin_.reserve(list_.instances().size() + 1);
  for (const Instance& instance : list_.instances()) {
    outside_begin_.push_back(outside_.size());
    const std::span<const OpIndex> bindings = list_.bindings_of(instance);
    outside_.insert(outside_.end(), bindings.begin(), bindings.end());
    for (const BlockEntries::StreamUse& stream : entries_of(instance.block).streams)
      outside_.push_back(std::exchange(last[stream.column], instance.first + stream.last));
  }
  outside_begin_.push_back(outside_.size());
}

// A query first looks in the block: if an operation of the block comes before on that column, it is
// later than all operations of earlier instances there. Otherwise entered_ has the answer, in one
// row for each pair of instance and way.
void ProgramOrder::place_instances() {
  // Each instance has a row in entered_ for each way of its block.
  places_.reserve(list_.instances().size());
  std::size_t rows = 0;
  for (const Instance& instance : list_.instances()) {
    places_.push_back(
        {.first = instance.first, .written = list_.block_of(instance).begin, .entered = rows});
    rows += blocks_->ways_of(instance.block).size();
  }
  entered_.assign(rows * blocks_->stride(), 0);
}

// The operations that come before a way are those that come before one of its entries, or are the
// operation of an entry. The row of a way is the maximum of the rows of its entries, those of an
// earlier way taken together. Instances are processed in program order, so the rows of earlier
// instances are complete.
void ProgramOrder::write_entered(std::uint32_t instance, std::vector<OpIndex>& rows) {
  const std::size_t stride = blocks_->stride();
  const std::span<const OpIndex> outside = entry_operations(instance);
  rows.resize(outside.size() * stride);
  for (std::size_t entry = 0; entry < outside.size(); ++entry)
    write_past(outside[entry], rows.data() + entry * stride);
  OpIndex* const first = entered_.data() + places_[instance].entered * stride;
  OpIndex* row = first;
  for (const BlockOrders::Way& way : blocks_->ways_of(list_.instances()[instance].block)) {
    if (way.like != kNone) copy(row, first + way.like * stride, stride);
    for (const std::uint32_t entry : way.entries) raise(row, rows.data() + entry * stride, stride);
    row += stride;
  }
}

// Writes the row of an entry: the predecessors of operation `op`, and `op` itself.
void ProgramOrder::write_past(OpIndex op, OpIndex* row) const {
  if (op == kNone) {
    std::fill_n(row, blocks_->stride(), 0);
    return;
  }
  const OperationList::Position position = list_.position_of(op);
  const Place& place = places_[position.instance];
  const OpIndex at = written(position);
  join(row, blocks_->row(at), place.first, entered_row(place, at), blocks_->stride());
  OpIndex& own = row[blocks_->column(at)];
  own = std::max(own, op + 1);
}

}  // namespace trainyard
