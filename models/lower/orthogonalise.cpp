// Muon's step on a matrix X of n x m, n the smaller: Newton-Schulz iterations X <- aX + (bA + cA A)
// X with A = X X^T, three products each (Jordan et al. 2024). A rank of a sharded optimizer takes
// whole matrices, as many as its share.
#include <algorithm>

#include "models/architecture/weights.hpp"
#include "models/lower/data_parallel/shards.hpp"
#include "models/lower/gradients.hpp"
#include "models/rank_groups.hpp"

namespace trainyard {

void GradientLowering::orthogonalise(const StageParameters& parameters) {
  const std::int64_t iterations = plan_.optimizer.orthogonalisations;
  if (iterations == 0) return;
  const Parallelism& p = plan_.parallelism;
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) {
    build_.compute("orthogonalise", Gemm{.m = m,
                                         .n = n,
                                         .k = k,
                                         .batch = batch,
                                         .dtype = shape_.dtype,
                                         .pass = GemmPass::Forward,
                                         .accumulate_fp32 = false});
  };
  for (const LayerKind kind : {LayerKind::Dense, LayerKind::Moe}) {
    const std::int64_t layers = kind == LayerKind::Moe ? parameters.moe_layers : parameters.layers;
    if (layers == 0) continue;
    for (const Weight& weight : layer_weights(plan_.architecture, kind)) {
      const std::int64_t tensor = weight.expert() ? p.expert_tensor_size() : p.tensor;
      const std::int64_t shards = weight.expert() ? expert_shards(p) : optimizer_shards(p);
      const std::int64_t copies = weight.expert() ? weight.copies / p.expert : 1;
      const std::int64_t batch = (layers * copies + shards - 1) / shards * iterations;
      const std::int64_t inputs = weight.inputs / (weight.split == Split::Row ? tensor : 1);
      const std::int64_t outputs = weight.outputs / (weight.split == Split::Column ? tensor : 1);
      const std::int64_t small = std::min(inputs, outputs);
      const std::int64_t large = std::max(inputs, outputs);
      product(small, small, large, batch);
      product(small, small, small, batch);
      product(small, large, small, batch);
    }
  }
}

}  // namespace trainyard
