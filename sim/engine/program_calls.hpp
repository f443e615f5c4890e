// What a program calls, whoever its partners turn out to be: found once, it serves every rank class
// and every fold of the workload.
//
//   ProgramCalls calls = calls_of(program);
//   calls.by_slot[2];     // the operations that communicate through slot 2, in order
#pragma once

#include <cstdint>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

struct ProgramCalls {
  // A collective that the program makes, once or often.
  struct Collective {
    std::uint16_t slot = 0;
    std::uint32_t call = 0;
  };
  std::vector<Collective> collectives;        // distinct
  std::vector<std::uint32_t> collective_of;   // by operation; kNone: no collective
  std::vector<std::vector<OpIndex>> by_slot;  // communication, in issue order
  std::vector<std::uint32_t> place_in_slot;   // by operation, in by_slot; kNone: no communication
};

[[nodiscard]] ProgramCalls calls_of(const Program& program);

}  // namespace trainyard
