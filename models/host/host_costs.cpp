#include "models/host/host_costs.hpp"

#include <algorithm>

#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

constexpr double kKernelsMost = 100.0;

// Experts without rows have no product.
double products_of(const GroupedGemm& experts) {
  return static_cast<double>(std::count_if(experts.rows.begin(), experts.rows.end(),
                                           [](std::int64_t rows) { return rows > 0; }));
}

double kernels_of(const HostKernels& kernels, const Kernel& kernel) {
  if (const auto* gemm = std::get_if<Gemm>(&kernel))
    return gemm->batch > 1 ? kernels.batched_gemm : kernels.gemm;
  if (const auto* experts = std::get_if<GroupedGemm>(&kernel))
    return kernels.gemm * (experts->per_expert ? products_of(*experts) : 1.0);
  if (std::holds_alternative<Attention>(kernel)) return kernels.attention;
  if (const auto* memory = std::get_if<MemoryBound>(&kernel)) {
    if (memory->kind == MemoryBoundKind::Norm) return kernels.norm;
    return kernels.other * static_cast<double>(std::max<std::int64_t>(memory->launches, 1));
  }
  return kernels.other;
}

HostKernels read_kernels(JsonObject object) {
  static_cast<void>(object.text("source"));
  const auto count = [&object](std::string_view key) {
    return object.number(key, {.least = 0.0, .most = kKernelsMost});
  };
  return {.gemm = count("gemm"),
          .batched_gemm = count("batched_gemm"),
          .attention = count("attention"),
          .norm = count("norm"),
          .other = count("other")};
}

}  // namespace

Seconds HostCosts::seconds(const Kernel& kernel, StepPart part) const {
  const bool backward = part == StepPart::Backward || part == StepPart::WeightGrad;
  return (backward ? backward_kernel : forward_kernel) * kernels_of(kernels, kernel);
}

std::vector<std::string> host_names() {
  std::vector<std::string> names = data_names("models/hosts");
  names.emplace_back("none");
  return names;
}

HostCosts load_host_costs(const std::string& name_or_path) {
  if (name_or_path == "none") return {};
  const auto path = data_file("models/hosts", name_or_path);
  JsonFile file = JsonFile::read(path);
  JsonObject root = file.root();
  const auto time = [&root](std::string_view key) {
    JsonObject figure = root.object(key);
    static_cast<void>(figure.text("source"));
    return figure.time("value");
  };
  static_cast<void>(root.text("title"));
  HostCosts costs{.name = path.stem().string(),
                  .forward_kernel = time("forward_kernel"),
                  .backward_kernel = time("backward_kernel"),
                  .collective = time("collective"),
                  .synchronize = time("synchronize"),
                  .kernels = read_kernels(root.object("kernels")),
                  .step = root.has("step") ? time("step") : Seconds{0.0},
                  .blocking = root.boolean("blocking", false)};
  file.finish();
  return costs;
}

}  // namespace trainyard
