// What follows from programs alone and not from times: their stretches, and who waits for whom
// beside them. Kept, it serves every further run of the same workload, such as what-ifs of faster
// links.
//
//   KnownPrograms known;
//   make_engine("simgrid")->run({..., .known = &known});   // finds them
//   make_engine("simgrid")->run({..., .known = &known});   // has them
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/engine/stretches.hpp"
#include "sim/engine/successors.hpp"
#include "sim/graph/workload.hpp"

namespace trainyard {

struct KnownProgram {
  std::vector<bool> joinable;  // what the stretches were found for; empty: there are none
  ProgramStretches stretches;
  Successors successors;
};

class KnownPrograms {
 public:
  // `joinable` as find_stretches() takes it, or empty for no stretches. REQUIRES: always the same
  // workload.
  [[nodiscard]] std::shared_ptr<const KnownProgram> program(const Workload& workload,
                                                            std::uint32_t index,
                                                            std::vector<bool> joinable);
  // Flows that the run before had, for which the next one makes room.
  std::size_t flows = 0;

 private:
  std::vector<std::shared_ptr<const KnownProgram>> programs_;  // as last asked for
};

}  // namespace trainyard
