// Fits the sections of the profiles from the measured tables, with their provenance; and the list
// of GPUs that have tables.
#pragma once

#include <array>
#include <filesystem>
#include <string>

namespace trainyard::fit {

// The tables and rows that belong to a profile. Some single measurements exist only for a related
// GPU; the profile then names the board that they come from.
struct Target {
  const char* profile;
  const char* table;              // file name in gemm/ and attention/
  const char* attention_backend;  // the backend whose kernel a training framework would call
  const char* layouts;            // GPU of the rows with layouts
  const char* layouts_profile;    // the profile that predicts these rows
  const char* layers;             // GPU of the rows of layers run back to back
  const char* attention_pairs;    // GPU of the rows of forward and backward attention
  bool own_attention_pairs;  // that GPU has the same generation, so the rows also check the tables
};

inline constexpr std::array targets = {
    Target{"a100_80gb", "a100_sxm.csv", "sglang/flash_attention", "A100-PCIe-80GB", "a100_80gb",
           "A100-SXM4-80GB", "A100-PCIe-80GB", true},
    Target{"h100", "h100_sxm.csv", "sglang/fa3", "A100-PCIe-80GB", "a100_80gb", "H100-SXM5-80GB",
           "A100-PCIe-80GB", false},
    Target{"b200", "b200_sxm.csv", "sglang/trtllm_mha", "B200-SXM", "b200", "B200-SXM", "B200-SXM",
           true}};

// The GPU, and its profile, of the rows that give the time from one expert's GEMM to the next.
inline constexpr const char* training_rows_gpu = "B200-SXM";
inline constexpr const char* training_rows_profile = "b200";

inline constexpr std::array<const char*, 3> module_precisions = {"bf16", "fp8", "fp8_block"};

struct FitRequest {
  std::filesystem::path measured;  // contains gemm/, attention/, other.json
  std::filesystem::path profiles;  // empty: print only
  std::string date;
};

// Prints the errors on unseen shapes of each GPU, and writes the profiles if `profiles` is set.
// Throws InputError when a table or a profile cannot be read.
void fit_profiles(const FitRequest& request);

}  // namespace trainyard::fit
