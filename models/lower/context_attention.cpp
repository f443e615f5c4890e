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

// Kernels and calls that all ways to share a sequence write.
class SharedSequence {
 public:
  SharedSequence(const ContextOptions& options, const SequencePart& part, const StepShape& shape,
                 ProgramBuilder& build)
      : options_(options), part_(part), shape_(shape), build_(build) {}

  OpIndex attend(std::string_view name, const AttentionBlock& block, bool backward);

 protected:
  OpIndex context_collective(std::string_view name, CollectiveOp op, std::int64_t bytes);
  void memory_bound(std::string_view name, MemoryBoundKind kind, std::int64_t bytes,
                    std::int64_t launches = 1);

  const ContextOptions& options_;
  const SequencePart& part_;
  const StepShape& shape_;
  ProgramBuilder& build_;
};

OpIndex SharedSequence::attend(std::string_view name, const AttentionBlock& block, bool backward) {
  return build_.compute(name, Attention{.batch = part_.batch,
                                        .query_heads = part_.query_heads,
                                        .kv_heads = part_.kv_heads,
                                        .query_length = block.queries,
                                        .kv_length = block.keys,
                                        .head_dim_qk = part_.qk,
                                        .head_dim_v = part_.v,
                                        .pairs = block.pairs,
                                        .causal = block.causal,
                                        .backward = backward,
                                        .dtype = shape_.dtype,
                                        .of_ring = part_.of_ring});
}

OpIndex SharedSequence::context_collective(std::string_view name, CollectiveOp op,
                                           std::int64_t bytes) {
  const ChosenCall call = options_.collectives.call(GroupKind::Context, op, bytes, shape_.dtype);
  return build_.collective(name, Stream::Context, Slot::Context, call, {build_.last_compute()});
}

void SharedSequence::memory_bound(std::string_view name, MemoryBoundKind kind, std::int64_t bytes,
                                  std::int64_t launches) {
  build_.compute(name, MemoryBound{.kind = kind, .bytes = bytes, .launches = launches});
}

// Keys and values go round a ring.
class RingAttention : SharedSequence {
 public:
  using SharedSequence::SharedSequence;
  void forward();
  void backward();

 private:
  void pack_keys();
  void join_output(const AttentionBlock& block, bool first);
  void join_gradients(const AttentionBlock& block, OpIndex arrived, bool first);
  // Sends to the next rank (back: to the one before) and receives as much; the receive.
  OpIndex pass_on(std::string_view what, std::int64_t bytes, bool back);
};

// Keys and values are copied into one buffer, which is what travels.
void RingAttention::pack_keys() {
  memory_bound("keys_values_pack", MemoryBoundKind::Elementwise, 2 * part_.step_bytes());
}

// A block's partial output and its log-sum-exp (fp32) join those so far. The first output is scaled
// into a new tensor and its log-sum-exp copied; a later one is scaled and added. The log-sum-exp of
// block and sum are read for the outputs, and once more for their own sum, which is written.
void RingAttention::join_output(const AttentionBlock& block, bool first) {
  const std::int64_t rows = part_.batch * block.queries;
  const std::int64_t outputs = (first ? 2 : 3) * part_.output_row_bytes();
  const std::int64_t log_sums = (first ? 4 : 5) * 4 * part_.query_heads;
  memory_bound("attention_merge", MemoryBoundKind::Elementwise, rows * (outputs + log_sums), 2);
}

// The first gradients are copied into the sum's tensor, later ones are added to it: queries' here,
// keys' and values' to those that have arrived (kNone: none come), each with a kernel of its own.
void RingAttention::join_gradients(const AttentionBlock& block, OpIndex arrived, bool first) {
  memory_bound("query_gradient_add", MemoryBoundKind::Elementwise,
               (first ? 2 : 3) * part_.batch * block.queries * part_.query_row_bytes());
  build_.wait_for(arrived);
  memory_bound("key_value_gradient_add", MemoryBoundKind::Elementwise,
               (arrived == kNone ? 2 : 3) * part_.batch * block.keys * part_.kv_row_bytes(), 2);
}

// As TransformerEngine's AttnFuncWithCPAndKVP2P (pytorch/attention/dot_product_attention/
// context_parallel.py), whose corrections are compiled into one kernel each. The two buffers are
// counted from the first kernel to the last: a message may start later than the kernel beside it,
// where the neighbour is late.
void RingAttention::forward() {
  OpIndex first = kNone;
  OpIndex arrived = kNone;
  pack_keys();
  for (std::int64_t i = 0; i < part_.cut.ranks; ++i) {
    build_.wait_for(arrived);
    if (i + 1 < part_.cut.ranks) arrived = pass_on("keys_values", part_.step_bytes(), false);
    const auto block =
        ring_block(part_.cut, {.rank = shape_.ring_place,
                               .source = source_at(i, shape_.ring_place, part_.cut.ranks, false)});
    if (!block) continue;
    const OpIndex core = attend("attention", *block, false);
    join_output(*block, first == kNone);
    if (first == kNone) first = core;
  }
  build_.allocate(first, Category::Communication, 2 * part_.step_bytes());
  build_.release(build_.last_compute(), Category::Communication, 2 * part_.step_bytes());
}

// As TransformerEngine's: at step i keys and values leave for the rank before unless they have been
// everywhere, and with them, from the second step on, the gradient that was summed up to here.
void RingAttention::backward() {
  OpIndex first = kNone;
  const std::int64_t last = part_.cut.ranks - 1;
  OpIndex arrived = kNone;
  pack_keys();
  for (std::int64_t i = 0; i <= last; ++i) {
    build_.wait_for(arrived);
    const std::int64_t both = (i < last ? 1 : 0) + (i > 0 ? 1 : 0);
    arrived = pass_on("keys_values_gradients", both * part_.step_bytes(), true);
    const auto block =
        ring_block(part_.cut, {.rank = shape_.ring_place,
                               .source = source_at(i, shape_.ring_place, part_.cut.ranks, true)});
    if (!block) continue;
    const OpIndex core = attend("attention_backward", *block, true);
    join_gradients(*block, i > 0 ? arrived : kNone, first == kNone);
    if (first == kNone) first = core;
  }
  build_.wait_for(arrived);
  build_.allocate(first, Category::Communication, 4 * part_.step_bytes());
  build_.release(build_.last_compute(), Category::Communication, 4 * part_.step_bytes());
}

OpIndex RingAttention::pass_on(std::string_view what, std::int64_t bytes, bool back) {
  const ChosenCall call =
      options_.collectives.call(GroupKind::Context, CollectiveOp::SendRecv, bytes, shape_.dtype);
  const OpIndex ready = build_.last_compute();
  build_.send("send_" + std::string(what), Stream::SendContext,
              back ? Slot::SendContextBack : Slot::SendContext, call, {ready});
  return build_.recv("recv_" + std::string(what), Stream::RecvContext,
                     back ? Slot::RecvContextBack : Slot::RecvContext, call, {ready});
}

// Keys and values are gathered whole.
class GatheredAttention : SharedSequence {
 public:
  using SharedSequence::SharedSequence;
  void forward();
  void backward();

 private:
  void gather_keys(std::string_view part);
};

// Gathered rank by rank, a zigzag's chunks are put in their order.
void GatheredAttention::gather_keys(std::string_view part) {
  const std::int64_t rows = part_.batch * part_.cut.sequence;
  const std::string prefix(part);
  build_.wait_for(context_collective(prefix + "key_all_gather", CollectiveOp::AllGather,
                                     rows * part_.kv_heads * part_.qk * part_.element));
  build_.wait_for(context_collective(prefix + "value_all_gather", CollectiveOp::AllGather,
                                     rows * part_.kv_heads * part_.v * part_.element));
  if (part_.cut.split == ContextSplit::Zigzag) {
    memory_bound("key_value_reorder", MemoryBoundKind::Permute, 2 * rows * part_.kv_row_bytes());
  }
}

void GatheredAttention::forward() {
  const OpIndex first = build_.next();
  const std::int64_t held = part_.batch * part_.cut.sequence * part_.kv_row_bytes();
  gather_keys("");
  attend("attention", gathered_block(part_.cut, shape_.ring_place), false);
  build_.allocate(first, Category::Communication, held);
  build_.release(build_.last_compute(), Category::Communication, held);
}

void GatheredAttention::backward() {
  const OpIndex first = build_.next();
  const std::int64_t rows = part_.batch * part_.cut.sequence;
  const std::int64_t held = 2 * rows * part_.kv_row_bytes();  // and their gradients
  gather_keys("backward_");
  attend("attention_backward", gathered_block(part_.cut, shape_.ring_place), true);
  if (part_.cut.split == ContextSplit::Zigzag) {
    memory_bound("key_value_gradient_reorder", MemoryBoundKind::Permute,
                 2 * rows * part_.kv_row_bytes());
  }
  build_.allocate(first, Category::Communication, held);
  const OpIndex key = context_collective("key_reduce_scatter", CollectiveOp::ReduceScatter,
                                         rows * part_.kv_heads * part_.qk * part_.element);
  const OpIndex value = context_collective("value_reduce_scatter", CollectiveOp::ReduceScatter,
                                           rows * part_.kv_heads * part_.v * part_.element);
  build_.release(value, Category::Communication, held);
  build_.wait_for(key);
  build_.wait_for(value);
}

// Q, K and V trade heads for positions, and the output back; or their gradients, the other way.
class HeadTrade : SharedSequence {
 public:
  using SharedSequence::SharedSequence;
  void inputs(bool backward);
  void output(bool backward);

 private:
  void trade(std::string_view name, std::int64_t row_bytes);
};

// One rank's part of a tensor, of so many bytes a position that it holds before the trade.
void HeadTrade::trade(std::string_view name, std::int64_t row_bytes) {
  const std::int64_t bytes = shape_.tokens * row_bytes;
  build_.wait_for(context_collective(name, CollectiveOp::AllToAll, bytes));
}

// Before and after an exchange the heads are moved next to their destination, or to their place:
// every element is read and written.
void HeadTrade::inputs(bool backward) {
  const std::int64_t query = options_.shape.heads * part_.query_row_bytes();
  const std::int64_t key = options_.shape.heads * part_.kv_heads * part_.qk * part_.element;
  const std::int64_t value = options_.shape.heads * part_.kv_heads * part_.v * part_.element;
  const std::int64_t moved = 2 * shape_.tokens * (query + key + value);
  const std::string suffix = backward ? "_gradient_all_to_all" : "_all_to_all";
  memory_bound("heads_pack", MemoryBoundKind::Permute, moved);
  trade("query" + suffix, query);
  trade("key" + suffix, key);
  trade("value" + suffix, value);
  memory_bound("heads_unpack", MemoryBoundKind::Permute, moved);
}

void HeadTrade::output(bool backward) {
  const std::int64_t output = options_.shape.heads * part_.output_row_bytes();
  memory_bound("output_pack", MemoryBoundKind::Permute, 2 * shape_.tokens * output);
  trade(backward ? "output_gradient_all_to_all" : "output_all_to_all", output);
  memory_bound("output_unpack", MemoryBoundKind::Permute, 2 * shape_.tokens * output);
}

template <class Exchange>
void write_with(Exchange exchange, Pass pass) {
  pass == Pass::Forward ? exchange.forward() : exchange.backward();
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
  part_.cut = {
      .sequence = microbatch.length, .ranks = options_.shape.ring, .split = options_.split};
  part_.batch = microbatch.sequences;
  if (microbatch.documents.kind != DocumentKind::None) {  // one kernel over all tokens
    part_.cut.documents = microbatch_documents(
        microbatch, {.microbatch = build.tags().microbatch, .replica = shape.replica});
    part_.cut.packed = part_.batch;
    part_.cut.sequence *= part_.batch;
    part_.batch = 1;
  }
  part_.query_heads = a.heads / shape.tensor / options_.shape.heads;
  part_.kv_heads = traded_kv_heads(kv_heads_per_rank(a, shape.tensor), options_.shape.heads);
  part_.qk = a.head_dim;
  part_.v = a.value_head();
  part_.element = shape.element;
  part_.of_ring = options_.shape.ring > 1 && options_.exchange != ContextExchange::AllGather;
}

void ContextAttention::write(Pass pass) {
  const bool backward = pass == Pass::Backward;
  HeadTrade heads(options_, part_, shape_, build_);
  const bool traded = options_.shape.heads > 1;
  if (traded) backward ? heads.output(true) : heads.inputs(false);
  if (options_.shape.ring == 1) {  // all positions, some of the heads
    SharedSequence(options_, part_, shape_, build_)
        .attend(backward ? "attention_backward" : "attention", gathered_block(part_.cut, 0),
                backward);
  } else if (options_.exchange == ContextExchange::AllGather) {
    write_with(GatheredAttention(options_, part_, shape_, build_), pass);
  } else {
    write_with(RingAttention(options_, part_, shape_, build_), pass);
  }
  if (traded) backward ? heads.inputs(true) : heads.output(false);
}

}  // namespace trainyard
