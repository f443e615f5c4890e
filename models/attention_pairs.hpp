// The pairs of a query and a key that attention computes on each of the ranks that share a
// sequence, within the documents that are packed into it (documents.hpp).
//
//    AttentionBlock b = *ring_block({8192, 4, ContextSplit::Zigzag}, {.rank = 1, .source = 3});
//    b.pairs;    // 1024 * 2048: the later half of rank 1's queries with all keys of rank 3
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/plan.hpp"

namespace trainyard {

// Symbols: s sequence, c ranks of the ring, L = s/c positions of one rank. Zigzag cuts the sequence
// into 2c chunks and gives rank r chunks r and 2c-1-r (Megatron-LM get_batch_on_this_cp_rank;
// Grattafiori et al. 2407.21783 section 3.3.2). Then every rank computes at every step
//
//  own keys      L(L+1)/2   a causal square: the two chunks are in their order
//  others' keys  L*L/2      of an earlier rank: all queries, the first half of its keys;
//                           of a later rank: the second half of the queries, all its keys
//
// which is s(s+1)/(2c) in total: s = 8192, c = 4: 8 389 632 (tests/models/lower/context_test.cpp).
// A contiguous cut gives rank r (2r+1)/c^2 of the causal square: 1/16, 3/16, 5/16, 7/16 for c = 4.
//
// Where documents are packed, a zigzag cuts each of them separately, as TransformerEngine does (THD
// layout: the two chunks of every document are adjacent). The above then holds for every document
// of l_i positions with L_i = l_i/c: own keys sum L_i(L_i+1)/2, others' keys sum L_i^2/2, for every
// rank. TransformerEngine pads documents to a multiple of 2c. Here l_i/2c may be fractional, and
// the sums are rounded. A contiguous cut ignores documents: a rank has the positions of its part.

// The two dimensions of a context group. `heads` consecutive context ranks trade heads for
// positions, and `ring` such groups pass keys and values round a ring, or gather them.
struct ContextShape {
  std::int64_t heads = 1;
  std::int64_t ring = 1;
  // Number of different programs. Ranks with different positions on the ring compute different
  // blocks and have separate programs. The exception is a zigzag with gathered keys, where every
  // rank computes the same.
  std::int64_t programs = 1;
  // The ring position for which the program of a context rank is written.
  [[nodiscard]] std::int64_t program_of(std::int64_t context_rank) const {
    return programs == 1 ? 0 : context_rank / heads;
  }
};
[[nodiscard]] ContextShape context_shape(const Parallelism& parallelism);

// One rectangular (or causal square) kernel: a number of queries with a number of keys.
struct AttentionBlock {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t pairs = 0;  // pairs that are computed, of queries * keys
  bool causal = false;     // part of the rectangle is masked
  bool operator==(const AttentionBlock&) const = default;
};

struct SequenceCut {
  std::int64_t sequence = 0;
  std::int64_t ranks = 1;
  ContextSplit split = ContextSplit::Zigzag;
  // Lengths of packed documents, which fill `packed` sequences. Empty: each sequence is one
  // document.
  std::vector<std::int64_t> documents = {};
  std::int64_t packed = 1;
  [[nodiscard]] std::int64_t local() const { return sequence / ranks; }
};

struct RingStep {
  std::int64_t rank = 0;
  std::int64_t source = 0;  // rank whose keys and values are used
};
// Nothing where no query attends to any of these keys. REQUIRES: `ranks` divides the sequence; for
// a zigzag twice `ranks` divides it.
[[nodiscard]] std::optional<AttentionBlock> ring_block(const SequenceCut& cut,
                                                       const RingStep& step);

// All queries of a rank with all keys at once, in one launch. The two chunks of a zigzag attend to
// (r+1) and (2c-r) of the 2c chunks of keys, which is s(s+1)/(2c) pairs for every r. A contiguous
// piece attends to the keys up to its last position.
[[nodiscard]] AttentionBlock gathered_block(const SequenceCut& cut, std::int64_t rank);

// Keys that a query at the end of the longest packed document has in a block; 0 where nothing is
// packed.
[[nodiscard]] std::int64_t longest_keys(const SequenceCut& cut, const AttentionBlock& block);

}  // namespace trainyard
