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
    : sections_(sections_of(program)), ways_(sections_.all.size()) {
  number_columns(program);
  stride_ = (columns_ + kBlock - 1) / kBlock * kBlock;
  place_sections();
  for (const ProgramSection& section : sections_.all) {
    if (!section.copies()) {
      write_rows(program, section);
      continue;
    }
    if (ways_[section.model].empty()) find_ways(program, sections_.all[section.model]);
    write_outside(section);
  }
}

void ProgramOrder::number_columns(const Program& program) {
  std::array<std::uint16_t, 256> column{};
  column.fill(kUnused);
  const OperationList& operations = program.operations;
  column_.resize(operations.size());
  for (const ProgramSection& section : sections_.all) {
    std::uint8_t* const own = column_.data() + section.first;
    if (section.copies()) {
      std::memcpy(own, column_.data() + sections_.all[section.model].first, section.count);
      continue;
    }
    for (OpIndex i = 0; i < section.count; ++i) {
      std::uint16_t& known = column[operations[section.first + i].stream];
      if (known == kUnused) known = static_cast<std::uint16_t>(columns_++);
      own[i] = static_cast<std::uint8_t>(known);
    }
  }
}

void ProgramOrder::place_sections() {
  section_of_.reserve(column_.size());
  places_.reserve(sections_.all.size());
  std::size_t rows = 0;
  for (const ProgramSection& section : sections_.all) {
    section_of_.insert(section_of_.end(), section.count, section.number);
    if (section.copies()) {
      const Place& model = places_[section.model];
      places_.push_back(
          {.first = section.first, .shift = section.first - model.first, .rows = model.rows});
    } else {
      places_.push_back({.first = section.first, .rows = rows});
      rows += section.count;
    }
  }
  rows_.assign(rows * stride_, 0);
  way_.assign(rows, 0);
}

void ProgramOrder::write_rows(const Program& program, const ProgramSection& section) {
  const OpIndex* outside = sections_.outside.data() + section.outside_begin;
  OpIndex* const rows = rows_.data() + places_[section.number].rows * stride_;
  std::vector<OpIndex> last(columns_, kNone);
  for (OpIndex op = section.first; op < section.end(); ++op) {
    OpIndex* const row = rows + (op - section.first) * stride_;
    OpIndex& previous = last[column_[op]];
    if (previous != kNone) {
      copy(row, rows + (previous - section.first) * stride_);
      row[column_[op]] = previous + 1;
    } else if (const OpIndex other = *outside++; other != kNone) {
      raise_past(row, other);
    }
    previous = op;
    for (const OpIndex input : program.dependencies_of(op)) {
      if (input < section.first) ++outside;
      OpIndex& own = row[column_[input]];
      if (own > input) continue;  // and with it all that comes before it
      if (input < section.first) {
        raise_past(row, input);
      } else {
        raise(row, rows + (input - section.first) * stride_);
        own = input + 1;
      }
    }
  }
}

void ProgramOrder::find_ways(const Program& program, const ProgramSection& model) {
  std::vector<Entries>& ways = ways_[model.number];
  std::vector<Entries> leading(model.count, 0);  // to an operation
  Entries next = 1;
  std::uint32_t way = 0;
  for (OpIndex i = 0; i < model.count; ++i) {
    const OpIndex op = model.first + i;
    const auto add = [&](OpIndex input) {
      if (input != kNone && input >= model.first) {
        leading[i] |= leading[input - model.first];
      } else {
        leading[i] |= next;
        next <<= 1U;
      }
    };
    add(previous(op));
    for (const OpIndex input : program.dependencies_of(op)) add(input);
    if (ways.empty() || ways[way] != leading[i]) {
      const auto known = std::ranges::find(ways, leading[i]);
      way = static_cast<std::uint32_t>(known - ways.begin());
      if (known == ways.end()) ways.push_back(leading[i]);
    }
    way_[places_[model.number].rows + i] = way;
  }
}

// What every way in leads after: the entries' own rows, raised together.
void ProgramOrder::write_outside(const ProgramSection& section) {
  const std::span<const OpIndex> outside = sections_.outside_of(section);
  std::vector<OpIndex> entered(outside.size() * stride_, 0);
  for (std::size_t entry = 0; entry < outside.size(); ++entry)
    if (outside[entry] != kNone) raise_past(entered.data() + entry * stride_, outside[entry]);
  const std::vector<Entries>& ways = ways_[section.model];
  std::size_t next = outside_.size();
  places_[section.number].outside = next / stride_;
  outside_.resize(next + ways.size() * stride_, 0);
  for (const Entries way : ways) {
    for (Entries left = way; left != 0; left &= left - 1)
      raise(outside_.data() + next,
            entered.data() + static_cast<std::size_t>(std::countr_zero(left)) * stride_);
    next += stride_;
  }
}

void ProgramOrder::write_after(OpIndex op, std::span<OpIndex> row) const {
  const Place& place = places_[section_of_[op]];
  const std::size_t own = place.rows + (op - place.first);
  const OpIndex* const known = rows_.data() + own * stride_;
  if (place.shift == 0) {
    std::copy_n(known, row.size(), row.begin());
    return;
  }
  const OpIndex* const outside = outside_.data() + (place.outside + way_[own]) * stride_;
  const OpIndex inside = place.first - place.shift;
  for (std::size_t column = 0; column < row.size(); ++column)
    row[column] = known[column] > inside ? known[column] + place.shift : outside[column];
}

// Makes `row` come after an operation of a section before, and after all that this comes after.
void ProgramOrder::raise_past(OpIndex* row, OpIndex op) const {
  for (std::size_t column = 0; column < columns_; ++column)
    row[column] = std::max(row[column], after(op, column));
  row[column_[op]] = std::max(row[column_[op]], op + 1);
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
