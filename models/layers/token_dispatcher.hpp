// Rows of tokens on their way between tokens and experts, of one rank: a token's K rows are put in
// the order of their experts (permute), travel to the ranks of those (dispatch), travel back
// (combine) and are added up (unpermute). Backward mirrors this: the gradient of the combine
// travels like a dispatch and that of the dispatch like a combine, so that a layer and microbatch
// has four exchanges (reference 04 section 6; Megatron-LM core/transformer/moe).
//
// Tensor ranks that all hold the same T tokens (no sequence parallelism) drop the duplicates, as
// DeepSpeed-MoE does (Singh et al. 2303.06318 section 5.1; drop_tokens and gather_tokens of
// deepspeed/moe/mappings.py): all route all tokens, each sends the rows of its own T/t of them, and
// the outputs are gathered over the tensor group, T h w bytes; backward the gradients of the
// inputs, with those of the probabilities T (h w + 4K). T = 4096, h = 4096, K = 2 in bf16: 33 554
// 432 and 33 587 200 (tests/models/lower/duplicate_tokens_test.cpp).
#pragma once

#include <cstdint>
#include <string_view>

#include "models/expert_routing.hpp"
#include "models/layers/layer_tools.hpp"

namespace trainyard {

// Bytes of one row on its way to an expert: its numbers, for fp8 a scale of 4 bytes for each 128 of
// them, and the router's probability (4). h = 7168: 14 340 in bf16, 7 396 in fp8.
struct RowBytes {
  std::int64_t payload = 0;
  std::int64_t scales = 0;
  std::int64_t probability = 0;
  [[nodiscard]] std::int64_t total() const { return payload + scales + probability; }
};
[[nodiscard]] RowBytes dispatch_row_bytes(std::int64_t hidden, DataType precision);

class TokenDispatcher : BlockWriter {
 public:
  enum class Way : std::uint8_t { ToExperts, ToTokens };

  // REQUIRES: the shape's routing is set; the builder's tags say which layer and microbatch it is.
  explicit TokenDispatcher(LayerTools& tools);

  [[nodiscard]] const ExpertRows& rows() const { return rows_; }
  // Everyone tells everyone how many rows of each expert it has, where these differ.
  void tell_counts();
  // The exchange over the group of the experts; kNone where one rank has them all.
  OpIndex travel(std::string_view name, Way way, DataType precision);
  // Tokens on one side, their rows on the other.
  void permute(std::string_view name);
  // Rows into the precision they travel in.
  void cast_rows(std::string_view name);
  // Rows as they arrive, by sender, into the order of their experts, or back.
  void sort_rows(std::string_view name);
  // Rows of all ranks that share the experts' products, or the sum of their results.
  void join_expert_tensor(std::string_view name, CollectiveOp op);
  // The tokens of the other tensor ranks, so many bytes of each, where every rank holds all.
  void gather_tokens(std::string_view name, std::int64_t bytes_each);

 private:
  [[nodiscard]] ChosenCall all_to_all(Way way, DataType precision) const;

  const ExpertSettings& settings_;
  RoutingQuery query_;       // this layer and microbatch at this place
  ExpertRows rows_;          // of them
  std::int64_t tokens_ = 0;  // whose rows this rank sends
};

}  // namespace trainyard
