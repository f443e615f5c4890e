#include "scenarios/simulate/document_facts.hpp"

#include <algorithm>
#include <cstdint>

#include "models/documents.hpp"

namespace trainyard {

std::optional<DocumentFacts> document_facts(const TrainingPlan& plan) {
  const StepDocuments documents(plan);
  if (!documents.packed()) return std::nullopt;
  DocumentFacts facts;
  double all = 0.0;
  double replica_most = 0.0;
  double microbatch_most = 0.0;
  for (std::int64_t replica = 0; replica < plan.parallelism.data; ++replica) {
    double of_replica = 0.0;
    for (std::int64_t microbatch = 0; microbatch < plan.microbatches(); ++microbatch) {
      const auto& lengths = documents.of({.microbatch = microbatch, .replica = replica});
      facts.count += static_cast<std::int64_t>(lengths.size());
      facts.longest_tokens = std::max(facts.longest_tokens, *std::ranges::max_element(lengths));
      const auto pairs = static_cast<double>(document_pairs(lengths));
      microbatch_most = std::max(microbatch_most, pairs);
      of_replica += pairs;
    }
    replica_most = std::max(replica_most, of_replica);
    all += of_replica;
  }
  const auto replicas = static_cast<double>(plan.parallelism.data);
  const auto microbatches = replicas * static_cast<double>(plan.microbatches());
  const auto sequences = microbatches * static_cast<double>(documents.sequences());
  // Packed documents replace sequences whose tokens attend to all earlier ones: length * (length +
  // 1) / 2 pairs each.
  const auto length = static_cast<double>(documents.length());
  facts.mean_tokens = sequences * length / static_cast<double>(facts.count);
  facts.pairs_share = all / (sequences * length * (length + 1.0) / 2.0);
  facts.replica_excess = replica_most / (all / replicas) - 1.0;
  facts.microbatch_excess = microbatch_most / (all / microbatches) - 1.0;
  return facts;
}

}  // namespace trainyard
