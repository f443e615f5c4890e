// Writes one step of a pipeline rank: the forward of a microbatch through a chunk of the model, or
// its backward. Combines embedding and LM head, layers, sends and receives between stages, and the
// operations of the data-parallel scheme around each of them.
//
//    StageWriter writer({options, shape, layout, build});
//    writer.begin();
//    writer.forward({.kind = StepKind::Forward, .microbatch = 0, .chunk = 0});
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "models/expert_routing.hpp"
#include "models/layers/layer.hpp"
#include "models/layers/layer_memory.hpp"
#include "models/lower/data_parallel/data_parallel.hpp"
#include "models/lower/embedding_and_head.hpp"
#include "models/lower/messages.hpp"
#include "models/lower/offload.hpp"
#include "models/lower/options.hpp"
#include "models/lower/stage_layout.hpp"
#include "models/lower/step_runs.hpp"
#include "models/schedules/schedule.hpp"

namespace trainyard {

// ---- layers
//
// The layers of a pipeline rank, one at a time: the activations that each layer keeps from its
// forward to its backward, the layers that are recomputed before the backward, and copies from the
// host.
//
// A unit of layers that are recomputed together keeps only the input of its first layer. Before the
// backward of its last layer, all layers of the unit run once more, in order, and each keeps all
// activations that its backward reads (models/recompute.hpp).

// A layer of a chunk and its recompute unit. The tags of the builder hold the layer's index in the
// model.
struct StageLayer {
  const StageChunk& chunk;
  const RecomputeUnit& unit;
  std::int64_t layer = 0;  // index in the chunk; layers of multi-token prediction come last
};

class StageLayers {
 public:
  // All of these outlive the object.
  struct Parts {
    const LoweringOptions& options;
    const StepShape& shape;
    const StageLayout& layout;
    ProgramBuilder& build;
    DataParallel& replicas;
    OffloadLowering& offload;
  };
  explicit StageLayers(const Parts& parts);

  void forward(const StageLayer& at, const UnitIndex& place);
  // The forward of a layer of multi-token prediction, of which nothing is copied to the host.
  void mtp_forward(const StageLayer& at);
  // Returns the gradients that become final. REQUIRES: the backward reaches the layer.
  std::vector<ReadyGradient> backward(const StageLayer& at, const UnitBackward& step);

 private:
  void begin_backward(const StageLayer& at, const UnitIndex& place);
  void recompute(const StageLayer& at);
  [[nodiscard]] const LayerMemory& memory_of(const Tags& tags);
  [[nodiscard]] std::int64_t kept_by(const StageLayer& at, const LayerMemory& memory) const;
  [[nodiscard]] std::int64_t unit_input(const StageLayer& at);
  [[nodiscard]] bool is_needed(const StageLayer& at) const;
  [[nodiscard]] LayerLowering::BackwardMemory backward_memory(const StageLayer& at,
                                                              BackwardPart part, bool trained);

  const Parts parts_;
  LayerLowering layer_;
  // Cached memory of a layer for one microbatch, by kind of layer, key of the routed tokens, and
  // whether the layer is trained.
  std::map<std::tuple<LayerKind, ExpertRouting::RowsKey, bool>, LayerMemory> memories_;
};

// ---- steps

class StageWriter {
 public:
  // All of these outlive the object.
  struct Parts {
    const LoweringOptions& options;
    const StepShape& shape;
    const StageLayout& layout;
    ProgramBuilder& build;
  };
  explicit StageWriter(const Parts& parts);

  // Write the operations before the first step and after the last one.
  void begin();
  void end() { replicas_->end_step(); }
  void forward(const ScheduleStep& step);
  void backward(const ScheduleStep& step, const FirstOrLast& turn);

  [[nodiscard]] StageMessages& messages() { return messages_; }
  [[nodiscard]] DataParallel& replicas() { return *replicas_; }

 private:
  void layers_forward(const StageChunk& chunk, UnitIndex& place);
  void head_forward(const StageChunk& chunk, UnitIndex& place);
  // On entry, step.place is the unit after those that the function handles; on return, it is the
  // first of them.
  void mtp_backward(const StageChunk& chunk, UnitBackward& step);
  void enter_backward(const StageChunk& chunk, UnitBackward& step);
  void layers_backward(const StageChunk& chunk, UnitBackward& step);
  void leave_backward(const StageChunk& chunk, UnitBackward& step);
  void tag_layer(std::int32_t layer);

  const Parts parts_;
  ProgramBuilder& build_;
  const std::vector<ChunkWeights> weights_;  // by chunk
  const StageParameters parameters_;
  std::unique_ptr<DataParallel> replicas_;
  OffloadLowering offload_;
  StageMessages messages_;
  EmbeddingAndHead ends_;
  StageLayers layers_;
  UnitGradients gradients_;
};

}  // namespace trainyard
