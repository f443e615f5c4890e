// Local work on gradients: accumulation over microbatches, the gradient norm, the optimizer step,
// and the memory of weights, gradients and optimizer state. The reductions over replicas are in
// data_parallel/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/framework.hpp"
#include "models/layers/layer_block.hpp"
#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/data_parallel/shards.hpp"
#include "models/lower/offload.hpp"
#include "models/lower/program_builder.hpp"
#include "models/lower/step_shape.hpp"
#include "models/plan.hpp"

namespace trainyard {

// Counts of the parameters of one rank that the end of the step treats differently.
struct StageParameters {
  std::int64_t total = 0;                // without the experts
  std::int64_t experts = 0;              // of the rank's experts, which have their own replicas
  std::vector<CountedKind> layers = {};  // trained layers, by kind
  std::int64_t replicated = 0;           // held by every member of the tensor group
  // The part of `replicated` whose gradients are partial sums even without sequence parallelism.
  std::int64_t always_partial = 0;
  std::int64_t shared_embedding = 0;  // embedding that first and last stage both hold
  std::int64_t on_host = 0;           // of those that this rank updates: with weights on the host
};

// How the gradients of one rank are accumulated, and how the optimizer updates its weights.
struct GradientOptions {
  WeightDivision division;
  const CollectiveChoice& collectives;
  OptimizerOptions optimizer = {};
  GradientPasses passes = {};
  bool accumulates = false;             // a separate kernel adds a microbatch's gradients
  bool unscales = false;                // a separate kernel divides by the loss scale
  DataType held = DataType::Fp32;       // precision of a gradient after its reduction
  std::int64_t shards = 1;              // ranks that divide the optimizer state
  std::int64_t expert_shards = 1;       // the same for the experts of a rank
  bool shards_replicated = false;       // replicated gradients are reduced shard by shard
  std::int64_t norm_holders = 1;        // ranks whose gradients make up the norm
  std::int64_t orthogonalisations = 0;  // Optimizer::orthogonalisations; 0 with adapters
  std::int64_t outer_bytes = 0;         // of a parameter in the outer optimizer's state
};

// Returns the number of parameters whose optimizer state a rank keeps.
[[nodiscard]] std::int64_t kept_parameters(const GradientOptions& options,
                                           const StageParameters& parameters);

class GradientLowering {
 public:
  // The options outlive the object.
  GradientLowering(const GradientOptions& options, const StepShape& shape, ProgramBuilder& build)
      : options_(options), shape_(shape), build_(build) {}

  void zero_gradients(std::int64_t local_parameters);
  // Adds the gradients of one microbatch to those of the earlier microbatches, and returns the
  // operation that does so. kNone if the framework has no separate kernel for it or keeps no whole
  // gradients.
  OpIndex accumulate(std::int64_t parameters);
  // Writes the framework's passes over `parameters` gradients before `replicas` ranks reduce them
  // (GradientPasses in framework.hpp), on the compute stream. `after`: the operation that wrote the
  // last of these gradients. Returns the operation after which they can be sent.
  OpIndex before_reduction(std::int64_t parameters, std::int64_t replicas, OpIndex after);
  // Waits for the reductions, then writes gradient norm and optimizer step.
  void finish(const StageParameters& parameters, std::span<const OpIndex> reductions);

 private:
  void finish_replicated(const StageParameters& parameters);
  void unscale(std::int64_t local_parameters);
  void gradient_norm(std::int64_t local_parameters);
  void optimizer(const UpdatedParameters& parameters);
  // The GEMMs of Muon for every matrix; the matrices are divided over the optimizer's shards.
  void orthogonalise(const StageParameters& parameters);
  [[nodiscard]] std::int64_t held_bytes() const;  // bytes of one gradient after its reduction

  const GradientOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
};

// The part of a scheme's state that is held for the whole step.
struct HeldState {
  bool gradients_sharded = false;  // a rank keeps only its own shard of the gradients
};
// Adds the memory of weights, gradients and optimizer state, which is held for the whole step
// (Rajbhandari et al. 2019, arXiv 1910.02054, sections 3.1 and 5). With zero_stage 3 the weights
// are the fp32 master weights themselves, and gradients are in fp32, too.
void hold_state(const GradientOptions& options, const StageParameters& parameters,
                const HeldState& held, ProgramBuilder& build);

}  // namespace trainyard
