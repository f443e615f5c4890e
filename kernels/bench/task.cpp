#include "kernels/bench/task.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/workload/kernel_json.hpp"

namespace trainyard::bench {

namespace {

using Json = nlohmann::ordered_json;

struct TextOf {
  // "experts rows256x8 n4096 k7168 bf16 forward per_expert", or each expert's rows: "rows300,212".
  std::string operator()(const GroupedGemm& gemm) const {
    const bool even = !gemm.rows.empty() && std::ranges::count(gemm.rows, gemm.rows.front()) ==
                                                static_cast<std::ptrdiff_t>(gemm.rows.size());
    const std::string rows = even ? fmt::format("{}x{}", gemm.rows.front(), gemm.rows.size())
                                  : fmt::format("{}", fmt::join(gemm.rows, ","));
    return fmt::format("experts rows{} n{} k{} {} {}{}{}", rows, gemm.n, gemm.k,
                       to_string(gemm.dtype), to_string(gemm.pass),
                       gemm.accumulate_fp32 ? " accumulate_fp32" : "",
                       gemm.per_expert ? " per_expert" : "");
  }
  std::string operator()(const Interference& task) const {
    return fmt::format("interference sms{} {}", task.sms, to_text(Kernel{task.gemm}));
  }
  std::string operator()(const FusedGemm& task) const {
    return fmt::format("fused {} {}", to_string(task.epilogue), to_text(Kernel{task.gemm}));
  }
  std::string operator()(const UnfusedAttention& task) const {
    return "unfused " + to_text(Kernel{task.attention});
  }
  template <class Same>
  std::string operator()(const Same& kernel) const {
    return to_text(Kernel{kernel});
  }
  std::string operator()(const RowKernel& kernel) const {
    return fmt::format("{} rows{} columns{}", to_string(kernel.operation), kernel.rows,
                       kernel.columns);
  }
  std::string operator()(const Launches& launches) const {
    return fmt::format("launch {} count{}", to_string(launches.style), launches.count);
  }
};

struct JsonOf {
  Json operator()(const Interference& task) const {
    return {{"kind", "interference"}, {"sms", task.sms}, {"gemm", kernel_to_json(task.gemm)}};
  }
  Json operator()(const FusedGemm& task) const {
    return {{"kind", "fused_gemm"},
            {"epilogue", to_string(task.epilogue)},
            {"gemm", kernel_to_json(task.gemm)}};
  }
  Json operator()(const UnfusedAttention& task) const {
    return {{"kind", "unfused_attention"}, {"attention", kernel_to_json(task.attention)}};
  }
  template <class Same>
  Json operator()(const Same& kernel) const {
    return kernel_to_json(kernel);
  }
  Json operator()(const RowKernel& kernel) const {
    Json json = kernel_to_json(as_memory_bound(kernel));
    json["operation"] = to_string(kernel.operation);
    json["rows"] = kernel.rows;
    json["columns"] = kernel.columns;
    return json;
  }
  Json operator()(const Launches& launches) const {
    return {{"kind", "launch"}, {"style", to_string(launches.style)}, {"count", launches.count}};
  }
};

struct GroupOf {
  std::string_view operator()(const Gemm&) const { return "gemm"; }
  std::string_view operator()(const RowKernel&) const { return "memory"; }
  std::string_view operator()(const Copy&) const { return "copy"; }
  std::string_view operator()(const Launches&) const { return "launch"; }
  std::string_view operator()(const GroupedGemm&) const { return "experts"; }
  std::string_view operator()(const Attention&) const { return "attention"; }
  std::string_view operator()(const Interference&) const { return "interference"; }
  std::string_view operator()(const FusedGemm&) const { return "gemm"; }
  std::string_view operator()(const UnfusedAttention&) const { return "attention"; }
};

Task read_row_kernel(JsonObject& object) {
  const RowKernel kernel{.operation = read_enumerator(object, "operation", RowOperation::Adam),
                         .rows = object.integer("rows", {.least = 1}),
                         .columns = object.integer("columns", {.least = 1})};
  const Json written = JsonOf{}(kernel);
  for (const char* derived : {"what", "bytes", "launches"})
    if (object.has(derived) && object.raw(derived) != written[derived])
      object.report(derived, "is " + shown(object.raw(derived)) + ", which contradicts the shape",
                    "leave it out, or write " + shown(written[derived]));
  return kernel;
}

// The kernel under the key, which must be of that kind.
template <class Wanted>
Wanted read_part(JsonObject& object, const std::string& kind) {
  JsonObject part = object.object(kind);
  const Kernel kernel = read_kernel(part);
  if (const auto* wanted = std::get_if<Wanted>(&kernel)) return *wanted;
  object.report(kind, "is another kind of kernel", "write {\"kind\": \"" + kind + "\", ...}");
  return {};
}

// A memory-bound kernel is one of ours (read_row_kernel) and has been read.
struct TaskOf {
  Task operator()(const MemoryBound&) const { return RowKernel{}; }
  Task operator()(const Recorded& kernel) const { return refuse_recorded(kernel); }
  template <class Same>
  Task operator()(const Same& kernel) const {
    return kernel;
  }
};

}  // namespace

std::string_view to_string(RowOperation operation) {
  switch (operation) {
    case RowOperation::Copy:
      return "copy_kernel";
    case RowOperation::Add:
      return "add";
    case RowOperation::RmsNorm:
      return "rms_norm";
    case RowOperation::LayerNorm:
      return "layer_norm";
    case RowOperation::Swiglu:
      return "swiglu";
    case RowOperation::Softmax:
      return "softmax";
    case RowOperation::Rope:
      return "rope";
    case RowOperation::CrossEntropy:
      return "cross_entropy";
    case RowOperation::Embedding:
      return "embedding";
    case RowOperation::Permute:
      return "permute";
    case RowOperation::Cast:
      return "cast";
    case RowOperation::Adam:
      return "adam";
  }
  return "";
}

std::string_view to_string(Epilogue epilogue) {
  return epilogue == Epilogue::Bias ? "bias" : "gelu_bias";
}

std::string_view to_string(LaunchStyle style) {
  switch (style) {
    case LaunchStyle::Issue:
      return "issue";
    case LaunchStyle::Stream:
      return "stream";
    case LaunchStyle::Graph:
      return "graph";
  }
  return "";
}

MemoryBound as_memory_bound(const RowKernel& kernel) {
  const std::int64_t elements = kernel.rows * kernel.columns;
  switch (kernel.operation) {
    case RowOperation::Copy:
      return {.kind = MemoryBoundKind::Elementwise, .bytes = elements * (2 + 2)};
    case RowOperation::Add:
      return {.kind = MemoryBoundKind::Elementwise, .bytes = elements * (2 + 2 + 2)};
    case RowOperation::RmsNorm:
      // The weight is read once: all rows but the first find it in a cache.
      return {.kind = MemoryBoundKind::Norm, .bytes = elements * (2 + 2) + 2 * kernel.columns};
    case RowOperation::LayerNorm:
      return {.kind = MemoryBoundKind::Norm, .bytes = elements * (2 + 2) + 4 * kernel.columns};
    case RowOperation::Swiglu:
      return {.kind = MemoryBoundKind::Activation, .bytes = elements * (4 + 2)};
    case RowOperation::Softmax:
      return {.kind = MemoryBoundKind::Softmax, .bytes = elements * (2 + 2)};
    case RowOperation::Rope:
      // A row's table serves all its heads.
      return {.kind = MemoryBoundKind::Rope,
              .bytes = elements * (2 + 2) + kernel.rows * rope_head_columns * 2};
    case RowOperation::CrossEntropy:
      return {.kind = MemoryBoundKind::CrossEntropy, .bytes = elements * (2 + 2 + 2)};
    case RowOperation::Embedding:
      return {.kind = MemoryBoundKind::Embedding, .bytes = elements * (2 + 2)};
    case RowOperation::Permute:
      return {.kind = MemoryBoundKind::Permute, .bytes = elements * (2 + 2)};
    case RowOperation::Cast:
      return {.kind = MemoryBoundKind::Cast, .bytes = elements * (4 + 2)};
    case RowOperation::Adam:
      return {.kind = MemoryBoundKind::Optimizer,
              .bytes = elements * adam_mixed_bytes_per_parameter};
  }
  return {};
}

std::string task_text(const Task& task) { return std::visit(TextOf{}, task); }
std::string_view task_group(const Task& task) { return std::visit(GroupOf{}, task); }
nlohmann::ordered_json task_to_json(const Task& task) { return std::visit(JsonOf{}, task); }

Task refuse_recorded(const Recorded& kernel) {
  throw InputError(Problem{
      .file = {},
      .pointer = {},
      .problem = fmt::format("\"{}\" has no shape that could be measured", to_text(Kernel{kernel})),
      .hint = "leave it out"});
}

Task read_task(JsonObject object) {
  const Json& kind = object.raw("kind");
  if (kind == "memory_bound") return read_row_kernel(object);
  if (kind == "interference")
    return Interference{.sms = object.integer("sms", {.least = 1}),
                        .gemm = read_part<Gemm>(object, "gemm")};
  if (kind == "fused_gemm")
    return FusedGemm{.epilogue = read_enumerator(object, "epilogue", Epilogue::GeluBias),
                     .gemm = read_part<Gemm>(object, "gemm")};
  if (kind == "unfused_attention")
    return UnfusedAttention{read_part<Attention>(object, "attention")};
  if (kind == "launch")
    return Launches{.style = read_enumerator(object, "style", LaunchStyle::Graph),
                    .count = object.integer("count", {.least = 1})};
  return std::visit(TaskOf{}, read_kernel(object));
}

}  // namespace trainyard::bench
