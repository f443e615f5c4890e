#include "models/lower/embedding_and_head.hpp"

namespace trainyard {

std::int64_t Head::logits() const { return shape_.tokens * (options_.vocab / shape_.tensor); }

// Bytes that the MTP input keeps: both normalised halves, which are the input of the projection,
// the inputs of both norms, and the ids. (The layer before keeps its output separately.)
std::int64_t MtpInput::kept() const {
  const std::int64_t rows = options_.keeps_gathered ? shape_.tokens : shape_.local_tokens;
  return 2 * shape_.element * (rows + shape_.local_tokens) * arch_.hidden + options_.embedding_kept;
}

// Looks up the rows of the table (masked to the rank's part of the vocabulary), reduces them over
// the tensor group, adds positions and applies dropout. Learned positions are added to all tokens:
// with sequence parallelism the sum is complete on every rank before each takes its tokens
// (reduce_scatter_embeddings of Megatron-LM's LanguageModelEmbedding).
void Embedding::forward() {
  const std::int64_t hidden = arch_.hidden;
  const OpIndex first = tools_.elementwise.memory_bound(
      "embedding", MemoryBoundKind::Embedding, 2 * shape_.element * shape_.tokens * hidden);
  build_.memory().allocate(first, Category::Activations, options_.embedding_kept);
  if (arch_.positions == Positions::Learned) {
    tools_.group.collective(CollectiveOp::AllReduce, shape_.message, "embedding_join", true);
    tools_.elementwise.memory_bound("position_embedding", MemoryBoundKind::Elementwise,
                                    3 * shape_.element * shape_.tokens * hidden);
  } else {
    tools_.group.join_partial_sums("embedding_join");
  }
  if (arch_.dropout) {
    tools_.elementwise.memory_bound("embedding_dropout", MemoryBoundKind::Elementwise,
                                    (2 * shape_.element + 1) * shape_.local_tokens * hidden);
  }
  if (!options_.trains_embedding)  // there is no backward that reads them
    build_.memory().release(build_.last_compute(), Category::Activations, options_.embedding_kept);
}

// PyTorch computes the gradient of the table as a whole: it writes zeros of the size of the table
// and adds the rows of the tokens (aten/src/ATen/native/cuda/Embedding.cu,
// embedding_dense_backward). No GEMM writes this gradient, so that the accumulation over
// microbatches is not fused: the new gradient is read, and the sum is read and written. This does
// not happen where autograd keeps the gradient as it is (sharded weights) or where the framework
// accumulates all gradients in a separate kernel (GradientLowering::accumulate).
OpIndex EmbeddingAndHeadWriter::table_gradient(std::string_view name) {
  const std::int64_t table = options_.parameters.embedding;
  const std::int64_t rows = shape_.tokens * arch_.hidden;
  const std::int64_t made = shape_.element * (table + 3 * rows);
  const std::int64_t sum = options_.sums_table ? (shape_.element + 2 * shape_.gradient) * table : 0;
  const OpIndex op = tools_.elementwise.memory_bound(name, MemoryBoundKind::Embedding, made + sum);
  if (options_.shards_table) return op;  // FullySharded holds it as a gradient
  build_.memory().allocate(op, Category::Workspace, shape_.element * table);
  build_.memory().release(op, Category::Workspace, shape_.element * table);
  return op;
}

std::vector<ReadyGradient> Embedding::backward() {
  tools_.group.gather_sequence("embedding_gradient_all_gather");
  const OpIndex last = table_gradient("embedding_backward");
  build_.memory().release(last, Category::Activations, options_.embedding_kept);
  return {{.op = last}};
}

void Head::forward(const HeadParts& parts) {
  const HeadActivations& memory = options_.head;
  if (parts.norm) {
    const OpIndex first = build_.next();
    tools_.elementwise.norm_forward("final_norm");
    const std::int64_t output = parts.matrix ? memory.head_input : 0;
    build_.memory().allocate(first, Category::Activations, memory.final_norm + output);
  }
  if (parts.matrix) matrix_forward(parts);
  if (parts.loss) loss_forward(parts);
}

void Head::matrix_forward(const HeadParts& parts) {
  const HeadActivations& memory = options_.head;
  const OpIndex first = build_.next();
  if (!parts.norm) build_.memory().allocate(first, Category::Activations, memory.head_input);
  tools_.group.gather_sequence("head_all_gather");
  const OpIndex head = build_.compute("head_gemm", Gemm{.m = shape_.tokens,
                                                        .n = options_.vocab / shape_.tensor,
                                                        .k = arch_.hidden,
                                                        .batch = 1,
                                                        .dtype = shape_.dtype,
                                                        .pass = GemmPass::Forward,
                                                        .accumulate_fp32 = false});
  build_.memory().allocate(head, Category::Logits,
                           memory.logits + (parts.loss ? memory.logits_fp32 : 0));
}

// Memory traffic per logit, in bytes, with e bytes per element:
// - fused loss: the logit is read for maximum and sum, then read again and overwritten with its
//   gradient (3e); the backward scales the gradient.
// - Megatron-LM (core/tensor_parallel/cross_entropy.py): cast to fp32 (e + 4), maximum (4),
//   subtraction and exponential (8 each), sum (4), division (8); backward: scaling (8) and cast
//   back.
// - PyTorch: cast, then log_softmax, which reads a long row three times and writes it (16);
//   backward: a gradient of zeros (4), from which and from the log-probabilities first the sum and
//   then the gradient is computed (16), and cast back.
Head::LossBytes Head::loss_bytes() const {
  const std::int64_t e = shape_.element;
  const std::int64_t cast = e + 4;
  if (options_.fused_loss) return {.forward = 3 * e, .backward = e + 1};
  if (options_.loss_copies == 1) return {.forward = cast + 4 + 8 + 8 + 4 + 8, .backward = 8 + cast};
  return {.forward = cast + 16, .backward = 4 + 16 + cast};
}

void Head::loss_forward(const HeadParts& parts) {
  const HeadActivations& memory = options_.head;
  const OpIndex loss = tools_.elementwise.memory_bound(
      "cross_entropy", MemoryBoundKind::CrossEntropy, loss_bytes().forward * logits());
  if (!parts.matrix)
    build_.memory().allocate(loss, Category::Logits, memory.logits + memory.logits_fp32);
  evaluate_metrics();
  // One more fp32 tensor exists for a moment. Afterwards nothing reads the 16-bit logits.
  if (options_.loss_copies > 1) {
    build_.memory().allocate(loss, Category::Workspace, memory.logits_fp32);
    build_.memory().release(loss, Category::Workspace, memory.logits_fp32);
    build_.memory().release(loss, Category::Logits, memory.logits);
  }
  reduce_loss();
}

// Each metric casts the logits to fp32 and applies PyTorch's log_softmax, in the forward only. The
// framework evaluates metrics with the outputs of the step, after its backward. The model writes
// them here, where nothing waits for them, and does not count their copies in the memory peak.
void Head::evaluate_metrics() {
  const std::int64_t metrics = options_.loss_metrics;
  if (metrics == 0) return;
  constexpr std::int64_t kLaunches = 3;  // cast, log_softmax, sum over the targets
  tools_.elementwise.memory_bound("loss_metrics", MemoryBoundKind::CrossEntropy,
                                  metrics * (shape_.element + 4 + 16) * logits(),
                                  metrics * kLaunches);
}

// Computes the gradient of the fp32 logits, and from it that of the 16-bit logits. A fused loss has
// written the gradient in the forward and only scales it here.
void Head::loss_backward() {
  const HeadActivations& memory = options_.head;
  const OpIndex loss = tools_.elementwise.memory_bound(
      "cross_entropy_backward", MemoryBoundKind::CrossEntropy, loss_bytes().backward * logits());
  build_.memory().release(loss, Category::Logits, memory.logits_fp32);
  if (options_.loss_copies == 1) return;
  const std::int64_t copied_bytes = (options_.loss_copies - 1) * memory.logits_fp32;
  build_.memory().allocate(loss, Category::Workspace, copied_bytes);
  build_.memory().release(loss, Category::Workspace, copied_bytes);
  build_.memory().allocate(build_.next(), Category::Logits, memory.logits);
}

// Bytes that the backward of the head's matrix holds while it runs: the gradient of its input, the
// gathered input, and the placeholder of its weight.
std::int64_t Head::workspace(BackwardPart part) const {
  const std::int64_t hidden = arch_.hidden;
  const std::int64_t input = part == BackwardPart::Weight ? 0 : shape_.message;
  const bool recomputed =
      shape_.sequence_parallel && !options_.keeps_gathered && part != BackwardPart::Input;
  const std::int64_t gathered = recomputed ? shape_.message : 0;
  const bool placeholder = part != BackwardPart::Input && options_.placeholder;
  const std::int64_t weight = options_.vocab / shape_.tensor * hidden * shape_.element;
  return input + gathered + (placeholder ? weight : 0);
}

// Reduces the maximum logit, the logit of the target and the sum of exponentials over the tensor
// group: 4 bytes per token each, the last two together if the loss is fused (Megatron-LM's
// cross_entropy_loss_fusion).
void Head::reduce_loss() {
  const std::int64_t bytes = 4 * shape_.tokens;
  tools_.group.collective(CollectiveOp::AllReduce, bytes, "loss_max_all_reduce", true);
  if (options_.fused_loss) {
    tools_.group.collective(CollectiveOp::AllReduce, 2 * bytes, "loss_all_reduce", true);
    return;
  }
  tools_.group.collective(CollectiveOp::AllReduce, bytes, "loss_target_all_reduce", true);
  tools_.group.collective(CollectiveOp::AllReduce, bytes, "loss_sum_all_reduce", true);
}

// Returns the gradient of the matrix, then that of the norm. A head that is tied to the embedding
// of the same rank has no entry for its matrix; its gradient is part of the embedding's.
std::vector<ReadyGradient> Head::backward(BackwardPart part, const HeadParts& parts) {
  const HeadActivations& memory = options_.head;
  const bool trained = options_.trains_head;
  if (part == BackwardPart::Weight && !trained) return {};
  const bool last = part != BackwardPart::Input || !trained;
  if (part != BackwardPart::Weight && parts.loss) loss_backward();
  const OpIndex head = parts.matrix ? matrix_backward(trained ? part : BackwardPart::Input, parts)
                                    : build_.last_compute();
  OpIndex norm = build_.last_compute();
  if (part != BackwardPart::Weight && parts.norm) {
    norm = tools_.elementwise.norm_backward("final_norm_backward");
    build_.memory().release(norm, Category::Activations, memory.final_norm);
  }
  if (last && parts.matrix) build_.memory().release(norm, Category::Activations, memory.head_input);
  std::vector<ReadyGradient> ready;
  if (trained && parts.matrix && options_.parameters.head > 0) ready.push_back({.op = head});
  if (trained && parts.norm) ready.push_back({.op = norm});
  return ready;
}

// Frees the logits, whose memory holds their gradient, unless a weight part still reads them.
OpIndex Head::matrix_backward(BackwardPart part, const HeadParts& parts) {
  const std::int64_t logits = options_.head.logits;
  const OpIndex first = build_.next();
  const OpIndex head = tools_.tensor.column_backward(
      {.name = "head", .outputs = options_.vocab / shape_.tensor, .is_head = true}, part);
  const OpIndex end = build_.last_compute();
  build_.memory().allocate(first, Category::Workspace, workspace(part));
  build_.memory().release(end, Category::Workspace, workspace(part));
  if (!parts.loss)
    build_.memory().allocate(first, Category::Logits, logits);  // the received gradient
  const bool last = part != BackwardPart::Input || !options_.trains_head;
  if (last) build_.memory().release(end, Category::Logits, logits);
  return head;
}

void MtpInput::forward() {
  const std::int64_t hidden = arch_.hidden;
  const OpIndex first = tools_.elementwise.memory_bound(
      "mtp_embedding", MemoryBoundKind::Embedding, 2 * shape_.element * shape_.tokens * hidden);
  build_.memory().allocate(first, Category::Activations, kept());
  tools_.group.join_partial_sums("mtp_embedding_join");
  tools_.elementwise.norm_forward("mtp_token_norm");
  tools_.elementwise.norm_forward("mtp_hidden_norm");
  gather_input("mtp_all_gather", true);
  build_.compute("mtp_projection_gemm", tools_.linear.gemm(shape_.tokens, hidden / shape_.tensor,
                                                           2 * hidden, GemmPass::Forward));
  tools_.group.collective(CollectiveOp::AllGather, shape_.message, "mtp_join", true);
}

// The input of the projection, which is both normalised halves.
OpIndex MtpInput::gather_input(std::string_view name, bool blocking) {
  const DataType type = tools_.linear.gemm(1, 1, 1, GemmPass::Forward).dtype;
  return tools_.group.gather_operand(name, type, blocking, 2 * arch_.hidden);
}

// Under sequence parallelism each rank has the gradients of its own tokens, while the projection
// and the table need those of all (Megatron-LM multi_token_prediction.py, _concat_embeddings). The
// projection's input is gathered a second time for its weight gradient, while dgrad runs.
std::vector<ReadyGradient> MtpInput::backward(BackwardPart part, std::size_t entries) {
  const std::int64_t hidden = arch_.hidden;
  const std::int64_t columns = hidden / shape_.tensor;
  const bool overlaps = tools_.options.tensor.overlaps;
  if (part != BackwardPart::Weight) tools_.group.gather_sequence("mtp_gradient_all_gather");
  const bool gathers = part != BackwardPart::Input && !options_.keeps_gathered;
  const OpIndex input = gathers ? gather_input("mtp_input_all_gather", !overlaps) : kNone;
  if (part != BackwardPart::Weight) {
    build_.compute("mtp_projection_dgrad",
                   tools_.linear.gemm(shape_.tokens, 2 * hidden, columns, GemmPass::DataGrad));
    const CollectiveOp op = shape_.join_op();
    tools_.group.collective(op, 2 * shape_.message, "mtp_dgrad_join", true);
    tools_.elementwise.norm_backward("mtp_hidden_norm_backward");
    tools_.elementwise.norm_backward("mtp_token_norm_backward");
  }
  OpIndex last = build_.last_compute();
  if (part != BackwardPart::Input) {
    if (overlaps) build_.wait_for(input);
    last = build_.compute(
        "mtp_projection_wgrad",
        tools_.linear.gemm(columns, 2 * hidden, shape_.tokens, GemmPass::WeightGrad));
    tools_.group.gather_sequence("mtp_embedding_gradient_all_gather");
    last = table_gradient("mtp_embedding_backward");
    build_.memory().release(last, Category::Activations, kept());
  }
  return std::vector<ReadyGradient>(entries, {.op = last});
}

}  // namespace trainyard
