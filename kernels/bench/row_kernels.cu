#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cstdint>

#include "kernels/bench/random_value.hpp"
#include "kernels/bench/reference.hpp"
#include "kernels/bench/row_kernels.hpp"

namespace trainyard::bench {

namespace {

// The kernels process rows of bf16 in vectors of eight elements, and reduce a sum or maximum over a
// block.
//
//    Eight x = load(from, vector);   // 16 bytes, the widest load
//    const float sum = over_block(part, Sum{});   // the same in every thread
constexpr int block_threads = 256;

constexpr int vector_elements = 8;  // of bf16: 16 bytes, the widest load

// Each thread of a reducing kernel holds its part of the row in registers.
constexpr int vectors_per_thread =
    static_cast<int>(row_columns_most) / (block_threads * vector_elements);

struct Eight {
  float value[vector_elements];
};

__device__ Eight load(const __nv_bfloat16* from, std::int64_t vector) {
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

__device__ void store(__nv_bfloat16* to, std::int64_t vector, const Eight& stored) {
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

// Reduces over the block: within each warp by shuffles, then over the warps in shared memory. Every
// thread gets the same value.
template <class Combine>
__device__ float over_block(float value, Combine combine) {
  __shared__ float of_warp[block_threads / 32];
  for (int step = 16; step > 0; step /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffU, value, step));
  __syncthreads();  // all threads have read the result of the previous reduction
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
  for (int warp = 1; warp < block_threads / 32; ++warp) value = combine(value, of_warp[warp]);
  return value;
}

// Stores the softmax of a row of `row_vectors` vectors from `first` on. The block has read the row:
// each thread holds its part in `kept` and the maximum of that part in `largest`.
__device__ void store_softmax(__nv_bfloat16* to, std::int64_t first, int row_vectors,
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

// One thread processes one vector of eight results; the same for add and swiglu.
__global__ void copy_kernel(const __nv_bfloat16* x, __nv_bfloat16* result, std::int64_t vectors) {
  const std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  if (i < vectors) reinterpret_cast<uint4*>(result)[i] = reinterpret_cast<const uint4*>(x)[i];
}

__global__ void add_kernel(const __nv_bfloat16* x, const __nv_bfloat16* second,
                           __nv_bfloat16* result, std::int64_t vectors) {
  const std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  if (i >= vectors) return;
  Eight sum = load(x, i);
  const Eight other = load(second, i);
  for (int j = 0; j < vector_elements; ++j) sum.value[j] += other.value[j];
  store(result, i, sum);
}

__global__ void swiglu_kernel(const __nv_bfloat16* gate_and_up, __nv_bfloat16* result,
                              std::int64_t vectors, std::int64_t row_vectors) {
  const std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  if (i >= vectors) return;
  // A row of the input has 2 * row_vectors vectors: the gate's, then those of up.
  const std::int64_t row = i / row_vectors;
  Eight gate = load(gate_and_up, i + row * row_vectors);
  const Eight up = load(gate_and_up, i + (row + 1) * row_vectors);
  for (int j = 0; j < vector_elements; ++j)
    gate.value[j] = gate.value[j] / (1.0F + __expf(-gate.value[j])) * up.value[j];
  store(result, i, gate);
}

// One block per row. The row is read once and held in registers.
__global__ void rms_norm_kernel(const __nv_bfloat16* x, const __nv_bfloat16* weight,
                                __nv_bfloat16* result, int row_vectors) {
  const std::int64_t first = std::int64_t{blockIdx.x} * row_vectors;
  Eight kept[vectors_per_thread];
  float squares = 0.0F;
#pragma unroll
  for (int part = 0; part < vectors_per_thread; ++part) {
    const int i = part * block_threads + static_cast<int>(threadIdx.x);
    if (i >= row_vectors) break;
    kept[part] = load(x, first + i);
    for (const float value : kept[part].value) squares += value * value;
  }
  const float mean = over_block(squares, Sum{}) / static_cast<float>(row_vectors * vector_elements);
  const float scale = rsqrtf(mean + static_cast<float>(reference::norm_epsilon));
#pragma unroll
  for (int part = 0; part < vectors_per_thread; ++part) {
    const int i = part * block_threads + static_cast<int>(threadIdx.x);
    if (i >= row_vectors) break;
    const Eight weights = load(weight, i);
    for (int j = 0; j < vector_elements; ++j) kept[part].value[j] *= scale * weights.value[j];
    store(result, first + i, kept[part]);
  }
}

// Same as rms_norm_kernel; the bias follows the weight in memory.
__global__ void layer_norm_kernel(const __nv_bfloat16* x, const __nv_bfloat16* weight_and_bias,
                                  __nv_bfloat16* result, int row_vectors) {
  const std::int64_t first = std::int64_t{blockIdx.x} * row_vectors;
  const auto columns = static_cast<float>(row_vectors * vector_elements);
  Eight kept[vectors_per_thread];
  float sum = 0.0F;
#pragma unroll
  for (int part = 0; part < vectors_per_thread; ++part) {
    const int i = part * block_threads + static_cast<int>(threadIdx.x);
    if (i >= row_vectors) break;
    kept[part] = load(x, first + i);
    for (const float value : kept[part].value) sum += value;
  }
  const float mean = over_block(sum, Sum{}) / columns;
  float squares = 0.0F;
#pragma unroll
  for (int part = 0; part < vectors_per_thread; ++part) {
    const int i = part * block_threads + static_cast<int>(threadIdx.x);
    if (i >= row_vectors) break;
    for (float& value : kept[part].value) {
      value -= mean;
      squares += value * value;
    }
  }
  const float variance = over_block(squares, Sum{}) / columns;
  const float scale = rsqrtf(variance + static_cast<float>(reference::norm_epsilon));
#pragma unroll
  for (int part = 0; part < vectors_per_thread; ++part) {
    const int i = part * block_threads + static_cast<int>(threadIdx.x);
    if (i >= row_vectors) break;
    const Eight weights = load(weight_and_bias, i);
    const Eight biases = load(weight_and_bias, row_vectors + i);
    for (int j = 0; j < vector_elements; ++j)
      kept[part].value[j] = kept[part].value[j] * scale * weights.value[j] + biases.value[j];
    store(result, first + i, kept[part]);
  }
}

__global__ void softmax_kernel(const __nv_bfloat16* x, __nv_bfloat16* result, int row_vectors) {
  const std::int64_t first = std::int64_t{blockIdx.x} * row_vectors;
  Eight kept[vectors_per_thread];
  float largest = -3.4e38F;  // below every bf16 value that is filled in
#pragma unroll
  for (int part = 0; part < vectors_per_thread; ++part) {
    const int i = part * block_threads + static_cast<int>(threadIdx.x);
    if (i >= row_vectors) break;
    kept[part] = load(x, first + i);
    for (const float value : kept[part].value) largest = fmaxf(largest, value);
  }
  store_softmax(result, first, row_vectors, kept, largest);
}

// One thread rotates eight columns of the first half of a head with their partners in the second
// half.
__global__ void rope_kernel(const __nv_bfloat16* x, const __nv_bfloat16* table,
                            __nv_bfloat16* result, std::int64_t pairs, std::int64_t row_vectors) {
  constexpr int head_vectors = static_cast<int>(rope_head_columns) / vector_elements;
  constexpr int half = head_vectors / 2;
  const std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  if (i >= pairs) return;
  const std::int64_t low = i / half * head_vectors + i % half;
  const std::int64_t row = low / row_vectors;
  const Eight a = load(x, low);
  const Eight b = load(x, low + half);
  const Eight cosine = load(table, row * head_vectors + i % half);
  const Eight sine = load(table, row * head_vectors + half + i % half);
  Eight turned_a;
  Eight turned_b;
  for (int j = 0; j < vector_elements; ++j) {
    turned_a.value[j] = a.value[j] * cosine.value[j] - b.value[j] * sine.value[j];
    turned_b.value[j] = b.value[j] * cosine.value[j] + a.value[j] * sine.value[j];
  }
  store(result, low, turned_a);
  store(result, low + half, turned_b);
}

// One block per row, of any length. The row is read once for its maximum and sum, and once more for
// the gradient. The maximum and the sum come from one pass: the sum is rescaled whenever the
// maximum grows (online softmax).
__global__ void cross_entropy_kernel(const __nv_bfloat16* x, __nv_bfloat16* result,
                                     int row_vectors) {
  const std::int64_t first = std::int64_t{blockIdx.x} * row_vectors;
  float largest = -3.4e38F;
  float sum = 0.0F;
  for (int i = static_cast<int>(threadIdx.x); i < row_vectors; i += block_threads) {
    const Eight logits = load(x, first + i);
    for (const float value : logits.value) {
      const float above = fmaxf(largest, value);
      sum = sum * __expf(largest - above) + __expf(value - above);
      largest = above;
    }
  }
  const float of_row = over_block(largest, Largest{});
  const float scale = 1.0F / over_block(sum * __expf(largest - of_row), Sum{});
  const auto target = static_cast<int>(blockIdx.x % (row_vectors * vector_elements));
  for (int i = static_cast<int>(threadIdx.x); i < row_vectors; i += block_threads) {
    Eight gradient = load(x, first + i);
    for (int j = 0; j < vector_elements; ++j)
      gradient.value[j] = __expf(gradient.value[j] - of_row) * scale -
                          (i * vector_elements + j == target ? 1.0F : 0.0F);
    store(result, first + i, gradient);
  }
}

// Copies rows in the order of gathered_row, one vector per thread.
__global__ void gather_kernel(const __nv_bfloat16* x, __nv_bfloat16* result, std::int64_t rows,
                              std::int64_t row_vectors, bool each_once) {
  const std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  if (i >= rows * row_vectors) return;
  const std::int64_t from = gathered_row(each_once, i / row_vectors, rows);
  reinterpret_cast<uint4*>(result)[i] =
      reinterpret_cast<const uint4*>(x)[from * row_vectors + i % row_vectors];
}

__global__ void cast_kernel(const float4* x, __nv_bfloat16* result, std::int64_t vectors) {
  const std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  if (i >= vectors) return;
  const float4 low = x[2 * i];
  const float4 high = x[2 * i + 1];
  store(result, i, {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}});
}

struct AdamSingles {
  float rate, beta1, beta2, epsilon, decay, momentum_scale, variance_scale;
};

// One step of AdamW. The scales are the bias corrections of step 1.
__device__ float adam_weight(const AdamSingles& c, float gradient, float weight, float& momentum,
                             float& variance) {
  momentum = c.beta1 * momentum + (1.0F - c.beta1) * gradient;
  variance = c.beta2 * variance + (1.0F - c.beta2) * gradient * gradient;
  const float direction =
      momentum * c.momentum_scale / (sqrtf(variance * c.variance_scale) + c.epsilon);
  return weight - c.rate * (direction + c.decay * weight);
}

// Four parameters per thread: 16 bytes of each fp32 array.
__global__ void adam_kernel(const float4* gradient, float4* weight, float4* momentum,
                            float4* variance, uint2* result, std::int64_t vectors, AdamSingles c) {
  const std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  if (i >= vectors) return;
  const float4 g = gradient[i];
  float4 w = weight[i];
  float4 m = momentum[i];
  float4 v = variance[i];
  w.x = adam_weight(c, g.x, w.x, m.x, v.x);
  w.y = adam_weight(c, g.y, w.y, m.y, v.y);
  w.z = adam_weight(c, g.z, w.z, m.z, v.z);
  w.w = adam_weight(c, g.w, w.w, m.w, v.w);
  weight[i] = w;
  momentum[i] = m;
  variance[i] = v;
  uint2 halves;
  reinterpret_cast<__nv_bfloat162*>(&halves)[0] = __floats2bfloat162_rn(w.x, w.y);
  reinterpret_cast<__nv_bfloat162*>(&halves)[1] = __floats2bfloat162_rn(w.z, w.w);
  result[i] = halves;
}

AdamSingles adam_singles() {
  const reference::AdamConstants c;
  return {static_cast<float>(c.rate),
          static_cast<float>(c.beta1),
          static_cast<float>(c.beta2),
          static_cast<float>(c.epsilon),
          static_cast<float>(c.decay),
          static_cast<float>(1.0 / (1.0 - c.beta1)),
          static_cast<float>(1.0 / (1.0 - c.beta2))};
}

struct Tf32 {
  float value;
  // Rounds to nearest, ties to even, at bit 13 of the fp32 fraction.
  __device__ explicit Tf32(float x) {
    const unsigned bits = __float_as_uint(x);
    value = __uint_as_float((bits + 0xfffU + ((bits >> 13) & 1U)) & ~0x1fffU);
  }
};

template <class Stored>
__global__ void fill_kernel(Stored* memory, std::int64_t count, std::uint64_t seed) {
  const std::int64_t step = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x; i < count;
       i += step)
    memory[i] = Stored(random_value(seed, i));
}

__global__ void count_kernel(unsigned* counter) { *counter += 1; }

unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>((threads + block_threads - 1) / block_threads);
}

template <class Stored>
void fill(const RandomFill& f, cudaStream_t stream) {
  constexpr unsigned blocks_most = 65536;
  fill_kernel<<<std::min(blocks_for(f.count), blocks_most), block_threads, 0, stream>>>(
      static_cast<Stored*>(f.memory), f.count, f.seed);
}

}  // namespace

cudaError_t fill_random(const RandomFill& f, cudaStream_t stream) {
  switch (f.dtype) {
    case DataType::Fp32:
      fill<float>(f, stream);
      break;
    case DataType::Tf32:
      fill<Tf32>(f, stream);
      break;
    case DataType::Bf16:
      fill<__nv_bfloat16>(f, stream);
      break;
    case DataType::Fp16:
      fill<__half>(f, stream);
      break;
    case DataType::Fp8:
      fill<__nv_fp8_e4m3>(f, stream);
      break;
  }
  return cudaGetLastError();
}

cudaError_t launch_row_kernel(const RowKernel& kernel, const RowOperands& o, cudaStream_t stream) {
  const std::int64_t row_vectors = kernel.columns / vector_elements;
  const std::int64_t vectors = kernel.rows * row_vectors;
  const auto rows = static_cast<unsigned>(kernel.rows);
  const unsigned blocks = blocks_for(vectors);
  const auto* x = static_cast<const __nv_bfloat16*>(o.x);
  const auto* second = static_cast<const __nv_bfloat16*>(o.second);
  auto* result = static_cast<__nv_bfloat16*>(o.result);
  switch (kernel.operation) {
    case RowOperation::Copy:
      copy_kernel<<<blocks, block_threads, 0, stream>>>(x, result, vectors);
      break;
    case RowOperation::Add:
      add_kernel<<<blocks, block_threads, 0, stream>>>(x, second, result, vectors);
      break;
    case RowOperation::RmsNorm:
      rms_norm_kernel<<<rows, block_threads, 0, stream>>>(x, second, result,
                                                          static_cast<int>(row_vectors));
      break;
    case RowOperation::LayerNorm:
      layer_norm_kernel<<<rows, block_threads, 0, stream>>>(x, second, result,
                                                            static_cast<int>(row_vectors));
      break;
    case RowOperation::Swiglu:
      swiglu_kernel<<<blocks, block_threads, 0, stream>>>(x, result, vectors, row_vectors);
      break;
    case RowOperation::Softmax:
      softmax_kernel<<<rows, block_threads, 0, stream>>>(x, result, static_cast<int>(row_vectors));
      break;
    case RowOperation::Rope:
      rope_kernel<<<blocks_for(vectors / 2), block_threads, 0, stream>>>(x, second, result,
                                                                         vectors / 2, row_vectors);
      break;
    case RowOperation::CrossEntropy:
      cross_entropy_kernel<<<rows, block_threads, 0, stream>>>(x, result,
                                                               static_cast<int>(row_vectors));
      break;
    case RowOperation::Embedding:
    case RowOperation::Permute:
      gather_kernel<<<blocks, block_threads, 0, stream>>>(
          x, result, kernel.rows, row_vectors, kernel.operation == RowOperation::Permute);
      break;
    case RowOperation::Cast:
      cast_kernel<<<blocks, block_threads, 0, stream>>>(static_cast<const float4*>(o.x), result,
                                                        vectors);
      break;
    case RowOperation::Adam:
      adam_kernel<<<blocks_for(2 * vectors), block_threads, 0, stream>>>(
          static_cast<const float4*>(o.x), static_cast<float4*>(o.weight),
          static_cast<float4*>(o.momentum), static_cast<float4*>(o.variance),
          static_cast<uint2*>(o.result), 2 * vectors, adam_singles());
      break;
  }
  return cudaGetLastError();
}

cudaError_t launch_count(unsigned* counter, cudaStream_t stream) {
  count_kernel<<<1, 1, 0, stream>>>(counter);
  return cudaGetLastError();
}

namespace {

// One block per row, which is read once and held in registers.
__global__ void weights_kernel(const __nv_bfloat16* scores, __nv_bfloat16* weights, int row_vectors,
                               int rows_of_head, float scale, bool causal) {
  const std::int64_t first = std::int64_t{blockIdx.x} * row_vectors;
  const int query = static_cast<int>(blockIdx.x % static_cast<unsigned>(rows_of_head));
  Eight kept[vectors_per_thread];
  float largest = -3.4e38F;
#pragma unroll
  for (int part = 0; part < vectors_per_thread; ++part) {
    const int i = part * block_threads + static_cast<int>(threadIdx.x);
    if (i >= row_vectors) break;
    kept[part] = load(scores, first + i);
    for (int j = 0; j < vector_elements; ++j) {
      float& value = kept[part].value[j];
      value = causal && i * vector_elements + j > query ? -3.4e38F : value * scale;
      largest = fmaxf(largest, value);
    }
  }
  store_softmax(weights, first, row_vectors, kept, largest);
}

// One block per row. The gradient stays in registers between its two uses; the weights are loaded
// twice.
__global__ void weights_gradient_kernel(const __nv_bfloat16* weights, const __nv_bfloat16* gradient,
                                        __nv_bfloat16* result, int row_vectors, float scale) {
  const std::int64_t first = std::int64_t{blockIdx.x} * row_vectors;
  Eight kept[vectors_per_thread];
  float sum = 0.0F;
#pragma unroll
  for (int part = 0; part < vectors_per_thread; ++part) {
    const int i = part * block_threads + static_cast<int>(threadIdx.x);
    if (i >= row_vectors) break;
    kept[part] = load(gradient, first + i);
    const Eight weight = load(weights, first + i);
    for (int j = 0; j < vector_elements; ++j) sum += kept[part].value[j] * weight.value[j];
  }
  sum = over_block(sum, Sum{});
#pragma unroll
  for (int part = 0; part < vectors_per_thread; ++part) {
    const int i = part * block_threads + static_cast<int>(threadIdx.x);
    if (i >= row_vectors) break;
    const Eight weight = load(weights, first + i);
    for (int j = 0; j < vector_elements; ++j)
      kept[part].value[j] = scale * weight.value[j] * (kept[part].value[j] - sum);
    store(result, first + i, kept[part]);
  }
}

}  // namespace

cudaError_t launch_attention_weights(const AttentionWeights& w, cudaStream_t stream) {
  weights_kernel<<<static_cast<unsigned>(w.rows), block_threads, 0, stream>>>(
      static_cast<const __nv_bfloat16*>(w.scores), static_cast<__nv_bfloat16*>(w.weights),
      static_cast<int>(w.columns / vector_elements), static_cast<int>(w.rows_of_head), w.scale,
      w.causal);
  return cudaGetLastError();
}

cudaError_t launch_attention_weights_gradient(const AttentionWeightsGradient& g,
                                              cudaStream_t stream) {
  weights_gradient_kernel<<<static_cast<unsigned>(g.rows), block_threads, 0, stream>>>(
      static_cast<const __nv_bfloat16*>(g.weights), static_cast<const __nv_bfloat16*>(g.gradient),
      static_cast<__nv_bfloat16*>(g.result), static_cast<int>(g.columns / vector_elements),
      g.scale);
  return cudaGetLastError();
}

namespace {

constexpr int occupying_threads = 512;  // the number of threads of NCCL's kernels

__device__ unsigned long long nanoseconds_now() {
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// Copies vectors until the time is over. The clock is read once per 16 vectors.
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
  // The block takes all of an SM's shared memory, so no other block fits on the SM.
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
