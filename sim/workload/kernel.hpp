// A kernel that a GPU computes, by kind and shape, without a duration.
//
// Models produce kernels, CostModel (sim/engine/cost_model.hpp) turns each into seconds, and
// programs (workload.hpp) refer to them by index. Shapes are those of one rank.
//
//    Kernel qkv = Gemm{.m = 8192, .n = 1280, .k = 8192, .dtype = DataType::Bf16};
//    flops(qkv);       // 2*m*n*k = 171.8e9
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/base/units.hpp"

namespace trainyard {

enum class DataType : std::uint8_t { Fp32, Tf32, Bf16, Fp16, Fp8 };
[[nodiscard]] std::string_view to_string(DataType dtype);
// Bytes of one element in memory (tf32 is stored as fp32).
[[nodiscard]] double element_bytes(DataType dtype);

// The pass of a linear layer that a GEMM computes. The passes differ in layout (TN, NN, NT).
enum class GemmPass : std::uint8_t { Forward, DataGrad, WeightGrad };
[[nodiscard]] std::string_view to_string(GemmPass pass);

// C[m, n] (+)= A[m, k] * B[k, n], `batch` times with equal shapes.
struct Gemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  DataType dtype = DataType::Bf16;
  GemmPass pass = GemmPass::Forward;
  bool accumulate_fp32 = false;  // adds into an fp32 gradient
  auto operator<=>(const Gemm&) const = default;
};

// GEMMs with different m and equal n and k: the experts of one rank.
struct GroupedGemm {
  std::vector<std::int64_t> rows;  // m of each expert
  std::int64_t n = 0;
  std::int64_t k = 0;
  DataType dtype = DataType::Bf16;
  GemmPass pass = GemmPass::Forward;
  bool accumulate_fp32 = false;  // adds into fp32 gradients
  bool per_expert = false;       // one GEMM after another, instead of all in one launch
  auto operator<=>(const GroupedGemm&) const = default;
};

// Fused (flash) attention over `batch` sequences. `pairs` is the number of (query, key) pairs that
// one head of one sequence computes: s*s, or s*(s+1)/2 if causal, or less with documents.
struct Attention {
  std::int64_t batch = 1;
  std::int64_t query_heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t query_length = 0;
  std::int64_t kv_length = 0;
  std::int64_t head_dim_qk = 0;
  std::int64_t head_dim_v = 0;
  std::int64_t pairs = 0;
  bool causal = true;
  bool backward = false;
  DataType dtype = DataType::Bf16;
  std::int64_t longest_keys = 0;  // keys of a query in the longest document; 0: kv_length
  bool of_ring = false;  // one step of ring attention; its result is merged with earlier ones
  auto operator<=>(const Attention&) const = default;
};

// A kernel whose time is determined by its memory traffic.
enum class MemoryBoundKind : std::uint8_t {
  Norm,
  Activation,
  Rope,
  Softmax,
  Elementwise,
  CrossEntropy,
  Embedding,
  Permute,
  Cast,
  Optimizer,
  GradNorm,
  GradAccumulate,
  Zero
};
[[nodiscard]] std::string_view to_string(MemoryBoundKind kind);
struct MemoryBound {
  MemoryBoundKind kind = MemoryBoundKind::Elementwise;
  std::int64_t bytes = 0;     // read plus written
  std::int64_t launches = 1;  // number of kernels in it (a multi-tensor optimizer has several)
  auto operator<=>(const MemoryBound&) const = default;
};

// HBM traffic of one mixed-precision Adam step, in bytes per parameter of the local shard. It reads
// the fp32 master weight, both moments and the gradient, and writes the first three and a
// half-precision copy: 4*4 + 3*4 + 2 = 30.
inline constexpr std::int64_t adam_mixed_bytes_per_parameter = 4 * 4 + 3 * 4 + 2;

enum class CopyKind : std::uint8_t { DeviceToDevice, HostToDevice, DeviceToHost };
[[nodiscard]] std::string_view to_string(CopyKind kind);
struct Copy {
  CopyKind kind = CopyKind::DeviceToDevice;
  std::int64_t bytes = 0;
  auto operator<=>(const Copy&) const = default;
};

// A kernel known only from a trace: its duration, or its work if the trace has no duration. Its
// cost is the recorded duration, or the roofline of its FLOPs (at dtype) and its bytes.
struct Recorded {
  double seconds = 0.0;  // 0: not recorded
  std::int64_t flops = 0;
  std::int64_t bytes = 0;  // read plus written
  DataType dtype = DataType::Bf16;
  auto operator<=>(const Recorded&) const = default;
};

using Kernel = std::variant<Gemm, GroupedGemm, Attention, MemoryBound, Copy, Recorded>;

// Returns the floating-point operations that the kernel executes: 2mnk per GEMM; for attention
// 2*batch*heads*pairs*(d_qk + d_v) forward and 2.5 times that backward (five GEMMs instead of two,
// Dao 2023, arXiv 2307.08691 section 3.1); 0 for memory-bound kernels.
[[nodiscard]] Flops flops(const Kernel& kernel);
// Returns the minimum HBM traffic: it reads every operand once and writes every result once.
[[nodiscard]] Bytes hbm_bytes(const Kernel& kernel);
// Returns "gemm m8192 n1280 k8192 bf16 forward". The text is stable; reports and keys use it.
[[nodiscard]] std::string to_text(const Kernel& kernel);

}  // namespace trainyard
