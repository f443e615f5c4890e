// The GPUs with tables of measured kernels, and which rows serve which profile.
//
//   for (const Target& target : targets) read_gemm_samples(folder / "gemm" / target.table, "bf16");
#pragma once

#include <array>

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

}  // namespace trainyard::fit
