#include "models/lower/attention_core.hpp"

#include <algorithm>

#include "models/architecture/shard.hpp"
#include "models/lower/context_attention.hpp"

namespace trainyard {

namespace {

// A query and the window - 1 keys before it, of which the first queries have fewer.
std::int64_t window_pairs(std::int64_t length, std::int64_t window) {
  const std::int64_t seen = std::min(window, length);
  return seen * length - seen * (seen - 1) / 2;
}

}  // namespace

std::int64_t AttentionCore::score_matrices() const {
  return options_.attention.microbatch.sequences * arch_.heads / shape_.tensor;
}

// Packed sequences are one kernel over all of their tokens, in which queries see their own document
// alone.
Attention AttentionCore::flash(bool backward) const {
  const DocumentDraw& microbatch = options_.attention.microbatch;
  const bool packed = microbatch.documents.kind != DocumentKind::None;
  const std::int64_t sequences = options_.attention.microbatch.sequences;
  const std::int64_t s = options_.attention.microbatch.length * (packed ? sequences : 1);
  const std::int64_t window = arch_.windowed(build_.tags().layer) ? arch_.window : s;
  const auto documents = [&] {
    return microbatch_documents(
        microbatch, {.microbatch = build_.tags().microbatch, .replica = shape_.replica});
  };
  return {.batch = packed ? 1 : sequences,
          .query_heads = arch_.heads / shape_.tensor,
          .kv_heads = kv_heads_per_rank(arch_, shape_.tensor),
          .query_length = s,
          .kv_length = s,
          .head_dim_qk = arch_.head_dim,
          .head_dim_v = arch_.value_head(),
          .pairs = packed ? document_pairs(documents()) : window_pairs(s, window),
          .causal = true,
          .backward = backward,
          .dtype = options_.attention.fused_dtype};
}

// Forward one kernel reads and writes each score; backward it reads the probabilities and their
// gradient and writes that of the scores. In parts, PyTorch's five read and write each score in w
// bytes or in fp32: to fp32 (w + 4), scaled (8), masked (8), softmax (8, backward 12), back (4 +
// w).
MemoryBound AttentionCore::softmax(bool backward) const {
  const std::int64_t s = options_.attention.microbatch.length;
  const bool fused = softmax_fused(score_matrices());
  const std::int64_t one = (backward ? 3 : 2) * shape_.element;
  const std::int64_t five = 2 * (shape_.element + 4) + 8 + 8 + (backward ? 12 : 8);
  return {.kind = MemoryBoundKind::Softmax,
          .bytes = (fused ? one : five) * s * s * score_matrices(),
          .launches = fused ? 1 : 5};
}

// The products of unfused attention: one for each sequence and head of the rank.
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
  const std::int64_t s = options_.attention.microbatch.length;
  const std::int64_t scores = s * s * score_matrices();
  build_.compute("attention_scores", head_gemm(s, s, arch_.head_dim, GemmPass::Forward));
  build_.compute("attention_softmax", softmax(false));
  if (arch_.dropout) {
    elementwise_.memory_bound("attention_dropout", MemoryBoundKind::Elementwise,
                              (2 * shape_.element + 1) * scores);
  }
  build_.compute("attention_values", head_gemm(s, arch_.value_head(), s, GemmPass::Forward));
}

// Selective recomputation of the core repeats it from Q, K and V, which were kept (Korthikanti et
// al., section 5). A fused kernel is run again as well, for no more than its log-sum-exp: so does
// Megatron-LM, whose checkpoint stands round whatever computes the core.
void AttentionCore::backward() {
  if (options_.again.core) tools_.repeat([this] { forward(); });
  if (options_.attention.context.ranks > 1) {
    ContextAttention(arch_, options_.attention, shape_, build_).backward();
    return;
  }
  if (options_.attention.kind != AttentionKind::Unfused) {
    build_.compute("attention_backward", flash(true));
    return;
  }
  const std::int64_t s = options_.attention.microbatch.length;
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

}  // namespace trainyard
