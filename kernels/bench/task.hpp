// One task of the profilers: a GEMM, attention, a memory-bound kernel of ours, a copy, or launches.
//
//    Task task = RowKernel{.operation = RowOperation::Swiglu, .rows = 4096, .columns = 14336};
//    task_text(task);   // "swiglu rows4096 columns14336": also the key of the task in a profile
//    read_shape_line("swiglu rows4096 columns14336");   // the same task, as a user types it
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "sim/base/json_reader.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard::bench {

// A memory-bound kernel on a bf16 matrix (Adam: on parameters). `columns` are those of the result;
// SwiGLU reads twice as many.
enum class RowOperation : std::uint8_t {
  Copy,
  Add,
  RmsNorm,
  LayerNorm,
  Swiglu,
  Softmax,
  Rope,          // heads of 128; cosines and sines come from a table
  CrossEntropy,  // gradient of logits, not in place: two reads, one write
  Embedding,     // rows gathered in any order, some of them twice
  Permute,       // rows gathered, each once, as in the dispatch of tokens to experts
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
// The kernel in the simulator's terms. Adam at 4096 x 1024 is an optimizer kernel with 30 B per
// parameter: 125829120 B.
[[nodiscard]] MemoryBound as_memory_bound(const RowKernel& kernel);

// Empty kernels launched one after another. The time is that of one kernel.
enum class LaunchStyle : std::uint8_t {
  Issue,   // CPU time to queue one kernel in a stream
  Stream,  // time between kernels of a stream, launched one by one: the slower of CPU and GPU
  Graph    // the same in a CUDA graph
};
[[nodiscard]] std::string_view to_string(LaunchStyle style);
struct Launches {
  LaunchStyle style = LaunchStyle::Stream;
  std::int64_t count = 0;
  auto operator<=>(const Launches&) const = default;
};

// A GEMM while a kernel like that of a communication occupies `sms` SMs and copies memory. The time
// is that of the GEMM.
struct Interference {
  std::int64_t sms = 0;
  Gemm gemm;
  auto operator<=>(const Interference&) const = default;
};

// A forward GEMM whose library call also adds a bias for each column, and applies GeLU to the sum.
enum class Epilogue : std::uint8_t { Bias, GeluBias };
[[nodiscard]] std::string_view to_string(Epilogue epilogue);
struct FusedGemm {
  Epilogue epilogue = Epilogue::Bias;
  Gemm gemm;
  auto operator<=>(const FusedGemm&) const = default;
};

// Attention as separate GEMMs with a softmax of the scores in memory, as frameworks run it where no
// fused kernel exists. The backward needs the weights of the forward; computing them is not part of
// the time.
struct UnfusedAttention {
  Attention attention;
  auto operator<=>(const UnfusedAttention&) const = default;
};

using Task = std::variant<Gemm, RowKernel, Copy, Launches, GroupedGemm, Attention, Interference,
                          FusedGemm, UnfusedAttention>;

[[nodiscard]] std::string task_text(const Task& task);
// "gemm", "memory", "copy", "launch", "experts", "attention" or "interference": the value for
// --only.
[[nodiscard]] std::string_view task_category(const Task& task);

// Kernels in the format of workload files (sim/workload/kernel_json.hpp). Memory-bound kernels have
// the additional fields "operation", "rows" and "columns"; launches are {"kind": "launch", ...}.
[[nodiscard]] nlohmann::ordered_json task_to_json(const Task& task);
// Errors are reported to the file of the object.
[[nodiscard]] Task read_task(JsonObject object);
// Throws InputError: a kernel that was recorded in a trace has no shape to measure.
[[noreturn]] Task refuse_recorded(const Recorded& kernel);

// task_text(read_shape_line(task_text(t))) == task_text(t). Throws InputError that names the word
// which cannot be parsed.
[[nodiscard]] Task read_shape_line(const std::string& line);

}  // namespace trainyard::bench
