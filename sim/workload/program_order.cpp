#include "sim/workload/program_order.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace trainyard {

namespace {
constexpr std::uint16_t kUnused = 0xFFFF;
}  // namespace

ProgramOrder::ProgramOrder(const Program& program)
    : list_(program.operations),
      first_of_(list_.blocks().size(), kNone),
      entries_(list_.blocks().size()),
      ways_(list_.blocks().size()) {
  number_columns();
  stride_ = (columns_ + kAtOnce - 1) / kAtOnce * kAtOnce;
  find_outside();
  place_instances();
  for (std::uint32_t number = 0; number < places_.size(); ++number) {
    if (places_[number].shift == 0) {
      write_rows(number);
      continue;
    }
    const std::uint32_t block = list_.instances()[number].block;
    if (ways_[block].empty()) find_ways(block);
    write_entered(number);
  }
}

void ProgramOrder::number_columns() {
  std::array<std::uint16_t, 256> column{};
  column.fill(kUnused);
  const std::span<const Operation> written = list_.written();
  column_.resize(written.size());
  const std::span<const Instance> instances = list_.instances();
  for (std::uint32_t number = 0; number < instances.size(); ++number) {
    std::uint32_t& first = first_of_[instances[number].block];
    if (first != kNone) continue;
    first = number;
    const Block& block = list_.block_of(instances[number]);
    for (OpIndex i = block.begin; i < block.begin + block.count; ++i) {
      std::uint16_t& of_stream = column[written[i].stream];
      if (of_stream == kUnused) of_stream = static_cast<std::uint16_t>(columns_++);
      column_[i] = static_cast<std::uint8_t>(of_stream);
    }
    find_entries(instances[number].block);
  }
}

void ProgramOrder::find_entries(std::uint32_t block) {
  const Block& it = list_.blocks()[block];
  const OperationList::Content& content = list_.content();
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
    const Operation& op = content.operations[it.begin + place];
    for (std::uint32_t i = op.dependencies_begin; i < op.dependencies_end; ++i)
      if (content.dependencies[i] >= kBlockInput)
        entries.edges.push_back({place, content.dependencies[i] - kBlockInput});
  }
}

void ProgramOrder::find_outside() {
  std::vector<OpIndex> last(columns_, kNone);  // by column, before the instance under way
  for (const Instance& instance : list_.instances()) {
    outside_begin_.push_back(outside_.size());
    const std::span<const OpIndex> bindings = list_.bindings_of(instance);
    outside_.insert(outside_.end(), bindings.begin(), bindings.end());
    for (const BlockEntries::StreamUse& stream : entries_[instance.block].streams)
      outside_.push_back(std::exchange(last[stream.column], instance.first + stream.last));
  }
  outside_begin_.push_back(outside_.size());
}

void ProgramOrder::place_instances() {
  const std::span<const Instance> instances = list_.instances();
  places_.reserve(instances.size());
  std::size_t rows = 0;
  for (const Instance& instance : instances) {
    const OpIndex written = list_.block_of(instance).begin;
    const std::uint32_t first = first_of_[instance.block];
    const bool again = first < places_.size() && entries_[instance.block].count <= kMostEntries;
    if (again) {
      places_.push_back({.first = instance.first,
                         .written = written,
                         .shift = instance.first - instances[first].first,
                         .rows = places_[first].rows});
    } else {
      places_.push_back({.first = instance.first, .written = written, .rows = rows});
      rows += list_.block_of(instance).count;
    }
  }
  rows_.assign(rows * stride_, 0);
  way_.assign(rows, 0);
}

void ProgramOrder::write_rows(std::uint32_t instance) {
  const OpIndex first = places_[instance].first;
  OpIndex* const rows = rows_.data() + places_[instance].rows * stride_;
  const BlockEntries& entries = entries_[list_.instances()[instance].block];
  std::vector<OpIndex> last(columns_, kNone);
  const std::span<const OpIndex> outside = outside_of(instance);
  const std::size_t inputs = outside.size() - entries.streams.size();
  for (std::size_t i = 0; i < entries.streams.size(); ++i)
    last[entries.streams[i].column] = outside[inputs + i];
  const OpIndex end = first + list_.block_of(list_.instances()[instance]).count;
  for (OpIndex op = first; op < end; ++op) {
    OpIndex* const row = rows + (op - first) * stride_;
    const std::uint8_t column = column_[places_[instance].written + (op - first)];
    OpIndex& previous = last[column];
    if (previous != kNone && previous >= first) {
      copy(row, rows + (previous - first) * stride_);
      row[column] = previous + 1;
    } else if (previous != kNone) {
      raise_past(row, previous);
    }
    previous = op;
    for (const OpIndex input : list_.dependencies_of(op)) {
      OpIndex& own = row[this->column(input)];
      if (own > input) continue;  // and with it all that comes before it
      if (input < first) {
        raise_past(row, input);
      } else {
        raise(row, rows + (input - first) * stride_);
        own = input + 1;
      }
    }
  }
}

void ProgramOrder::find_ways(std::uint32_t block) {
  const OpIndex first = list_.instances()[first_of_[block]].first;
  const Block& it = list_.blocks()[block];
  std::vector<Entries>& ways = ways_[block];
  std::vector<Entries> leading(it.count, 0);  // to an operation
  for (const BlockEntries::Edge& edge : entries_[block].edges)
    leading[edge.place] |= Entries{1} << edge.entry;
  const std::size_t rows = places_[first_of_[block]].rows;
  std::uint32_t way = 0;
  for (OpIndex i = 0; i < it.count; ++i) {
    const auto add = [&](OpIndex input) {
      if (input != kNone && input >= first) leading[i] |= leading[input - first];
    };
    add(previous(first + i));
    for (const OpIndex input : list_.dependencies_of(first + i)) add(input);
    if (ways.empty() || ways[way] != leading[i]) {
      const auto known = std::ranges::find(ways, leading[i]);
      way = static_cast<std::uint32_t>(known - ways.begin());
      if (known == ways.end()) ways.push_back(leading[i]);
    }
    way_[rows + i] = way;
  }
}

// Every way in comes after what its entries come after: their own rows, raised together.
void ProgramOrder::write_entered(std::uint32_t instance) {
  const std::span<const OpIndex> outside = outside_of(instance);
  std::vector<OpIndex> rows(outside.size() * stride_, 0);
  for (std::size_t entry = 0; entry < outside.size(); ++entry)
    if (outside[entry] != kNone) raise_past(rows.data() + entry * stride_, outside[entry]);
  const std::vector<Entries>& ways = ways_[list_.instances()[instance].block];
  std::size_t next = entered_.size();
  places_[instance].entered = next / stride_;
  entered_.resize(next + ways.size() * stride_, 0);
  for (const Entries way : ways) {
    for (Entries left = way; left != 0; left &= left - 1)
      raise(entered_.data() + next,
            rows.data() + static_cast<std::size_t>(std::countr_zero(left)) * stride_);
    next += stride_;
  }
}

// Makes `row` come after an operation of an earlier instance, and after all that this comes after.
void ProgramOrder::raise_past(OpIndex* row, OpIndex op) const {
  const OperationList::Position position = list_.position_of(op);
  for (std::size_t column = 0; column < columns_; ++column)
    row[column] = std::max(row[column], after(position, column));
  OpIndex& own = row[column_of(position)];
  own = std::max(own, op + 1);
}

void ProgramOrder::copy(OpIndex* __restrict row, const OpIndex* __restrict other) const {
  for (std::size_t at = 0; at < stride_; at += kAtOnce)
    std::memcpy(row + at, other + at, kAtOnce * sizeof(OpIndex));
}

void ProgramOrder::raise(OpIndex* __restrict row, const OpIndex* __restrict other) const {
  for (std::size_t at = 0; at < stride_; at += kAtOnce) {
    for (std::size_t i = at; i < at + kAtOnce; ++i) row[i] = std::max(row[i], other[i]);
  }
}

}  // namespace trainyard
