#include "kernels/gpu.hpp"

#include "kernels/profile.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

// Answers from a profile. What a derived GPU says was never measured on it.
class ProfileCostModel final : public CostModel {
 public:
  explicit ProfileCostModel(GpuProfile profile) : profile_(std::move(profile)) {}

  [[nodiscard]] Cost cost(const Kernel& kernel) const override {
    Cost found = std::visit([this](const auto& k) { return of(k); }, kernel);
    const bool own_memory = profile_.memory.measured_here && flops(kernel).value() == 0.0;
    if (!profile_.sheet.derived_from.empty() && !own_memory)
      found.provenance = Provenance::Extrapolated;
    return found;
  }

 private:
  void require(DataType dtype) const {
    if (profile_.sheet.peak(dtype).value() > 0.0) return;
    throw InputError(Problem{"", "",
                             profile_.sheet.title + " has no " + std::string(to_string(dtype)),
                             "choose a precision the GPU supports, such as fp16"});
  }
  [[nodiscard]] Cost of(const Gemm& g) const {
    require(g.dtype);
    return scaled(gemm_cost(profile_.sheet, profile_.gemm, g));
  }
  [[nodiscard]] Cost of(const GroupedGemm& g) const {
    require(g.dtype);
    return scaled(grouped_cost(profile_.sheet, profile_.gemm, profile_.grouped, g));
  }
  [[nodiscard]] Cost scaled(Cost cost) const {
    return {cost.time * profile_.gemm_time, cost.provenance};
  }
  [[nodiscard]] Cost of(const Attention& a) const {
    require(a.dtype);
    return attention_cost(profile_.sheet, profile_.attention, a);
  }
  [[nodiscard]] Cost of(const MemoryBound& m) const {
    return memory_bound_cost(profile_.sheet, profile_.memory, m);
  }
  [[nodiscard]] Cost of(const Copy& c) const {
    return copy_cost(profile_.sheet, profile_.memory, c);
  }

  GpuProfile profile_;
};

}  // namespace

FlopsPerSecond GpuSheet::peak(DataType dtype) const {
  switch (dtype) {
    case DataType::Fp32:
      return fp32;
    case DataType::Tf32:
      return tf32;
    case DataType::Bf16:
      return bf16;
    case DataType::Fp16:
      return fp16;
    case DataType::Fp8:
      return fp8;
  }
  return {};
}

GpuSheet load_gpu_sheet(const std::string& name_or_path) {
  return load_profile(name_or_path).sheet;
}

std::unique_ptr<CostModel> load_cost_model(const std::string& name_or_path, Clock clock) {
  GpuProfile profile = load_profile(name_or_path);
  if (clock == Clock::Burst) profile.gemm.sustained_time = 1.0;
  return std::make_unique<ProfileCostModel>(std::move(profile));
}

std::vector<std::string> gpu_names() { return data_names("kernels/profiles"); }

}  // namespace trainyard
