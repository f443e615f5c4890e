// Programs of one template are alike in every operation but for the sizes of kernels and of memory.
//
// Ranks with different experts do the same in the same order and wait for the same; only how many
// rows they multiply is their own. So such programs share one list of operations, in which the
// payload of a computation is a number that each program gives its own kernel (Program::kernels).
// All that follows from the list alone, such as which operation comes surely before which, is then
// worked out once.
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

}  // namespace trainyard
