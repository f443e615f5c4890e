#include "scenarios/import/gpu_trace.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/letters.hpp"

namespace trainyard {

namespace {

using Kind = OperationKind;

constexpr std::array<std::pair<Kind, std::string_view>, kOperationKinds> kKindNames{{
    {Kind::Gemm, "gemm"},
    {Kind::Attention, "attention"},
    {Kind::NormElementwise, "norm_elementwise"},
    {Kind::Optimizer, "optimizer"},
    {Kind::EmbeddingLoss, "embedding_loss"},
    {Kind::Copy, "copy"},
    {Kind::AllReduce, "all_reduce"},
    {Kind::AllGather, "all_gather"},
    {Kind::ReduceScatter, "reduce_scatter"},
    {Kind::AllToAll, "all_to_all"},
    {Kind::SendRecv, "send_recv"},
    {Kind::Broadcast, "broadcast"},
    {Kind::Reduce, "reduce"},
}};

// Parts of kernel names and their kinds, for kernels of NCCL, cuBLAS, CUTLASS, cuDNN,
// FlashAttention, Apex, Transformer Engine and PyTorch. Names are compared in lower case, and the
// first part that occurs decides, so the order matters: "reducescatter" is before
// "ncclkernel_reduce", "logsoftmax" before "softmax", and a CUTLASS kernel with "fmha" in its name
// is attention, not a GEMM.
constexpr std::array<std::pair<std::string_view, Kind>, 45> kKernelParts{{
    {"allreduce", Kind::AllReduce},
    {"allgather", Kind::AllGather},
    {"reducescatter", Kind::ReduceScatter},
    {"ncclkernel_broadcast", Kind::Broadcast},
    {"nccldevkernel_broadcast", Kind::Broadcast},
    {"ncclkernel_reduce", Kind::Reduce},
    {"nccldevkernel_reduce", Kind::Reduce},
    {"sendrecv", Kind::SendRecv},
    {"alltoall", Kind::AllToAll},
    {"nccl", Kind::SendRecv},
    {"fmha", Kind::Attention},
    {"flash", Kind::Attention},
    {"sdpa", Kind::Attention},
    {"attention", Kind::Attention},
    {"layer_norm", Kind::NormElementwise},
    {"layernorm", Kind::NormElementwise},
    {"rms_norm", Kind::NormElementwise},
    {"rmsnorm", Kind::NormElementwise},
    {"ln_fwd", Kind::NormElementwise},
    {"ln_bwd", Kind::NormElementwise},
    {"adam", Kind::Optimizer},
    {"multi_tensor_apply", Kind::Optimizer},
    {"multitensorapply", Kind::Optimizer},
    {"l2norm", Kind::Optimizer},
    {"cross_entropy", Kind::EmbeddingLoss},
    {"crossentropy", Kind::EmbeddingLoss},
    {"logsoftmax", Kind::EmbeddingLoss},
    {"log_softmax", Kind::EmbeddingLoss},
    {"nll_loss", Kind::EmbeddingLoss},
    {"softmax", Kind::NormElementwise},
    {"embedding", Kind::EmbeddingLoss},
    {"indexselect", Kind::EmbeddingLoss},
    {"memcpy", Kind::Copy},
    {"memset", Kind::Copy},
    {"gemm", Kind::Gemm},
    {"gemv", Kind::Gemm},
    {"nvjet", Kind::Gemm},
    {"cutlass", Kind::Gemm},
    {"wgmma", Kind::Gemm},
    {"xmma", Kind::Gemm},
    {"cublas", Kind::Gemm},
    {"splitk", Kind::Gemm},
    {"_mm_", Kind::Gemm},
    {"s16816", Kind::Gemm},
    {"cijk_", Kind::Gemm},
}};

// Parts of names that state a precision, longest first where one holds another.
constexpr std::array<std::pair<std::string_view, DataType>, 11> kDtypeParts{{
    {"bfloat16", DataType::Bf16},
    {"bf16", DataType::Bf16},
    {"nvjet_tst", DataType::Bf16},
    {"e4m3", DataType::Fp8},
    {"e5m2", DataType::Fp8},
    {"fp8", DataType::Fp8},
    {"tf32", DataType::Tf32},
    {"half", DataType::Fp16},
    {"fp16", DataType::Fp16},
    {"h884", DataType::Fp16},
    {"nvjet_hsh", DataType::Fp16},
}};

}  // namespace

std::string_view to_string(OperationKind kind) {
  const auto found =
      std::ranges::find(kKindNames, kind, &std::pair<OperationKind, std::string_view>::first);
  return found == kKindNames.end() ? std::string_view() : found->second;
}

bool is_communication(OperationKind kind) { return kind >= OperationKind::AllReduce; }

OperationKind kind_of(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::AllReduce:
      return OperationKind::AllReduce;
    case CollectiveOp::AllGather:
      return OperationKind::AllGather;
    case CollectiveOp::ReduceScatter:
      return OperationKind::ReduceScatter;
    case CollectiveOp::Broadcast:
      return OperationKind::Broadcast;
    case CollectiveOp::Reduce:
      return OperationKind::Reduce;
    case CollectiveOp::AllToAll:
      return OperationKind::AllToAll;
    case CollectiveOp::SendRecv:
      return OperationKind::SendRecv;
    case CollectiveOp::HostCopy:
      return OperationKind::Copy;
  }
  return OperationKind::Copy;
}

OperationKind kind_of_kernel(std::string_view name) {
  const std::string small = lower_case(name);
  for (const auto& [part, kind] : kKernelParts) {
    if (small.find(part) != std::string::npos) return kind;
  }
  return OperationKind::NormElementwise;
}

OperationKind kind_of(MemoryBoundKind kind) {
  switch (kind) {
    case MemoryBoundKind::CrossEntropy:
    case MemoryBoundKind::Embedding:
      return OperationKind::EmbeddingLoss;
    case MemoryBoundKind::Optimizer:
    case MemoryBoundKind::GradNorm:
      return OperationKind::Optimizer;
    case MemoryBoundKind::Zero:
      return OperationKind::Copy;
    default:
      return OperationKind::NormElementwise;
  }
}

// The text of a simulated kernel begins with its kind (sim/workload/kernel.cpp). Every other first
// word is that of a GEMM.
OperationKind kind_of_simulated_kernel(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(' '));
  if (word == "attention") return OperationKind::Attention;
  if (word == "copy") return OperationKind::Copy;
  for (auto kind = MemoryBoundKind::Norm; kind <= MemoryBoundKind::Zero;
       kind = static_cast<MemoryBoundKind>(static_cast<int>(kind) + 1)) {
    if (word == to_string(kind)) return kind_of(kind);
  }
  return OperationKind::Gemm;
}

std::optional<DataType> dtype_in_name(std::string_view name) {
  const std::string small = lower_case(name);
  for (const auto& [part, dtype] : kDtypeParts) {
    if (small.find(part) != std::string::npos) return dtype;
  }
  return std::nullopt;
}

std::size_t median_step(const std::vector<TracedStep>& steps) {
  TY_CHECK(!steps.empty(), steps.size());
  std::vector<std::size_t> order(steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&steps](std::size_t index) {
    return steps[index].end_ns - steps[index].start_ns;
  });
  return order[(order.size() - 1) / 2];
}

}  // namespace trainyard
