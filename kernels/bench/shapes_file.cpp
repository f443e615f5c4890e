#include "kernels/bench/shapes_file.hpp"

#include <algorithm>

#include "sim/workload/kernel_json.hpp"

namespace trainyard::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* shapes_schema_name = "trainyard.kernel_shapes";
constexpr std::int64_t shapes_schema_version = 1;

RowOperation operation_for(MemoryBoundKind kind) {
  switch (kind) {
    case MemoryBoundKind::Norm:
      return RowOperation::RmsNorm;
    case MemoryBoundKind::Activation:
      return RowOperation::Swiglu;
    case MemoryBoundKind::Softmax:
      return RowOperation::Softmax;
    case MemoryBoundKind::Optimizer:
      return RowOperation::Adam;
    case MemoryBoundKind::Rope:
      return RowOperation::Rope;
    case MemoryBoundKind::CrossEntropy:
      return RowOperation::CrossEntropy;
    case MemoryBoundKind::Embedding:
      return RowOperation::Embedding;
    case MemoryBoundKind::Permute:
      return RowOperation::Permute;
    case MemoryBoundKind::Cast:
      return RowOperation::Cast;
    case MemoryBoundKind::Elementwise:
    case MemoryBoundKind::GradAccumulate:
      return RowOperation::Add;
    default:
      return RowOperation::Copy;
  }
}

RowKernel row_kernel_for(const MemoryBound& kernel) {
  // Rows have the width of typical hidden states. A smaller kernel has one narrower row of whole
  // heads.
  constexpr std::int64_t usual_columns = 4096;
  const std::int64_t wanted = kernel.bytes / std::max<std::int64_t>(1, kernel.launches);
  RowKernel row{.operation = operation_for(kernel.kind), .rows = 1, .columns = usual_columns};
  const std::int64_t one = as_memory_bound(row).bytes;
  if (wanted < one) {
    row.columns = std::max<std::int64_t>(
        rope_head_columns, wanted * usual_columns / one / rope_head_columns * rope_head_columns);
    return row;
  }
  // The difference is the cost of one more row; a weight is read only once.
  row.rows = 2;
  const std::int64_t further = as_memory_bound(row).bytes - one;
  row.rows = 1 + (wanted - one + further / 2) / further;
  return row;
}

struct TaskFor {
  Task operator()(const MemoryBound& kernel) const { return row_kernel_for(kernel); }
  Task operator()(const Recorded& kernel) const { return refuse_recorded(kernel); }
  template <class Same>
  Task operator()(const Same& kernel) const {
    return kernel;
  }
};

}  // namespace

Json shapes_to_json(const std::vector<WantedShape>& shapes, const std::string& gpu) {
  Json rows = Json::array();
  for (const WantedShape& shape : shapes) {
    Json row = {{"kernel", kernel_to_json(shape.kernel)}};
    if (!shape.known_how.empty()) row["known_how"] = shape.known_how;
    if (shape.share > 0.0) row["share_of_busy_time"] = shape.share;
    rows.push_back(std::move(row));
  }
  return {{"schema", shapes_schema_name},
          {"version", shapes_schema_version},
          {"gpu", gpu},
          {"rows", rows}};
}

Task task_for(const Kernel& kernel) { return std::visit(TaskFor{}, kernel); }

std::vector<Task> read_shapes(const std::filesystem::path& file) {
  JsonFile json = JsonFile::read(file);
  JsonObject root = json.root();
  (void)root.choice("schema", {shapes_schema_name});
  (void)root.integer("version", {.least = shapes_schema_version, .most = shapes_schema_version});
  (void)root.text("gpu");
  std::vector<Task> tasks;
  for (JsonObject& row : root.objects("rows")) {
    row.ignore("known_how");
    row.ignore("share_of_busy_time");
    JsonObject kernel = row.object("kernel");
    const Task task = task_for(read_kernel(kernel));
    if (std::ranges::find(tasks, task) == tasks.end()) tasks.push_back(task);
  }
  json.finish();
  return tasks;
}

}  // namespace trainyard::bench
