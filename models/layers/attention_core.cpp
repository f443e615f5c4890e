#include "models/layers/attention_core.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "models/architecture/weights.hpp"
#include "models/attention_pairs.hpp"
#include "models/documents.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

std::int64_t traded_kv_heads(std::int64_t kv_heads, std::int64_t heads) {
  TY_CHECK(kv_heads % heads == 0 || heads % kv_heads == 0, kv_heads, heads);
  return std::max<std::int64_t>(1, kv_heads / heads);
}

namespace {

// ---- ranks that share a sequence: which keys and values travel, when, and what is computed
// meanwhile
//
// Ring (Liu et al. 2310.01889): step i sends the current keys and values to the next rank while the
// rank attends to them. Partial results are merged by their log-sum-exp. Backward, keys and values
// travel in the opposite direction together with their gradients, and return to their owner. There
// are two buffers: the block that is attended to, and the block that arrives. One step sends
// 2b(s/c)(kappa/t)w bytes; there are (c-1) steps forward and 2(c-1) backward: s = 32768, c = 4,
// kappa = 1024, 16 bits: 33 554 432, 100 663 296, 201 326 592.
//
// All-gather (Grattafiori et al. 2407.21783 section 3.3.2): keys and values are gathered forward
// and backward; backward their gradients are reduced and scattered.
//
// All-to-all (Ulysses, Jacobs et al. 2309.14509): Q, K and V trade heads for positions, and the
// output trades back: ((u-1)/u) b(s/u)(2q + 2kappa)/t w bytes are sent in each direction. Where u
// exceeds the key-value heads of a rank, these are copied first. Hierarchical: all-to-all within
// `heads` ranks, and a ring between such groups.

// The part of a sequence that a rank works on, after heads have been traded.
struct SequencePart {
  SequenceCut cut;  // over the ring
  std::int64_t batch = 1;
  std::int64_t query_heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t qk = 1;  // of a head of queries and keys
  std::int64_t v = 1;   // of a head of values
  std::int64_t element = 2;
  DataType dtype = DataType::Bf16;  // of the core's GEMMs
  bool of_ring = false;             // keys and values arrive in blocks

  // Bytes of one position, and bytes of the keys and values of one ring step.
  [[nodiscard]] std::int64_t query_row_bytes() const { return query_heads * qk * element; }
  [[nodiscard]] std::int64_t output_row_bytes() const { return query_heads * v * element; }
  [[nodiscard]] std::int64_t kv_row_bytes() const { return kv_heads * (qk + v) * element; }
  [[nodiscard]] std::int64_t step_bytes() const { return cut.local() * batch * kv_row_bytes(); }
};

// The core for a whole microbatch. REQUIRES: fused attention and more than one context rank.
class ContextAttention {
 public:
  ContextAttention(const Architecture& architecture, const AttentionOptions& options,
                   const StepShape& shape, ProgramBuilder& build);

  void forward() { write(Pass::Forward); }
  void backward() { write(Pass::Backward); }

 private:
  void write(Pass pass);

  const ContextOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  SequencePart part_;
};

// The rank whose keys are used at step i. Forward they come from the rank before, backward from the
// rank after. A rank uses its own keys in the first step forward and in the last step backward:
// rank 1 of 4 those of 1, 0, 3, 2 forward and of 2, 3, 0, 1 backward.
std::int64_t source_at(std::int64_t step, std::int64_t rank, std::int64_t ring, bool backward) {
  return backward ? (rank + 1 + step) % ring : (rank - step + ring) % ring;
}

// Kernels and calls that all communication schemes of a shared sequence use.
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

// One kernel per block; its cost follows from the number of pairs.
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
                                        .dtype = part_.dtype,
                                        .longest_keys = longest_keys(part_.cut, block),
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

// Keys and values travel round a ring.
class RingAttention : SharedSequence {
 public:
  using SharedSequence::SharedSequence;
  void forward();
  void backward();

 private:
  void pack_keys();
  void join_output(const AttentionBlock& block, bool first);
  void join_gradients(const AttentionBlock& block, OpIndex arrived, bool first);
  // Sends to the next rank (`back`: to the one before) and receives the same size. Returns the
  // receive.
  OpIndex pass_on(std::string_view what, std::int64_t bytes, bool back);
};

// Copies keys and values into one buffer, which is then sent.
void RingAttention::pack_keys() {
  memory_bound("keys_values_pack", MemoryBoundKind::Elementwise, 2 * part_.step_bytes());
}

// Merges a block's partial output and its log-sum-exp (fp32) with the result so far. The first
// output is scaled into a new tensor and its log-sum-exp is copied; a later output is scaled and
// added. The log-sum-exps of block and result are read for the outputs, and once more for their own
// sum, which is written.
void RingAttention::join_output(const AttentionBlock& block, bool first) {
  const std::int64_t rows = part_.batch * block.queries;
  const std::int64_t outputs = (first ? 2 : 3) * part_.output_row_bytes();
  constexpr std::int64_t kFloatBytes = 4;
  const std::int64_t log_sums = (first ? 4 : 5) * kFloatBytes * part_.query_heads;
  memory_bound("attention_merge", MemoryBoundKind::Elementwise, rows * (outputs + log_sums), 2);
}

// The first gradients are copied into the tensor of the sum; later ones are added to it. Gradients
// of queries are added locally, those of keys and values to the gradients that have arrived (kNone:
// none arrive), each in a separate kernel.
void RingAttention::join_gradients(const AttentionBlock& block, OpIndex arrived, bool first) {
  memory_bound("query_gradient_add", MemoryBoundKind::Elementwise,
               (first ? 2 : 3) * part_.batch * block.queries * part_.query_row_bytes());
  build_.wait_for(arrived);
  memory_bound("key_value_gradient_add", MemoryBoundKind::Elementwise,
               (arrived == kNone ? 2 : 3) * part_.batch * block.keys * part_.kv_row_bytes(), 2);
}

// The ring is that of TransformerEngine's AttnFuncWithCPAndKVP2P
// (pytorch/attention/dot_product_attention/context_parallel.py), whose corrections are compiled
// into one kernel each. The two buffers count as allocated from the first kernel to the last,
// because a message may start later than the kernel that runs concurrently, where the neighbour is
// late.
void RingAttention::forward() {
  OpIndex first = kNone;
  OpIndex arrived = kNone;
  pack_keys();
  for (std::int64_t i = 0; i < part_.cut.ranks; ++i) {
    build_.wait_for(arrived);
    if (i + 1 < part_.cut.ranks) arrived = pass_on("keys_values", part_.step_bytes(), false);
    const auto block = ring_block(
        part_.cut, {.rank = shape_.ring_position,
                    .source = source_at(i, shape_.ring_position, part_.cut.ranks, false)});
    if (!block) continue;
    const OpIndex core = attend("attention", *block, false);
    join_output(*block, first == kNone);
    if (first == kNone) first = core;
  }
  build_.memory().allocate(first, Category::Communication, 2 * part_.step_bytes());
  build_.memory().release(build_.last_compute(), Category::Communication, 2 * part_.step_bytes());
}

// The backward also follows TransformerEngine. At step i keys and values are sent to the rank
// before, except in the last step, when every rank has had them. From the second step on, the
// gradient that has been summed so far is sent with them.
void RingAttention::backward() {
  OpIndex first = kNone;
  const std::int64_t last = part_.cut.ranks - 1;
  OpIndex arrived = kNone;
  pack_keys();
  for (std::int64_t i = 0; i <= last; ++i) {
    build_.wait_for(arrived);
    const std::int64_t both = (i < last ? 1 : 0) + (i > 0 ? 1 : 0);
    arrived = pass_on("keys_values_gradients", both * part_.step_bytes(), true);
    const auto block = ring_block(
        part_.cut, {.rank = shape_.ring_position,
                    .source = source_at(i, shape_.ring_position, part_.cut.ranks, true)});
    if (!block) continue;
    const OpIndex core = attend("attention_backward", *block, true);
    join_gradients(*block, i > 0 ? arrived : kNone, first == kNone);
    if (first == kNone) first = core;
  }
  build_.wait_for(arrived);
  // Two buffers of keys and values, and two of their gradients.
  build_.memory().allocate(first, Category::Communication, 4 * part_.step_bytes());
  build_.memory().release(build_.last_compute(), Category::Communication, 4 * part_.step_bytes());
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

// Keys and values are gathered completely.
class GatheredAttention : SharedSequence {
 public:
  using SharedSequence::SharedSequence;
  void forward();
  void backward();

 private:
  void gather_keys(std::string_view part);
};

// An all_gather orders the result by rank, so the chunks of a zigzag are permuted into sequence
// order.
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
  attend("attention", gathered_block(part_.cut, shape_.ring_position), false);
  build_.memory().allocate(first, Category::Communication, held);
  build_.memory().release(build_.last_compute(), Category::Communication, held);
}

void GatheredAttention::backward() {
  const OpIndex first = build_.next();
  const std::int64_t rows = part_.batch * part_.cut.sequence;
  const std::int64_t held = 2 * rows * part_.kv_row_bytes();  // with their gradients
  gather_keys("backward_");
  attend("attention_backward", gathered_block(part_.cut, shape_.ring_position), true);
  if (part_.cut.split == ContextSplit::Zigzag) {
    memory_bound("key_value_gradient_reorder", MemoryBoundKind::Permute,
                 2 * rows * part_.kv_row_bytes());
  }
  build_.memory().allocate(first, Category::Communication, held);
  const OpIndex key = context_collective("key_reduce_scatter", CollectiveOp::ReduceScatter,
                                         rows * part_.kv_heads * part_.qk * part_.element);
  const OpIndex value = context_collective("value_reduce_scatter", CollectiveOp::ReduceScatter,
                                           rows * part_.kv_heads * part_.v * part_.element);
  build_.memory().release(value, Category::Communication, held);
  build_.wait_for(key);
  build_.wait_for(value);
}

// Q, K and V trade heads for positions, and the output trades back. Backward, their gradients do
// the reverse.
class HeadTrade : SharedSequence {
 public:
  using SharedSequence::SharedSequence;
  void inputs(bool backward);
  void output(bool backward);

 private:
  void trade(std::string_view name, std::int64_t row_bytes);
};

// Trades one tensor. `row_bytes`: bytes per position that the rank holds before the trade.
void HeadTrade::trade(std::string_view name, std::int64_t row_bytes) {
  const std::int64_t bytes = shape_.tokens * row_bytes;
  build_.wait_for(context_collective(name, CollectiveOp::AllToAll, bytes));
}

// Before and after the all_to_all the heads are permuted, into the order of the destination ranks
// or into their final order. Every element is read and written.
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

ContextAttention::ContextAttention(const Architecture& a, const AttentionOptions& options,
                                   const StepShape& shape, ProgramBuilder& build)
    : options_(options.context), shape_(shape), build_(build) {
  const StepDocuments& documents = options.documents;
  part_.cut = {
      .sequence = documents.length(), .ranks = options_.shape.ring, .split = options_.split};
  part_.batch = documents.sequences();
  if (documents.packed()) {  // one kernel over all tokens
    part_.cut.documents =
        documents.of({.microbatch = build.tags().microbatch, .replica = shape.replica});
    part_.cut.packed = part_.batch;
    part_.cut.sequence *= part_.batch;
    part_.batch = 1;
  }
  part_.query_heads = a.heads / shape.tensor / options_.shape.heads;
  part_.kv_heads = traded_kv_heads(kv_heads_per_rank(a, shape.tensor), options_.shape.heads);
  part_.qk = a.head_dim;
  part_.v = a.value_head();
  part_.element = shape.element;
  // Transformer Engine attends in 8 bits to keys that travel in a ring or trade places with heads,
  // but not to gathered ones.
  const bool gathered = options_.exchange == ContextExchange::AllGather;
  part_.dtype = gathered ? shape.dtype : options.fused_dtype;
  part_.of_ring = options_.shape.ring > 1 && !gathered;
}

void ContextAttention::write(Pass pass) {
  const bool backward = pass == Pass::Backward;
  HeadTrade heads(options_, part_, shape_, build_);
  const bool traded = options_.shape.heads > 1;
  if (traded) backward ? heads.output(true) : heads.inputs(false);
  if (options_.shape.ring == 1) {  // all positions, a part of the heads
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

// ---- one rank with the whole sequence

// Pairs of each query with itself and the window - 1 keys before it; the first queries have fewer:
// 4 positions and a window of 2 make 1 + 2 + 2 + 2.
std::int64_t window_pairs(std::int64_t length, std::int64_t window) {
  const std::int64_t seen = std::min(window, length);
  return seen * length - seen * (seen - 1) / 2;
}

}  // namespace

std::int64_t AttentionCore::score_matrices() const {
  return options_.attention.documents.sequences() * arch_.heads / shape_.tensor;
}

// Packed sequences are one kernel over all of their tokens, in which queries attend only to their
// own document.
Attention AttentionCore::flash(bool backward) const {
  const StepDocuments& documents = options_.attention.documents;
  const bool packed = documents.packed();
  const std::int64_t sequences = documents.sequences();
  const std::int64_t s = documents.length() * (packed ? sequences : 1);
  const std::int64_t window = arch_.windowed(build_.tags().layer) ? arch_.window : s;
  const DocumentQuery microbatch{.microbatch = build_.tags().microbatch, .replica = shape_.replica};
  return {.batch = packed ? 1 : sequences,
          .query_heads = arch_.heads / shape_.tensor,
          .kv_heads = kv_heads_per_rank(arch_, shape_.tensor),
          .query_length = s,
          .kv_length = s,
          .head_dim_qk = arch_.head_dim,
          .head_dim_v = arch_.value_head(),
          .pairs = packed ? document_pairs(documents.of(microbatch)) : window_pairs(s, window),
          .causal = true,
          .backward = backward,
          .dtype = options_.attention.fused_dtype,
          .longest_keys = packed ? *std::ranges::max_element(documents.of(microbatch)) : 0};
}

// Forward, one kernel reads and writes each score. Backward, it reads the probabilities and their
// gradient and writes the gradient of the scores. The five separate kernels of PyTorch read and
// write each score in w bytes or in fp32: cast to fp32 (w + 4), scale (8), mask (8), softmax (8,
// backward 12), cast back (4 + w). Scores in fp32 are only masked and normalised: nothing casts
// them, and their product scales them.
MemoryBound AttentionCore::softmax(bool backward) const {
  const std::int64_t s = options_.attention.documents.length();
  const bool fused = softmax_fused(score_matrices(), shape_.element);
  const bool wide = shape_.element == kFp32Bytes;
  const std::int64_t one = (backward ? 3 : 2) * shape_.element;
  const std::int64_t casts_and_scale = wide ? 0 : 2 * (shape_.element + 4) + 8;
  const std::int64_t separate = casts_and_scale + 8 + (backward ? 12 : 8);
  const std::int64_t kernels = wide ? 2 : 5;
  return {.kind = MemoryBoundKind::Softmax,
          .bytes = (fused ? one : separate) * s * s * score_matrices(),
          .launches = fused ? 1 : kernels};
}

// The GEMMs of unfused attention: one for each sequence and head of the rank.
Gemm AttentionCore::head_gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const {
  return {.m = m,
          .n = n,
          .k = k,
          .batch = score_matrices(),
          .dtype = shape_.dtype,
          .pass = pass,
          .accumulate_fp32 = false};
}

void AttentionCore::forward() {
  if (options_.attention.context.ranks > 1) {
    ContextAttention(arch_, options_.attention, shape_, build_).forward();
    return;
  }
  if (options_.attention.kind != AttentionKind::Unfused) {
    build_.compute("attention", flash(false));
    return;
  }
  const std::int64_t s = options_.attention.documents.length();
  const std::int64_t scores = s * s * score_matrices();
  build_.compute("attention_scores", head_gemm(s, s, arch_.head_dim, GemmPass::Forward));
  build_.compute("attention_softmax", softmax(false));
  if (arch_.dropout) {
    elementwise_.memory_bound("attention_dropout", MemoryBoundKind::Elementwise,
                              (2 * shape_.element + 1) * scores);
  }
  build_.compute("attention_values", head_gemm(s, arch_.value_head(), s, GemmPass::Forward));
}

// Selective recomputation of the core repeats it from Q, K and V, which are stored (Korthikanti et
// al., section 5). A fused kernel is also repeated, although this saves only its log-sum-exp.
// Megatron-LM does the same, because its checkpoint wraps any implementation of the core.
void AttentionCore::backward() {
  if (options_.recomputed.core) tools_.repeat([this] { forward(); });
  if (options_.attention.context.ranks > 1) {
    ContextAttention(arch_, options_.attention, shape_, build_).backward();
    return;
  }
  if (options_.attention.kind != AttentionKind::Unfused) {
    build_.compute("attention_backward", flash(true));
    return;
  }
  const std::int64_t s = options_.attention.documents.length();
  const std::int64_t d = arch_.head_dim;
  const std::int64_t scores = s * s * score_matrices();
  build_.compute("attention_values_dgrad", head_gemm(s, s, arch_.value_head(), GemmPass::DataGrad));
  build_.compute("attention_values_wgrad",
                 head_gemm(s, arch_.value_head(), s, GemmPass::WeightGrad));
  if (arch_.dropout) {
    elementwise_.memory_bound("attention_dropout_backward", MemoryBoundKind::Elementwise,
                              (2 * shape_.element + 1) * scores);
  }
  build_.compute("attention_softmax_backward", softmax(true));
  build_.compute("attention_query_grad", head_gemm(s, d, s, GemmPass::DataGrad));
  build_.compute("attention_key_grad", head_gemm(s, d, s, GemmPass::WeightGrad));
}

// ---- formulas of the shape

Weight projection_weight(const Architecture& a) {
  return {.name = "projection",
          .inputs = a.output_width(),
          .outputs = a.hidden,
          .split = Split::Row,
          .units = a.heads,
          .bias = a.biases,
          .second_gemm = 1.0};
}

// A window of w of s keys leaves w - w^2/2s of them to a causal query on average.
double core_flops(const Architecture& a, std::int64_t layer, const TokenQuery& query) {
  const double chi = query.attention == AttentionCount::Causal ? 0.5 : 1.0;
  const auto length = static_cast<double>(query.sequence_length);
  const auto widths = static_cast<double>(a.query_width() + a.output_width());
  if (!a.windowed(layer)) return 2.0 * length * widths * chi;
  const auto window = static_cast<double>(std::min(a.window, query.sequence_length));
  return 2.0 * widths * window * (1.0 - (1.0 - chi) * window / length);
}

std::int64_t core_bytes(const Architecture& a, const ActivationQuery& query) {
  const ActivationSizes sizes(query);
  if (query.attention != AttentionKind::Unfused) return sizes.inside(kFp32Bytes * a.heads);
  // The fp32 probabilities of an unfused softmax are stored in addition to those that enter the
  // next GEMM, unless these are the same.
  constexpr std::int64_t kMaskBytes = 1;
  const bool fused = sizes.element == kFp32Bytes ||
                     softmax_fused(query.micro_batch * a.heads / query.tensor, sizes.element);
  const std::int64_t own = a.dropout ? kMaskBytes + sizes.element : fused ? 0 : sizes.element;
  const std::int64_t probabilities = fused ? sizes.element : kFp32Bytes;
  return sizes.inside((probabilities + own) * a.heads * query.sequence_length);
}

namespace {

std::int64_t output_bytes(const Architecture& a, const ActivationQuery& query) {
  const double each = query.attention_output.value_or(element_bytes(query.precision));
  return ActivationSizes(query).inside(rounded_up(static_cast<double>(a.output_width()) * each));
}

}  // namespace

std::int64_t projection_input_bytes(const Architecture& a, const ActivationQuery& query) {
  const ActivationSizes sizes(query);
  const bool apart = sizes.narrow_inputs || query.head_traders > 1;
  if (query.attention_output || !apart) return 0;
  return sizes.inside(sizes.entering(a.output_width()));
}

std::int64_t stored_key_value_width(const Architecture& a, const ActivationQuery& query) {
  const std::int64_t heads = kv_heads_per_rank(a, query.tensor);
  return key_value_width_per_rank(a, query.tensor) / heads * std::max(heads, query.head_traders);
}

std::int64_t head_bytes(const Architecture& a, const ActivationQuery& query,
                        std::int64_t kv_width) {
  const ActivationSizes sizes(query);
  return sizes.inside(sizes.element * (a.query_width() + kv_width)) + output_bytes(a, query) +
         projection_input_bytes(a, query);
}

std::int64_t head_gradients(const BlockBackward& backward) {
  const Architecture& a = backward.architecture;
  const std::int64_t tensor = backward.query.tensor;
  const std::int64_t gathered_heads =
      replicates_kv_heads(a, tensor) ? a.query_width() + 2 * a.kv_width() : 0;
  return ActivationSizes(backward.query).tokens *
         ((a.output_width() + a.query_width()) / tensor +
          stored_key_value_width(a, backward.query) + gathered_heads);
}

}  // namespace trainyard
