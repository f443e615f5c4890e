#include "kernels/bench/row_block.cuh"
#include "kernels/bench/row_kernels.hpp"

namespace trainyard::bench {

namespace {

// One block for each row, which is read once and kept.
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

}  // namespace trainyard::bench
