// A profiler's record of the GPU of one rank: kernels, copies and communication with their
// times, the operations of the framework that launched them, and the steps.
//
// Two readers make it: kineto.hpp from a trace of the PyTorch profiler, nsys.hpp from an SQLite
// export of Nsight Systems. traced_kernels.hpp and traced_collectives.hpp make measured profiles of
// it, and `validate --against` compares it with a simulated step.
//
//    const GpuTrace trace = read_kineto("rank0.json.gz");
//    for (const TracedKernel& kernel : trace.kernels)
//      fmt::print("{} {} ns\n", trace.names[kernel.name], kernel.duration_ns);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/workload/call.hpp"

namespace trainyard {

// Kinds of work on a GPU that a simulated and a measured step are compared by. NormElementwise also
// holds activations, softmax of attention scores, casts and all kernels that no other kind names.
// EmbeddingLoss holds the embedding and the cross entropy.
enum class OperationKind : std::uint8_t {
  Gemm,
  Attention,
  NormElementwise,
  Optimizer,
  EmbeddingLoss,
  Copy,
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  SendRecv,
  Broadcast,
  Reduce
};
inline constexpr std::size_t kOperationKinds = 13;
// "gemm", "norm_elementwise", "all_reduce": the keys of `validate --json`.
[[nodiscard]] std::string_view to_string(OperationKind kind);
[[nodiscard]] bool is_communication(OperationKind kind);
[[nodiscard]] OperationKind kind_of(CollectiveOp op);

// The kind of a kernel by its name: "ncclDevKernel_AllGather_RING_LL" is AllGather,
// "sm90_xmma_gemm_bf16" is Gemm, "flash_fwd_kernel" is Attention. NCCL runs all_to_all as
// "ncclDevKernel_SendRecv", so the name alone gives SendRecv.
[[nodiscard]] OperationKind kind_of_kernel(std::string_view name);

// The kind of a kernel by its text in a trace that Trainyard wrote: "grouped_gemm experts4 ..." is
// Gemm.
[[nodiscard]] OperationKind kind_of_simulated_kernel(std::string_view text);
[[nodiscard]] OperationKind kind_of(MemoryBoundKind kind);

// The precision in a kernel's name ("..._bf16_...", "half", "tf32"); nothing if the name has none.
[[nodiscard]] std::optional<DataType> dtype_in_name(std::string_view name);

inline constexpr std::uint32_t kAbsent = 0xFFFFFFFF;

// Inputs of an operation, as the profiler recorded them. An input is a list of tensors; most have
// one, numbers have none.
using TensorDims = std::vector<std::int64_t>;
struct TracedShape {
  std::vector<std::vector<TensorDims>> inputs = {};
  std::vector<std::string> types = {};    // "c10::BFloat16", "float"; empty: not recorded
  std::vector<std::string> scalars = {};  // "True", "0.125"; empty: not recorded
};

// An operation of the framework on the CPU ("aten::mm"), or an annotated range around some.
struct TracedOperation {
  std::uint32_t name = 0;          // index into names
  std::uint32_t shape = kAbsent;   // index into shapes
  std::uint32_t parent = kAbsent;  // the operation around it
  std::int64_t sequence = -1;      // PyTorch's number that a forward and its backward share
};

// A collective as the framework called it. Elements are those of this rank's buffers.
struct TracedCall {
  std::string name = {};  // "_allgather_base"
  CollectiveOp op = CollectiveOp::AllReduce;
  std::int64_t in_elements = 0;
  std::int64_t out_elements = 0;
  std::int64_t bytes = 0;                   // as nccl-tests counts them (Call); 0: not recorded
  bool bytes_of_one_rank = false;           // bytes are the message of one rank, as NCCL counts it
  std::string dtype = {};                   // nccl-tests' name, "bfloat16"; empty: not recorded
  std::uint32_t ranks = 0;                  // 0: not recorded
  std::string group = {};                   // name and members of the process group
  std::vector<std::uint32_t> members = {};  // empty: not recorded in full
};

struct TracedKernel {
  std::uint32_t name = 0;
  OperationKind kind = OperationKind::NormElementwise;
  std::uint32_t stream = 0;
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::uint32_t operation = kAbsent;  // the innermost operation that launched it
  std::uint32_t call = kAbsent;       // of communication
  std::int64_t bytes = 0;             // of a copy; 0: not recorded
  [[nodiscard]] std::int64_t end_ns() const { return start_ns + duration_ns; }
};

// The time of a step as the CPU saw it.
struct TracedStep {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

struct GpuTrace {
  std::string file = {};  // as the user named it, with the device where a file has several
  std::optional<std::uint32_t> rank = {};
  std::string gpu = {};       // the driver's name; empty: not recorded
  std::int64_t sms = 0;       // 0: not recorded
  std::string software = {};  // "PyTorch 2.6.0", "Nsight Systems 2024.5"; empty: not recorded
  bool simulated = false;     // Trainyard wrote it
  std::vector<std::string> names = {};
  std::vector<TracedShape> shapes = {};
  std::vector<TracedOperation> operations = {};
  std::vector<TracedCall> calls = {};
  std::vector<TracedKernel> kernels = {};  // by start
  std::vector<TracedStep> steps = {};      // by start
  // The reader's assumptions, one sentence each.
  std::vector<std::string> assumptions = {};

  // The operation itself or the nearest around it for which `holds(operation)` is true; kAbsent if
  // there is none.
  template <class Holds>
  [[nodiscard]] std::uint32_t enclosing(std::uint32_t operation, const Holds& holds) const {
    while (operation != kAbsent && !holds(operations[operation]))
      operation = operations[operation].parent;
    return operation;
  }
};

// Steps of which the median is taken: the index of the step of median length, of two the shorter
// one. REQUIRES: not empty.
[[nodiscard]] std::size_t median_step(const std::vector<TracedStep>& steps);

}  // namespace trainyard
