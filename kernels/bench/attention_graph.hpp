// Fused attention as graphs of cuDNN: softmax(scale Q K^T, masked) V and its gradients, in the
// patterns that cuDNN's flash-attention engines recognise (scale = 1 / sqrt(head_dim_qk)).
//
//   const ForwardAttention forward = forward_attention(attention);
//   const CudnnPlan plan(forward.graph, handle);
//   plan.run(handle, {{forward.q, memory}, ...}, workspace);
//
// Queries, keys, values, the result and all gradients are [batch, heads, rows, columns] with heads
// inside rows, as linear layers leave them. Grouped queries need no copies of keys and values;
// backward, each query head's share of their gradients is written and then summed.
#pragma once

#include <optional>
#include <string>

#include "kernels/bench/cudnn_graph.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard::bench {

// Why it cannot be asked of cuDNN in this form; nothing when it can: bf16 or fp16, causal with as
// many queries as keys or not masked at all, query heads divisible by key heads.
[[nodiscard]] std::optional<std::string> unfit_for_cudnn(const Attention& attention);

struct ForwardAttention {
  CudnnGraph graph;
  CudnnGraph::Tensor q = 0, k = 0, v = 0, result = 0;
  CudnnGraph::Tensor log_sum =
      0;  // fp32 [batch, heads, rows, 1]: log of each row's sum of exp(score)
};
// REQUIRES: unfit_for_cudnn(attention) is empty.
[[nodiscard]] ForwardAttention forward_attention(const Attention& attention);

struct BackwardAttention {
  CudnnGraph graph;
  CudnnGraph::Tensor q = 0, k = 0, v = 0, result = 0, log_sum = 0, result_gradient = 0;
  CudnnGraph::Tensor q_gradient = 0, k_gradient = 0, v_gradient = 0;
  CudnnGraph::Tensor q_sum = 0;  // fp32, zeros before each run
  // Of each query head, where several share keys; else 0.
  CudnnGraph::Tensor k_shares = 0, v_shares = 0;
};
[[nodiscard]] BackwardAttention backward_attention(const Attention& attention);

}  // namespace trainyard::bench
