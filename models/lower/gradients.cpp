#include "models/lower/gradients.hpp"

#include <algorithm>
#include <cmath>

#include "models/architecture/memory.hpp"
#include "models/architecture/weights.hpp"

namespace trainyard {

namespace {

// Multi-tensor kernels process some hundred tensors per launch. This is approximated by one launch
// for each 2^28 parameters.
std::int64_t launches(std::int64_t parameters) {
  return std::max<std::int64_t>(1, parameters >> 28);
}

}  // namespace

void GradientLowering::zero_gradients(std::int64_t local_parameters) {
  build_.tag({.part = StepPart::Optimizer, .work = WorkClass::Optimizer});
  build_.compute("zero_gradients", MemoryBound{.kind = MemoryBoundKind::Zero,
                                               .bytes = local_parameters * shape_.gradient,
                                               .launches = 1});
}

// The kernel reads the new gradient, and reads and writes the sum.
OpIndex GradientLowering::accumulate(std::int64_t parameters) {
  if (!options_.accumulates || parameters == 0) return kNone;
  const std::int64_t moved = shape_.element + 2 * shape_.gradient;
  return build_.compute("gradient_accumulate", MemoryBound{.kind = MemoryBoundKind::GradAccumulate,
                                                           .bytes = moved * parameters,
                                                           .launches = 1});
}

// The check for NaN has the kernel kind of the gradient norm: for both, the host reads the result
// before it continues.
OpIndex GradientLowering::before_reduction(std::int64_t parameters, std::int64_t replicas,
                                           OpIndex after) {
  const GradientPasses& passes = options_.passes;
  if (passes.check == GradientCheck::On) {
    after = build_.compute("gradient_nan_check", MemoryBound{.kind = MemoryBoundKind::GradNorm,
                                                             .bytes = parameters * shape_.gradient,
                                                             .launches = 1});
  }
  const std::int64_t scaling = passes.scaling_bytes(replicas, shape_.gradient);
  if (scaling > 0) {
    after = build_.compute("gradient_scaling", MemoryBound{.kind = MemoryBoundKind::Elementwise,
                                                           .bytes = parameters * scaling,
                                                           .launches = 1});
  }
  return after;
}

std::int64_t kept_parameters(const GradientOptions& options, const StageParameters& parameters) {
  const auto share = [](std::int64_t count, std::int64_t shards) {
    return (count + shards - 1) / shards;
  };
  return share(parameters.total, options.shards) + share(parameters.experts, options.expert_shards);
}

// A rank runs norm and optimizer for its own shard of the parameters only.
void GradientLowering::finish(const StageParameters& parameters,
                              std::span<const OpIndex> reductions) {
  build_.tag({.part = StepPart::GradSync, .work = WorkClass::Optimizer});
  for (const OpIndex reduction : reductions) build_.wait_for(reduction);
  finish_replicated(parameters);
  const std::int64_t local = kept_parameters(options_, parameters);
  build_.tag({.part = StepPart::Optimizer, .work = WorkClass::Optimizer});
  unscale(local);
  if (options_.optimizer.clips) gradient_norm(local);
  optimizer({.all = local, .on_host = parameters.on_host});
  orthogonalise(parameters);
}

// Reduces gradients of weights that several ranks hold and of which each rank has a partial sum: an
// embedding on first and last stage, and replicated weights. Under sequence parallelism each rank
// has its own tokens for all of these. Without, it has its own heads or columns for the norms of
// heads and the factors of adapters; other replicated weights have whole gradients. Both come after
// the reduction over replicas (Megatron-LM finalize_model_grads).
void GradientLowering::finish_replicated(const StageParameters& parameters) {
  const std::int64_t shards = options_.shards_replicated ? options_.shards : 1;
  const auto all_reduce = [&](GroupKind kind, std::int64_t elements) {
    return options_.collectives.call(kind, CollectiveOp::AllReduce,
                                     (elements + shards - 1) / shards * held_bytes(),
                                     options_.held);
  };
  const std::int64_t partial =
      shape_.sequence_parallel ? parameters.replicated : parameters.always_partial;
  if (shape_.tensor > 1 && partial > 0) {
    build_.wait_for(build_.collective("norm_gradient_all_reduce", Stream::Tensor, Slot::Tensor,
                                      all_reduce(GroupKind::Tensor, partial),
                                      {build_.last_compute()}));
  }
  if (parameters.shared_embedding > 0) {
    build_.wait_for(build_.collective(
        "embedding_gradient_all_reduce", Stream::Other, Slot::Embedding,
        all_reduce(GroupKind::Other, parameters.shared_embedding), {build_.last_compute()}));
  }
}

// Divides by the loss scale of fp16 in a separate kernel, as torch.amp does while it checks for
// overflow. bf16 needs no loss scale.
void GradientLowering::unscale(std::int64_t local_parameters) {
  if (!options_.unscales) return;
  build_.compute("gradient_unscale", MemoryBound{.kind = MemoryBoundKind::Optimizer,
                                                 .bytes = 2 * local_parameters * held_bytes(),
                                                 .launches = launches(local_parameters)});
}

// Each rank computes the sum of squares of its gradients. An all_reduce of one number (4 bytes)
// over all ranks that hold a part follows. With fp16, the same all_reduce reports whether a
// gradient has overflowed.
void GradientLowering::gradient_norm(std::int64_t local_parameters) {
  const OpIndex norm =
      build_.compute("gradient_norm", MemoryBound{.kind = MemoryBoundKind::GradNorm,
                                                  .bytes = local_parameters * held_bytes(),
                                                  .launches = launches(local_parameters)});
  if (options_.norm_holders == 1) return;
  const ChosenCall call =
      options_.collectives.call(GroupKind::Other, CollectiveOp::AllReduce, 4, DataType::Fp32);
  build_.wait_for(
      build_.collective("gradient_norm_all_reduce", Stream::Other, Slot::Model, call, {norm}));
}

std::int64_t GradientLowering::held_bytes() const {
  return static_cast<std::int64_t>(element_bytes(options_.held));
}

void GradientLowering::optimizer(const UpdatedParameters& parameters) {
  const OptimizerOptions& step = options_.optimizer;
  if (step.where != OffloadedOptimizer::None || parameters.on_host > 0) {
    offloaded_optimizer(step, parameters, held_bytes(), build_);
    return;
  }
  const double clip = step.clips ? 2.0 * static_cast<double>(held_bytes()) : 0.0;
  const double bytes = optimizer_step_bytes(step.state) + clip;
  build_.compute(step.name,
                 MemoryBound{.kind = MemoryBoundKind::Optimizer,
                             .bytes = std::llround(static_cast<double>(parameters.all) * bytes),
                             .launches = launches(parameters.all)});
}

// Muon's step on a matrix X of n x m, where n <= m: Newton-Schulz iterations
//     X <- aX + (bA + cA A) X   with A = X X^T,
// which are three GEMMs each (Jordan et al. 2024). A rank of a sharded optimizer processes whole
// matrices, as many as its share, rounded up. All instances of a weight and
// all iterations are one batched GEMM for each of the three.
void GradientLowering::orthogonalise(const StageParameters& parameters) {
  const std::int64_t iterations = options_.orthogonalisations;
  if (iterations == 0) return;
  const WeightDivision& division = options_.division;
  const auto gemm = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) {
    build_.compute("orthogonalise", Gemm{.m = m,
                                         .n = n,
                                         .k = k,
                                         .batch = batch,
                                         .dtype = shape_.dtype,
                                         .pass = GemmPass::Forward,
                                         .accumulate_fp32 = false});
  };
  for (const auto& [kind, layers] : parameters.layers) {
    for (const Weight& weight : layer_weights(division.architecture, kind)) {
      const std::int64_t tensor = weight.expert() ? division.expert_tensor : division.tensor;
      const std::int64_t shards = weight.expert() ? options_.expert_shards : options_.shards;
      const std::int64_t copies = weight.expert() ? weight.copies / division.expert : 1;
      const std::int64_t batch = (layers * copies + shards - 1) / shards * iterations;
      const std::int64_t inputs = weight.inputs / (weight.split == Split::Row ? tensor : 1);
      const std::int64_t outputs = weight.outputs / (weight.split == Split::Column ? tensor : 1);
      const std::int64_t small = std::min(inputs, outputs);
      const std::int64_t large = std::max(inputs, outputs);
      gemm(small, small, large, batch);
      gemm(small, small, small, batch);
      gemm(small, large, small, batch);
    }
  }
}

// Gradients of ZeRO 2 that are not sharded between microbatches are held whole, as with ZeRO 1.
void hold_state(const GradientOptions& options, const StageParameters& parameters,
                const HeldState& held, ProgramBuilder& build) {
  StateRecipe recipe = options.optimizer.state;
  recipe.shards = options.shards;
  if (recipe.zero_stage == 2 && !held.gradients_sharded) recipe.zero_stage = 1;
  const auto hold = [&](std::int64_t count) {
    const StateBytes state = state_bytes(recipe, count);
    build.memory().hold(Category::Weights, std::llround(state.weights));
    build.memory().hold(Category::Gradients, std::llround(state.gradients));
    const bool host = options.optimizer.where != OffloadedOptimizer::None;
    build.memory().hold(host ? Category::Host : Category::OptimizerState,
                        std::llround(state.master + state.first_moment + state.second_moment));
  };
  hold(parameters.total);
  recipe.shards = options.expert_shards;
  hold(parameters.experts);
  build.memory().hold(Category::OptimizerState,
                      kept_parameters(options, parameters) * options.outer_bytes);
}

}  // namespace trainyard
