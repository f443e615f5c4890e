#include "kernels/bench/attention_graph.hpp"

#include <cmath>

namespace trainyard::bench {

namespace {

using Tensor = CudnnGraph::Tensor;

cudnnDataType_t stored_type(DataType dtype) {
  return dtype == DataType::Fp16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

// The shapes of one attention: rows are queries, columns of scores are keys.
struct Shapes {
  explicit Shapes(const Attention& a)
      : q(heads_inside({a.batch, a.query_heads, a.query_length, a.head_dim_qk})),
        k(heads_inside({a.batch, a.kv_heads, a.kv_length, a.head_dim_qk})),
        v(heads_inside({a.batch, a.kv_heads, a.kv_length, a.head_dim_v})),
        result(heads_inside({a.batch, a.query_heads, a.query_length, a.head_dim_v})),
        scores(packed({a.batch, a.query_heads, a.query_length, a.kv_length})),
        row(packed({a.batch, a.query_heads, a.query_length, 1})),
        q_sum(packed({a.batch, a.query_heads, a.query_length, a.head_dim_qk})),
        k_shares(packed({a.batch, a.query_heads, a.kv_length, a.head_dim_qk})),
        v_shares(packed({a.batch, a.query_heads, a.kv_length, a.head_dim_v})) {}
  TensorShape q, k, v, result, scores, row, q_sum, k_shares, v_shares;
};

float scale_of(const Attention& a) { return 1.0F / std::sqrt(static_cast<float>(a.head_dim_qk)); }

// scale Q K^T, masked; `k` is the keys' memory with rows and columns exchanged.
Tensor scores_of(CudnnGraph& graph, const Attention& a, const Shapes& shapes, Tensor q, Tensor k) {
  const Tensor product = graph.inner(shapes.scores);
  const Tensor scaled = graph.inner(shapes.scores);
  graph.matmul(q, k, product);
  graph.pointwise(CUDNN_POINTWISE_MUL, product, graph.number(scale_of(a)), scaled);
  return a.causal ? graph.causal(scaled, shapes.scores) : scaled;
}

// The gradients of keys or values: straight into memory, or by query head and summed.
void add_grouped(CudnnGraph& graph, Tensor a, Tensor b, Tensor shares, Tensor into) {
  graph.matmul(a, b, shares != 0 ? shares : into);
  if (shares != 0) graph.reduce(CUDNN_REDUCE_TENSOR_ADD, shares, into);
}

}  // namespace

std::optional<std::string> unfit_for_cudnn(const Attention& a) {
  if (a.dtype != DataType::Bf16 && a.dtype != DataType::Fp16)
    return "only bf16 and fp16 are asked of cuDNN";
  if (a.kv_heads <= 0 || a.query_heads % a.kv_heads != 0)
    return "the query heads do not divide into groups of one key head each";
  if (a.causal && a.query_length != a.kv_length)
    return "a causal mask needs as many queries as keys here";
  const std::int64_t pairs =
      a.causal ? a.query_length * (a.query_length + 1) / 2 : a.query_length * a.kv_length;
  if (a.pairs != pairs) return "several documents in a sequence are not measured";
  constexpr std::int64_t columns = 8;  // of 2 bytes: the 16 that a load takes
  if (a.head_dim_qk % columns != 0 || a.head_dim_v % columns != 0)
    return "columns of a head must be divisible by 8";
  return std::nullopt;
}

ForwardAttention forward_attention(const Attention& a) {
  const Shapes shapes(a);
  CudnnGraph graph(stored_type(a.dtype));
  const Tensor q = graph.memory(shapes.q);
  const Tensor k = graph.memory(transposed(shapes.k));
  const Tensor v = graph.memory(shapes.v);
  const Tensor scores = scores_of(graph, a, shapes, q, k);
  const Tensor largest = graph.inner(shapes.row), below = graph.inner(shapes.scores);
  const Tensor exponential = graph.inner(shapes.scores), sum = graph.inner(shapes.row);
  const Tensor log = graph.inner(shapes.row), log_sum = graph.memory_fp32(shapes.row);
  const Tensor weights = graph.inner_stored(shapes.scores);
  const Tensor result = graph.memory(shapes.result);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  graph.pointwise(CUDNN_POINTWISE_SUB, scores, largest, below);
  graph.pointwise(CUDNN_POINTWISE_EXP, below, exponential);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, sum);
  graph.pointwise(CUDNN_POINTWISE_LOG, sum, log);
  graph.pointwise(CUDNN_POINTWISE_ADD, largest, log, log_sum);
  graph.pointwise(CUDNN_POINTWISE_DIV, exponential, sum, weights);
  graph.matmul(weights, v, result);
  return {std::move(graph), q, k, v, result, log_sum};
}

// With P the weights, dP = dO V^T and D the rows' sums of dO O: dS = P (dP - D), dV = P^T dO,
// dQ = scale dS K, dK = scale dS^T Q (Dao et al. 2022, arXiv 2205.14135, appendix B.4).
BackwardAttention backward_attention(const Attention& a) {
  const Shapes shapes(a);
  BackwardAttention made{.graph = CudnnGraph(stored_type(a.dtype))};
  CudnnGraph& graph = made.graph;
  made.q = graph.memory(shapes.q);
  made.k = graph.memory(transposed(shapes.k));
  made.v = graph.memory(transposed(shapes.v));
  made.result = graph.memory(shapes.result);
  made.result_gradient = graph.memory(shapes.result);
  made.log_sum = graph.memory_fp32(shapes.row);
  made.q_gradient = graph.memory(shapes.q);
  made.k_gradient = graph.memory(shapes.k);
  made.v_gradient = graph.memory(shapes.v);
  made.q_sum = graph.accumulator(shapes.q_sum);
  if (a.query_heads != a.kv_heads) {
    made.k_shares = graph.memory(shapes.k_shares);
    made.v_shares = graph.memory(shapes.v_shares);
  }
  const Tensor products = graph.inner(shapes.result), sums = graph.inner(shapes.row);
  graph.pointwise(CUDNN_POINTWISE_MUL, made.result_gradient, made.result, products);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);

  const Tensor scores = scores_of(graph, a, shapes, made.q, made.k);
  const Tensor below = graph.inner(shapes.scores), weights = graph.inner_stored(shapes.scores);
  const Tensor weights_turned = graph.inner_stored(transposed(shapes.scores));
  graph.pointwise(CUDNN_POINTWISE_SUB, scores, made.log_sum, below);
  graph.pointwise(CUDNN_POINTWISE_EXP, below, weights);
  graph.transpose(weights, weights_turned);
  add_grouped(graph, weights_turned, made.result_gradient, made.v_shares, made.v_gradient);

  const Tensor weight_gradient = graph.inner(shapes.scores), centred = graph.inner(shapes.scores);
  const Tensor unscaled = graph.inner(shapes.scores), gradient = graph.inner_stored(shapes.scores);
  graph.matmul(made.result_gradient, made.v, weight_gradient);
  graph.pointwise(CUDNN_POINTWISE_SUB, weight_gradient, sums, centred);
  graph.pointwise(CUDNN_POINTWISE_MUL, centred, weights, unscaled);
  graph.pointwise(CUDNN_POINTWISE_MUL, unscaled, graph.number(scale_of(a)), gradient);

  const Tensor keys = graph.inner_stored(shapes.k);
  const Tensor gradient_turned = graph.inner_stored(transposed(shapes.scores));
  graph.transpose(made.k, keys);
  graph.matmul(gradient, keys, made.q_sum);
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, made.q_sum, made.q_gradient);
  graph.transpose(gradient, gradient_turned);
  add_grouped(graph, gradient_turned, made.q, made.k_shares, made.k_gradient);
  return made;
}

}  // namespace trainyard::bench
