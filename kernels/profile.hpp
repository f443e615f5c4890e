// The profile of a GPU, as read from kernels/profiles/<gpu>.json: data sheet and fitted models.
//
//    GpuProfile h200 = load_profile("h200");   // own data sheet, models fitted on the H100
//    h200.sheet.derived_from;                  // "h100"
//
// kernels/README.md describes the format. A file stores efficiencies (shares of the roofline), so
// that a table can be used for a sibling GPU with another clock or memory. This reader converts
// them into corrections of the model.
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
  // Power that the GPU draws at full load at any clock; 0: unknown, taken as none.
  double static_power_w = 0.0;
  // Exponent that relates the clock of a sibling under load to its power without the static part.
  double clock_exponent = 1.0 / 3.0;
  // Derived GPUs: measured time of a GEMM over the time from the sibling's tables.
  double gemm_time = 1.0;
  std::vector<MeasuredKernel> measured{};  // measured on this GPU itself, by `trainyard profile`
};

// Throws InputError for an unknown name or a malformed file; one error lists all problems.
[[nodiscard]] GpuProfile load_profile(const std::string& name_or_path);

// The data sheet alone; fitted sections are not read.
[[nodiscard]] GpuSheet read_profile_sheet(const std::filesystem::path& path);

}  // namespace trainyard
