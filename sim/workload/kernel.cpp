#include "sim/workload/kernel.hpp"

#include <fmt/format.h>

#include <numeric>

namespace trainyard {

namespace {

// A multiplication and an addition count as two.
struct FlopsOf {
  double operator()(const Gemm& g) const {
    return 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) *
           static_cast<double>(g.batch);
  }
  double operator()(const GroupedGemm& g) const {
    const auto rows = std::accumulate(g.rows.begin(), g.rows.end(), std::int64_t{0});
    return 2.0 * static_cast<double>(rows) * static_cast<double>(g.n) * static_cast<double>(g.k);
  }
  double operator()(const Attention& a) const {
    // For each pair of a query and a key: a dot product of d_qk numbers, and d_v numbers of the
    // output.
    const double forward = 2.0 * static_cast<double>(a.batch) * static_cast<double>(a.query_heads) *
                           static_cast<double>(a.pairs) *
                           static_cast<double>(a.head_dim_qk + a.head_dim_v);
    // Forward has two GEMMs (scores, output). Backward has five: the scores, dV, dP, dQ and dK.
    return a.backward ? 2.5 * forward : forward;
  }
  double operator()(const MemoryBound&) const { return 0.0; }
  double operator()(const Copy&) const { return 0.0; }
  double operator()(const Recorded& r) const { return static_cast<double>(r.flops); }
};

struct BytesOf {
  double operator()(const Gemm& g) const {
    const double operand = element_bytes(g.dtype);
    // An fp32 gradient is read and written (4 + 4 bytes). An FP8 GEMM writes a 2-byte result.
    const double result = g.accumulate_fp32 ? 8.0 : (g.dtype == DataType::Fp8 ? 2.0 : operand);
    const auto m = static_cast<double>(g.m);
    const auto n = static_cast<double>(g.n);
    const auto k = static_cast<double>(g.k);
    return static_cast<double>(g.batch) * (operand * (m * k + k * n) + result * (m * n));
  }
  double operator()(const GroupedGemm& g) const {
    const auto rows = std::accumulate(g.rows.begin(), g.rows.end(), std::int64_t{0});
    const auto experts = static_cast<double>(g.rows.size());
    const auto n = static_cast<double>(g.n);
    const auto k = static_cast<double>(g.k);
    // The inputs and results of all experts have `rows` rows; each expert has its own k x n matrix.
    const double weight = g.accumulate_fp32 ? 8.0 : element_bytes(g.dtype);
    return element_bytes(g.dtype) * static_cast<double>(rows) * (k + n) + weight * experts * k * n;
  }
  double operator()(const Attention& a) const {
    const auto batch = static_cast<double>(a.batch);
    const double q =
        batch * static_cast<double>(a.query_length) * static_cast<double>(a.query_heads);
    const double kv = batch * static_cast<double>(a.kv_length) * static_cast<double>(a.kv_heads);
    const auto qk = static_cast<double>(a.head_dim_qk);
    const auto v = static_cast<double>(a.head_dim_v);
    // Q, K, V and the output, and the fp32 log-sum-exp of each row.
    const double forward = element_bytes(a.dtype) * (q * qk + kv * (qk + v) + q * v) + 4.0 * q;
    // The backward pass reads the inputs and outputs of the forward pass and the output's gradient,
    // and writes three gradients.
    return a.backward ? 2.0 * forward + element_bytes(a.dtype) * q * v : forward;
  }
  double operator()(const MemoryBound& m) const { return static_cast<double>(m.bytes); }
  double operator()(const Copy& c) const {
    // A copy within the device reads and writes HBM.
    return static_cast<double>(c.bytes) * (c.kind == CopyKind::DeviceToDevice ? 2.0 : 1.0);
  }
  double operator()(const Recorded& r) const { return static_cast<double>(r.bytes); }
};

struct TextOf {
  std::string operator()(const Gemm& g) const {
    return fmt::format("gemm m{} n{} k{}{} {} {}{}", g.m, g.n, g.k,
                       g.batch > 1 ? fmt::format(" batch{}", g.batch) : "", to_string(g.dtype),
                       to_string(g.pass), g.accumulate_fp32 ? " accumulate_fp32" : "");
  }
  std::string operator()(const GroupedGemm& g) const {
    const auto rows = std::accumulate(g.rows.begin(), g.rows.end(), std::int64_t{0});
    return fmt::format("grouped_gemm experts{} rows{} n{} k{} {} {}{}{}", g.rows.size(), rows, g.n,
                       g.k, to_string(g.dtype), to_string(g.pass),
                       g.accumulate_fp32 ? " accumulate_fp32" : "",
                       g.per_expert ? " per_expert" : "");
  }
  std::string operator()(const Attention& a) const {
    return fmt::format("attention batch{} heads{}/{} q{} kv{} d{}/{} {} {} {}{}", a.batch,
                       a.query_heads, a.kv_heads, a.query_length, a.kv_length, a.head_dim_qk,
                       a.head_dim_v, a.causal ? "causal" : "full", to_string(a.dtype),
                       a.backward ? "backward" : "forward", a.of_ring ? " of_ring" : "");
  }
  std::string operator()(const MemoryBound& m) const {
    return fmt::format("{} {} B", to_string(m.kind), m.bytes);
  }
  std::string operator()(const Copy& c) const {
    return fmt::format("copy {} {} B", to_string(c.kind), c.bytes);
  }
  std::string operator()(const Recorded& r) const {
    const std::string time = r.seconds > 0.0 ? fmt::format(" {} s", r.seconds) : "";
    return fmt::format("recorded{} {} FLOP {} B {}", time, r.flops, r.bytes, to_string(r.dtype));
  }
};

}  // namespace

std::string_view to_string(DataType dtype) {
  switch (dtype) {
    case DataType::Fp32:
      return "fp32";
    case DataType::Tf32:
      return "tf32";
    case DataType::Bf16:
      return "bf16";
    case DataType::Fp16:
      return "fp16";
    case DataType::Fp8:
      return "fp8";
  }
  return "";
}

double element_bytes(DataType dtype) {
  switch (dtype) {
    case DataType::Fp32:
    case DataType::Tf32:
      return 4.0;
    case DataType::Bf16:
    case DataType::Fp16:
      return 2.0;
    case DataType::Fp8:
      return 1.0;
  }
  return 0.0;
}

std::string_view to_string(GemmPass pass) {
  switch (pass) {
    case GemmPass::Forward:
      return "forward";
    case GemmPass::DataGrad:
      return "dgrad";
    case GemmPass::WeightGrad:
      return "wgrad";
  }
  return "";
}

std::string_view to_string(MemoryBoundKind kind) {
  switch (kind) {
    case MemoryBoundKind::Norm:
      return "norm";
    case MemoryBoundKind::Activation:
      return "activation";
    case MemoryBoundKind::Rope:
      return "rope";
    case MemoryBoundKind::Softmax:
      return "softmax";
    case MemoryBoundKind::Elementwise:
      return "elementwise";
    case MemoryBoundKind::CrossEntropy:
      return "cross_entropy";
    case MemoryBoundKind::Embedding:
      return "embedding";
    case MemoryBoundKind::Permute:
      return "permute";
    case MemoryBoundKind::Cast:
      return "cast";
    case MemoryBoundKind::Optimizer:
      return "optimizer";
    case MemoryBoundKind::GradNorm:
      return "grad_norm";
    case MemoryBoundKind::GradAccumulate:
      return "grad_accumulate";
    case MemoryBoundKind::Zero:
      return "zero";
  }
  return "";
}

std::string_view to_string(CopyKind kind) {
  switch (kind) {
    case CopyKind::DeviceToDevice:
      return "device_to_device";
    case CopyKind::HostToDevice:
      return "host_to_device";
    case CopyKind::DeviceToHost:
      return "device_to_host";
  }
  return "";
}

Flops flops(const Kernel& kernel) { return Flops{std::visit(FlopsOf{}, kernel)}; }
Bytes hbm_bytes(const Kernel& kernel) { return Bytes{std::visit(BytesOf{}, kernel)}; }
std::string to_text(const Kernel& kernel) { return std::visit(TextOf{}, kernel); }

}  // namespace trainyard
