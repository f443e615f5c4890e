// Programs of one template are alike in every operation except for the sizes of kernels and memory.
//
// Ranks with different experts do the same in the same order and wait for the same; only how many
// rows they multiply is their own. So such programs share one list of operations, in which the
// payload of a computation is a number that each program gives its own kernel (Program::kernels).
// All that follows from the list alone, such as which operation comes surely before which, is then
// worked out once.
//
// Two threads may write programs with tables of their own: append_programs() joins them, and
// templates stay shared.
//
//   TemplateWriter writer;
//   for (Program& program : of_one_stage) writer.add(std::move(program));
//   for (Program& program : writer.take()) workload.programs.push_back(std::move(program));
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
  // REQUIRES: its payloads are kernels of the workload (Program::kernels is empty).
  void add(Program program);
  // All programs in the order they came: those that are alike to the first share its list, others
  // are as they were. The writer is spent.
  [[nodiscard]] std::vector<Program> take();

 private:
  void begin(Program program);
  [[nodiscard]] bool fits(const Program& program) const;
  void join(Program program);
  std::uint32_t split(std::uint32_t number);

  std::vector<Program> programs_;
  std::vector<std::size_t> members_;  // those of the template, among the programs
  OperationList::Content template_;   // of the first program
};

// Returns for each program the lowest one of the same template, which may be itself.
[[nodiscard]] std::vector<std::uint32_t> program_templates(std::span<const Program> programs);

// Appends the programs of `more`. Their names, kernels, calls and delays get the numbers they would
// have, had one writer numbered all as they came: those of `workload` where it has the same, new
// ones behind them in their order otherwise. Programs of one form still share it. REQUIRES: in each
// of these tables of both nothing stands twice.
void append_programs(Workload& workload, Workload more);

}  // namespace trainyard
