// Kernels of a trace with their shapes and times: rows for the measured section of a GPU's profile.
//
// The shape of a kernel is that of the framework's operation that launched it. The time of an
// operation is the sum of its kernels (a GEMM split over k has two), and the time of a row is the
// median over its repetitions in all steps and ranks.
//
//    aten::mm, addmm, bmm, baddbmm, linear, _scaled_mm      GEMMs: [m, k] x [k, n]
//    scaled_dot_product_*_attention, flash_attn and their
//    backward                                               attention
//    native_layer_norm, _fused_rms_norm, silu, gelu,
//    softmax, log_softmax, embedding, add, mul, copy_, ...  memory-bound: bytes read and written
//    Memcpy                                                 copies, with the bytes of the event
//
// The pass of a GEMM below a backward node follows from its forward, which has the same sequence
// number: with forward [m, k] x [k, n], a product over n is the gradient of the data, and one over
// m that of the weight.
//
//    const TracedKernels kernels = traced_kernels(traces, {});
//    kernels.rows[0].times_us;          // one entry for each repetition
//    kernels.unclassified[0].share;     // of the time of all kernels that are no communication
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "scenarios/import/gpu_trace.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard {

struct TracedKernelOptions {
  // For operations whose precision neither the trace nor the kernel's name states.
  DataType dtype = DataType::Bf16;
};

struct TracedRow {
  Kernel kernel;
  std::vector<double> times_us = {};
};

// Kernels without a row, by name and reason.
struct UnclassifiedKernels {
  std::string name = {};
  std::string reason = {};
  std::size_t kernels = 0;
  double seconds = 0.0;
  double share = 0.0;  // of the time of all kernels and copies
};

struct TracedKernels {
  std::vector<TracedRow> rows = {};                    // in the order of the kernels' texts
  std::vector<UnclassifiedKernels> unclassified = {};  // longest first
  double seconds = 0.0;                                // of all kernels and copies
  double classified_s = 0.0;
  std::size_t shapes = 0;  // operations of the traces with a shape
  std::vector<std::string> assumptions = {};
};

[[nodiscard]] TracedKernels traced_kernels(std::span<const GpuTrace> traces,
                                           const TracedKernelOptions& options);

}  // namespace trainyard
