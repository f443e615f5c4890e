// The path of routed tokens between tokens and experts, on one rank. The K copies of a token are
// sorted by expert (permute), sent to the ranks of the experts (dispatch), sent back (combine) and
// added up (unpermute). Backward mirrors this: the gradient of the combine is sent like a dispatch,
// and that of the dispatch like a combine, so that each layer and microbatch has four all_to_all
// operations (Megatron-LM core/transformer/moe).
//
// Tensor ranks that all hold the same T tokens (no sequence parallelism) drop the duplicates, as
// DeepSpeed-MoE does (Singh et al. 2303.06318 section 5.1; drop_tokens and gather_tokens of
// deepspeed/moe/mappings.py). All of them route all tokens, and each sends the copies of its own
// T/t of them. The outputs are gathered over the tensor group, T h w bytes; backward, the gradients
// of the inputs and of the probabilities are gathered, T (h w + 4K) bytes. T = 4096, h = 4096, K =
// 2 in bf16: 33 554 432 and 33 587 200 (tests/models/lower/duplicate_tokens_test.cpp).
#pragma once

#include <cstdint>
#include <string_view>

#include "models/expert_routing.hpp"
#include "models/layers/layer_tools.hpp"

namespace trainyard {

// Bytes of one routed token on its way to an expert: its numbers, for fp8 a scale of 4 bytes for
// each 128 of them, and the router's probability (4). h = 7168: 14 340 in bf16, 7 396 in fp8.
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

  // REQUIRES: the shape's routing is set. The builder's tags give the layer and the microbatch.
  explicit TokenDispatcher(LayerTools& tools);

  [[nodiscard]] const ExpertRows& rows() const { return rows_; }
  // All ranks inform each other how many routed tokens they have for each expert, where these
  // numbers differ. HybridEP gathers the ranks' routing maps instead, a byte for each token and
  // expert, and a kernel reads them all (deep_ep/hybrid_ep_buffer.py, metadata_preprocessing).
  void exchange_counts();
  // The all_to_all over the group of the experts; kNone where one rank has all experts.
  OpIndex travel(std::string_view name, Way way, DataType precision);
  // Reads tokens and writes their routed copies, or the reverse.
  void permute(std::string_view name);
  // Casts routed tokens to the precision in which they are sent.
  void cast_rows(std::string_view name);
  // Sorts received tokens, which arrive by sender, by expert; or the reverse.
  void sort_rows(std::string_view name);
  // Gathers routed tokens over the ranks that share an expert's GEMMs, or reduces their results.
  void join_expert_tensor(std::string_view name, CollectiveOp op);
  // Gathers the tokens of the other tensor ranks, `bytes_each` per token, where every rank holds
  // all.
  void gather_tokens(std::string_view name, std::int64_t bytes_each);

 private:
  [[nodiscard]] ChosenCall all_to_all(Way way, DataType precision) const;
  [[nodiscard]] double distinct_share() const;

  const ExpertSettings& settings_;
  RoutingQuery query_;       // this layer and microbatch on this EP rank
  ExpertRows rows_;          // result for query_
  std::int64_t tokens_ = 0;  // tokens whose routed copies this rank sends
};

}  // namespace trainyard
