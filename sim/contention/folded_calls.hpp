// The part of a workload that folding reads: which ranks call what with whom, and which calls are
// never concurrent. Workloads with equal FoldedCalls, such as those of other numbers of
// microbatches, have the same joint graph and the same fold.
//
//    FoldedCalls{workload, analysis} == FoldedCalls{of_more_microbatches, its_analysis};   // true
#pragma once

#include <memory>

#include "sim/workload/program_analysis.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// An input of a memo (sim/base/memo.hpp). It does not keep the workload alive: when its workload is
// gone, it equals no other.
struct FoldedCalls {
  std::weak_ptr<const Workload> workload = {};
  std::weak_ptr<ProgramAnalysis> analysis = {};
  bool operator==(const FoldedCalls& other) const;
};

}  // namespace trainyard
