// The facts of a report about the documents of a step: their lengths, and how unevenly their
// attention is divided over replicas and microbatches.
//
//    document_facts(plan)->replica_excess;   // 0.05: the largest has 5 % more pairs than the mean
#pragma once

#include <optional>

#include "models/plan.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// Nothing where each sequence is one document. The names of lengths and balance are left empty.
[[nodiscard]] std::optional<DocumentFacts> document_facts(const TrainingPlan& plan);

}  // namespace trainyard
