// Fused attention as graphs of cuDNN: softmax(scale Q K^T, masked) V and its gradients, in the
// patterns that cuDNN's flash-attention engines recognise (scale = 1 / sqrt(head_dim_qk)).
//
//    const ForwardAttention forward = forward_attention(attention);
//    const CudnnPlan plan(forward.graph, handle);
//    plan.run(handle, {{forward.q, q}, {forward.k, k}, {forward.v, v}, {forward.result, result},
//                      {forward.log_sum, log_sum}}, workspace);
//
// Queries, keys, values, the result and all gradients are [batch, heads, rows, columns] with heads
// inside rows in memory, as linear layers write them. Grouped queries need no copies of keys and
// values. Backward, each query head's share of their gradients is written and then summed.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sim/workload/kernel.hpp"

namespace trainyard::bench {

// A graph of cuDNN's operations on tensors [batch, heads, rows, columns], and the plan that runs
// it.
//
//    CudnnGraph graph(CUDNN_DATA_BFLOAT16);
//    const auto q = graph.memory(heads_inside({1, 32, 4096, 128}));
//    const auto k = graph.memory(transposed(heads_inside({1, 32, 4096, 128})));
//    const auto scores = graph.inner(packed({1, 32, 4096, 4096}));
//    graph.matmul(q, k, scores);   // forward_attention adds the softmax and the second GEMM
//
// The code uses the descriptors of cudnn_backend.h, the only interface that comes with the library.
// Planning needs no GPU when one is described (`described_device`): cuDNN then reports whether it
// has an engine for the graph on that device. The tests use this for three GPUs on machines without
// any.

// Throws RunError, or Unsupported for operations that cuDNN does not support.
void check(cudnnStatus_t code, std::string_view doing);

struct DestroyCudnnDescriptor {
  void operator()(cudnnBackendDescriptor_t made) const {
    (void)cudnnBackendDestroyDescriptor(made);
  }
};
using CudnnDescriptor =
    std::unique_ptr<std::remove_pointer_t<cudnnBackendDescriptor_t>, DestroyCudnnDescriptor>;

struct DestroyCudnn {
  void operator()(cudnnHandle_t handle) const { (void)cudnnDestroy(handle); }
};
using CudnnHandle = std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, DestroyCudnn>;
[[nodiscard]] CudnnHandle make_cudnn(cudaStream_t stream);

// A GPU that is not present, described by its properties in cuDNN's JSON (cuDNN 9.8 and later).
[[nodiscard]] CudnnDescriptor described_device(const std::string& json);

// The device of a plan: the GPU of a handle, or a described one. Exactly one is set.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t device = nullptr;
};

struct TensorShape {
  std::array<std::int64_t, 4> extents{};
  std::array<std::int64_t, 4> strides{};
};
// Columns innermost, then rows, heads, batch.
[[nodiscard]] TensorShape packed(const std::array<std::int64_t, 4>& extents);
// Columns innermost, then heads, rows, batch, as linear layers write queries, keys and values.
[[nodiscard]] TensorShape heads_inside(const std::array<std::int64_t, 4>& extents);
// The same memory with rows and columns exchanged.
[[nodiscard]] TensorShape transposed(TensorShape shape);

class CudnnGraph {
 public:
  using Tensor = std::int64_t;  // unique id of a tensor in the graph, from 1

  // Operands in memory have the type `stored`. Arithmetic and intermediate tensors are fp32.
  explicit CudnnGraph(cudnnDataType_t stored) : stored_(stored) {}

  [[nodiscard]] Tensor memory(const TensorShape& shape);
  [[nodiscard]] Tensor memory_fp32(const TensorShape& shape);
  // fp32 in the tile order in which cuDNN's backward kernels accumulate; the caller zeroes it
  // before each run.
  [[nodiscard]] Tensor accumulator(const TensorShape& shape);
  // A constant that the plan stores.
  [[nodiscard]] Tensor number(float value);
  // A tensor that is never written to memory: fp32 (inner), or of the type of operands, for the
  // next GEMM (inner_stored).
  [[nodiscard]] Tensor inner(const TensorShape& shape);
  [[nodiscard]] Tensor inner_stored(const TensorShape& shape);

  void matmul(Tensor a, Tensor b, Tensor into);
  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor into);
  void pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor y, Tensor into);
  void reduce(cudnnReduceTensorOp_t operation, Tensor x, Tensor into);
  // The same elements with rows and columns exchanged.
  void transpose(Tensor x, Tensor into);
  // Copies x where its row is not before its column; elsewhere the result is a large negative
  // number.
  [[nodiscard]] Tensor causal(Tensor x, const TensorShape& shape);

  [[nodiscard]] const std::vector<CudnnDescriptor>& operations() const { return operations_; }
  [[nodiscard]] const std::map<Tensor, float>& numbers() const { return numbers_; }

 private:
  struct Kind;
  [[nodiscard]] Tensor add(const TensorShape& shape, const Kind& kind);
  [[nodiscard]] Tensor flags(const TensorShape& shape, cudnnDataType_t type);
  [[nodiscard]] cudnnBackendDescriptor_t of(Tensor tensor) const;
  struct Operands;
  void pointwise_of(cudnnPointwiseMode_t mode, const Operands& operands);

  cudnnDataType_t stored_;
  std::vector<CudnnDescriptor> tensors_;
  std::vector<CudnnDescriptor> operations_;
  std::map<Tensor, float> numbers_;
};

// Engines that cuDNN's heuristic offers for the graph on the target, best first, and reports as
// able to run it. May be empty.
class CudnnEngines {
 public:
  CudnnEngines(const CudnnGraph& graph, const CudnnTarget& target);
  [[nodiscard]] std::size_t size() const { return configurations_.size(); }
  // For example "engine 6".
  [[nodiscard]] std::string name(std::size_t index) const;
  [[nodiscard]] cudnnBackendDescriptor_t configuration(std::size_t index) const {
    return configurations_.at(index).get();
  }

 private:
  CudnnDescriptor graph_;
  std::vector<CudnnDescriptor> configurations_;
};

class CudnnPlan {
 public:
  // Uses the heuristic's first engine, as frameworks do. Throws Unsupported where there is none.
  CudnnPlan(const CudnnGraph& graph, cudnnHandle_t handle);
  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_bytes_; }
  [[nodiscard]] const std::string& engine() const { return engine_; }
  // Queues one run in the handle's stream. REQUIRES: an address for every tensor in memory.
  void run(cudnnHandle_t handle, const std::map<CudnnGraph::Tensor, void*>& memory,
           void* workspace) const;

 private:
  CudnnEngines engines_;
  CudnnDescriptor plan_;
  std::map<CudnnGraph::Tensor, float> numbers_;
  std::string engine_;
  std::int64_t workspace_bytes_ = 0;
};

// The reason why cuDNN cannot run it in this form, or nothing. It can run bf16 or fp16, causal with
// as many queries as keys or without a mask, and query heads divisible by key heads.
[[nodiscard]] std::optional<std::string> unfit_for_cudnn(const Attention& attention);

struct ForwardAttention {
  CudnnGraph graph;
  CudnnGraph::Tensor q = 0, k = 0, v = 0, result = 0;
  // fp32 [batch, heads, rows, 1]: log of each row's sum of exp(score).
  CudnnGraph::Tensor log_sum = 0;
};
// REQUIRES: unfit_for_cudnn(attention) is empty.
[[nodiscard]] ForwardAttention forward_attention(const Attention& attention);

struct BackwardAttention {
  CudnnGraph graph;
  CudnnGraph::Tensor q = 0, k = 0, v = 0, result = 0, log_sum = 0, result_gradient = 0;
  CudnnGraph::Tensor q_gradient = 0, k_gradient = 0, v_gradient = 0;
  CudnnGraph::Tensor q_sum = 0;  // fp32; zeroed before each run
  // The gradients of each query head where several share keys; otherwise 0.
  CudnnGraph::Tensor k_shares = 0, v_shares = 0;
};
[[nodiscard]] BackwardAttention backward_attention(const Attention& attention);

}  // namespace trainyard::bench
