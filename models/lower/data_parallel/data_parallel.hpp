// The seam between the stage, which knows layers and microbatches, and a data-parallel scheme,
// which knows what replicas do to weights and gradients around the layers of one rank.
//
// The stage announces every unit (the embedding, a layer, the head) before and after its forward
// and backward; the scheme gathers, frees and reduces there. bucketed.cpp reduces buckets of
// gradients (replicas, ZeRO 1 and 2), fully_sharded.cpp gathers weights layer by layer (ZeRO 3).
//
//   scheme.before_forward({.chunk = 0, .unit = 3});
//   layer.forward();
//   scheme.after_forward({.chunk = 0, .unit = 3});
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/gradients.hpp"
#include "models/lower/step_shape.hpp"

namespace trainyard {

struct UnitPlace {
  std::size_t chunk = 0;  // of the rank
  std::size_t unit = 0;   // of the chunk, in forward order
};

// The backward of a unit, or a part of it, as far as the stage knows it.
struct UnitBackward {
  UnitPlace place;
  BackwardPart part = BackwardPart::Full;
  bool first = false;  // the first microbatch of this chunk that leaves gradients
  bool last = false;   // the last one, whose gradients become final
};

class DataParallel {
 public:
  virtual ~DataParallel() = default;

  // Holds the state of weights, gradients and optimizer; writes what starts the step.
  virtual void begin_step() = 0;
  virtual void before_forward(const UnitPlace& place) = 0;
  virtual void after_forward(const UnitPlace& place) = 0;
  // Around a forward that is computed again for the backward of layers behind it; its own unit's
  // backward comes later.
  virtual void before_recompute(const UnitPlace& /*place*/) {}
  virtual void after_recompute(const UnitPlace& /*place*/) {}
  virtual void before_backward(const UnitBackward& backward) = 0;
  // `ready`: the gradients of this chunk and microbatch that are final so far, in backward order.
  virtual void after_backward(const UnitBackward& backward,
                              const std::vector<ReadyGradient>& ready) = 0;
  // Whether a chunk's forwards but for the first, or its backwards but for the last, are left to
  // themselves: nothing is written around their units, and nothing remembered.
  [[nodiscard]] virtual bool leaves_forwards() const { return false; }
  [[nodiscard]] virtual bool leaves_backwards() const { return false; }
  // Joins what is under way, then norm and optimizer.
  virtual void end_step() = 0;
};

// How replicas share weights, gradients and optimizer state.
struct ReplicaOptions {
  const Parallelism& parallelism;  // how far, in which groups, beside what
  const CollectiveChoice& collectives;
  GradientOptions gradients;
  AdapterSet adapters = {};
  DataType gradient_wire = DataType::Fp32;
  DataType weight_wire = DataType::Bf16;  // of new weights
  std::int64_t microbatches = 1;
  std::int64_t model_layers = 0;
  std::int64_t buckets_in_flight = 0;  // zero_stage 2: buckets that exist at once
  bool fetches_shards = false;         // zero_stage 3: shards of weights stand on the host
};

// The parts that a scheme is made from; all of them outlive the scheme.
struct DataParallelParts {
  const ReplicaOptions& options;
  const StepShape& shape;
  ProgramBuilder& build;
  const std::vector<ChunkWeights>& chunks;
  const StageParameters& parameters;
};
// The gradients that the backward of one chunk and microbatch leaves, in the order they become
// final, handed to the replicas unit by unit.
class UnitGradients {
 public:
  // `weights` and `replicas` outlive this.
  UnitGradients(const GradientLowering& gradients, const std::vector<ChunkWeights>& weights,
                DataParallel& replicas)
      : gradients_(gradients), weights_(weights), replicas_(replicas) {}

  void begin_backward();
  void add(const std::vector<ReadyGradient>& gradients);
  // Behind the backward of a unit: adds its gradients to those of the microbatches before.
  void end_unit(const UnitBackward& step);
  // Behind the backward of the chunk. REQUIRES: each of its entries has its gradient.
  void end_backward(std::size_t chunk) const;

 private:
  GradientLowering gradients_;
  const std::vector<ChunkWeights>& weights_;
  DataParallel& replicas_;
  std::vector<ReadyGradient> ready_;
  std::size_t ended_ = 0;  // how many are of units that are ended
};

// The two schemes: one in bucketed.cpp, one in fully_sharded.cpp.
[[nodiscard]] std::unique_ptr<DataParallel> make_bucketed_replicas(const DataParallelParts& parts);
[[nodiscard]] std::unique_ptr<DataParallel> make_fully_sharded(const DataParallelParts& parts);
// Chooses between them by the plan's zero_stage.
[[nodiscard]] std::unique_ptr<DataParallel> make_data_parallel(const DataParallelParts& parts);

}  // namespace trainyard
