// Builds a GpuTrace from events in any order: stores each name and each shape once, nests
// operations by time, and finds the operation that launched a kernel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "scenarios/import/gpu_trace.hpp"

namespace trainyard {

// An operation with the thread ("lane") on which it ran.
struct OperationEvent {
  std::uint32_t name = 0;
  std::uint32_t shape = kAbsent;
  std::uint32_t call = kAbsent;
  std::uint64_t lane = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t sequence = -1;
  std::int64_t external_id = 0;  // 0: none
};

// A kernel with the ids that link it to its operation.
struct KernelEvent {
  TracedKernel kernel = {};
  std::int64_t external_id = 0;  // 0: none
  std::int64_t correlation = 0;  // 0: none
};

class TraceBuilder {
 public:
  [[nodiscard]] std::uint32_t name(std::string_view text);
  // `dims` is a JSON list with an entry for each input; `types` and `scalars` are JSON lists of
  // texts, or empty. Lists that cannot be parsed give kAbsent.
  [[nodiscard]] std::uint32_t shape(const std::string& dims, const std::string& types,
                                    const std::string& scalars);
  [[nodiscard]] std::uint32_t call(TracedCall call);
  void add(const OperationEvent& operation) { operations_.push_back(operation); }
  void add(const KernelEvent& kernel) { kernels_.push_back(kernel); }
  // A call of the driver that launched the kernel of this correlation.
  void launch(std::int64_t correlation, std::uint64_t lane, std::int64_t time_ns);
  void step(const TracedStep& step) { trace_.steps.push_back(step); }
  [[nodiscard]] GpuTrace& trace() { return trace_; }

  // Nests operations, links kernels, and completes the kinds of kernels by their operations.
  [[nodiscard]] GpuTrace finish();

 private:
  struct Launch {
    std::uint64_t lane = 0;
    std::int64_t time_ns = 0;
  };

  void nest();
  void link_kernels();
  void refine(TracedKernel& kernel);
  [[nodiscard]] std::uint32_t innermost(const Launch& launch) const;

  GpuTrace trace_;
  std::unordered_map<std::string, std::uint32_t> names_;
  std::unordered_map<std::string, std::uint32_t> shapes_;
  std::vector<OperationEvent> operations_;  // after nest() in the order of trace_.operations
  std::vector<KernelEvent> kernels_;
  std::unordered_map<std::int64_t, Launch> launches_;
};

// Bytes of a collective as nccl-tests counts them, from the elements of a rank's buffers: the whole
// buffer, gathered for all_gather and before the scatter for reduce_scatter.
[[nodiscard]] std::int64_t call_elements(CollectiveOp op, std::int64_t in, std::int64_t out);

// The operation of a name such as "_allgather_base", "ncclAllReduce" or
// "reduce_scatter_tensor_coalesced"; nothing for other names.
[[nodiscard]] std::optional<CollectiveOp> collective_in_name(std::string_view name);

// nccl-tests' name and the bytes of one element of a type that PyTorch or a NCCL kernel names:
// "BFloat16", "c10::Half", "f32". Zero bytes: unknown.
struct ElementType {
  std::string_view nccl_name = {};
  std::int64_t bytes = 0;
};
[[nodiscard]] ElementType element_type(std::string_view name);

}  // namespace trainyard
