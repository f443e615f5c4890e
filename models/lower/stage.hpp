// The program of one pipeline rank: its schedule's steps, of which those that go alike are written
// once. What a step does is in stage_writer.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "models/lower/recording.hpp"
#include "models/lower/stage_writer.hpp"

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
  // The options outlive this.
  StageLowering(const LoweringOptions& options, const PipelineOptions& pipeline,
                const StagePlace& place, Interner& interner);

  // Makes room for a program of about that size.
  void expect(const ProgramSize& size) { build_.reserve(size); }
  // Writes every microbatch out, also where one goes as another.
  void write_all_out() { repeats_ = false; }
  [[nodiscard]] Program lower(const std::vector<ScheduleStep>& steps);
  // SteppedWorkload::begins of the program that lower() made.
  [[nodiscard]] const std::vector<OpIndex>& step_begins() const { return step_begins_; }

 private:
  using Turn = StageWriter::Turn;
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
    StageMessages::Ended ended = {};
  };
  [[nodiscard]] bool is_overlapped(const std::vector<ScheduleStep>& steps, std::size_t at) const;
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

  const StepShape shape_;
  const StageLayout layout_;
  ProgramBuilder build_;
  BlockRecorder recorder_;
  StageWriter writer_;
  const bool overlaps_;  // a forward and a backward may run as one block
  const bool differ_;    // no microbatch goes as another
  bool repeats_ = true;
  std::vector<std::int64_t> backwards_left_;  // by chunk: microbatches without their backward
  std::map<BlockKind, std::vector<StepBlock>> written_;
  std::vector<OpIndex> step_begins_;
};

}  // namespace trainyard
