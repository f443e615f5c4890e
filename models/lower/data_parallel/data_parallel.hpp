// Interface between the writer of a stage and a data-parallel scheme. The writer knows layers and
// microbatches; the scheme knows the collectives on weights and gradients around the layers of one
// rank.
//
// The writer calls the scheme before and after the forward and backward of every unit (the
// embedding, a layer, the head). In these calls the scheme gathers weights, frees them and reduces
// gradients. bucketed.cpp reduces buckets of gradients (plain replicas, ZeRO 1 and 2);
// fully_sharded.cpp gathers weights layer by layer (ZeRO 3).
//
//    scheme.before_forward({.chunk = 0, .unit = 3});
//    layer.forward({.kept = kept});
//    scheme.after_forward({.chunk = 0, .unit = 3});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/gradients.hpp"
#include "models/lower/step_shape.hpp"

namespace trainyard {

struct UnitIndex {
  std::size_t chunk = 0;  // index on the rank
  std::size_t unit = 0;   // index in ChunkWeights::units (forward order)
};

// The backward of a unit, or a part of it, with what the writer of the stage knows about it.
struct UnitBackward {
  UnitIndex place;
  BackwardPart part = BackwardPart::Full;
  bool first = false;  // first backward of this chunk that computes weight gradients
  bool last = false;   // the last one: the sums over all microbatches become final
};

// The state of a scheme between two steps of the schedule. All that it does around a step, except
// around the first forward and the last backward of a chunk, follows from this state.
struct ReplicaState {
  std::vector<OpIndex> operations = {};   // earlier operations that later steps may refer to
  std::vector<std::int64_t> values = {};  // everything else
};

class DataParallel {
 public:
  virtual ~DataParallel() = default;

  // Adds the memory of weights, gradients and optimizer state; writes the first operations of the
  // step.
  virtual void begin_step() = 0;
  virtual void before_forward(const UnitIndex& place) = 0;
  virtual void after_forward(const UnitIndex& place) = 0;
  // Called around the recomputed forward of a unit that is followed by the backward of other units
  // first. They are not called for the last layer of a recompute unit, whose own backward follows.
  virtual void before_recompute(const UnitIndex& /*place*/) {}
  virtual void after_recompute(const UnitIndex& /*place*/) {}
  virtual void before_backward(const UnitBackward& backward) = 0;
  // `ready`: all gradients of this chunk and microbatch that are final so far, in backward order.
  virtual void after_backward(const UnitBackward& backward,
                              const std::vector<ReadyGradient>& ready) = 0;
  // Whether the scheme writes no operations and changes no state around the units of any forward
  // except the first of its chunk, and of any backward except the last.
  [[nodiscard]] virtual bool ignores_repeated_steps() const { return false; }
  // The state at the current position of the program, which lies between two steps: at equal
  // values and corresponding operations, equal steps have the same operations. Returns nothing
  // where the state has no small form. A scheme that ignores repeated steps has an empty state.
  [[nodiscard]] virtual std::optional<ReplicaState> state() const { return ReplicaState{}; }
  // Sets the state after steps that became an instance of a known block. REQUIRES: state() of this
  // scheme has returned the values, with other operations in the same order.
  virtual void restore(const ReplicaState& /*state*/) {}
  // Waits for all collectives under way, then writes gradient norm and optimizer step.
  virtual void end_step() = 0;
};

// How replicas share weights, gradients and optimizer state.
struct ReplicaOptions {
  const Parallelism& parallelism;
  const CollectiveChoice& collectives;
  GradientOptions gradients;
  AdapterSet adapters = {};
  DataType gradient_wire = DataType::Fp32;
  DataType weight_wire = DataType::Bf16;  // of trained weights that are gathered
  std::int64_t microbatches = 1;
  std::int64_t model_layers = 0;
  std::int64_t buckets_in_flight = 0;  // zero_stage 2: buckets that exist at once
  bool fetches_shards = false;         // zero_stage 3: shards of weights are in host memory
};

// Arguments of the constructor of a scheme; all of them outlive the scheme.
struct DataParallelParts {
  const ReplicaOptions& options;
  const StepShape& shape;
  ProgramBuilder& build;
  const std::vector<ChunkWeights>& chunks;
  const StageParameters& parameters;
};

// Collects the gradients of the backward of one chunk and microbatch in the order in which they
// become final, and passes them to the scheme unit by unit.
class UnitGradients {
 public:
  // `weights` and `replicas` outlive the object.
  UnitGradients(const GradientLowering& gradients, const std::vector<ChunkWeights>& weights,
                DataParallel& replicas)
      : gradients_(gradients), weights_(weights), replicas_(replicas) {}

  void begin_backward();
  void add(const std::vector<ReadyGradient>& gradients);
  // Called after the backward of a unit. Adds its gradients to those of the earlier microbatches.
  void end_unit(const UnitBackward& step);
  // Called after the backward of the chunk. REQUIRES: add() has received one gradient for each of
  // its entries.
  void end_backward(std::size_t chunk) const;

 private:
  GradientLowering gradients_;
  const std::vector<ChunkWeights>& weights_;
  DataParallel& replicas_;
  std::vector<ReadyGradient> ready_;
  std::size_t ended_ = 0;  // number of gradients in ready_ that belong to ended units
};

// The two schemes, in bucketed.cpp and fully_sharded.cpp.
[[nodiscard]] std::unique_ptr<DataParallel> make_bucketed_replicas(const DataParallelParts& parts);
[[nodiscard]] std::unique_ptr<DataParallel> make_fully_sharded(const DataParallelParts& parts);
// Selects one of them by the zero_stage of the plan.
[[nodiscard]] std::unique_ptr<DataParallel> make_data_parallel(const DataParallelParts& parts);

}  // namespace trainyard
