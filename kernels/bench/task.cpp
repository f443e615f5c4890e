#include "kernels/bench/task.hpp"

#include <fmt/format.h>

#include "sim/graph/kernel_json.hpp"

namespace trainyard::bench {

namespace {

using Json = nlohmann::ordered_json;

struct TextOf {
  std::string operator()(const Gemm& gemm) const { return to_text(Kernel{gemm}); }
  std::string operator()(const Copy& copy) const { return to_text(Kernel{copy}); }
  std::string operator()(const RowKernel& kernel) const {
    return fmt::format("{} rows{} columns{}", to_string(kernel.operation), kernel.rows,
                       kernel.columns);
  }
  std::string operator()(const Launches& launches) const {
    return fmt::format("launch {} count{}", to_string(launches.style), launches.count);
  }
};

struct JsonOf {
  Json operator()(const Gemm& gemm) const { return kernel_to_json(gemm); }
  Json operator()(const Copy& copy) const { return kernel_to_json(copy); }
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

Task read_library_kernel(JsonObject& object) {
  const Kernel kernel = read_kernel(object);
  if (const auto* gemm = std::get_if<Gemm>(&kernel)) return *gemm;
  if (const auto* copy = std::get_if<Copy>(&kernel)) return *copy;
  object.report("kind", "is not measured by this program", "gemm, memory_bound, copy or launch");
  return Copy{};
}

}  // namespace

std::string_view to_string(RowOperation operation) {
  switch (operation) {
    case RowOperation::Copy:
      return "copy_kernel";
    case RowOperation::Add:
      return "add";
    case RowOperation::RmsNorm:
      return "rms_norm";
    case RowOperation::Swiglu:
      return "swiglu";
    case RowOperation::Softmax:
      return "softmax";
    case RowOperation::Adam:
      return "adam";
  }
  return "";
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
    case RowOperation::Swiglu:
      return {.kind = MemoryBoundKind::Activation, .bytes = elements * (4 + 2)};
    case RowOperation::Softmax:
      return {.kind = MemoryBoundKind::Softmax, .bytes = elements * (2 + 2)};
    case RowOperation::Adam:
      return {.kind = MemoryBoundKind::Optimizer,
              .bytes = elements * adam_mixed_bytes_per_parameter};
  }
  return {};
}

std::string task_text(const Task& task) { return std::visit(TextOf{}, task); }
std::string_view task_group(const Task& task) { return std::visit(GroupOf{}, task); }
nlohmann::ordered_json task_to_json(const Task& task) { return std::visit(JsonOf{}, task); }

Task read_task(JsonObject object) {
  const Json& kind = object.raw("kind");
  if (kind == "memory_bound") return read_row_kernel(object);
  if (kind == "launch")
    return Launches{.style = read_enumerator(object, "style", LaunchStyle::Graph),
                    .count = object.integer("count", {.least = 1})};
  return read_library_kernel(object);
}

}  // namespace trainyard::bench
