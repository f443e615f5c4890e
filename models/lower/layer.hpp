// One transformer layer of one rank, forward and backward, as kernels and collectives.
//
// The operations and their shapes are those of reference 04 section 1 (Shoeybi et al. 1909.08053;
// Korthikanti et al. 2205.05198); the order and what overlaps are Megatron-LM's: in a
// column-parallel backward the input is gathered again while dgrad runs, and its gradient is
// reduced while wgrad runs.
#pragma once

#include <cstdint>
#include <vector>

#include "models/lower/program_builder.hpp"
#include "models/plan.hpp"

namespace trainyard {

// A weight gradient that has become final: so many parameters, at the end of that operation.
struct ReadyGradient {
  std::int64_t parameters = 0;
  OpIndex op = kNone;
};

// Which kernels of a backward: all, those of the input gradient, or the products of the weight
// gradient that a zero-bubble schedule runs later. What the first gathered the second finds kept.
enum class BackwardPart : std::uint8_t { Full, Input, Weight };

// Sizes every part of the lowering needs, worked out once.
struct StepShape {
  explicit StepShape(const TrainingPlan& plan, std::int64_t ring_place = 0);

  std::int64_t tokens = 0;      // of one microbatch on one context rank, b*s/c
  std::int64_t ring_place = 0;  // on the ring of the context group (context_shape.hpp)
  std::int64_t local_tokens =
      0;  // outside tensor-parallel regions: tokens/t with sequence parallelism
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t element = 2;   // bytes of an activation
  std::int64_t gradient = 4;  // bytes of an accumulated gradient
  DataType dtype = DataType::Bf16;
  std::int64_t message = 0;   // tokens*hidden*element: what a tensor collective carries
  std::int64_t boundary = 0;  // what a stage sends to the next, per rank
};

class LayerLowering {
 public:
  LayerLowering(const TrainingPlan& plan, const StepShape& shape, ProgramBuilder& build);

  // Forward of one layer; the tags say whether it is the forward step or a recomputation.
  void forward();
  // Backward of one layer, or a part of it. Where `ready` is given, appends the gradients in the
  // order they become final.
  void backward(BackwardPart part, std::vector<ReadyGradient>* ready);

  // A tensor-parallel collective over `bytes` after the last compute operation; kNone without
  // tensor parallelism. `blocking`: the next compute operation waits for it.
  OpIndex tensor_collective(CollectiveOp op, std::int64_t bytes, std::string_view name,
                            bool blocking);
  // Joins the partial sums of a row-parallel product, as all_reduce, or reduce_scatter over the
  // sequence.
  void join_partial_sums(std::string_view name);
  void gather_sequence(std::string_view name);  // nothing without sequence parallelism
  // dgrad and wgrad of a column-parallel layer of `outputs` columns per rank and its communication;
  // the wgrad, or kNone for the input part.
  OpIndex column_backward(std::string_view name, std::int64_t outputs, BackwardPart part);
  OpIndex memory_bound(std::string_view name, MemoryBoundKind kind, std::int64_t bytes);
  void norm_forward(std::string_view name);
  OpIndex norm_backward(std::string_view name);

 private:
  void attention_forward();
  void attention_core_forward();
  void attention_core_backward();
  void attention_backward(BackwardPart part, std::vector<ReadyGradient>* ready);
  void weight_backward(std::vector<ReadyGradient>* ready);
  // A product of gathered rows, or one whose result is joined; in pieces with `chunked_tensor`.
  void column_forward(std::string_view gather, std::string_view name, const Gemm& product);
  void row_forward(std::string_view join, std::string_view name, const Gemm& product);
  [[nodiscard]] bool chunked() const;
  OpIndex column_wgrad(std::string_view name, std::int64_t outputs);
  OpIndex row_wgrad(std::string_view name, std::int64_t inputs);
  void ffn_forward();
  void ffn_backward(BackwardPart part, std::vector<ReadyGradient>* ready);
  void residual_forward(std::string_view name);
  void residual_backward(std::string_view name);
  OpIndex row_backward(std::string_view name, std::int64_t inputs, BackwardPart part);
  [[nodiscard]] Gemm gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const;
  [[nodiscard]] Gemm head_gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const;

  const TrainingPlan& plan_;
  const Architecture& arch_;
  const StepShape& shape_;
  ProgramBuilder& build_;
};

// Parameters of one rank: split over the tensor group, or held in full by each of its members.
struct LayerParameters {
  std::int64_t qkv = 0;              // split, biases included
  std::int64_t projection = 0;       // split
  std::int64_t projection_bias = 0;  // replicated
  std::int64_t up = 0;               // split (gate and up of a gated layer)
  std::int64_t down = 0;             // split
  std::int64_t down_bias = 0;        // replicated
  std::int64_t norm = 0;             // replicated, one of the two norms
  [[nodiscard]] std::int64_t total() const {
    return qkv + projection + projection_bias + up + down + down_bias + 2 * norm;
  }
};
[[nodiscard]] LayerParameters layer_parameters(const Architecture& architecture,
                                               std::int64_t tensor);

}  // namespace trainyard
