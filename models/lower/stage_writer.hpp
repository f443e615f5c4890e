// One step of a pipeline rank: the forward of a microbatch through a chunk of the model, or its
// backward. Joins the ends of the model, its layers, the messages between stages and what replicas
// do around each.
//
//   StageWriter writer({options, shape, layout, build});
//   writer.begin();
//   writer.forward({.kind = StepKind::Forward, .microbatch = 0, .chunk = 0});
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
// The layers of a pipeline rank, one at a time: what each keeps from its forward to its backward,
// what is computed again before that, and what comes from the host.
//
// A unit of layers that is computed again together keeps the input of its first layer. In front of
// the backward of its last layer all of them run once more, in order, each keeping all that its
// backward reads (models/recompute.hpp).

// A layer of a chunk and the unit it is computed again with. The builder's tags name the layer.
struct StageLayer {
  const StageChunk& chunk;
  const RecomputeUnit& unit;
  std::int64_t layer = 0;  // of the chunk; those of multi-token prediction behind its own
};

class StageLayers {
 public:
  // All of it outlives this.
  struct Parts {
    const LoweringOptions& options;
    const StepShape& shape;
    const StageLayout& layout;
    ProgramBuilder& build;
    DataParallel& replicas;
    OffloadLowering& offload;
  };
  explicit StageLayers(const Parts& parts);

  void forward(const StageLayer& at, const UnitPlace& place);
  // The same for a layer of multi-token prediction, which has nothing on the host.
  void mtp_forward(const StageLayer& at);
  // The gradients that it finishes. REQUIRES: one comes back to the layer.
  std::vector<ReadyGradient> backward(const StageLayer& at, const UnitBackward& step);

 private:
  void begin_backward(const StageLayer& at, const UnitPlace& place);
  void recompute(const StageLayer& at);
  [[nodiscard]] const LayerMemory& memory_of(const Tags& tags);
  [[nodiscard]] std::int64_t kept_by(const StageLayer& at, const LayerMemory& memory) const;
  [[nodiscard]] LayerLowering::BackwardMemory backward_memory(const StageLayer& at,
                                                              BackwardPart part, bool trained);

  const Parts parts_;
  LayerLowering layer_;
  // The memory of one layer and microbatch by what it depends on: has it experts, which rows do
  // they get, is it trained?
  std::map<std::tuple<LayerKind, ExpertRouting::RowsKey, bool>, LayerMemory> memories_;
};

// ---- steps

class StageWriter {
 public:
  // All of it outlives this.
  struct Parts {
    const LoweringOptions& options;
    const StepShape& shape;
    const StageLayout& layout;
    ProgramBuilder& build;
  };
  explicit StageWriter(const Parts& parts);

  // Before the first step, and behind the last one.
  void begin();
  void end() { replicas_->end_step(); }
  void forward(const ScheduleStep& step);
  void backward(const ScheduleStep& step, const StepTurn& turn);

  [[nodiscard]] StageMessages& messages() { return messages_; }
  [[nodiscard]] const DataParallel& replicas() const { return *replicas_; }

 private:
  void layers_forward(const StageChunk& chunk, UnitPlace& place);
  void head_forward(const StageChunk& chunk, UnitPlace& place);
  // Each takes the place behind its units and leaves it at the first of them.
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
