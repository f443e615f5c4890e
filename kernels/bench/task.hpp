// One thing that the profilers measure: a product, attention, a memory-bound kernel of ours, a
// copy, or launches.
//
//   Task task = RowKernel{.operation = RowOperation::Swiglu, .rows = 4096, .columns = 14336};
//   task_text(task);   // "swiglu rows4096 columns14336": also the key by which a profile knows it
//   read_shape_line("swiglu rows4096 columns14336");   // the same task, as a user types it
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "sim/base/json_reader.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard::bench {

// A memory-bound kernel on a matrix of bf16 (Adam: of parameters). `columns` are those of the
// result: SwiGLU reads twice as many.
enum class RowOperation : std::uint8_t {
  Copy,
  Add,
  RmsNorm,
  LayerNorm,
  Swiglu,
  Softmax,
  Rope,          // heads of 128, cosines and sines from a table
  CrossEntropy,  // of logits, its gradient written over nothing: two reads, one write
  Embedding,     // rows gathered in any order, some twice
  Permute,       // rows gathered, each once: tokens to experts
  Cast,          // fp32 to bf16
  Adam
};
[[nodiscard]] std::string_view to_string(RowOperation operation);
inline constexpr std::int64_t rope_head_columns = 128;
struct RowKernel {
  RowOperation operation = RowOperation::Copy;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  auto operator<=>(const RowKernel&) const = default;
};
// The kernel as the simulator names it. Adam at 4096 x 1024: optimizer, 30 B a parameter, 125829120
// B.
[[nodiscard]] MemoryBound as_memory_bound(const RowKernel& kernel);

// Empty kernels issued one after another; the time is that of one.
enum class LaunchStyle : std::uint8_t {
  Issue,   // how long the CPU takes to put one into a stream
  Stream,  // how far apart kernels of a stream run, issued one by one: the slower of CPU and GPU
  Graph    // the same in a CUDA graph
};
[[nodiscard]] std::string_view to_string(LaunchStyle style);
struct Launches {
  LaunchStyle style = LaunchStyle::Stream;
  std::int64_t count = 0;
  auto operator<=>(const Launches&) const = default;
};

// A product while a kernel like a communication's holds so many SMs and copies memory: the time is
// the product's.
struct Interference {
  std::int64_t sms = 0;
  Gemm gemm;
  auto operator<=>(const Interference&) const = default;
};

// A forward product whose library call also adds a bias for each column, and applies GeLU to that.
enum class Epilogue : std::uint8_t { Bias, GeluBias };
[[nodiscard]] std::string_view to_string(Epilogue epilogue);
struct FusedGemm {
  Epilogue epilogue = Epilogue::Bias;
  Gemm gemm;
  auto operator<=>(const FusedGemm&) const = default;
};

// Attention as products, a softmax of the scores in memory, and products: what frameworks run where
// no fused kernel fits. Backward needs forward's weights, whose making is not part of the time.
struct UnfusedAttention {
  Attention attention;
  auto operator<=>(const UnfusedAttention&) const = default;
};

using Task = std::variant<Gemm, RowKernel, Copy, Launches, GroupedGemm, Attention, Interference,
                          FusedGemm, UnfusedAttention>;

[[nodiscard]] std::string task_text(const Task& task);
// "gemm", "memory", "copy", "launch", "experts", "attention" or "interference": the word of --only.
[[nodiscard]] std::string_view task_group(const Task& task);

// Kernels in the words of workload files (sim/workload/kernel_json.hpp); memory-bound ones with
// "operation", "rows" and "columns" beside them, launches as {"kind": "launch", ...}.
[[nodiscard]] nlohmann::ordered_json task_to_json(const Task& task);
// Problems are reported to the object's file.
[[nodiscard]] Task read_task(JsonObject object);
// Throws InputError: what a trace recorded has no shape to measure.
[[noreturn]] Task refuse_recorded(const Recorded& kernel);

// task_text(read_shape_line(task_text(t))) == task_text(t). Throws InputError that names the word
// which was not understood.
[[nodiscard]] Task read_shape_line(const std::string& line);

}  // namespace trainyard::bench
