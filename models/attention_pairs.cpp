#include "models/attention_pairs.hpp"

#include <algorithm>
#include <cmath>

#include "models/documents.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

AttentionBlock causal_square(std::int64_t length) {
  return {.queries = length, .keys = length, .pairs = length * (length + 1) / 2, .causal = true};
}

AttentionBlock rectangle(std::int64_t queries, std::int64_t keys) {
  return {.queries = queries, .keys = keys, .pairs = queries * keys, .causal = false};
}

// The last `queries` of the first `keys` positions, causal.
AttentionBlock up_to_here(std::int64_t queries, std::int64_t keys) {
  const std::int64_t before = keys - queries;
  return {.queries = queries,
          .keys = keys,
          .pairs = queries * before + queries * (queries + 1) / 2,
          .causal = true};
}

void check_divides(const SequenceCut& cut) {
  const std::int64_t pieces = cut.split == ContextSplit::Zigzag ? 2 * cut.ranks : cut.ranks;
  TY_CHECK(cut.ranks == 1 || cut.sequence % pieces == 0, cut.sequence, pieces);
}

// The same rectangle, of which only this number of pairs is computed.
AttentionBlock masked(AttentionBlock block, std::int64_t pairs) {
  block.pairs = pairs;
  block.causal = pairs < block.queries * block.keys;
  return block;
}

// Counts, document by document, the pairs of a rank's two chunks with the two chunks of one rank:
// itself (`own`) or another rank.
std::int64_t zigzag_pairs(const SequenceCut& cut, bool own) {
  double pairs = 0.0;
  for (const std::int64_t document : cut.documents) {
    const double part = static_cast<double>(document) / static_cast<double>(cut.ranks);
    pairs += part * (own ? part + 1.0 : part) / 2.0;
  }
  return std::llround(pairs);
}

// Length of the overlap of [begin, begin + length) with the part of a rank.
std::int64_t overlap(std::int64_t begin, std::int64_t length, std::int64_t rank,
                     std::int64_t part) {
  const std::int64_t from = std::max(begin, rank * part);
  const std::int64_t to = std::min(begin + length, (rank + 1) * part);
  return std::max<std::int64_t>(0, to - from);
}

// Counts, document by document, the pairs of queries in one rank's part of a sequence and keys in
// another rank's part.
std::int64_t contiguous_pairs(const SequenceCut& cut, const RingStep& step) {
  if (step.source > step.rank) return 0;
  const std::int64_t sequence = cut.sequence / cut.packed;
  const std::int64_t part = sequence / cut.ranks;
  std::int64_t pairs = 0;
  std::int64_t begin = 0;
  for (const std::int64_t document : cut.documents) {
    const std::int64_t queries = overlap(begin, document, step.rank, part);
    const std::int64_t keys = overlap(begin, document, step.source, part);
    pairs += step.source == step.rank ? queries * (queries + 1) / 2 : queries * keys;
    // The documents fill `packed` sequences one after another.
    begin = (begin + document) % sequence;
  }
  return pairs;
}

// The rectangle is that of one document. Pairs that cross documents are not computed.
std::optional<AttentionBlock> packed_ring_block(const SequenceCut& cut, const RingStep& step) {
  const std::int64_t local = cut.local();
  if (cut.split == ContextSplit::Contiguous) {
    const std::int64_t pairs = contiguous_pairs(cut, step);
    if (pairs == 0) return std::nullopt;
    return masked(rectangle(local, local), pairs);
  }
  if (step.source == step.rank) return masked(causal_square(local), zigzag_pairs(cut, true));
  const bool earlier = step.source < step.rank;
  return masked(earlier ? rectangle(local, local / 2) : rectangle(local / 2, local),
                zigzag_pairs(cut, false));
}

AttentionBlock packed_gathered_block(const SequenceCut& cut, std::int64_t rank) {
  const std::int64_t local = cut.local();
  if (cut.ranks == 1) return masked(causal_square(local), document_pairs(cut.documents));
  if (cut.split == ContextSplit::Zigzag)
    return masked(rectangle(local, cut.sequence),
                  zigzag_pairs(cut, true) + (cut.ranks - 1) * zigzag_pairs(cut, false));
  std::int64_t pairs = 0;
  for (std::int64_t source = 0; source <= rank; ++source)
    pairs += contiguous_pairs(cut, {.rank = rank, .source = source});
  return masked(rectangle(local, (rank + 1) * local), pairs);
}

}  // namespace

// With gathered keys and a zigzag, all ranks compute equal blocks and share one program. On a ring,
// the blocks depend on the position.
ContextShape context_shape(const Parallelism& p) {
  if (p.context == 1) return {};
  switch (p.context_exchange) {
    case ContextExchange::Ring:
      return {.heads = 1, .ring = p.context, .programs = p.context};
    case ContextExchange::AllGather:
      return {.heads = 1,
              .ring = p.context,
              .programs = p.context_split == ContextSplit::Zigzag ? 1 : p.context};
    case ContextExchange::AllToAll:
      return {.heads = p.context, .ring = 1, .programs = 1};
    case ContextExchange::Hierarchical:
      TY_CHECK(p.context_all_to_all > 0 && p.context % p.context_all_to_all == 0,
               p.context_all_to_all, p.context);
      return {.heads = p.context_all_to_all,
              .ring = p.context / p.context_all_to_all,
              .programs = p.context / p.context_all_to_all};
  }
  return {};
}

std::optional<AttentionBlock> ring_block(const SequenceCut& cut, const RingStep& step) {
  check_divides(cut);
  if (!cut.documents.empty()) return packed_ring_block(cut, step);
  const std::int64_t local = cut.local();
  if (step.source == step.rank) return causal_square(local);
  const bool earlier = step.source < step.rank;
  if (cut.split == ContextSplit::Zigzag) {
    return earlier ? rectangle(local, local / 2) : rectangle(local / 2, local);
  }
  if (earlier) return rectangle(local, local);
  return std::nullopt;
}

AttentionBlock gathered_block(const SequenceCut& cut, std::int64_t rank) {
  check_divides(cut);
  if (!cut.documents.empty()) return packed_gathered_block(cut, rank);
  const std::int64_t local = cut.local();
  if (cut.ranks == 1) return causal_square(local);
  if (cut.split == ContextSplit::Contiguous) return up_to_here(local, (rank + 1) * local);
  // Chunks r and 2c-1-r end after r+1 and 2c-r chunks of the sequence.
  const std::int64_t chunk = local / 2;
  const std::int64_t pairs = up_to_here(chunk, (rank + 1) * chunk).pairs +
                             up_to_here(chunk, (2 * cut.ranks - rank) * chunk).pairs;
  return {.queries = local, .keys = cut.sequence, .pairs = pairs, .causal = true};
}

// A zigzag gives every rank the same share of each document. A contiguous part may hold all of one.
std::int64_t longest_keys(const SequenceCut& cut, const AttentionBlock& block) {
  if (cut.documents.empty()) return 0;
  const std::int64_t longest = *std::ranges::max_element(cut.documents);
  if (cut.split == ContextSplit::Contiguous && cut.ranks > 1) return std::min(block.keys, longest);
  return std::max<std::int64_t>(1, block.keys * longest / cut.sequence);
}

}  // namespace trainyard
