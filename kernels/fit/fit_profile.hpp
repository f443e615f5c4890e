// From the measured tables to the fitted sections of the profiles, with their provenance, and the
// GPUs that have tables.
#pragma once

#include <array>
#include <filesystem>
#include <string>

namespace trainyard::fit {

// Which rows belong to a profile. Single measurements exist on neighbours of a GPU only; what is
// taken from another board says so in the profile.
struct Target {
  const char* profile;
  const char* table;              // in gemm/ and attention/
  const char* attention_backend;  // the kernel a training framework would call
  const char* layouts;            // GPU of the rows with layouts
  const char* layouts_profile;    // the profile that prices these rows
  const char* layers;             // GPU of the rows of layers run back to back
  const char* attention_pairs;    // GPU of the rows of forward and backward attention
  bool own_attention_pairs;       // the same generation of GPU, so the rows also check the tables
};

inline constexpr std::array targets = {
    Target{"a100_80gb", "a100_sxm.csv", "sglang/flash_attention", "A100-PCIe-80GB", "a100_80gb",
           "A100-SXM4-80GB", "A100-PCIe-80GB", true},
    Target{"h100", "h100_sxm.csv", "sglang/fa3", "A100-PCIe-80GB", "a100_80gb", "H100-SXM5-80GB",
           "A100-PCIe-80GB", false},
    Target{"b200", "b200_sxm.csv", "sglang/trtllm_mha", "B200-SXM", "b200", "B200-SXM", "B200-SXM",
           true}};

// The GPU, and the profile that describes it, of the rows that tell how soon one expert's product
// follows another.
inline constexpr const char* training_rows_gpu = "B200-SXM";
inline constexpr const char* training_rows_profile = "b200";

inline constexpr std::array<const char*, 3> module_precisions = {"bf16", "fp8", "fp8_block"};

struct FitRequest {
  std::filesystem::path measured;  // holds gemm/, attention/, other.json
  std::filesystem::path profiles;  // empty: print only
  std::string date;
};

// Prints the errors on unseen shapes of each GPU, and writes the profiles if asked. Throws
// InputError when a table or a profile cannot be read.
void fit_profiles(const FitRequest& request);

}  // namespace trainyard::fit
