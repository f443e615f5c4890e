#include "kernels/bench/row_kernels.hpp"

namespace trainyard::bench {

namespace {

constexpr int occupying_threads = 512;  // as NCCL's kernels have

__device__ unsigned long long nanoseconds_now() {
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void occupation_kernel(const uint4* from, uint4* into, std::int64_t vectors,
                                  unsigned long long nanoseconds, unsigned long long* copied) {
  const unsigned long long end = nanoseconds_now() + nanoseconds;
  const std::int64_t step = std::int64_t{gridDim.x} * occupying_threads;
  std::int64_t at = std::int64_t{blockIdx.x} * occupying_threads + threadIdx.x;
  unsigned long long moved = 0;
  while (nanoseconds_now() < end) {
    for (int i = 0; i < 16; ++i) {
      into[at] = from[at];
      at += step;
      if (at >= vectors) at -= vectors;
    }
    moved += 16 * sizeof(uint4);
  }
  atomicAdd(copied, moved);
}

}  // namespace

cudaError_t launch_occupation(const Occupation& o, cudaStream_t stream) {
  int device = 0;
  int shared_bytes = 0;
  int sms = 0;
  cudaError_t code = cudaGetDevice(&device);
  if (code == cudaSuccess)
    code = cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (code == cudaSuccess)
    code = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  // All of an SM's shared memory: no other block finds room beside it.
  if (code == cudaSuccess)
    code = cudaFuncSetAttribute(occupation_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                shared_bytes);
  if (code != cudaSuccess) return code;
  if (o.sms >= sms) return cudaErrorInvalidValue;
  occupation_kernel<<<static_cast<unsigned>(o.sms), occupying_threads,
                      static_cast<std::size_t>(shared_bytes), stream>>>(
      static_cast<const uint4*>(o.from), static_cast<uint4*>(o.into),
      o.bytes / static_cast<std::int64_t>(sizeof(uint4)),
      static_cast<unsigned long long>(o.nanoseconds), o.copied_bytes);
  return cudaGetLastError();
}

}  // namespace trainyard::bench
