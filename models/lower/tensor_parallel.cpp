#include "models/lower/tensor_parallel.hpp"

#include <string>

#include "models/lower/tensor_pipeline.hpp"

namespace trainyard {

OpIndex TensorParallel::collective(CollectiveOp op, std::int64_t bytes, std::string_view name,
                                   bool blocking, std::optional<DataType> wire) {
  if (shape_.tensor == 1) return kNone;
  const ChosenCall call =
      options_.collectives.call(GroupKind::Tensor, op, bytes, wire.value_or(shape_.dtype));
  if (op == CollectiveOp::ReduceScatter) elementwise_.copy_sequence(name, bytes);
  const OpIndex index =
      build_.collective(name, Stream::Tensor, Slot::Tensor, call, {build_.last_compute()});
  if (!blocking) return index;
  build_.wait_for(index);
  if (op == CollectiveOp::AllGather) elementwise_.copy_sequence(name, bytes);
  return index;
}

void TensorParallel::join_partial_sums(std::string_view name) {
  collective(shape_.join_op(), shape_.message, name, true);
}

void TensorParallel::gather_sequence(std::string_view name) {
  if (shape_.sequence_parallel) collective(CollectiveOp::AllGather, shape_.message, name, true);
}

OpIndex TensorParallel::gather_operand(std::string_view name, DataType product, bool blocking) {
  if (!shape_.sequence_parallel) return kNone;
  const bool narrow =
      product == options_.recipe.products && options_.recipe.sequence_wire.has_value();
  if (!narrow) return collective(CollectiveOp::AllGather, shape_.message, name, blocking);
  return collective(CollectiveOp::AllGather, wire_bytes(), name, blocking,
                    *options_.recipe.sequence_wire);
}

// Counts the bytes of all rows of an operand as they are gathered.
std::int64_t TensorParallel::wire_bytes() const {
  const DataType wire = options_.recipe.sequence_wire.value_or(shape_.dtype);
  return shape_.message / shape_.element * static_cast<std::int64_t>(element_bytes(wire));
}

bool TensorParallel::chunked() const { return options_.in_pieces && shape_.sequence_parallel; }

TensorPipeline TensorParallel::pipeline() const {
  return {shape_, build_, options_.collectives.chosen(GroupKind::Tensor, CollectiveOp::SendRecv)};
}

void TensorParallel::column_forward(std::string_view gather, std::string_view name,
                                    const Gemm& product) {
  if (chunked()) {
    const bool narrow = product.dtype == options_.recipe.products;
    pipeline().gather_then(name, product, narrow ? wire_bytes() : shape_.message);
    return;
  }
  gather_operand(gather, product.dtype, true);
  build_.compute(name, product);
}

void TensorParallel::row_forward(std::string_view join, std::string_view name,
                                 const Gemm& product) {
  if (chunked()) {
    pipeline().then_scatter(name, product);
    return;
  }
  build_.compute(name, product);
  join_partial_sums(join);
}

// Gathers an operand of a weight gradient that each rank keeps a part of. With overlap the caller
// waits for the result; without, this call does.
OpIndex TensorParallel::gather_kept(std::string_view operand, DataType type) {
  const bool overlap = options_.overlaps;
  const OpIndex gathered =
      gather_operand(std::string(operand).append("_all_gather"), type, !overlap);
  return overlap ? gathered : kNone;
}

OpIndex TensorParallel::gather_input(const ColumnLayer& layer) {
  if (options_.keeps_gathered) return kNone;
  return gather_kept(std::string(layer.name).append("_input"), product_type(layer.is_head));
}

OpIndex TensorParallel::gather_gradient(std::string_view layer) {
  return gather_kept(std::string(layer).append("_gradient"), product_type(false));
}

DataType TensorParallel::product_type(bool is_head) const {
  return is_head ? shape_.dtype : options_.recipe.products.value_or(shape_.dtype);
}

OpIndex TensorParallel::column_wgrad(const ColumnLayer& layer) {
  if (linear_.frozen()) return linear_.adapters_wgrad(layer.name);
  Gemm wgrad = linear_.product(layer.outputs, options_.hidden, shape_.tokens, GemmPass::WeightGrad);
  wgrad.dtype = product_type(layer.is_head);
  return build_.compute(std::string(layer.name) + "_wgrad", wgrad);
}

OpIndex TensorParallel::row_wgrad(std::string_view name, std::int64_t inputs) {
  if (linear_.frozen()) return linear_.adapters_wgrad(name);
  return build_.compute(
      std::string(name) + "_wgrad",
      linear_.product(options_.hidden, inputs, shape_.tokens, GemmPass::WeightGrad));
}

OpIndex TensorParallel::column_backward(const ColumnLayer& layer, BackwardPart part) {
  if (part == BackwardPart::Weight) {
    build_.wait_for(gather_input(layer));
    return column_wgrad(layer);
  }
  const std::string text(layer.name);
  const bool overlap = options_.overlaps;
  Gemm dgrad = linear_.product(shape_.tokens, options_.hidden, layer.outputs, GemmPass::DataGrad);
  dgrad.dtype = product_type(layer.is_head);
  const OpIndex gathered = part == BackwardPart::Full ? gather_input(layer) : kNone;
  if (!layer.is_head)
    linear_.prepare(text, options_.hidden * layer.outputs, shape_.tokens * layer.outputs);
  build_.compute(text + "_dgrad", dgrad);
  linear_.adapters_dgrad(text);
  elementwise_.join_input_gradients(text, layer.matrices);
  const CollectiveOp op = shape_.join_op();
  const OpIndex reduced =
      collective(op, shape_.message, text + "_dgrad_" + std::string(to_string(op)), !overlap);
  build_.wait_for(gathered);
  const OpIndex wgrad = part == BackwardPart::Full ? column_wgrad(layer) : kNone;
  if (overlap) build_.wait_for(reduced);
  return wgrad;
}

OpIndex TensorParallel::row_backward(std::string_view name, std::int64_t inputs,
                                     BackwardPart part) {
  if (part == BackwardPart::Weight) {
    build_.wait_for(gather_gradient(name));
    return row_wgrad(name, inputs);
  }
  const std::string text(name);
  linear_.prepare(name, options_.hidden * inputs, shape_.tokens * options_.hidden,
                  LinearLayers::Rows::Gathered);
  column_forward(text + "_gradient_all_gather", text + "_dgrad",
                 linear_.product(shape_.tokens, inputs, options_.hidden, GemmPass::DataGrad));
  linear_.adapters_dgrad(name);
  return part == BackwardPart::Full ? row_wgrad(name, inputs) : kNone;
}

}  // namespace trainyard
