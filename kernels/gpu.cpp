#include "kernels/gpu.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/profile.hpp"
#include "kernels/roofline.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {

namespace {

constexpr const char* kProfileFolder = "kernels/profiles";

// Cost model of a profile. Times of a derived GPU were never measured on it, so they are
// extrapolated.
class ProfileCostModel final : public CostModel {
 public:
  ProfileCostModel(GpuProfile profile, Clock clock) : profile_(std::move(profile)) {
    // Measured kernels are compared with the models at burst clock, because they were measured at
    // it.
    const double steady = profile_.gemm.sustained_time;
    const double held = profile_.attention.clock_time;
    profile_.gemm.sustained_time = 1.0;
    profile_.attention.clock_time = 1.0;
    for (const MeasuredKernel& row : profile_.measured) {
      // Throws where the GPU lacks the precision.
      const Seconds alone = modelled(row.kernel).time;
      if (row.in_step)
        measured_.add_in_step({row.kernel, of_step(row.kernel, row.time, clock, steady), true});
      else
        measured_.add(row, alone);
    }
    if (clock != Clock::Sustained) return;
    profile_.gemm.sustained_time = steady;
    profile_.attention.clock_time = held;
  }

  // An exact measurement has priority, first that of a step. Otherwise the models' time is
  // corrected by near measurements, and stays at least at the roofline.
  [[nodiscard]] Cost cost(const Kernel& kernel) const override {
    if (const auto traced = measured_.in_step(kernel))
      return {*traced, Provenance::Measured, /*in_step=*/true};
    if (const auto exact = measured_.exact(kernel))
      return {at_clock(kernel, *exact), Provenance::Measured};
    Cost found = modelled(kernel);
    if (measured_.empty()) return found;
    const auto reading = measured_.correction(kernel);
    found.time = found.time * std::exp(reading.log_factor);
    if (reading.near && found.provenance != Provenance::Measured)
      found.provenance = Provenance::Interpolated;
    return at_least(found, bound_of(kernel));
  }

 private:
  // Time from the profile's models, without the measured kernels.
  [[nodiscard]] Cost modelled(const Kernel& kernel) const {
    Cost found = std::visit([this](const auto& k) { return of(k); }, kernel);
    const bool own_memory = profile_.memory.measured_here && flops(kernel).value() == 0.0;
    const bool bound = found.provenance == Provenance::Roofline;
    if (!profile_.sheet.derived_from.empty() && !own_memory && !bound)
      found.provenance = Provenance::Extrapolated;
    return found;
  }
  // Measurements are single kernels at burst clock. In a step GEMMs slow down, but their launches
  // do not.
  [[nodiscard]] Seconds at_clock(const Kernel& kernel, Seconds burst) const {
    const bool gemm =
        std::holds_alternative<Gemm>(kernel) || std::holds_alternative<GroupedGemm>(kernel);
    if (!gemm) return burst;
    const Seconds launch = std::min(profile_.gemm.tile.launch, burst);
    return launch + (burst - launch) * profile_.gemm.sustained_time;
  }
  // The time, at the clock of this model, of a kernel that was measured in a step: at burst clock
  // the inverse of at_clock.
  [[nodiscard]] Seconds of_step(const Kernel& kernel, Seconds in_step, Clock clock,
                                double sustained_time) const {
    const bool gemm =
        std::holds_alternative<Gemm>(kernel) || std::holds_alternative<GroupedGemm>(kernel);
    if (!gemm || clock == Clock::Sustained) return in_step;
    const Seconds launch = std::min(profile_.gemm.tile.launch, in_step);
    return launch + (in_step - launch) / sustained_time;
  }
  // The roofline of a kernel with arithmetic.
  [[nodiscard]] Seconds bound_of(const Kernel& kernel) const {
    const auto bound = [&](DataType dtype) {
      return roofline(flops(kernel), hbm_bytes(kernel), profile_.sheet.peak(dtype),
                      profile_.sheet.hbm);
    };
    if (const auto* gemm = std::get_if<Gemm>(&kernel)) return bound(gemm->dtype);
    if (const auto* grouped = std::get_if<GroupedGemm>(&kernel)) return bound(grouped->dtype);
    if (const auto* attention = std::get_if<Attention>(&kernel)) return bound(attention->dtype);
    return Seconds{0};
  }
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
  [[nodiscard]] Cost of(const Recorded& r) const {
    if (r.seconds > 0.0) return {Seconds{r.seconds}, Provenance::Measured};
    if (r.flops > 0) require(r.dtype);
    const Seconds bound =
        roofline(flops(r), hbm_bytes(r), profile_.sheet.peak(r.dtype), profile_.sheet.hbm);
    return {bound, Provenance::Extrapolated};
  }

  GpuProfile profile_;
  MeasuredKernels measured_;
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

double four_bit_share(const GpuSheet& sheet) {
  if (sheet.fp4.value() > 0.0) return sheet.fp8.value() / sheet.fp4.value();
  throw InputError(Problem{"", "/training/recipe", sheet.title + " has no 4-bit GEMMs",
                           "choose a recipe with 8-bit GEMMs, such as fp8_cached"});
}

GpuSheet load_gpu_sheet(const std::string& name_or_path) {
  return read_once<GpuSheet>(data_file(kProfileFolder, name_or_path), read_profile_sheet);
}

PricedGpu load_gpu(const std::string& name_or_path, Clock clock) {
  GpuProfile profile = load_profile(name_or_path);
  GpuSheet sheet = profile.sheet;
  return {.sheet = std::move(sheet),
          .model = std::make_unique<ProfileCostModel>(std::move(profile), clock)};
}

std::unique_ptr<CostModel> load_cost_model(const std::string& name_or_path, Clock clock) {
  return load_gpu(name_or_path, clock).model;
}

std::vector<std::string> gpu_names() { return data_names(kProfileFolder); }

}  // namespace trainyard
