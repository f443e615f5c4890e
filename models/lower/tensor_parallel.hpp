// Collectives of the tensor-parallel group, and the products whose operand they gather or whose
// result they join.
//
// The order and what overlaps are Megatron-LM's: in a column-parallel backward the input is
// gathered again while dgrad runs, and its gradient is reduced while wgrad runs.
//
//   tensor.column_forward("ffn_all_gather", "ffn_up_gemm", linear.product(...));
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "models/lower/elementwise.hpp"
#include "models/lower/linear_layers.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"

namespace trainyard {

class TensorPipeline;

// A column-parallel linear layer.
struct ColumnLayer {
  std::string_view name = {};
  std::int64_t outputs = 0;   // columns of a rank
  std::int64_t matrices = 1;  // that multiply the same input, as those of queries, keys and values
  bool is_head = false;       // stays in the precision of training, whatever the recipe says
};

class TensorParallel {
 public:
  TensorParallel(const TensorOptions& options, const StepShape& shape, ProgramBuilder& build,
                 Elementwise& elementwise, LinearLayers& linear)
      : options_(options),
        shape_(shape),
        build_(build),
        elementwise_(elementwise),
        linear_(linear) {}

  // A collective over `bytes` after the last compute operation; kNone without tensor parallelism.
  // `blocking`: the next compute operation waits for it. In the precision of training unless `wire`
  // says otherwise.
  OpIndex collective(CollectiveOp op, std::int64_t bytes, std::string_view name, bool blocking,
                     std::optional<DataType> wire = {});
  // Joins the partial sums of a row-parallel product, as all_reduce, or reduce_scatter over the
  // sequence.
  void join_partial_sums(std::string_view name);
  void gather_sequence(std::string_view name);  // nothing without sequence parallelism
  // A product of gathered rows, or one whose result is joined; in pieces with `in_pieces`.
  void column_forward(std::string_view gather, std::string_view name, const Gemm& product);
  void row_forward(std::string_view join, std::string_view name, const Gemm& product);
  // dgrad and wgrad of a linear layer and their communication; the wgrad, or kNone for the input
  // part. A row-parallel layer has `inputs` rows per rank.
  OpIndex column_backward(const ColumnLayer& layer, BackwardPart part);
  OpIndex row_backward(std::string_view name, std::int64_t inputs, BackwardPart part);
  // Operands of weight gradients that sequence-parallel ranks keep their own parts of: the input of
  // a column-parallel layer, and between the two parts of a split backward the gradient of a
  // row-parallel one's output. The next product of the weight gradient waits for them.
  OpIndex gather_input(const ColumnLayer& layer);
  OpIndex gather_gradient(std::string_view layer);
  OpIndex column_wgrad(const ColumnLayer& layer);
  OpIndex row_wgrad(std::string_view name, std::int64_t inputs);

 private:
  // The rows of an operand of a linear layer's product, in the recipe's sequence_wire if this
  // product is one of the recipe's; kNone without sequence parallelism.
  OpIndex gather_operand(std::string_view name, DataType product, bool blocking);
  OpIndex gather_kept(std::string_view operand, DataType type);
  [[nodiscard]] DataType product_type(bool is_head) const;
  [[nodiscard]] std::int64_t wire_bytes() const;
  [[nodiscard]] bool chunked() const;
  [[nodiscard]] TensorPipeline pipeline() const;

  const TensorOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
  Elementwise& elementwise_;
  LinearLayers& linear_;
};

}  // namespace trainyard
