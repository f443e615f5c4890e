// The simulated kernel that an operation of PyTorch runs, by its name and the shapes of its inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "scenarios/import/gpu_trace.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard {

// A GEMM as the operation computed it: [m, k] x [k, n], `batch` times.
struct GemmDims {
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool operator==(const GemmDims&) const = default;
};

// True if the operation's name is known here, so that its shape gives its kernel.
[[nodiscard]] bool is_gemm_operation(std::string_view name);
[[nodiscard]] bool is_attention_operation(std::string_view name);
[[nodiscard]] bool is_memory_bound_operation(std::string_view name);

// Nothing where the inputs are none of the operation. REQUIRES: is_gemm_operation(name).
[[nodiscard]] std::optional<GemmDims> gemm_dims(std::string_view name, const TracedShape& shape);

// The pass of a GEMM whose forward is known, and its kernel in the orientation of a simulated one:
// m x n are tokens x input of the layer for the gradient of the data, output x input for that of
// the weight. Where both are possible (m = n), `first` says that it is the first GEMM of its
// backward node, which is the gradient of the data in PyTorch. Nothing where the dimensions fit
// neither.
[[nodiscard]] std::optional<Gemm> backward_gemm(const GemmDims& gemm, const GemmDims& forward,
                                                bool first);

// Nothing with a reason where the shape does not say all: packed sequences, windows.
struct ShapedKernel {
  std::optional<Kernel> kernel = {};
  std::string reason = {};      // why there is none
  bool assumed_causal = false;  // the trace does not say
};
[[nodiscard]] ShapedKernel attention_kernel(std::string_view name, const TracedShape& shape,
                                            DataType dtype);
// `width` is the number of bytes of an element whose type the trace does not state.
[[nodiscard]] ShapedKernel memory_bound_kernel(std::string_view name, const TracedShape& shape,
                                               double width);

// The precision of an input; nothing where it is not recorded or has no simulated counterpart.
[[nodiscard]] std::optional<DataType> dtype_of_input(const TracedShape& shape, std::size_t input);

}  // namespace trainyard
