// How far a GPU's profile is off on kernels that somebody measured: a measured profile or a table
// of their own, of any GPU, nothing of which is fitted.
//
//   judge_rows(read_profile("my_h200.json"), "h200");         // a name of `trainyard list gpus`
//   judge_rows(from_csv("gemm.csv", origin), "my_gpu.json");  // or a profile of one's own
#pragma once

#include <string>
#include <vector>

#include "kernels/bench/measured_profile.hpp"
#include "kernels/fit/judge.hpp"

namespace trainyard::bench {

// By kind of kernel and precision, at burst clock. All rows are judged: `known` of them have shapes
// that the profile holds as measured, on its own machine. Rows that no simulated kernel answers
// (launches, interference) are left out. Throws InputError for a profile that is not there, a
// precision that the GPU lacks, or no row.
[[nodiscard]] std::vector<fit::Judgement> judge_rows(const MeasuredProfile& rows,
                                                     const std::string& gpu_profile);

}  // namespace trainyard::bench
