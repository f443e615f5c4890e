// A workload as a Graphviz drawing, for `trainyard show workload`.
//
// Operations are boxes, coloured by the part of the step. Solid arrows are stream order, dashed
// ones dependencies, dotted lines meetings of programs in a group (an arrow from send to receive).
//
//   std::cout << to_dot(workload, {.program = 0});
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/workload/workload.hpp"

namespace trainyard {

struct DotOptions {
  std::optional<std::uint32_t> program;  // nothing: all of them
  // Programs are cut so that so many operations are drawn at most; a note says what is left out.
  std::size_t most_operations = 600;
};

// REQUIRES: the workload is valid; the program exists.
[[nodiscard]] std::string to_dot(const Workload& workload, const DotOptions& options);

}  // namespace trainyard
