// A GPU's profile as read from kernels/profiles/<gpu>.json: data sheet plus fitted models.
//
//   GpuProfile h200 = load_profile("h200");   // own data sheet, models fitted on the H100
//   h200.sheet.derived_from;                  // "h100"
//
// The format is described in kernels/README.md. Efficiencies are stored (shares of the roofline),
// so that a table moves to a sibling GPU with another clock or memory; here they become corrections
// of the model.
#pragma once

#include <filesystem>
#include <string>

#include "kernels/attention.hpp"
#include "kernels/gemm.hpp"
#include "kernels/gpu.hpp"
#include "kernels/grouped_gemm.hpp"
#include "kernels/measured_kernels.hpp"
#include "kernels/roofline.hpp"

namespace trainyard {

struct GpuProfile {
  GpuSheet sheet;
  GemmModel gemm;
  GroupedModel grouped;
  AttentionModel attention;
  MemoryModel memory;
  // The power that the GPU draws at full load whatever its clock; 0: not told, nothing.
  double static_power_w = 0.0;
  // The clock that siblings hold under load goes with the rest of their power to this power.
  double clock_exponent = 1.0 / 3.0;
  double gemm_time = 1.0;  // of a derived GPU's products over what the sibling's tables say
  std::vector<MeasuredKernel> measured{};  // on this very GPU, by `trainyard profile`
};

// Throws InputError for an unknown name or a malformed file, all problems together.
[[nodiscard]] GpuProfile load_profile(const std::string& name_or_path);

// The data sheet alone; what was fitted is not looked at.
[[nodiscard]] GpuSheet read_profile_sheet(const std::filesystem::path& path);

}  // namespace trainyard
