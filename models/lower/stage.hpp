// The program of one pipeline rank: its schedule's steps unrolled, with the messages between
// stages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "models/expert_routing.hpp"
#include "models/lower/data_parallel/data_parallel.hpp"
#include "models/lower/ends.hpp"
#include "models/lower/layer.hpp"
#include "models/lower/layer_memory.hpp"
#include "models/lower/offload.hpp"
#include "models/pipeline_shape.hpp"
#include "models/recompute.hpp"
#include "models/schedules/schedule.hpp"

namespace trainyard {

// Which ranks a program is for.
struct StagePlace {
  std::int64_t stage = 0;       // the pipeline rank
  std::int64_t ring_place = 0;  // where it stands on the ring of its context group
  ExpertSeat seat = {};
  std::int64_t replica = 0;                // whose documents it reads
  const ExpertRouting* routing = nullptr;  // of a model with experts
};

class StageLowering {
 public:
  // `split`: layers of every virtual stage (layer_split).
  StageLowering(const TrainingPlan& plan, const std::vector<std::int64_t>& split,
                const StagePlace& place, Interner& interner);

  // Makes room for a program of about that size.
  void expect(const ProgramSize& size) { build_.reserve(size); }
  // Writes every microbatch out, also where one goes as another.
  void write_all_out() { repeats_ = false; }
  [[nodiscard]] Program lower(const std::vector<ScheduleStep>& steps);
  // Of the program that lower() made: SteppedWorkload::begins.
  [[nodiscard]] const std::vector<OpIndex>& step_begins() const { return step_begins_; }

 private:
  struct Chunk {
    ChunkPlace place;
    std::int64_t stage = 0;  // its virtual stage
    std::int64_t first_layer = 0;
    std::int64_t layers = 0;
    std::int64_t further = 0;  // layers of multi-token prediction behind the head
    bool has_embedding = false;
    bool has_head = false;
    std::vector<RecomputeUnit> units = {};          // its layers, as they are computed again
    std::vector<RecomputeUnit> further_units = {};  // those of multi-token prediction
    std::int64_t microbatches = 0;
    std::int64_t backwards_left = 0;  // microbatches whose backward is still to come
  };

  [[nodiscard]] Chunk make_chunk(std::int64_t number, const std::vector<std::int64_t>& split) const;
  [[nodiscard]] static ChunkLayers layers_of(const Chunk& chunk);
  [[nodiscard]] ChunkWeights weights_of(const Chunk& chunk) const;
  [[nodiscard]] StageParameters stage_parameters() const;
  void hold_memory();
  // Of the backwards of a chunk that leave gradients of weights.
  struct Turn {
    bool first = false;
    bool last = false;
  };
  // Blocks of steps of one kind may go alike.
  struct BlockKind {
    bool overlapped = false;
    // The step and its chunk, and how many microbatches it is after the first step.
    std::vector<std::tuple<StepKind, std::int32_t, std::int32_t>> steps = {};
    auto operator<=>(const BlockKind&) const = default;
  };
  // A block of steps also keeps the operations that later steps ask for, numbered as
  // RecordingBorder::inside says.
  struct StepBlock : RecordedBlock {
    std::vector<OpIndex> step_begins = {};
    OpIndex done_before = kNone;
    OpIndex exchanged = kNone;
  };
  // Returns how many of the steps from `at` on make up one block.
  [[nodiscard]] std::size_t steps_of_block(const std::vector<ScheduleStep>& steps,
                                           std::size_t at) const;
  void write_block(std::span<const ScheduleStep> steps, bool overlapped);
  [[nodiscard]] bool instantiated(const std::vector<StepBlock>& written,
                                  std::span<const OpIndex> may_name);
  void write_out(std::span<const ScheduleStep> steps, std::span<const Turn> turns, bool overlapped,
                 StepBlock& block);
  [[nodiscard]] bool goes_as_others(const ScheduleStep& step, const Turn& turn) const;
  [[nodiscard]] Turn next_turn(const ScheduleStep& step);
  [[nodiscard]] bool is_overlapped(const std::vector<ScheduleStep>& steps, std::size_t at) const;
  // Of the layer and microbatch that the tags name.
  [[nodiscard]] const LayerMemory& memory_of(const Tags& tags);
  void hold_frozen();
  void hold_fetched();
  struct WeightBytes {
    double dense = 0.0;
    double experts = 0.0;
  };
  [[nodiscard]] WeightBytes frozen_weights() const;
  [[nodiscard]] double sharded_weights() const;
  [[nodiscard]] std::int64_t replicated_adapters() const;
  void forward(const ScheduleStep& step);
  void backward(const ScheduleStep& step, const Turn& turn);
  // Each is a unit of the chunk's weights: what stands before the layers, a layer, what stands
  // behind them.
  void enter_backward(const Chunk& chunk, const UnitBackward& step);
  void layer_backward(const Chunk& chunk, const RecomputeUnit& again, std::int64_t layer,
                      const UnitBackward& step);
  void write_layer_backward(const Chunk& chunk, const RecomputeUnit& again, std::int64_t layer,
                            const UnitBackward& step);
  void leave_backward(const Chunk& chunk, const UnitBackward& step);
  void end_unit(const UnitBackward& step);
  void further_layer(const RecomputeUnit& again, std::int64_t layer);
  void further_forward(const Chunk& chunk, UnitPlace place);
  void further_backward(const Chunk& chunk, UnitBackward& step);
  // Units whose weights a backward reads: the first of some layers', the one behind a layer's, and
  // while they are computed again the one behind that.
  [[nodiscard]] static std::size_t unit_of(const Chunk& chunk, std::int64_t layer);
  [[nodiscard]] std::optional<std::size_t> used_first(const Chunk& chunk,
                                                      const RecomputeUnit& again) const;
  [[nodiscard]] std::optional<std::size_t> used_after(const Chunk& chunk,
                                                      const RecomputeUnit& again,
                                                      std::int64_t layer) const;
  [[nodiscard]] std::optional<std::size_t> used_again_after(const Chunk& chunk,
                                                            const RecomputeUnit& again,
                                                            std::int64_t layer) const;
  void begin_layer_backward(const Chunk& chunk, const RecomputeUnit& again, std::int64_t layer,
                            const UnitPlace& place);
  [[nodiscard]] std::int64_t kept_by(const RecomputeUnit& unit, std::int64_t layer,
                                     const LayerMemory& memory) const;
  void compute_again(const Chunk& chunk, const RecomputeUnit& unit, std::size_t number);
  void layer_forward(const Chunk& chunk, const RecomputeUnit& again, std::int64_t layer,
                     const UnitPlace& place);
  // Does a gradient come back into the chunk, or leave it for the one before?
  [[nodiscard]] bool has_backward(const Chunk& chunk) const;
  [[nodiscard]] bool hands_on(const Chunk& chunk) const;

  void begin_step();
  // Messages to and from the rank that holds the stage before or after, if it is another one; a
  // receive the next compute operation waits for.
  [[nodiscard]] Call boundary_call() const;
  void receive(const Chunk& chunk, bool forward);
  void send(const Chunk& chunk, bool forward);

  const TrainingPlan& plan_;
  const StepShape shape_;
  const PipelineShape pipeline_;
  ProgramBuilder build_;
  LayerLowering layer_;
  EndLowering ends_;
  // Of one layer and microbatch, by what it depends on: has it experts, which rows do they get, is
  // it trained?
  std::map<std::tuple<bool, ExpertRouting::RowsKey, bool>, LayerMemory> memories_;
  std::int64_t stage_;
  std::vector<Chunk> chunks_;
  std::vector<ChunkWeights> weights_;  // by chunk
  StageParameters parameters_;
  std::unique_ptr<DataParallel> replicas_;
  OffloadLowering offload_;
  bool repeats_ = true;
  std::map<BlockKind, std::vector<StepBlock>> written_;
  std::vector<OpIndex> step_begins_;
  std::vector<ReadyGradient> ready_;  // of the chunk and microbatch whose backward is written
  std::size_t ended_ = 0;             // how many are of units that are ended
  OpIndex posted_after_ = kNone;      // when this step's receive may be posted, without overlap
  OpIndex done_before_ = kNone;       // the last compute operation of the exchanging step before
  OpIndex exchanged_ = kNone;         // the last compute operation of the latest exchanging step
};

}  // namespace trainyard
