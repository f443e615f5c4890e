// A pipeline schedule: for each pipeline rank, the order of its forward and backward steps.
//
// A schedule is a generator registered by name. It says nothing of time: `check_schedule` proves
// that the lists are legal (every step once, F before B, no deadlock), and `play_schedule` executes
// them.
//
//   const Schedule& s = *find_schedule("1f1b");
//   s.steps({.stages = 4, .microbatches = 8}, /*rank=*/0);   // F0 F1 F2 F3 B0 F4 B1 ...
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard {

// ---- placement: which virtual stage a (rank, chunk) holds, and who follows it
//
//   Wrap           chunk k of rank r holds stage k*p + r; the last rank hands over to the first
//   Vee            chunk 0 runs down the ranks, chunk 1 back up: stages r and 2p-1-r
//   Bidirectional  p stages, each held twice: by chunk 0 of rank r and by chunk 1 of rank p-1-r;
//                  the first half of the microbatches enters at rank 0, the second at rank p-1
//
//   const PipelineShape vee{.stages = 4, .chunks = 2, .placement = StagePlacement::Vee};
//   stage_of(vee, {.rank = 1, .chunk = 1});   // 6

enum class StagePlacement : std::uint8_t { Wrap, Vee, Bidirectional };

// Seconds of one step of one chunk, for schedules that plan with times.
struct StepCosts {
  double forward_s = 1.0;
  double input_s = 1.0;   // input-gradient part of the backward
  double weight_s = 1.0;  // weight-gradient part
  double transfer_s = 0.0;
};

struct PipelineShape {
  std::int64_t stages = 1;            // pipeline ranks, p
  std::int64_t microbatches = 1;      // m
  std::int64_t chunks = 1;            // model chunks of a rank, v
  std::int64_t group_size = 0;        // interleaved: microbatches per group, 0 means `stages`
  std::int64_t activation_limit = 0;  // zb_auto: chunk activations a rank may hold, 0 its own
  StagePlacement placement = StagePlacement::Wrap;  // the schedule's, see placed()
  StepCosts costs = {};                             // zb_auto plans with them, zb_v chooses by them
};

// One chunk of one rank.
struct ChunkPlace {
  std::int64_t rank = 0;
  std::int64_t chunk = 0;
  bool operator==(const ChunkPlace&) const = default;
};

// Stages the model is cut into: p*v, or p where two directions share them.
[[nodiscard]] std::int64_t virtual_stages(const PipelineShape& shape);
// REQUIRES: the place is within the shape.
[[nodiscard]] std::int64_t stage_of(const PipelineShape& shape, const ChunkPlace& place);
// Who holds the stage; where two do, the one that `neighbour`'s microbatches pass through.
[[nodiscard]] ChunkPlace place_of(const PipelineShape& shape, std::int64_t stage,
                                  const ChunkPlace& neighbour);
// The place whose output `place` reads in the forward, or that reads its output; nothing at the
// ends of the model.
[[nodiscard]] std::optional<ChunkPlace> place_before(const PipelineShape& shape,
                                                     const ChunkPlace& place);
[[nodiscard]] std::optional<ChunkPlace> place_after(const PipelineShape& shape,
                                                    const ChunkPlace& place);
// Activations of the chunk go from higher ranks to lower ones.
[[nodiscard]] bool runs_backwards(const PipelineShape& shape, std::int64_t chunk);

// Microbatches that pass through a chunk: all, or its direction's half.
struct MicrobatchRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
[[nodiscard]] MicrobatchRange microbatches_of(const PipelineShape& shape, std::int64_t chunk);
// Steps of a rank that make up one microbatch through its whole share of layers: the chunks, or 1
// where each chunk is a whole share.
[[nodiscard]] std::int64_t chunks_per_share(const PipelineShape& shape);

// ---- schedules

// Backward is the full backward; the zero-bubble family splits it in BackwardInput and
// BackwardWeight.
enum class StepKind : std::uint8_t { Forward, Backward, BackwardInput, BackwardWeight };

struct ScheduleStep {
  StepKind kind = StepKind::Forward;
  std::int32_t microbatch = 0;
  std::int32_t chunk = 0;  // model chunk of this rank; stage_of says which virtual stage it is
  // This forward and the full backward after it in the list run as one overlapped block: it starts
  // when both have their inputs, and both outputs are there at its end.
  bool overlapped = false;
  auto operator<=>(const ScheduleStep&) const = default;
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view summary() const = 0;
  // Why the schedule does not exist for the shape ("interleaved_1f1b needs ..."), or nothing.
  [[nodiscard]] virtual std::optional<std::string> refusal(const PipelineShape& shape) const = 0;
  // Where it puts the model's stages.
  [[nodiscard]] virtual StagePlacement placement() const { return StagePlacement::Wrap; }
  // Chunks of a rank where a user of `trainyard schedule` names none.
  [[nodiscard]] virtual std::int64_t usual_chunks() const { return 1; }
  // It takes any number of chunks that divides the layers.
  [[nodiscard]] virtual bool takes_any_chunks() const { return false; }
  // Each backward and the forward before it may run as one block (with_overlapped_pairs) on so many
  // stages.
  [[nodiscard]] virtual bool may_overlap_pairs(std::int64_t /*stages*/) const { return false; }
  // The one shape it exists for, where there is only one (a user's file).
  [[nodiscard]] virtual std::optional<PipelineShape> own_shape() const { return std::nullopt; }
  // Program order of one rank. REQUIRES: no refusal, 0 <= rank < shape.stages.
  [[nodiscard]] virtual std::vector<ScheduleStep> steps(const PipelineShape& shape,
                                                        std::int64_t rank) const = 0;
  // Program order of every rank; a schedule that plans all ranks together overrides this one.
  [[nodiscard]] virtual std::vector<std::vector<ScheduleStep>> lists(
      const PipelineShape& shape) const;
  // naive: a microbatch enters only when the one before has left (the rank blocks on its sends).
  [[nodiscard]] virtual bool one_microbatch_at_a_time() const { return false; }
  // 1f1b or interleaved_1f1b: one_f_one_b() of some number of chunks.
  [[nodiscard]] virtual bool is_one_f_one_b() const { return false; }
  // A layout search tries it without being asked.
  [[nodiscard]] virtual bool is_searched() const { return true; }
};

[[nodiscard]] std::span<const Schedule* const> schedules();
// nullptr when there is none of that name.
[[nodiscard]] const Schedule* find_schedule(std::string_view name);
// 1F1B of so many chunks on a rank: "1f1b" of one, "interleaved_1f1b" of several.
[[nodiscard]] const Schedule& one_f_one_b(std::int64_t chunks);

// A schedule by name, or a user's own from the file of that name where it ends in ".json" (format:
// schedule_file.cpp). Empty when there is none of that name; InputError for a file at fault.
class FoundSchedule {
 public:
  FoundSchedule() = default;
  explicit FoundSchedule(const Schedule* registered) : schedule_(registered) {}
  explicit FoundSchedule(std::unique_ptr<const Schedule> own)
      : own_(std::move(own)), schedule_(own_.get()) {}
  explicit operator bool() const { return schedule_ != nullptr; }
  const Schedule* operator->() const { return schedule_; }
  const Schedule& operator*() const { return *schedule_; }

 private:
  std::unique_ptr<const Schedule> own_;
  const Schedule* schedule_ = nullptr;
};
[[nodiscard]] FoundSchedule open_schedule(const std::string& name);

// The shape with the schedule's placement filled in: what all functions below take.
[[nodiscard]] PipelineShape placed(const Schedule& schedule, PipelineShape shape);

// "F3" forward, "B3" backward, "b3" its input-gradient part, "w3" its weight-gradient part; with
// several chunks "F3.1", the chunk behind the dot.
[[nodiscard]] std::string to_text(const ScheduleStep& step, const PipelineShape& shape);

// Every rank's list.
using ScheduleLists = std::vector<std::vector<ScheduleStep>>;
// The same with every rank one forward further ahead, each backward as one block with the forward
// before it: both sides of a block are of different microbatches, so that what the one exchanges
// can hide under the other (Megatron-LM's overlap_moe_expert_parallel_comm). 1f1b of one stage:
// F0 F1+B0 F2+B1 ... B(m-1). REQUIRES: no backward is split.
[[nodiscard]] ScheduleLists with_overlapped_pairs(const ScheduleLists& lists);
[[nodiscard]] ScheduleLists all_steps(const Schedule& schedule, const PipelineShape& shape);

// Nothing when legal; else a sentence that names the rank, the step and, for a deadlock, who waits
// for whom. Messages between two ranks keep their order, so both must name the microbatches that
// pass between them in one order.
[[nodiscard]] std::optional<std::string> check_schedule(const ScheduleLists& lists,
                                                        const PipelineShape& shape);

// Where two directions share the ranks, both holders of a stage reduce its gradients together as
// soon as they are final, stage after stage in one queue. Nothing when both come to their stages in
// one order; else a sentence that names two ranks that would wait for each other.
[[nodiscard]] std::optional<std::string> check_reductions(const ScheduleLists& lists,
                                                          const PipelineShape& shape);

// Durations of one rank's whole share of layers for one microbatch; a chunk takes
// 1/chunks_per_share of it.
struct StepDurations {
  std::vector<double> forward_s;   // by rank
  std::vector<double> backward_s;  // full backward, by rank
  std::vector<double> weight_s;  // its weight-gradient part where split, by rank; empty: half of it
  double transfer_s = 0.0;       // point-to-point latency, asynchronous send
  // An overlapped forward and backward take this share of their sum: 1 gains nothing.
  double overlapped_share = 1.0;
};
struct PlayedStep {
  ScheduleStep step;
  double start_s = 0.0;
  double end_s = 0.0;
};
struct PlayedSchedule {
  std::vector<std::vector<PlayedStep>> ranks;
  double makespan_s = 0.0;
  std::vector<double> busy_s;                  // by rank
  std::vector<std::int64_t> peak_activations;  // chunk activations held at once, by rank
};
// A step starts when its rank is free and its inputs have arrived. REQUIRES: check_schedule is
// silent.
[[nodiscard]] PlayedSchedule play_schedule(const ScheduleLists& lists, const PipelineShape& shape,
                                           const StepDurations& durations);

// ---- a played schedule as text: one row for each rank along time, and a table of what it costs
//
//   fmt::print("{}{}", schedule_chart(played, shape, 100), schedule_table(played, shape));
//   rank 0 |F0F1....B0==F2B1==..B2==

// Rows no wider than `width` columns (at least 40 are used), with a legend below. Each step is its
// label, filled up to its duration; where the width does not allow a label, its beginning. Dots are
// bubbles. One chunk: F0, B0 (b0 and w0 where the backward is split). Several: the chunk is the
// letter, a capital for forward (A0, B0, ...), a small one for backward (a0, b0, ...).
[[nodiscard]] std::string schedule_chart(const PlayedSchedule& played, const PipelineShape& shape,
                                         std::size_t width);

// Makespan, bubble and its share, and per rank the busy time and the activations held at most, in
// microbatches of the rank's whole share of layers.
[[nodiscard]] std::string schedule_table(const PlayedSchedule& played, const PipelineShape& shape);

// ---- a user's own schedule (the format of its file stands in schedule_file.cpp)

// Throws InputError (file, "/ranks", and the rank, step and for a deadlock the circle) for a list
// that cannot be read or that check_schedule refuses. The schedule exists for one shape and refuses
// every other.
[[nodiscard]] std::unique_ptr<const Schedule> read_schedule_file(const std::string& file);
// The same of a document in hand.
[[nodiscard]] std::unique_ptr<const Schedule> parse_schedule(const std::string& name,
                                                             std::string_view json);
// Legal lists as such a file.
[[nodiscard]] std::string schedule_json(const ScheduleLists& lists, const PipelineShape& shape);

}  // namespace trainyard
