// The regions and the edges of programs. They depend on no times, so an EnginePrograms serves every
// further run of the same workload, such as what-ifs with faster links. Several threads may use it.
//
//    EnginePrograms known(workload, analysis);
//    EngineInput input{cluster, workload, partition, kernel_seconds};
//    input.known = &known;
//    make_engine("simgrid")->run(input);   // finds the regions and edges
//    make_engine("simgrid")->run(input);   // reuses them
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/engine/regions.hpp"
#include "sim/engine/successors.hpp"
#include "sim/workload/program_analysis.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

struct ShortStep;

struct EngineProgram {
  // The collectives (ProgramCalls::collectives) that regions may hold. Empty where there are no
  // regions.
  std::vector<bool> joinable = {};
  bool contracted = false;
  ProgramRegions regions = {};
  Successors successors = {};
};

// Programs of one template (program_templates.hpp) share their regions and edges.
class EnginePrograms {
 public:
  // `analysis`: that of the workload. `like`: the EnginePrograms of a workload whose programs of
  // the same numbers may be made of the same blocks. The regions that it knows now are reused.
  // Null: there is none. REQUIRES: workload and analysis outlive this.
  EnginePrograms(const Workload& workload, const ProgramAnalysis& analysis,
                 const EnginePrograms* like = nullptr);
  EnginePrograms(const EnginePrograms&) = delete;
  EnginePrograms& operator=(const EnginePrograms&) = delete;
  ~EnginePrograms();

  [[nodiscard]] const ProgramCalls& calls(std::uint32_t program) const {
    return analysis_.calls(program);
  }
  // The program without regions: every operation has its own events.
  [[nodiscard]] std::shared_ptr<const EngineProgram> plain(std::uint32_t program);
  // The collectives that the regions of a program may hold (by ProgramCalls::collectives).
  struct Contraction {
    std::uint32_t program = 0;
    std::vector<bool> joinable = {};
  };
  // The programs with regions, in the order of `asked`.
  [[nodiscard]] std::vector<std::shared_ptr<const EngineProgram>> contracted(
      const std::vector<Contraction>& asked);
  // The workload with fewer microbatches (steady_state.hpp); null where there is none. Valid as
  // long as this.
  [[nodiscard]] const ShortStep* short_step();
  // The times of a run had no period. Later runs, whose durations are similar, do not try again.
  void forget_short_step() { steady_ = false; }

 private:
  using Known = std::shared_ptr<const EngineProgram>;
  // The result for another program of the template with equal arguments; null where there is none.
  [[nodiscard]] Known of_same_template(std::uint32_t program, bool contracted,
                                       const std::vector<bool>& joinable) const;
  // Finds the regions of programs for which no result exists yet.
  [[nodiscard]] std::vector<Known> contract(const std::vector<const Contraction*>& fresh) const;

  const Workload& workload_;
  const ProgramAnalysis& analysis_;
  std::vector<std::vector<std::uint32_t>> members_;  // programs, by template
  std::vector<Known> like_;                          // results of `like`, by program
  // Guards programs_.
  mutable std::mutex mutex_;
  std::vector<Known> programs_;  // the last result, by program
  std::once_flag shortened_;
  std::unique_ptr<const ShortStep> short_step_;
  std::atomic<bool> steady_ = true;
};

}  // namespace trainyard
