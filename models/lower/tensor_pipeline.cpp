#include "models/lower/tensor_pipeline.hpp"

#include <string>

#include "sim/base/check.hpp"

namespace trainyard {

OpIndex TensorPipeline::gather_then(std::string_view name, const Gemm& product,
                                    std::int64_t input_bytes) {
  const std::int64_t bytes = input_bytes / shape_.tensor;
  OpIndex held = build_.last_compute();
  OpIndex arrived = kNone;
  OpIndex last = kNone;
  for (std::int64_t i = 0; i < shape_.tensor; ++i) {
    build_.wait_for(arrived);
    if (i + 1 < shape_.tensor) held = arrived = pass_on(name, bytes, held);
    last = piece(name, product);
  }
  return last;
}

// The piece that goes on first is the one for the rank before, which it reaches last; every rank
// ends with its own.
OpIndex TensorPipeline::then_scatter(std::string_view name, const Gemm& product) {
  const std::int64_t bytes = shape_.message / shape_.tensor;
  OpIndex arrived = kNone;
  OpIndex last = kNone;
  for (std::int64_t i = 0; i < shape_.tensor; ++i) {
    last = piece(name, product);
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

OpIndex TensorPipeline::piece(std::string_view name, const Gemm& product) {
  TY_CHECK(product.m % shape_.tensor == 0, product.m, shape_.tensor);
  Gemm part = product;
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

}  // namespace trainyard
