// What kernels on rows of bf16 share: eight elements at a time, and a block's sum or maximum.
//
//   Eight x = load(from, vector);   // 16 bytes, the widest load
//   const float sum = over_block(part, Sum{});   // the same in every thread
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/bench/row_kernels.hpp"

namespace trainyard::bench {

constexpr int block_threads = 256;
constexpr int vector_elements = 8;  // of bf16: 16 bytes, the widest load
// Each thread of a reducing kernel keeps its part of the row in registers.
constexpr int vectors_per_thread =
    static_cast<int>(row_columns_most) / (block_threads * vector_elements);

struct Eight {
  float value[vector_elements];
};

inline __device__ Eight load(const __nv_bfloat16* from, std::int64_t vector) {
  const uint4 raw = reinterpret_cast<const uint4*>(from)[vector];
  const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&raw);
  Eight loaded;
  for (int i = 0; i < vector_elements / 2; ++i) {
    const float2 pair = __bfloat1622float2(pairs[i]);
    loaded.value[2 * i] = pair.x;
    loaded.value[2 * i + 1] = pair.y;
  }
  return loaded;
}

inline __device__ void store(__nv_bfloat16* to, std::int64_t vector, const Eight& stored) {
  uint4 raw;
  auto* pairs = reinterpret_cast<__nv_bfloat162*>(&raw);
  for (int i = 0; i < vector_elements / 2; ++i)
    pairs[i] = __floats2bfloat162_rn(stored.value[2 * i], stored.value[2 * i + 1]);
  reinterpret_cast<uint4*>(to)[vector] = raw;
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// The same value in every thread of the block.
template <class Combine>
__device__ float over_block(float value, Combine combine) {
  __shared__ float of_warp[block_threads / 32];
  for (int step = 16; step > 0; step /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffU, value, step));
  __syncthreads();  // the last reduction's readers are done
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
  for (int warp = 1; warp < block_threads / 32; ++warp) value = combine(value, of_warp[warp]);
  return value;
}

// The softmax of a row of `row_vectors` vectors from `first` on that the block has read, each
// thread its part in `kept` and the largest of them in `largest`.
inline __device__ void store_softmax(__nv_bfloat16* to, std::int64_t first, int row_vectors,
                                     Eight (&kept)[vectors_per_thread], float largest) {
  largest = over_block(largest, Largest{});
  float sum = 0.0F;
#pragma unroll
  for (int part = 0; part < vectors_per_thread; ++part) {
    if (part * block_threads + static_cast<int>(threadIdx.x) >= row_vectors) break;
    for (float& value : kept[part].value) {
      value = __expf(value - largest);
      sum += value;
    }
  }
  const float share = 1.0F / over_block(sum, Sum{});
#pragma unroll
  for (int part = 0; part < vectors_per_thread; ++part) {
    const int i = part * block_threads + static_cast<int>(threadIdx.x);
    if (i >= row_vectors) break;
    for (float& value : kept[part].value) value *= share;
    store(to, first + i, kept[part]);
  }
}

}  // namespace trainyard::bench
