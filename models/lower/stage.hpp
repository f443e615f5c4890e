// The program of one pipeline rank: its schedule's steps unrolled, with the messages between
// stages.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "models/lower/ends.hpp"
#include "models/lower/gradients.hpp"
#include "models/lower/layer.hpp"
#include "models/lower/layer_memory.hpp"
#include "models/pipeline_shape.hpp"
#include "models/schedules/schedule.hpp"

namespace trainyard {

class StageLowering {
 public:
  // `split`: layers of every virtual stage (layer_split); `stage`: the pipeline rank.
  StageLowering(const TrainingPlan& plan, const std::vector<std::int64_t>& split,
                std::int64_t stage, Interner& interner);

  [[nodiscard]] Program lower(const std::vector<ScheduleStep>& steps);

 private:
  struct Chunk {
    ChunkPlace place;
    std::int64_t stage = 0;  // its virtual stage
    std::int64_t first_layer = 0;
    std::int64_t layers = 0;
    bool has_embedding = false;
    bool has_head = false;
    std::vector<std::int64_t> sizes;  // parameters in backward order
    std::size_t head_entries = 0;     // how many of them belong to the head
    std::vector<Bucket> buckets;
    std::vector<OpIndex> gathers;  // one for each bucket, where weights are gathered at the start
    std::int64_t backwards_left = 0;  // microbatches whose backward is still to come
    bool entered = false;             // its first forward has been written
  };

  [[nodiscard]] Chunk make_chunk(std::int64_t number, const std::vector<std::int64_t>& split) const;
  void fill_sizes(Chunk& chunk) const;
  [[nodiscard]] StageParameters stage_parameters() const;
  void hold_memory(const StageParameters& parameters);
  void gather_weights();
  void forward(const ScheduleStep& step);
  void backward(const ScheduleStep& step);
  void enter_backward(const Chunk& chunk, BackwardPart part, std::vector<ReadyGradient>* ready);
  void leave_backward(const Chunk& chunk, BackwardPart part, std::vector<ReadyGradient>* ready);
  void layer_backward(const Tags& tags, BackwardPart part, std::vector<ReadyGradient>* ready);
  // Numbers of the chunks in the order in which their gradients and weights travel.
  [[nodiscard]] std::vector<std::size_t> chunk_order() const;
  void reduce_ready(const Chunk& chunk, const std::vector<ReadyGradient>& ready,
                    std::size_t& next_bucket);
  void wait_for_weights(const Chunk& chunk, std::size_t entry);

  void begin_step();
  // Messages to and from the rank that holds the stage before or after, if it is another one; a
  // receive the next compute operation waits for.
  void receive(const Chunk& chunk, bool forward);
  void send(const Chunk& chunk, bool forward);

  const TrainingPlan& plan_;
  const StepShape shape_;
  const PipelineShape pipeline_;
  ProgramBuilder build_;
  LayerLowering layer_;
  EndLowering ends_;
  GradientLowering gradients_;
  LayerMemory memory_;  // of one layer and microbatch
  std::int64_t stage_;
  std::vector<Chunk> chunks_;
  OpIndex posted_after_ = kNone;  // when this step's receive may be posted, without overlap
  OpIndex done_before_ = kNone;   // the last compute operation of the exchanging step before
  OpIndex exchanged_ = kNone;     // the last compute operation of the latest exchanging step
};

}  // namespace trainyard
