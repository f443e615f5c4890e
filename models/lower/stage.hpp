// The program of one pipeline rank: its schedule's steps, of which those that go alike are written
// once. What a step does is in stage_writer.hpp.
//
// A schedule of another number of microbatches is arranged from the blocks of the first.
//
//   StageLowering lowering(options, pipeline, {.stage = 3}, interner);
//   const Program program = lowering.lower(steps);
//   const auto longer = arranged(lowering.take_book(), program.operations, layout, more_steps);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "models/lower/recording.hpp"
#include "models/lower/stage_writer.hpp"
#include "models/lower/step_runs.hpp"

namespace trainyard {

// Which ranks a program is for.
struct StagePlace {
  std::int64_t stage = 0;       // the pipeline rank
  std::int64_t ring_place = 0;  // where it stands on the ring of its context group
  ExpertRank expert_rank = {};
  std::int64_t replica = 0;                // whose documents it reads
  const ExpertRouting* routing = nullptr;  // of a model with experts
};

// A block of steps also keeps the operations that later steps ask for, numbered as
// RecordingBorder::inside says.
struct StepBlock : RecordedBlock {
  std::vector<OpIndex> step_begins = {};
  StageMessages::Ended ended = {};
};

// A block that comes once, such as the last backward of a chunk, or what stands before or behind
// all steps (it is of none). It may name what its border knows and operations of single blocks,
// which the replicas remember.
struct SingleBlock : StepBlock {
  // An operation from before may be one of the border, one of a single block (by its number and
  // place), or both; kNone where it is not.
  struct Named {
    OpIndex inside = kNone;  // RecordingBorder::inside
    std::uint32_t single = kNone;
    OpIndex place = 0;
  };
  StepsKind kind = {};
  std::vector<StepTurn> turns = {};
  std::vector<Named> named_inputs = {};  // of the block
  std::vector<Named> named_waits = {};   // of the computation behind it
};

// All blocks of a stage's program, by the steps that they are of.
struct StageBook {
  std::map<StepsKind, std::vector<StepBlock>> blocks = {};
  std::vector<SingleBlock> singles = {};  // in their order
  bool overlaps = false;                  // a forward and a backward may run as one block
  bool names_steps = false;               // StageMessages::receives_name_steps
  // Whether every block is here, and each writes the same wherever it comes.
  bool complete = false;
};

// The blocks of `known` as instances of another schedule of the same stage. Nothing where that
// needs another block, or the blocks in another order of their first instances. `layout`: of the
// other schedule. REQUIRES: the book is of the list.
[[nodiscard]] std::optional<OperationList> arranged(const StageBook& book,
                                                    const OperationList& known,
                                                    const StageLayout& layout,
                                                    const std::vector<ScheduleStep>& steps);

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
  // The blocks of that program.
  [[nodiscard]] StageBook take_book() { return std::move(book_); }

 private:
  void write_around(const std::function<void()>& write);
  void write_run(const StepRun& run);
  [[nodiscard]] bool instantiated(const std::vector<StepBlock>& written,
                                  const RecordingBorder& now);
  void write_out(const StepRun& run, StepBlock& block);
  [[nodiscard]] bool goes_as_others(const StepRun& run) const;
  [[nodiscard]] RecordingBorder border();
  void keep_single(SingleBlock single);
  [[nodiscard]] SingleBlock::Named named(OpIndex op, const RecordingBorder& begin);

  const StepShape shape_;
  const StageLayout layout_;
  ProgramBuilder build_;
  BlockRecorder recorder_;
  StageWriter writer_;
  const bool differ_;  // no microbatch goes as another
  bool repeats_ = true;
  StageBook book_;
  std::vector<OpIndex> single_begins_;  // of those in the book
  std::vector<OpIndex> step_begins_;
};

}  // namespace trainyard
