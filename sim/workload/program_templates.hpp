// Templates: programs that differ only in the sizes of kernels and memory share their operations.
//
// Ranks with different experts run the same operations with the same dependencies, and differ only
// in the rows of their GEMMs. Such programs share one list of operations. The payload of a Compute
// operation then is an index into Program::kernels, which each program fills with its own kernels.
// Results that depend only on the list, such as the order of operations, are computed once for the
// template.
//
// Two threads may write programs with separate tables. append_programs() merges them and preserves
// templates.
//
//    TemplateWriter writer;
//    for (Program& program : of_one_stage) writer.add(std::move(program));
//    for (Program& program : writer.take()) workload.programs.push_back(std::move(program));
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

class TemplateWriter {
 public:
  // REQUIRES: payloads are indices of the workload's kernels (Program::kernels is empty).
  void add(Program program);
  // Returns all programs in the order in which they were added. Those that match the first one
  // share its list; the others are unchanged. The writer must not be used afterwards.
  [[nodiscard]] std::vector<Program> take();

 private:
  void begin(Program program);
  [[nodiscard]] bool fits(const Program& program) const;
  void join(Program program);
  std::uint32_t split(std::uint32_t number);

  std::vector<Program> programs_;
  std::vector<std::size_t> members_;  // programs of the template, as indices into programs_
  OperationList::Content template_;   // of the first program
};

// Returns, for each program, the lowest program of the same template, which may be itself.
[[nodiscard]] std::vector<std::uint32_t> program_templates(std::span<const Program> programs);

// Appends the programs of `more`. Their names, kernels, calls and delays get the indices that a
// single writer of all programs would assign: the index in `workload` if it has an equal entry,
// else a new index at the end, in order. Programs of one template still share it. REQUIRES: no
// entry occurs twice in one of these tables.
void append_programs(Workload& workload, Workload more);

}  // namespace trainyard
