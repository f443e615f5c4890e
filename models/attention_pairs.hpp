// Which pairs of a query and a key attention computes: within the documents that are packed into a
// microbatch, and on each of the ranks that share a sequence.
//
//   microbatch_documents(document_draw(plan), {.microbatch = 3});   // {4096, 1024, 3072}
//   AttentionBlock b = *ring_block({8192, 4, ContextSplit::Zigzag}, {.rank = 1, .source = 3});
//   b.pairs;    // 1024 * 2048: the later half of rank 1's queries against all keys of rank 3
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/plan.hpp"

namespace trainyard {

// ---- documents
//
// Attention stays within a document, so its work follows from the sum of their squares. Everything
// but attention works on tokens and does not see documents. A sequence of s tokens in documents of
// l_i has sum l_i (l_i + 1)/2 pairs of query and key instead of s (s + 1)/2: four of 2048 make 8
// 392 704, a quarter of the 33 558 528 of one of 8192 (tests/models/lower/documents_test.cpp).

// The source of a microbatch's documents, and its size.
struct DocumentDraw {
  const Documents& documents;
  std::uint64_t seed = 0;
  std::int64_t sequences = 1;
  std::int64_t length = 0;  // of a sequence
};
[[nodiscard]] DocumentDraw document_draw(const TrainingPlan& plan);

struct DocumentsOf {
  std::int64_t microbatch = 0;
  std::int64_t replica = 0;
};
// The lengths of all documents of a microbatch, sequence by sequence. One of the whole length for
// each sequence where nothing is packed. The same for the same seed.
[[nodiscard]] std::vector<std::int64_t> microbatch_documents(const DocumentDraw& draw,
                                                             const DocumentsOf& of);

// Pairs of query and key within the documents: sum l (l + 1)/2.
[[nodiscard]] std::int64_t document_pairs(const std::vector<std::int64_t>& lengths);

// ---- ranks that share a sequence
//
// Symbols: s sequence, c ranks of the ring, L = s/c positions of one rank. Zigzag cuts the sequence
// into 2c chunks and gives rank r chunks r and 2c-1-r (Megatron-LM get_batch_on_this_cp_rank;
// Grattafiori et al. 2407.21783 section 3.3.2). Then every rank computes at every step
//   own keys    L(L+1)/2     a causal square: the two chunks stand in their order
//   others'     L*L/2        of an earlier rank: all queries, the first half of its keys;
//                            of a later rank: the second half of the queries, all its keys
// in total s(s+1)/(2c): s = 8192, c = 4: 8 389 632 (tests/models/lower/context_test.cpp). A
// contiguous cut gives rank r (2r+1)/c^2 of the causal square: 1/16, 3/16, 5/16, 7/16 for c = 4.
//
// Where documents are packed, a zigzag cuts each one for itself, as TransformerEngine does (THD
// layout: the two chunks of every document one after the other), so that the above holds for every
// document of l_i positions with L_i = l_i/c: own keys sum L_i(L_i+1)/2, others' sum L_i^2/2,
// whatever the rank. TransformerEngine pads documents to a multiple of 2c; here l_i/2c need not be
// whole, and the sums are rounded. A contiguous cut looks at no document: a rank has what falls
// into its part.

// The two dimensions of a context group: the fastest `heads` ranks trade heads for positions, and
// `ring` such groups pass keys and values on, or gather them.
struct ContextShape {
  std::int64_t heads = 1;
  std::int64_t ring = 1;
  // Ranks that differ in their place on the ring compute other blocks and have programs of their
  // own, but for a zigzag whose keys are gathered: there every rank computes the same.
  std::int64_t programs = 1;
  // The place on the ring that the program of a context rank is written for.
  [[nodiscard]] std::int64_t program_of(std::int64_t context_rank) const {
    return programs == 1 ? 0 : context_rank / heads;
  }
};
[[nodiscard]] ContextShape context_shape(const Parallelism& parallelism);

// One rectangular (or causal square) kernel: so many queries against so many keys.
struct AttentionBlock {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t pairs = 0;  // of them computed
  bool causal = false;     // part of the rectangle is masked
  bool operator==(const AttentionBlock&) const = default;
};

struct SequenceCut {
  std::int64_t sequence = 0;
  std::int64_t ranks = 1;
  ContextSplit split = ContextSplit::Zigzag;
  // Lengths of packed documents, which fill `packed` sequences side by side; none: one for all.
  std::vector<std::int64_t> documents = {};
  std::int64_t packed = 1;
  [[nodiscard]] std::int64_t local() const { return sequence / ranks; }
};

struct RingStep {
  std::int64_t rank = 0;
  std::int64_t source = 0;  // whose keys and values
};
// Nothing where no query sees any of these keys. REQUIRES: `ranks` divides the sequence,
// for a zigzag twice that.
[[nodiscard]] std::optional<AttentionBlock> ring_block(const SequenceCut& cut,
                                                       const RingStep& step);

// All queries of a rank against all keys at once, in one launch. A zigzag's two chunks see (r+1)
// and (2c-r) of the 2c chunks of keys: s(s+1)/(2c) pairs whatever r. A piece sees the keys up to
// its end.
[[nodiscard]] AttentionBlock gathered_block(const SequenceCut& cut, std::int64_t rank);

}  // namespace trainyard
