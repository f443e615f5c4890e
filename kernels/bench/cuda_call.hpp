// Return codes of the CUDA libraries become RunError: nothing that failed is measured.
//
//   check(cudaStreamSynchronize(stream), "waiting for the product");
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string_view>

#include "sim/base/error.hpp"

namespace trainyard::bench {

// This GPU or library cannot do the task (fp8 before Hopper, too little memory): it is left out and
// listed, and the others go on.
struct Unsupported : RunError {
  using RunError::RunError;
};

// Throws RunError "DOING: what CUDA says"; Unsupported when memory ran out, after which a GPU is as
// good as before.
void check(cudaError_t code, std::string_view doing);
// Unsupported too for what cuBLASLt says it does not have.
void check(cublasStatus_t code, std::string_view doing);

}  // namespace trainyard::bench
