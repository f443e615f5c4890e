// The regions and the edges of programs, which the engine finds without knowing any times. Kept,
// they serve every further run of the same workload, such as what-ifs of faster links. Several
// threads may ask.
//
//   EnginePrograms known(workload, analysis);
//   make_engine("simgrid")->run({..., .known = &known});   // finds them
//   make_engine("simgrid")->run({..., .known = &known});   // has them
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/engine/regions.hpp"
#include "sim/engine/successors.hpp"
#include "sim/workload/program_analysis.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct EngineProgram {
  // The collectives (ProgramCalls::collectives) that regions may hold; empty where there are none.
  std::vector<bool> joinable = {};
  bool contracted = false;
  ProgramRegions regions = {};
  Successors successors = {};
};

// Programs of one template (program_templates.hpp) are known together.
class EnginePrograms {
 public:
  // `analysis`: of the workload. `like`: of a workload whose programs of the same numbers may be
  // made of the same blocks; regions that it knows now are those of these too. Null: there is none.
  // REQUIRES: workload and analysis outlive it.
  EnginePrograms(const Workload& workload, const ProgramAnalysis& analysis,
                 const EnginePrograms* like = nullptr);

  [[nodiscard]] const ProgramCalls& calls(std::uint32_t program) const {
    return analysis_.calls(program);
  }
  // Every operation by itself.
  [[nodiscard]] std::shared_ptr<const EngineProgram> plain(std::uint32_t program);
  // Which collectives the regions of a program may hold (by ProgramCalls::collectives).
  struct Contraction {
    std::uint32_t program = 0;
    std::vector<bool> joinable = {};
  };
  // Each with regions, in their order.
  [[nodiscard]] std::vector<std::shared_ptr<const EngineProgram>> contracted(
      const std::vector<Contraction>& asked);
  // Flows that the run before had, for which the next one makes room.
  std::atomic<std::size_t> flows = 0;

 private:
  using Known = std::shared_ptr<const EngineProgram>;
  // The one of another program of the template, where that was asked for alike; null where none
  // was.
  [[nodiscard]] Known as_another(std::uint32_t program, bool contracted,
                                 const std::vector<bool>& joinable) const;
  // Finds the regions of those that nobody has asked for yet.
  [[nodiscard]] std::vector<Known> contract(const std::vector<const Contraction*>& fresh) const;

  const Workload& workload_;
  const ProgramAnalysis& analysis_;
  std::vector<std::vector<std::uint32_t>> members_;  // of a template
  std::vector<Known> like_;                          // of programs of the same numbers
  mutable std::mutex mutex_;                         // of what follows
  std::vector<Known> programs_;                      // as last asked for
};

}  // namespace trainyard
