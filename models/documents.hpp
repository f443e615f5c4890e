// The documents that the microbatches of a step read, and the work of attention on them.
//
// Attention stays within a document, so its work follows from the sum of the squares of the
// document lengths. Everything except attention works on tokens and does not depend on documents. A
// sequence of s tokens in documents of length l_i has sum l_i (l_i + 1)/2 pairs of query and key
// instead of s (s + 1)/2. Four documents of 2048 have 8 392 704 pairs, a quarter of the 33 558 528
// of one of 8192 (tests/models/lower/documents_test.cpp).
//
//    StepDocuments documents(plan);
//    documents.of({.microbatch = 3});   // {4096, 1024, 3072}
//
// Microbatches and replicas with other documents take other times, and the step waits for the
// longest. Documents::balance divides the documents of the global batch more evenly, as data
// loaders do (WLB-LLM, Wang et al. 2503.17924, packs by work across microbatches). Both of its ways
// are the longest-processing-time rule (Graham 1969, SIAM J. Appl. Math. 17(2), "Bounds on
// multiprocessing timing anomalies"): the largest item first, each to the place with the least work
// so far that has room. A sequence keeps its number of tokens, and so does a microbatch. Replicas
// are balanced first, then the sequences and microbatches of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/plan.hpp"

namespace trainyard {

// Number of pairs of query and key within the documents: sum l (l + 1)/2.
[[nodiscard]] std::int64_t document_pairs(const std::vector<std::int64_t>& lengths);

struct DocumentQuery {
  std::int64_t microbatch = 0;
  std::int64_t replica = 0;
};

class StepDocuments {
 public:
  explicit StepDocuments(const TrainingPlan& plan);

  // The lengths of all documents of a microbatch, sequence by sequence. Without packing each
  // sequence is one document. The result is the same for the same seed.
  [[nodiscard]] const std::vector<std::int64_t>& of(const DocumentQuery& query) const;
  [[nodiscard]] bool packed() const { return packed_; }  // several documents share a sequence
  [[nodiscard]] std::int64_t sequences() const { return sequences_; }  // of a microbatch
  [[nodiscard]] std::int64_t length() const { return length_; }        // of a sequence

 private:
  bool packed_ = false;
  std::int64_t sequences_ = 1;
  std::int64_t length_ = 0;
  std::int64_t microbatches_ = 1;  // of a replica; 1 where all are equal
  std::int64_t replicas_ = 1;      // 1 where all are equal
  // By replica and microbatch.
  std::shared_ptr<const std::vector<std::vector<std::int64_t>>> lengths_;
};

// ---- balancing

struct EqualBins {
  std::size_t bins = 1;
  std::size_t slots = 1;  // items of each bin
};
// Divides loads over bins with equally many items by the longest-processing-time rule, and returns
// the items of each bin, the largest first. REQUIRES: there are bins * slots loads.
[[nodiscard]] std::vector<std::vector<std::size_t>> longest_first(
    std::span<const std::int64_t> loads, const EqualBins& into);

struct TokenBins {
  std::size_t bins = 1;
  std::int64_t tokens = 0;  // of each bin
};
// Packs documents into bins with equally many tokens, sequences or replicas, by the same rule. A
// document that fits nowhere is cut where most room is left. REQUIRES: the documents add up to
// bins * tokens.
[[nodiscard]] std::vector<std::vector<std::int64_t>> packed_by_work(
    const std::vector<std::int64_t>& documents, const TokenBins& into);

}  // namespace trainyard
