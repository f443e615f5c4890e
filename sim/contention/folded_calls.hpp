// The part of a workload that folding reads: who calls what with whom, and which calls are never
// concurrent. Workloads that are equal in this, such as those of other numbers of microbatches,
// have the same joint graph and fold alike.
//
//   FoldedCalls{workload, analysis} == FoldedCalls{of_more_microbatches, its_analysis};   // true
#pragma once

#include <memory>

#include "sim/workload/program_analysis.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// As an input of a memo (sim/base/memo.hpp) it keeps no workload alive: it equals no other once its
// own is gone.
struct FoldedCalls {
  std::weak_ptr<const Workload> workload = {};
  std::weak_ptr<ProgramAnalysis> analysis = {};
  bool operator==(const FoldedCalls& other) const;
};

}  // namespace trainyard
