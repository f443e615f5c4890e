// Attention whose queries, keys and values come from one product, heads shared out to tensor ranks;
// with fewer key-value heads than query heads where the model says so.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/lower/attention_core.hpp"

namespace trainyard {

class MultiHeadAttention : BlockWriter {
 public:
  explicit MultiHeadAttention(LayerTools& tools) : BlockWriter(tools), core_(tools) {}

  void forward();
  std::vector<ReadyGradient> backward(BackwardPart part);
  void again_beside_core();

 private:
  using Weights = std::array<OpIndex, 2>;  // where their gradients are final
  Weights weight_part();
  Weights input_part(BackwardPart part);
  [[nodiscard]] std::int64_t query_and_key_width() const;  // of this rank's heads
  void head_norms(std::string_view name, Pass pass);
  void rotary(std::string_view name, Pass pass);
  void repeat_heads(std::string_view name);
  void join_attention_gradients();
  // Where several tensor ranks have the same key-value head (architecture/shard.hpp): what the QKV
  // product made of all heads comes to every rank, and backward their gradients are summed.
  void gather_heads();
  void scatter_head_gradients();
  [[nodiscard]] std::int64_t all_heads_bytes() const;

  AttentionCore core_;
};

}  // namespace trainyard
