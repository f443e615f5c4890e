#include "models/lower/context_attention.hpp"

#include <algorithm>
#include <string>

#include "models/architecture/shard.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// The rank whose keys are at hand at step i: forward they come from the rank before, backward from
// the one behind, and one's own are the first and the last.
std::int64_t source_at(std::int64_t step, std::int64_t rank, std::int64_t ring, bool backward) {
  return backward ? (rank + 1 + step) % ring : (rank - step + ring) % ring;
}

}  // namespace

std::int64_t traded_kv_heads(std::int64_t kv_heads, std::int64_t heads) {
  TY_CHECK(kv_heads % heads == 0 || heads % kv_heads == 0, kv_heads, heads);
  return std::max<std::int64_t>(1, kv_heads / heads);
}

ContextAttention::ContextAttention(const Architecture& a, const AttentionOptions& options,
                                   const StepShape& shape, ProgramBuilder& build)
    : options_(options.context), shape_(shape), build_(build) {
  const DocumentDraw& microbatch = options.microbatch;
  cut_ = {.sequence = microbatch.length, .ranks = options_.shape.ring, .split = options_.split};
  batch_ = microbatch.sequences;
  if (microbatch.documents.kind != DocumentKind::None) {  // one kernel over all tokens
    cut_.documents = microbatch_documents(
        microbatch, {.microbatch = build.tags().microbatch, .replica = shape.replica});
    cut_.packed = batch_;
    cut_.sequence *= batch_;
    batch_ = 1;
  }
  query_heads_ = a.heads / shape.tensor / options_.shape.heads;
  kv_heads_ = traded_kv_heads(kv_heads_per_rank(a, shape.tensor), options_.shape.heads);
  qk_ = a.head_dim;
  v_ = a.value_head();
  element_ = shape.element;
  of_ring_ = options_.shape.ring > 1 && options_.exchange != ContextExchange::AllGather;
}

void ContextAttention::forward() {
  if (options_.shape.heads > 1) trade_inputs(false);
  if (options_.shape.ring == 1) {
    attend("attention", gathered_block(cut_, 0), false);  // all positions, some of the heads
  } else if (options_.exchange == ContextExchange::AllGather) {
    gathered_forward();
  } else {
    ring_forward();
  }
  if (options_.shape.heads > 1) trade_output(false);
}

void ContextAttention::backward() {
  if (options_.shape.heads > 1) trade_output(true);
  if (options_.shape.ring == 1) {
    attend("attention_backward", gathered_block(cut_, 0), true);
  } else if (options_.exchange == ContextExchange::AllGather) {
    gathered_backward();
  } else {
    ring_backward();
  }
  if (options_.shape.heads > 1) trade_inputs(true);
}

// Keys and values are copied into one buffer, which is what travels.
void ContextAttention::pack_keys() {
  memory_bound("keys_values_pack", MemoryBoundKind::Elementwise, 2 * ring_step_bytes());
}

// A block's partial output and its log-sum-exp (fp32) join those so far. The first output is scaled
// into a new tensor and its log-sum-exp copied; a later one is scaled and added. The log-sum-exp of
// block and sum are read for the outputs, and once more for their own sum, which is written.
void ContextAttention::join_output(const AttentionBlock& block, bool first) {
  const std::int64_t rows = batch_ * block.queries;
  const std::int64_t outputs = (first ? 2 : 3) * output_row_bytes();
  const std::int64_t log_sums = (first ? 4 : 5) * 4 * query_heads_;
  memory_bound("attention_merge", MemoryBoundKind::Elementwise, rows * (outputs + log_sums), 2);
}

// The first gradients are copied into the sum's tensor, later ones are added to it: queries' here,
// keys' and values' to those that have arrived (kNone: none come), each with a kernel of its own.
void ContextAttention::join_gradients(const AttentionBlock& block, OpIndex arrived, bool first) {
  memory_bound("query_gradient_add", MemoryBoundKind::Elementwise,
               (first ? 2 : 3) * batch_ * block.queries * query_row_bytes());
  build_.wait_for(arrived);
  memory_bound("key_value_gradient_add", MemoryBoundKind::Elementwise,
               (arrived == kNone ? 2 : 3) * batch_ * block.keys * kv_row_bytes(), 2);
}

// As TransformerEngine's AttnFuncWithCPAndKVP2P (pytorch/attention/dot_product_attention/
// context_parallel.py), whose corrections are compiled into one kernel each. The two buffers are
// counted from the first kernel to the last: a message may start later than the kernel beside it,
// where the neighbour is late.
void ContextAttention::ring_forward() {
  OpIndex first = kNone;
  OpIndex arrived = kNone;
  pack_keys();
  for (std::int64_t i = 0; i < cut_.ranks; ++i) {
    build_.wait_for(arrived);
    if (i + 1 < cut_.ranks) arrived = pass_on("keys_values", ring_step_bytes(), false);
    const auto block = ring_block(
        cut_,
        {.rank = shape_.ring_place, .source = source_at(i, shape_.ring_place, cut_.ranks, false)});
    if (!block) continue;
    const OpIndex core = attend("attention", *block, false);
    join_output(*block, first == kNone);
    if (first == kNone) first = core;
  }
  build_.allocate(first, Category::Communication, 2 * ring_step_bytes());
  build_.release(build_.last_compute(), Category::Communication, 2 * ring_step_bytes());
}

// As TransformerEngine's: at step i keys and values leave for the rank before unless they have been
// everywhere, and with them, from the second step on, the gradient that was summed up to here.
void ContextAttention::ring_backward() {
  OpIndex first = kNone;
  const std::int64_t last = cut_.ranks - 1;
  OpIndex arrived = kNone;
  pack_keys();
  for (std::int64_t i = 0; i <= last; ++i) {
    build_.wait_for(arrived);
    const std::int64_t both = (i < last ? 1 : 0) + (i > 0 ? 1 : 0);
    arrived = pass_on("keys_values_gradients", both * ring_step_bytes(), true);
    const auto block = ring_block(
        cut_,
        {.rank = shape_.ring_place, .source = source_at(i, shape_.ring_place, cut_.ranks, true)});
    if (!block) continue;
    const OpIndex core = attend("attention_backward", *block, true);
    join_gradients(*block, i > 0 ? arrived : kNone, first == kNone);
    if (first == kNone) first = core;
  }
  build_.wait_for(arrived);
  build_.allocate(first, Category::Communication, 4 * ring_step_bytes());
  build_.release(build_.last_compute(), Category::Communication, 4 * ring_step_bytes());
}

OpIndex ContextAttention::pass_on(std::string_view what, std::int64_t bytes, bool back) {
  const Call call{.op = CollectiveOp::SendRecv,
                  .bytes = bytes,
                  .dtype = shape_.dtype,
                  .algorithm = options_.collectives.of(GroupKind::Context, CollectiveOp::SendRecv)};
  const OpIndex ready = build_.last_compute();
  build_.send("send_" + std::string(what), Stream::SendContext,
              back ? Slot::SendContextBack : Slot::SendContext, call, {ready});
  return build_.recv("recv_" + std::string(what), Stream::RecvContext,
                     back ? Slot::RecvContextBack : Slot::RecvContext, call, {ready});
}

// Gathered rank by rank, a zigzag's chunks are put in their order.
void ContextAttention::gather_keys(std::string_view part) {
  const std::int64_t rows = batch_ * cut_.sequence;
  const std::string prefix(part);
  build_.wait_for(context_collective(prefix + "key_all_gather", CollectiveOp::AllGather,
                                     rows * kv_heads_ * qk_ * element_));
  build_.wait_for(context_collective(prefix + "value_all_gather", CollectiveOp::AllGather,
                                     rows * kv_heads_ * v_ * element_));
  if (cut_.split == ContextSplit::Zigzag) {
    memory_bound("key_value_reorder", MemoryBoundKind::Permute, 2 * rows * kv_row_bytes());
  }
}

void ContextAttention::gathered_forward() {
  const OpIndex first = build_.next();
  const std::int64_t held = batch_ * cut_.sequence * kv_row_bytes();
  gather_keys("");
  attend("attention", gathered_block(cut_, shape_.ring_place), false);
  build_.allocate(first, Category::Communication, held);
  build_.release(build_.last_compute(), Category::Communication, held);
}

void ContextAttention::gathered_backward() {
  const OpIndex first = build_.next();
  const std::int64_t rows = batch_ * cut_.sequence;
  const std::int64_t held = 2 * rows * kv_row_bytes();  // and their gradients
  gather_keys("backward_");
  attend("attention_backward", gathered_block(cut_, shape_.ring_place), true);
  if (cut_.split == ContextSplit::Zigzag) {
    memory_bound("key_value_gradient_reorder", MemoryBoundKind::Permute, 2 * rows * kv_row_bytes());
  }
  build_.allocate(first, Category::Communication, held);
  const OpIndex key = context_collective("key_reduce_scatter", CollectiveOp::ReduceScatter,
                                         rows * kv_heads_ * qk_ * element_);
  const OpIndex value = context_collective("value_reduce_scatter", CollectiveOp::ReduceScatter,
                                           rows * kv_heads_ * v_ * element_);
  build_.release(value, Category::Communication, held);
  build_.wait_for(key);
  build_.wait_for(value);
}

// One rank's part of a tensor, of so many bytes a position that it holds before the trade.
void ContextAttention::trade(std::string_view name, std::int64_t row_bytes) {
  const std::int64_t bytes = shape_.tokens * row_bytes;
  build_.wait_for(context_collective(name, CollectiveOp::AllToAll, bytes));
}

// Before and after an exchange the heads are moved next to their destination, or to their place:
// every element is read and written.
void ContextAttention::trade_inputs(bool backward) {
  const std::int64_t query = options_.shape.heads * query_row_bytes();
  const std::int64_t key = options_.shape.heads * kv_heads_ * qk_ * element_;
  const std::int64_t value = options_.shape.heads * kv_heads_ * v_ * element_;
  const std::int64_t moved = 2 * shape_.tokens * (query + key + value);
  const std::string suffix = backward ? "_gradient_all_to_all" : "_all_to_all";
  memory_bound("heads_pack", MemoryBoundKind::Permute, moved);
  trade("query" + suffix, query);
  trade("key" + suffix, key);
  trade("value" + suffix, value);
  memory_bound("heads_unpack", MemoryBoundKind::Permute, moved);
}

void ContextAttention::trade_output(bool backward) {
  const std::int64_t output = options_.shape.heads * output_row_bytes();
  memory_bound("output_pack", MemoryBoundKind::Permute, 2 * shape_.tokens * output);
  trade(backward ? "output_gradient_all_to_all" : "output_all_to_all", output);
  memory_bound("output_unpack", MemoryBoundKind::Permute, 2 * shape_.tokens * output);
}

OpIndex ContextAttention::attend(std::string_view name, const AttentionBlock& block,
                                 bool backward) {
  return build_.compute(name, Attention{.batch = batch_,
                                        .query_heads = query_heads_,
                                        .kv_heads = kv_heads_,
                                        .query_length = block.queries,
                                        .kv_length = block.keys,
                                        .head_dim_qk = qk_,
                                        .head_dim_v = v_,
                                        .pairs = block.pairs,
                                        .causal = block.causal,
                                        .backward = backward,
                                        .dtype = shape_.dtype,
                                        .of_ring = of_ring_});
}

OpIndex ContextAttention::context_collective(std::string_view name, CollectiveOp op,
                                             std::int64_t bytes) {
  const Call call{.op = op,
                  .bytes = bytes,
                  .dtype = shape_.dtype,
                  .algorithm = options_.collectives.of(GroupKind::Context, op)};
  return build_.collective(name, Stream::Context, Slot::Context, call, {build_.last_compute()});
}

void ContextAttention::memory_bound(std::string_view name, MemoryBoundKind kind, std::int64_t bytes,
                                    std::int64_t launches) {
  build_.compute(name, MemoryBound{.kind = kind, .bytes = bytes, .launches = launches});
}

}  // namespace trainyard
