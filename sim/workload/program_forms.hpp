// Programs of one form: alike in every operation but for the sizes of kernels and of memory.
//
// Ranks with different experts do the same in the same order and wait for the same; only how many
// rows they multiply is their own. So such programs share one list of operations and one of
// dependencies, in which the payload of a computation is a number that each program gives its own
// kernel (Program::kernels). Whatever follows from the form alone, such as which operation comes
// surely before which, is then worked out once for all of them.
//
//   FormWriter form;
//   for (Program& program : of_one_stage) form.add(std::move(program));
//   for (Program& program : form.take()) workload.programs.push_back(std::move(program));
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

class FormWriter {
 public:
  // REQUIRES: its payloads are kernels of the workload (Program::kernels is empty).
  void add(Program program);
  // All programs in the order they came: those that are alike to the first have its form, others
  // are as they were. The writer is spent.
  [[nodiscard]] std::vector<Program> take();

 private:
  void begin(Program program);
  [[nodiscard]] bool fits(const Program& program) const;
  void join(Program program);
  std::uint32_t split(std::uint32_t number);

  std::vector<Program> programs_;
  std::vector<std::size_t> members_;   // those of the form, among the programs
  OperationList list_;                 // of the first
  std::vector<Operation> operations_;  // of the form, as written
  std::vector<OpIndex> dependencies_;
};

// By program the lowest one of the same form: itself where none before it is.
[[nodiscard]] std::vector<std::uint32_t> program_forms(std::span<const Program> programs);

}  // namespace trainyard
