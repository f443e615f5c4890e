#include "scenarios/import/traced_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "scenarios/import/traced_shapes.hpp"

namespace trainyard {

namespace {

constexpr double kNsPerUs = 1e3;
constexpr double kNsPerS = 1e9;

// An operation with all kernels that count as its own.
struct Launched {
  double ns = 0.0;
  std::size_t kernels = 0;
  std::uint32_t name = 0;  // of its longest kernel
  std::int64_t longest_ns = -1;
};

// True for nodes of autograd: "MmBackward0", "autograd::engine::evaluate_function: MmBackward0".
// The node of a checkpoint does not count, because the forward runs again within it.
bool is_backward_node(std::string_view name) {
  const std::size_t at = name.rfind("Backward");
  if (at == std::string_view::npos || name.find("Checkpoint") != std::string_view::npos)
    return false;
  return name.find_first_not_of("0123456789", at + 8) == std::string_view::npos;
}

// Converts one trace in three passes. Over operations: remembers the GEMMs of forwards, which a
// backward refers to by sequence number. Over kernels: adds the time of each to the operation that
// owns it. Over owners: makes a row of an operation's shape and the sum of its kernels.
class TraceConverter {
 public:
  TraceConverter(const GpuTrace& trace, const TracedKernelOptions& options)
      : trace_(trace), options_(options) {}

  void convert() {
    for (std::uint32_t index = 0; index < trace_.operations.size(); ++index) remember(index);
    for (const TracedKernel& kernel : trace_.kernels) {
      if (is_communication(kernel.kind)) continue;
      seconds += static_cast<double>(kernel.duration_ns) / kNsPerS;
      attribute(kernel);
    }
    for (const auto& [operation, launched] : launched_) classify(operation, launched);
  }

  std::map<std::string, TracedRow> rows;
  std::map<std::pair<std::string, std::string>, UnclassifiedKernels> unclassified;
  std::set<std::string> assumptions;
  double seconds = 0.0;
  double classified_s = 0.0;

 private:
  [[nodiscard]] std::string_view name_of(std::uint32_t operation) const {
    return trace_.names[trace_.operations[operation].name];
  }
  [[nodiscard]] const TracedShape* shape_of(std::uint32_t operation) const {
    const std::uint32_t shape = trace_.operations[operation].shape;
    return shape == kAbsent ? nullptr : &trace_.shapes[shape];
  }
  [[nodiscard]] std::uint32_t backward_node(std::uint32_t operation) const {
    return trace_.enclosing(trace_.operations[operation].parent, [&](const auto& outer) {
      return is_backward_node(trace_.names[outer.name]);
    });
  }

  // Forward GEMMs by sequence number, and the first GEMM of each backward node: operations of a
  // thread are in the order of their starts, and the first entry of a key stays.
  void remember(std::uint32_t operation) {
    const std::string_view name = name_of(operation);
    const TracedShape* shape = shape_of(operation);
    if (shape == nullptr || !is_gemm_operation(name)) return;
    const std::uint32_t node = backward_node(operation);
    if (node != kAbsent) {
      first_gemm_.try_emplace(node, operation);
      return;
    }
    const auto dims = gemm_dims(name, *shape);
    const std::int64_t sequence = trace_.operations[operation].sequence;
    if (dims && sequence >= 0) forward_.try_emplace(sequence, *dims);
  }

  // The operation whose kernel this is: the innermost one that is known here.
  void attribute(const TracedKernel& kernel) {
    if (kernel.bytes > 0 && kernel.kind == OperationKind::Copy && take_copy(kernel)) return;
    const std::uint32_t owner = trace_.enclosing(kernel.operation, [&](const auto& operation) {
      const std::string& name = trace_.names[operation.name];
      return is_gemm_operation(name) || is_attention_operation(name) ||
             is_memory_bound_operation(name);
    });
    if (owner == kAbsent) {
      leave_out(kernel, reason_without_operation(kernel));
      return;
    }
    Launched& launched = launched_[outermost_attention(owner)];
    launched.ns += static_cast<double>(kernel.duration_ns);
    ++launched.kernels;
    if (kernel.duration_ns > launched.longest_ns) {
      launched.longest_ns = kernel.duration_ns;
      launched.name = kernel.name;
    }
  }

  // Attention has an operation of the library within one of PyTorch; both are the same attention.
  [[nodiscard]] std::uint32_t outermost_attention(std::uint32_t owner) const {
    if (!is_attention_operation(name_of(owner))) return owner;
    const std::uint32_t outer =
        trace_.enclosing(trace_.operations[owner].parent, [&](const auto& operation) {
          return is_attention_operation(trace_.names[operation.name]);
        });
    return outer == kAbsent ? owner : outer;
  }

  [[nodiscard]] std::string reason_without_operation(const TracedKernel& kernel) const {
    if (kernel.operation == kAbsent) return "no operation launched it in the trace";
    if (trace_.names[kernel.name].starts_with("triton_")) return "a fused kernel of the compiler";
    const std::uint32_t named = kernel.operation;
    return fmt::format("{} is no operation whose shape says the kernel", name_of(named));
  }

  void leave_out(const TracedKernel& kernel, const std::string& reason) {
    leave_out(kernel.name, reason, 1, static_cast<double>(kernel.duration_ns) / kNsPerS);
  }
  void leave_out(std::uint32_t name, const std::string& reason, std::size_t kernels,
                 double time_s) {
    UnclassifiedKernels& entry = unclassified[{trace_.names[name], reason}];
    entry.name = trace_.names[name];
    entry.reason = reason;
    entry.kernels += kernels;
    entry.seconds += time_s;
  }

  void add_row(const Kernel& kernel, double time_ns) {
    TracedRow& row = rows[to_text(kernel)];
    row.kernel = kernel;
    row.times_us.push_back(time_ns / kNsPerUs);
    classified_s += time_ns / kNsPerS;
  }

  bool take_copy(const TracedKernel& kernel) {
    const std::string& name = trace_.names[kernel.name];
    const auto holds = [&name](const char* part) { return name.find(part) != std::string::npos; };
    std::optional<CopyKind> kind;
    if (holds("HtoD")) kind = CopyKind::HostToDevice;
    if (holds("DtoH")) kind = CopyKind::DeviceToHost;
    if (holds("DtoD")) kind = CopyKind::DeviceToDevice;
    if (!kind || kernel.duration_ns <= 0) return false;
    add_row(Copy{.kind = *kind, .bytes = kernel.bytes}, static_cast<double>(kernel.duration_ns));
    return true;
  }

  void classify(std::uint32_t operation, const Launched& launched) {
    const TracedShape* shape = shape_of(operation);
    const ShapedKernel shaped =
        shape == nullptr || shape->inputs.empty()
            ? ShapedKernel{.reason = fmt::format("{} has no shape", name_of(operation))}
            : kernel_of(operation, *shape, trace_.names[launched.name]);
    if (!shaped.kernel || launched.ns <= 0.0) {
      leave_out(launched.name, shaped.reason.empty() ? "it takes no time" : shaped.reason,
                launched.kernels, launched.ns / kNsPerS);
      return;
    }
    if (shaped.assumed_causal)
      assumptions.insert(
          "attention is causal: the trace does not say (newer releases of PyTorch record it)");
    add_row(*shaped.kernel, launched.ns);
  }

  ShapedKernel kernel_of(std::uint32_t operation, const TracedShape& shape,
                         const std::string& kernel) {
    const std::string_view name = name_of(operation);
    if (is_gemm_operation(name)) return gemm_of(operation, shape, kernel);
    if (is_attention_operation(name)) {
      const std::size_t query = name.find("backward") == std::string_view::npos ? 0 : 1;
      return attention_kernel(name, shape, dtype_of(shape, query, kernel));
    }
    // With recorded types, memory_bound_kernel() knows the width of each input, and this one is
    // only for types that are not known.
    const DataType dtype = shape.types.empty() ? dtype_of(shape, 0, kernel) : options_.dtype;
    return memory_bound_kernel(name, shape, element_bytes(dtype));
  }

  // The precision that the trace states; else that of the kernel's name; else the user's.
  DataType dtype_of(const TracedShape& shape, std::size_t input, const std::string& kernel) {
    const auto stated = dtype_of_input(shape, input);
    const auto named = dtype_in_name(kernel);
    if (stated == DataType::Fp32 && named == DataType::Tf32) return DataType::Tf32;
    if (stated) return *stated;
    if (named) return *named;
    assumptions.insert(
        fmt::format("operations compute in {} where neither the trace nor the "
                    "kernel's name states the precision (--dtype)",
                    to_string(options_.dtype)));
    return options_.dtype;
  }

  ShapedKernel gemm_of(std::uint32_t operation, const TracedShape& shape,
                       const std::string& kernel) {
    const std::string_view name = name_of(operation);
    const auto dims = gemm_dims(name, shape);
    if (!dims) return {.reason = fmt::format("{} with shapes that are no GEMM", name)};
    // The first input of addmm and baddbmm is what the product is added to.
    const bool adds = name.find("add") != std::string_view::npos;
    const DataType dtype = dtype_of(shape, adds ? 1 : 0, kernel);
    Gemm gemm{.m = dims->m, .n = dims->n, .k = dims->k, .batch = dims->batch, .dtype = dtype};
    const std::uint32_t node = backward_node(operation);
    // A recomputed forward runs within a backward node, but below the layer's own operation.
    const std::uint32_t layer = trace_.enclosing(operation, [&](const auto& outer) {
      return trace_.names[outer.name] == "aten::linear" ||
             is_backward_node(trace_.names[outer.name]);
    });
    if (node == kAbsent || layer != node) return {.kernel = gemm};
    const auto forward = forward_.find(trace_.operations[node].sequence);
    if (forward == forward_.end())
      return {.reason = "a GEMM of the backward whose forward is not in the trace"};
    const bool first = first_gemm_.at(node) == operation;
    const auto known = backward_gemm(*dims, forward->second, first);
    if (!known) return {.reason = "a GEMM of the backward that fits no gradient of its forward"};
    gemm = *known;
    gemm.dtype = dtype;
    return {.kernel = gemm};
  }

  const GpuTrace& trace_;
  const TracedKernelOptions& options_;
  std::unordered_map<std::int64_t, GemmDims> forward_;           // by sequence number
  std::unordered_map<std::uint32_t, std::uint32_t> first_gemm_;  // of a backward node
  std::map<std::uint32_t, Launched> launched_;                   // by operation
};

}  // namespace

TracedKernels traced_kernels(std::span<const GpuTrace> traces, const TracedKernelOptions& options) {
  TracedKernels all;
  std::map<std::string, TracedRow> rows;
  std::map<std::pair<std::string, std::string>, UnclassifiedKernels> unclassified;
  std::set<std::string> assumptions;
  for (const GpuTrace& trace : traces) {
    TraceConverter converter(trace, options);
    converter.convert();
    all.seconds += converter.seconds;
    all.classified_s += converter.classified_s;
    all.shapes += trace.shapes.size();
    assumptions.merge(converter.assumptions);
    assumptions.insert(trace.assumptions.begin(), trace.assumptions.end());
    for (auto& [text, row] : converter.rows) {
      TracedRow& known = rows[text];
      known.kernel = row.kernel;
      known.times_us.insert(known.times_us.end(), row.times_us.begin(), row.times_us.end());
    }
    for (auto& [key, entry] : converter.unclassified) {
      UnclassifiedKernels& known = unclassified[key];
      known.name = entry.name;
      known.reason = entry.reason;
      known.kernels += entry.kernels;
      known.seconds += entry.seconds;
    }
  }
  for (auto& [text, row] : rows) all.rows.push_back(std::move(row));
  for (auto& [key, entry] : unclassified) {
    entry.share = all.seconds > 0.0 ? entry.seconds / all.seconds : 0.0;
    all.unclassified.push_back(std::move(entry));
  }
  std::ranges::stable_sort(all.unclassified, std::greater<>(), &UnclassifiedKernels::seconds);
  all.assumptions.assign(assumptions.begin(), assumptions.end());
  return all;
}

}  // namespace trainyard
