// Return codes of the CUDA libraries become RunError: nothing that failed is measured.
//
//   check(cudaStreamSynchronize(stream), "waiting for the product");
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string_view>

#include "kernels/bench/measured_profile.hpp"

namespace trainyard::bench {

// Throws RunError "DOING: what CUDA says"; Unsupported when memory ran out, after which a GPU is as
// good as before.
void check(cudaError_t code, std::string_view doing);
// Unsupported too for what cuBLASLt says it does not have.
void check(cublasStatus_t code, std::string_view doing);

}  // namespace trainyard::bench
