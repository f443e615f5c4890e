// The tensor-parallel GEMMs of a layer and their collectives (layer_tools.hpp).
#include <string>
#include <string_view>
#include <utility>

#include "models/layers/layer_tools.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

// A gather and the GEMM that it feeds, or a GEMM and the reduction after it, in t pieces. While one
// piece is computed, the next one travels round the ring of the tensor group.
//
// With sequence parallelism every column-parallel GEMM waits for an all_gather of its input and
// every row-parallel one for a reduce_scatter of its output, T*h*w bytes each. Cut into t pieces of
// T/t rows, piece j is multiplied while piece j + 1 arrives (Wang et al., ASPLOS 2023, doi
// 10.1145/3567955.3567959; Megatron-LM's tp_comm_overlap). With g seconds for a piece of the GEMM
// and m for a message of T*h*w/t bytes, the times are
//
//    gather, GEMM:    max(t*g, (t-1)*m + g)
//    GEMM, scatter:   the same, and t-1 sums of a piece, which are memory traffic
//
// compared with t*g + (t-1)*m in sequence: t = 8, g = 100 us, m = 50 us give 800 instead of 1150.
// tests/models/lower/tensor_pipeline_test.cpp checks this.
class TensorPipeline {
 public:
  // `algorithm` is the algorithm of the send_recv of a piece. REQUIRES: sequence parallelism over
  // more than one rank.
  TensorPipeline(const StepShape& shape, ProgramBuilder& build, ChosenAlgorithm algorithm)
      : shape_(shape), build_(build), algorithm_(std::move(algorithm)) {}

  // Writes a GEMM over all rows of an input of which every rank holds T/t rows; the complete input
  // has `input_bytes`. Returns its last piece.
  OpIndex gather_then(std::string_view name, const Gemm& gemm, std::int64_t input_bytes);
  // Writes a GEMM whose result is summed over the ranks and of which each rank keeps T/t rows.
  OpIndex then_scatter(std::string_view name, const Gemm& gemm);

 private:
  // Sends a piece to the next rank after `after`, and receives a piece from the rank before.
  // Returns the receive.
  OpIndex pass_on(std::string_view name, std::int64_t bytes, OpIndex after);
  OpIndex piece(std::string_view name, const Gemm& gemm);

  const StepShape& shape_;
  ProgramBuilder& build_;
  ChosenAlgorithm algorithm_;
};

OpIndex TensorPipeline::gather_then(std::string_view name, const Gemm& gemm,
                                    std::int64_t input_bytes) {
  const std::int64_t bytes = input_bytes / shape_.tensor;
  // A rank sends on what it received last, its own piece first.
  OpIndex held = build_.last_compute();
  OpIndex arrived = kNone;
  OpIndex last = kNone;
  for (std::int64_t i = 0; i < shape_.tensor; ++i) {
    build_.wait_for(arrived);
    if (i + 1 < shape_.tensor) held = arrived = pass_on(name, bytes, held);
    last = piece(name, gemm);
  }
  return last;
}

// The first piece that a rank computes and sends is that of the rank before, which it reaches last.
// Every rank computes its own piece last.
OpIndex TensorPipeline::then_scatter(std::string_view name, const Gemm& gemm) {
  const std::int64_t bytes = shape_.message / shape_.tensor;
  OpIndex arrived = kNone;
  OpIndex last = kNone;
  for (std::int64_t i = 0; i < shape_.tensor; ++i) {
    last = piece(name, gemm);
    if (i > 0) {
      build_.wait_for(arrived);
      last = build_.compute(
          std::string(name) + "_sum",
          MemoryBound{.kind = MemoryBoundKind::Elementwise, .bytes = 3 * bytes, .launches = 1});
    }
    if (i + 1 < shape_.tensor) arrived = pass_on(name, bytes, last);
  }
  return last;
}

OpIndex TensorPipeline::piece(std::string_view name, const Gemm& gemm) {
  TY_CHECK(gemm.m % shape_.tensor == 0, gemm.m, shape_.tensor);
  Gemm part = gemm;
  part.m /= shape_.tensor;
  return build_.compute(name, part);
}

OpIndex TensorPipeline::pass_on(std::string_view name, std::int64_t bytes, OpIndex after) {
  const ChosenCall call{
      .call = TransferCall{.bytes = bytes, .dtype = shape_.dtype, .algorithm = algorithm_.name},
      .field = algorithm_.field};
  const std::string text(name);
  build_.send(text + "_send", Stream::SendTensor, Slot::SendTensor, call, {after});
  return build_.recv(text + "_recv", Stream::RecvTensor, Slot::RecvTensor, call, {});
}

TensorPipeline pipeline(const TensorOptions& options, const StepShape& shape,
                        ProgramBuilder& build) {
  return {shape, build, options.collectives.chosen(GroupKind::Tensor, CollectiveOp::SendRecv)};
}

}  // namespace

// ---- collectives

OpIndex TensorGroup::collective(CollectiveOp op, std::int64_t bytes, std::string_view name,
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

void TensorGroup::join_partial_sums(std::string_view name) {
  collective(shape_.join_op(), shape_.message, name, true);
}

void TensorGroup::gather_sequence(std::string_view name) {
  if (shape_.sequence_parallel) collective(CollectiveOp::AllGather, shape_.message, name, true);
}

OpIndex TensorGroup::gather_operand(std::string_view name, DataType gemm, bool blocking,
                                    std::optional<std::int64_t> columns) {
  if (!shape_.sequence_parallel) return kNone;
  return collective(CollectiveOp::AllGather, operand_bytes(gemm, columns.value_or(options_.hidden)),
                    name, blocking, operand_type(gemm));
}

DataType TensorGroup::operand_type(DataType gemm) const {
  const bool of_recipe = gemm == options_.recipe.gemms;
  return of_recipe ? options_.recipe.sequence_wire.value_or(shape_.dtype) : shape_.dtype;
}

std::int64_t TensorGroup::operand_bytes(DataType gemm, std::int64_t columns) const {
  return shape_.tokens * columns * static_cast<std::int64_t>(element_bytes(operand_type(gemm)));
}

// ---- GEMMs

bool TensorParallel::chunked() const { return options_.in_pieces && shape_.sequence_parallel; }

void TensorParallel::column_forward(std::string_view gather, std::string_view name,
                                    const Gemm& gemm) {
  if (chunked()) {
    pipeline(options_, shape_, build_)
        .gather_then(name, gemm, group_.operand_bytes(gemm.dtype, options_.hidden));
    return;
  }
  group_.gather_operand(gather, gemm.dtype, true);
  build_.compute(name, gemm);
}

void TensorParallel::row_forward(std::string_view join, std::string_view name, const Gemm& gemm) {
  if (chunked()) {
    pipeline(options_, shape_, build_).then_scatter(name, gemm);
    return;
  }
  build_.compute(name, gemm);
  group_.join_partial_sums(join);
}

// Gathers an operand of a weight gradient of which each rank stores a part. With overlap the caller
// waits for the result; without, this call waits.
OpIndex TensorParallel::gather_kept(std::string_view operand, DataType type) {
  const bool overlap = options_.overlaps;
  const OpIndex gathered =
      group_.gather_operand(std::string(operand).append("_all_gather"), type, !overlap);
  return overlap ? gathered : kNone;
}

OpIndex TensorParallel::gather_input(const ColumnLayer& layer) {
  if (options_.keeps_gathered) return kNone;
  return gather_kept(std::string(layer.name).append("_input"), gemm_type(layer.is_head));
}

OpIndex TensorParallel::gather_gradient(std::string_view layer) {
  return gather_kept(std::string(layer).append("_gradient"), gemm_type(false));
}

DataType TensorParallel::gemm_type(bool is_head) const {
  return is_head ? shape_.dtype : options_.recipe.gemms.value_or(shape_.dtype);
}

OpIndex TensorParallel::column_wgrad(const ColumnLayer& layer) {
  if (linear_.frozen()) return linear_.adapters_wgrad(layer.name);
  Gemm wgrad = linear_.gemm(layer.outputs, options_.hidden, shape_.tokens, GemmPass::WeightGrad);
  wgrad.dtype = gemm_type(layer.is_head);
  return build_.compute(std::string(layer.name) + "_wgrad", wgrad);
}

OpIndex TensorParallel::row_wgrad(std::string_view name, std::int64_t inputs) {
  if (linear_.frozen()) return linear_.adapters_wgrad(name);
  return build_.compute(std::string(name) + "_wgrad",
                        linear_.gemm(options_.hidden, inputs, shape_.tokens, GemmPass::WeightGrad));
}

OpIndex TensorParallel::column_backward(const ColumnLayer& layer, BackwardPart part) {
  if (part == BackwardPart::Weight) {
    build_.wait_for(gather_input(layer));
    return column_wgrad(layer);
  }
  const std::string text(layer.name);
  const bool overlap = options_.overlaps;
  Gemm dgrad = linear_.gemm(shape_.tokens, options_.hidden, layer.outputs, GemmPass::DataGrad);
  dgrad.dtype = gemm_type(layer.is_head);
  // Starts before dgrad, which hides it where communication overlaps. Only wgrad waits for it.
  const OpIndex gathered = part == BackwardPart::Full ? gather_input(layer) : kNone;
  if (!layer.is_head)
    linear_.prepare(text, options_.hidden * layer.outputs, shape_.tokens * layer.outputs);
  build_.compute(text + "_dgrad", dgrad);
  linear_.adapters_dgrad(text);
  elementwise_.join_input_gradients(text, layer.matrices);
  // Runs during wgrad where communication overlaps with computation.
  const CollectiveOp op = shape_.join_op();
  const OpIndex reduced = group_.collective(
      op, shape_.message, text + "_dgrad_" + std::string(to_string(op)), !overlap);
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
                 linear_.gemm(shape_.tokens, inputs, options_.hidden, GemmPass::DataGrad));
  linear_.adapters_dgrad(name);
  return part == BackwardPart::Full ? row_wgrad(name, inputs) : kNone;
}

}  // namespace trainyard
