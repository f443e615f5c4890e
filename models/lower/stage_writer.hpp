// One step of a pipeline rank: the forward of a microbatch through a chunk of the model, or its
// backward. Joins the ends of the model, its layers, the messages between stages and what replicas
// do around each.
//
//   StageWriter writer({options, shape, layout, build});
//   writer.begin();
//   writer.forward({.kind = StepKind::Forward, .microbatch = 0, .chunk = 0});
#pragma once

#include <memory>
#include <vector>

#include "models/lower/data_parallel/data_parallel.hpp"
#include "models/lower/ends.hpp"
#include "models/lower/messages.hpp"
#include "models/lower/offload.hpp"
#include "models/lower/stage_layers.hpp"
#include "models/lower/stage_layout.hpp"
#include "models/schedules/schedule.hpp"

namespace trainyard {

class StageWriter {
 public:
  // All of it outlives this.
  struct Parts {
    const LoweringOptions& options;
    const StepShape& shape;
    const StageLayout& layout;
    ProgramBuilder& build;
  };
  // Whether a backward is the first of its chunk that leaves gradients of weights, or the last.
  struct Turn {
    bool first = false;
    bool last = false;
  };
  explicit StageWriter(const Parts& parts);

  // Before the first step, and behind the last one.
  void begin();
  void end() { replicas_->end_step(); }
  void forward(const ScheduleStep& step);
  void backward(const ScheduleStep& step, const Turn& turn);

  [[nodiscard]] StageMessages& messages() { return messages_; }
  [[nodiscard]] const DataParallel& replicas() const { return *replicas_; }

 private:
  void layers_forward(const StageChunk& chunk, UnitPlace& place);
  void head_forward(const StageChunk& chunk, UnitPlace& place);
  // Each takes the place behind its units and leaves it at the first of them.
  void further_backward(const StageChunk& chunk, UnitBackward& step);
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
  ModelEnds ends_;
  StageLayers layers_;
  UnitGradients gradients_;
};

}  // namespace trainyard
