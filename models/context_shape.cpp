#include "models/context_shape.hpp"

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

AttentionBlock causal_square(std::int64_t length) {
  return {.queries = length, .keys = length, .pairs = length * (length + 1) / 2, .causal = true};
}

AttentionBlock rectangle(std::int64_t queries, std::int64_t keys) {
  return {.queries = queries, .keys = keys, .pairs = queries * keys, .causal = false};
}

// The last `queries` of the first `keys` positions.
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

}  // namespace

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
  const std::int64_t local = cut.local();
  if (cut.ranks == 1) return causal_square(local);
  if (cut.split == ContextSplit::Contiguous) return up_to_here(local, (rank + 1) * local);
  const std::int64_t chunk = local / 2;
  const std::int64_t pairs = up_to_here(chunk, (rank + 1) * chunk).pairs +
                             up_to_here(chunk, (2 * cut.ranks - rank) * chunk).pairs;
  return {.queries = local, .keys = cut.sequence, .pairs = pairs, .causal = true};
}

}  // namespace trainyard
