// The way of gradients: their sum over microbatches, the norm, the optimizer step, the state they
// leave behind. Who reduces them and when is said in data_parallel/.
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

// The parameters of one rank, as the end of the step must tell them apart.
struct StageParameters {
  std::int64_t total = 0;                // without the experts
  std::int64_t experts = 0;              // of the rank's own experts, with replicas of their own
  std::vector<CountedKind> layers = {};  // those that are trained
  std::int64_t replicated = 0;           // held by every member of the tensor group
  std::int64_t shared_embedding = 0;     // tied table on first and last stage
};

// How the gradients of one rank are added up, and its weights stepped.
struct GradientOptions {
  WeightDivision division;
  const CollectiveChoice& collectives;
  OptimizerOptions optimizer = {};
  GradientPasses passes = {};
  bool accumulates = false;             // those of microbatches are added by a kernel of their own
  bool unscales = false;                // a kernel takes the loss scale out of them
  DataType held = DataType::Fp32;       // of a gradient once reduced
  std::int64_t shards = 1;              // ranks that divide the optimizer state
  std::int64_t expert_shards = 1;       // the same of a rank's experts
  bool shards_replicated = false;       // what several ranks hold is joined shard by shard
  std::int64_t norm_holders = 1;        // ranks whose gradients make up the norm
  std::int64_t orthogonalisations = 0;  // Optimizer's; none of adapters
};

class GradientLowering {
 public:
  // The options outlive this.
  GradientLowering(const GradientOptions& options, const StepShape& shape, ProgramBuilder& build)
      : options_(options), shape_(shape), build_(build) {}

  void zero_gradients(std::int64_t local_parameters);
  // Adds those of one microbatch to those of the microbatches before; they are ready with the
  // operation that it returns. kNone where the framework has no kernel for it, or keeps none whole.
  OpIndex accumulate(std::int64_t parameters);
  // Writes the framework's passes over `parameters` gradients before `replicas` ranks reduce them
  // (framework.hpp), on the stream of kernels. `after` made the last of them. Returns the operation
  // that made them ready to be sent.
  OpIndex before_reduction(std::int64_t parameters, std::int64_t replicas, OpIndex after);
  // Joins the reductions that are still under way, then norm and optimizer.
  void finish(const StageParameters& parameters, std::span<const OpIndex> reductions);

 private:
  void finish_replicated(const StageParameters& parameters);
  void unscale(std::int64_t local_parameters);
  void gradient_norm(std::int64_t local_parameters);
  void optimizer(std::int64_t local_parameters);
  // Muon's products for every matrix, dealt to the ranks that share the optimizer.
  void orthogonalise(const StageParameters& parameters);
  [[nodiscard]] std::int64_t held_bytes() const;  // of a gradient, once reduced

  const GradientOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
};

// How much of a scheme's state is held for the whole step.
struct HeldState {
  bool gradients_sharded = false;  // a rank keeps its own share of them alone
};
// Memory of weights, gradients and optimizer state, held for the whole step (reference 05 section
// 1). With zero_stage 3 the weights are the fp32 master itself, and gradients are kept as wide.
void hold_state(const GradientOptions& options, const StageParameters& parameters,
                const HeldState& held, ProgramBuilder& build);

}  // namespace trainyard
