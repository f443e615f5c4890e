#include "kernels/bench/cuda_call.hpp"

#include <fmt/format.h>

namespace trainyard::bench {

void check(cudaError_t code, std::string_view doing) {
  if (code == cudaSuccess) return;
  const std::string problem = fmt::format("{}: {}", doing, cudaGetErrorString(code));
  if (code != cudaErrorMemoryAllocation) throw RunError(problem);
  (void)cudaGetLastError();  // or the next kernel's check would find this error again
  throw Unsupported(problem);
}

void check(cublasStatus_t code, std::string_view doing) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  const std::string problem = fmt::format("{}: {}", doing, cublasLtGetStatusName(code));
  if (code == CUBLAS_STATUS_NOT_SUPPORTED || code == CUBLAS_STATUS_ARCH_MISMATCH)
    throw Unsupported(problem);
  throw RunError(problem);
}

}  // namespace trainyard::bench
