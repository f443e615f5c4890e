// What of a program surely ends before what else of it starts, whatever anything takes.
//
// An operation comes before another when a path of stream order and dependencies leads from one to
// the other. Operations of a stream are in order, so what an operation comes after is one number
// per stream in use: one past the last operation of that stream on such a path. Where a microbatch
// is like one before (program_sections.hpp), those within it follow from the other's; those from
// before it are known once for all operations that the same entries lead to.
//
//   ProgramOrder order(program);
//   if (order.before(send, gemm)) ...;   // the message is away when the product starts
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/workload/program_sections.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class ProgramOrder {
 public:
  explicit ProgramOrder(const Program& program);

  // Of an operation with itself: false.
  [[nodiscard]] bool before(OpIndex first, OpIndex then) const {
    return after(then, column_[first]) > first;
  }
  // Streams in use have columns, counted from 0.
  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::uint8_t column(OpIndex op) const { return column_[op]; }
  // One past the last operation of a column that `op` comes after, 0 where there is none.
  [[nodiscard]] OpIndex after(OpIndex op, std::size_t column) const {
    const Place& place = places_[section_of_[op]];
    const std::size_t row = place.rows + (op - place.first);
    const OpIndex known = rows_[row * stride_ + column];
    if (place.shift == 0 || known > place.first - place.shift) return known + place.shift;
    return outside_[(place.outside + way_[row]) * stride_ + column];
  }
  // The same by column. REQUIRES: `row` has as many places.
  void write_after(OpIndex op, std::span<OpIndex> row) const;
  // The one before it on its stream; kNone: it is the first.
  [[nodiscard]] OpIndex previous(OpIndex op) const { return after(op, column_[op]) - 1; }

  [[nodiscard]] std::size_t operations() const { return column_.size(); }
  // Operations that have rows of their own: those of sections that are no copies.
  [[nodiscard]] std::size_t rows() const { return way_.size(); }
  [[nodiscard]] const ProgramSections& sections() const { return sections_; }
  // The number of the section that an operation is of.
  [[nodiscard]] std::uint32_t section_of(OpIndex op) const { return section_of_[op]; }

 private:
  static constexpr std::size_t kBlock = 4;  // columns raised together

  // A section as it looks for its order.
  struct Place {
    OpIndex first = 0;
    OpIndex shift = 0;        // from the section whose rows hold for it; 0: its own
    std::size_t rows = 0;     // of its first operation
    std::size_t outside = 0;  // its rows in outside_, where it is shifted
  };
  // The entries that lead to an operation of a section, a bit each.
  using Entries = std::uint64_t;

  void number_columns(const Program& program);
  void place_sections();
  void write_rows(const Program& program, const ProgramSection& section);
  void find_ways(const Program& program, const ProgramSection& model);
  void write_outside(const ProgramSection& section);
  void raise_past(OpIndex* row, OpIndex op) const;
  void copy(OpIndex* __restrict row, const OpIndex* __restrict other) const;
  // Makes `row` come after all that `other` comes after.
  void raise(OpIndex* __restrict row, const OpIndex* __restrict other) const;

  ProgramSections sections_;
  std::size_t columns_ = 0;
  std::size_t stride_ = 0;                  // columns, in whole blocks
  std::vector<std::uint8_t> column_;        // by operation, of its stream
  std::vector<std::uint32_t> section_of_;   // by operation
  std::vector<Place> places_;               // by section
  std::vector<OpIndex> rows_;               // [operation of a section that is no copy][column]
  std::vector<std::uint32_t> way_;          // by row, of models: which entries lead to it
  std::vector<std::vector<Entries>> ways_;  // by section; empty: nobody copied it yet
  std::vector<OpIndex> outside_;            // [copy and way][column]
};

// Calls visit(input) for all that an operation waits for: the one before it on its stream and its
// dependencies.
template <class Visit>
void for_each_input(const Program& program, const ProgramOrder& order, OpIndex op,
                    const Visit& visit) {
  if (const OpIndex previous = order.previous(op); previous != kNone) visit(previous);
  for (const OpIndex input : program.dependencies_of(op)) visit(input);
}

}  // namespace trainyard
