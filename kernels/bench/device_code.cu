// All kernels in one translation unit: nvcc takes seconds for the headers of each.
#include "kernels/bench/attention_weights.cu"
#include "kernels/bench/occupation.cu"
#include "kernels/bench/row_kernels.cu"
