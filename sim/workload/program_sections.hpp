// The microbatches of a program, and which of them repeat one before.
//
// A section is a run of operations one after the other, most often of one microbatch. It is a copy
// of a section before it, its model, when the same operations stand in the same places, and wait
// for the same places of the section; what they wait for from before the section, its entries, may
// be anything. So what follows from a section alone is worked out once, for the model, and holds
// for every copy. What a program says once (operation_list.hpp) is known to be alike.
//
//   ProgramSections sections = sections_of(program);
//   for (const ProgramSection& section : sections.all)
//     if (section.copies()) ...;   // does what sections.all[section.model] does
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

struct ProgramSection {
  OpIndex first = 0;
  OpIndex count = 0;  // of operations
  std::uint32_t number = 0;
  std::uint32_t model = 0;  // the number of the first section like this one; its own, perhaps
  std::uint32_t entries = 0;
  std::size_t entries_begin = 0;  // in ProgramSections::entered, the same for copies of a model
  std::size_t outside_begin = 0;  // in ProgramSections::outside

  [[nodiscard]] bool copies() const { return model != number; }
  [[nodiscard]] OpIndex end() const { return first + count; }
};

struct ProgramSections {
  // What an operation waits for from before its section.
  struct Entry {
    OpIndex offset = 0;   // of the operation that waits, from the section's first
    bool stream = false;  // it waits for the one before it on its stream, or else as it says
  };
  std::vector<ProgramSection> all;  // in order; every operation is in one
  std::vector<Entry> entered;       // in issue order, the stream's before others
  std::vector<OpIndex> outside;     // what is waited for at each entry; kNone: nothing is before it

  [[nodiscard]] std::span<const Entry> entries_of(const ProgramSection& section) const {
    return std::span(entered).subspan(section.entries_begin, section.entries);
  }
  [[nodiscard]] std::span<const OpIndex> outside_of(const ProgramSection& section) const {
    return std::span(outside).subspan(section.outside_begin, section.entries);
  }
};

// Entries of a section that others may copy, at most.
inline constexpr std::uint32_t kMostEntries = 64;

// Tags of layers and effects on memory make no difference, the sizes of kernels and calls do.
// Microbatches that take turns every few operations are one section together, without copies.
[[nodiscard]] ProgramSections sections_of(const Program& program);

}  // namespace trainyard
