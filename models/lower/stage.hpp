// Writes the program of one pipeline rank, step by step of its schedule. Steps with identical
// operations are written once, as instances of one block. stage_writer.hpp writes the operations of
// a step.
//
// A program for another number of microbatches is arranged from the blocks of the first program.
//
//    StageLowering lowering(options, pipeline, {.stage = 3}, interner);
//    const Program program = lowering.lower(steps);
//    const auto longer = arranged(lowering.take_book(), program.operations, layout, more_steps);
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

// The ranks that a program is written for.
struct StagePlace {
  std::int64_t stage = 0;          // pipeline rank
  std::int64_t ring_position = 0;  // position on the ring of the context group
  ExpertRank expert_rank = {};
  std::int64_t replica = 0;                // replica whose documents the program reads
  const ExpertRouting* routing = nullptr;  // null for a model without experts
};

// A recorded block of schedule steps, with the operations that later steps may depend on. They are
// numbered as by RecordingBorder::inside.
struct StepBlock : RecordedBlock {
  std::vector<OpIndex> step_begins = {};
  StageMessages::Ended ended = {};
  std::vector<std::int64_t> replica_values = {};  // of the data-parallel scheme, at its begin
  std::optional<ReplicaState> replicas = {};      // at its end
};

// A block with one instance, such as the last backward of a chunk, or the operations before or
// after all steps (whose `kind` has no steps). Its inputs may be operations of its border, and
// operations of earlier single blocks, to which the data-parallel scheme may hold references (for
// example the gather of a weight).
struct SingleBlock : StepBlock {
  // A reference to an operation before the block. It names the operation as one of the border, or
  // by the index of a single block and the index within that block, or both. kNone where it is not
  // one of these.
  struct Named {
    OpIndex inside = kNone;        // RecordingBorder::inside
    std::uint32_t single = kNone;  // index in BlockCatalogue::singles
    OpIndex place = 0;             // index in the block of that single
  };
  StepsKind kind = {};
  std::vector<FirstOrLast> turns = {};
  std::vector<Named> named_inputs = {};  // inputs of the block
  std::vector<Named> named_waits = {};   // operations that the computation after it waits for
};

// All blocks of a stage's program, by the kind of their steps.
struct BlockCatalogue {
  std::map<StepsKind, std::vector<StepBlock>> blocks = {};
  std::vector<SingleBlock> singles = {};  // in program order
  bool overlaps = false;                  // a forward and a backward may run as one block
  bool names_steps = false;               // StageMessages::receives_name_steps
  // Every block is in the book, and each has the same operations at every position in the program.
  // Otherwise the book is empty.
  bool complete = false;
};

// Arranges the blocks of `known` as the program of another schedule of the same stage. Returns
// nullopt if that needs a block that `known` does not have, or if the first instances of the blocks
// would come in another order. `layout`: of the other schedule. REQUIRES: `book` is the book of
// `known`.
[[nodiscard]] std::optional<OperationList> arranged(const BlockCatalogue& book,
                                                    const OperationList& known,
                                                    const StageLayout& layout,
                                                    const std::vector<ScheduleStep>& steps);

class StageLowering {
 public:
  // The options outlive the object.
  StageLowering(const LoweringOptions& options, const PipelineOptions& pipeline,
                const StagePlace& place, Interner& interner);

  // Reserves memory for a program of about this size.
  void expect(const ProgramSize& size) { build_.reserve(size); }
  // Writes every microbatch separately, even if its operations are identical to another's.
  void write_all_out() { repeats_ = false; }
  [[nodiscard]] Program lower(const std::vector<ScheduleStep>& steps);
  // SteppedWorkload::begins of the program that lower() returned.
  [[nodiscard]] const std::vector<OpIndex>& step_begins() const { return step_begins_; }
  // The blocks of that program.
  [[nodiscard]] BlockCatalogue take_book() { return std::move(book_); }

 private:
  void write_outside_steps(const std::function<void()>& write);
  void write_run(const StepRun& run);
  [[nodiscard]] bool instantiated(const std::vector<StepBlock>& written, const RecordingBorder& now,
                                  const ReplicaState& replicas);
  void write_out(const StepRun& run, StepBlock& block);
  [[nodiscard]] RecordingBorder border(const ReplicaState& replicas);
  void record_single(SingleBlock single);
  [[nodiscard]] SingleBlock::Named named(OpIndex op, const RecordingBorder& begin);

  const StepShape shape_;
  const StageLayout layout_;
  ProgramBuilder build_;
  BlockRecorder recorder_;
  StageWriter writer_;
  const bool microbatches_differ_;  // microbatches have different operations
  bool repeats_ = true;
  BlockCatalogue book_;
  std::vector<OpIndex> single_begins_;  // first operations of the singles in the book, ascending
  std::vector<OpIndex> step_begins_;
};

}  // namespace trainyard
