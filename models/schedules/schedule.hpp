// Pipeline schedules. A schedule gives, for each pipeline rank, the order of its forward and
// backward steps.
//
// A schedule is a generator that is registered by name. It contains no times. `check_schedule`
// proves that the lists are legal (every step once, F before B, no deadlock). `play_schedule`
// executes them with durations.
//
//    const Schedule& s = *find_schedule("1f1b");
//    s.steps({.stages = 4, .microbatches = 8}, /*rank=*/0);   // F0 F1 F2 F3 B0 F4 B1 ...
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

// ---- placement: the virtual stage that a (rank, chunk) holds, and its neighbours
//
//  Wrap           chunk k of rank r holds stage k*p + r; the last rank sends to the first
//  Vee            chunk 0 runs down the ranks, chunk 1 back up: stages r and 2p-1-r
//  Bidirectional  p stages, each held twice: by chunk 0 of rank r and by chunk 1 of rank p-1-r;
//                 the first half of the microbatches enters at rank 0, the second at rank p-1
//
//    const PipelineShape vee{.stages = 4, .chunks = 2, .placement = StagePlacement::Vee};
//    stage_of(vee, {.rank = 1, .chunk = 1});   // 6

enum class StagePlacement : std::uint8_t { Wrap, Vee, Bidirectional };

// Seconds of one step of one chunk. Schedules that plan with times use them.
struct StepCosts {
  double forward_s = 1.0;
  double input_s = 1.0;   // input-gradient part of the backward
  double weight_s = 1.0;  // weight-gradient part
  double transfer_s = 0.0;
};

struct PipelineShape {
  std::int64_t stages = 1;        // pipeline ranks, p
  std::int64_t microbatches = 1;  // m
  std::int64_t chunks = 1;        // model chunks (virtual stages) of a rank, v
  std::int64_t group_size = 0;    // interleaved: microbatches per group; 0 means `stages`
  // zb_auto: chunk activations that a rank may hold; 0: `stages`.
  std::int64_t activation_limit = 0;
  StagePlacement placement = StagePlacement::Wrap;  // set from the schedule by placed()
  StepCosts costs = {};  // zb_auto plans with them; zb_v compares two orders with them
};

// One chunk of one rank.
struct ChunkId {
  std::int64_t rank = 0;
  std::int64_t chunk = 0;
  bool operator==(const ChunkId&) const = default;
};

// Number of stages that the model is cut into: p*v, or p where two directions share them.
[[nodiscard]] std::int64_t virtual_stages(const PipelineShape& shape);
// REQUIRES: rank and chunk of `place` are within the shape.
[[nodiscard]] std::int64_t stage_of(const PipelineShape& shape, const ChunkId& place);
// Rank and chunk that hold the stage. Where two chunks hold it, the function returns the one that
// the microbatches of `neighbour` pass through.
[[nodiscard]] ChunkId holder_of(const PipelineShape& shape, std::int64_t stage,
                                const ChunkId& neighbour);
// The chunk whose output `place` reads in the forward, and the chunk that reads the output of
// `place`. Nothing before the first stage of the model and after the last.
[[nodiscard]] std::optional<ChunkId> place_before(const PipelineShape& shape, const ChunkId& place);
[[nodiscard]] std::optional<ChunkId> place_after(const PipelineShape& shape, const ChunkId& place);
// True if the activations of the chunk go from higher ranks to lower ones.
[[nodiscard]] bool runs_backwards(const PipelineShape& shape, std::int64_t chunk);

// Microbatches that pass through a chunk: all of them, or the half of its direction.
struct MicrobatchRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
[[nodiscard]] MicrobatchRange microbatches_of(const PipelineShape& shape, std::int64_t chunk);
// Number of steps that take one microbatch through all layers of a rank: the number of chunks, or 1
// where each chunk is a complete copy of the rank's share (Bidirectional).
[[nodiscard]] std::int64_t chunks_per_share(const PipelineShape& shape);

// ---- schedules

// Backward is the full backward. The zero-bubble schedules split it into BackwardInput and
// BackwardWeight.
enum class StepKind : std::uint8_t { Forward, Backward, BackwardInput, BackwardWeight };

struct ScheduleStep {
  StepKind kind = StepKind::Forward;
  std::int32_t microbatch = 0;
  std::int32_t chunk = 0;  // model chunk of this rank; stage_of gives its virtual stage
  // This forward and the full backward that follows it in the list run as one overlapped block. The
  // block starts when both have their inputs. Both outputs exist when it ends.
  bool overlapped = false;
  auto operator<=>(const ScheduleStep&) const = default;
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view summary() const = 0;
  // The reason why the schedule does not exist for the shape ("interleaved_1f1b needs ..."), or
  // nothing.
  [[nodiscard]] virtual std::optional<std::string> refusal(const PipelineShape& shape) const = 0;
  // How the schedule assigns the stages of the model to ranks.
  [[nodiscard]] virtual StagePlacement placement() const { return StagePlacement::Wrap; }
  // Chunks of a rank when the user of `trainyard schedule` gives no number.
  [[nodiscard]] virtual std::int64_t usual_chunks() const { return 1; }
  // True if the schedule accepts any number of chunks that divides the layers.
  [[nodiscard]] virtual bool takes_any_chunks() const { return false; }
  // True if, on this number of stages, each backward and the forward before it may run as one block
  // (with_overlapped_pairs).
  [[nodiscard]] virtual bool may_overlap_pairs(std::int64_t /*stages*/) const { return false; }
  // The only shape that the schedule exists for, where there is only one (a user's file).
  [[nodiscard]] virtual std::optional<PipelineShape> own_shape() const { return std::nullopt; }
  // Program order of one rank. REQUIRES: refusal(shape) returns nothing, 0 <= rank < shape.stages.
  [[nodiscard]] virtual std::vector<ScheduleStep> steps(const PipelineShape& shape,
                                                        std::int64_t rank) const = 0;
  // Program order of every rank. A schedule that plans all ranks together overrides this function.
  [[nodiscard]] virtual std::vector<std::vector<ScheduleStep>> lists(
      const PipelineShape& shape) const;
  // naive: a microbatch enters only when the one before has left (the rank blocks on its sends).
  [[nodiscard]] virtual bool one_microbatch_at_a_time() const { return false; }
  // True for 1f1b and interleaved_1f1b: one_f_one_b() of some number of chunks.
  [[nodiscard]] virtual bool is_one_f_one_b() const { return false; }
  // True if a layout search tries the schedule by default.
  [[nodiscard]] virtual bool is_searched() const { return true; }
};

[[nodiscard]] std::span<const Schedule* const> schedules();
// The registered schedule of that name, or nullptr.
[[nodiscard]] const Schedule* find_schedule(std::string_view name);
// 1F1B for this number of chunks per rank: "1f1b" for one, "interleaved_1f1b" for several.
[[nodiscard]] const Schedule& one_f_one_b(std::int64_t chunks);

// The result of a search by name: a registered schedule, or a user's schedule that is read from the
// file of that name if it ends in ".json" (format: schedule_file.cpp). It is empty when no schedule
// has the name. open_schedule throws InputError for a file with errors.
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

// The shape with the schedule's placement filled in. All functions below take such a shape.
[[nodiscard]] PipelineShape placed(const Schedule& schedule, PipelineShape shape);

// "F3" is a forward, "B3" a backward, "b3" its input-gradient part, "w3" its weight-gradient part.
// With several chunks the chunk follows the dot: "F3.1".
[[nodiscard]] std::string to_text(const ScheduleStep& step, const PipelineShape& shape);

// The list of every rank.
using ScheduleLists = std::vector<std::vector<ScheduleStep>>;
// Returns lists in which every rank runs one forward further ahead and each backward forms one
// block with the forward before it. The two halves of a block belong to different microbatches, so
// that the communication of one can overlap with the computation of the other (Megatron-LM's
// overlap_moe_expert_parallel_comm). 1f1b on one stage becomes F0 F1+B0 F2+B1 ... B(m-1). REQUIRES:
// no backward is split.
[[nodiscard]] ScheduleLists with_overlapped_pairs(const ScheduleLists& lists);
[[nodiscard]] ScheduleLists all_steps(const Schedule& schedule, const PipelineShape& shape);

// Returns nothing when the lists are legal. Otherwise it returns a sentence that names the rank and
// the step and, for a deadlock, which rank waits for which. Messages between two ranks are
// delivered in order, so both lists must have the microbatches that pass between the two ranks in
// the same order.
[[nodiscard]] std::optional<std::string> check_schedule(const ScheduleLists& lists,
                                                        const PipelineShape& shape);

// Where two directions share the ranks, the two holders of a stage reduce its gradients together as
// soon as these are final, one stage after another in one queue. Returns nothing when both holders
// finish their stages in the same order. Otherwise it returns a sentence that names two ranks that
// would wait for each other.
[[nodiscard]] std::optional<std::string> check_reductions(const ScheduleLists& lists,
                                                          const PipelineShape& shape);

// Durations of all layers of one rank for one microbatch. A chunk takes 1/chunks_per_share of them.
struct StepDurations {
  std::vector<double> forward_s;   // by rank
  std::vector<double> backward_s;  // full backward, by rank
  // Weight-gradient part where the backward is split, by rank; empty: half of backward_s.
  std::vector<double> weight_s;
  double transfer_s = 0.0;  // latency of a point-to-point message; sends are asynchronous
  // An overlapped forward and backward take this share of the sum of their durations. 1 means no
  // gain.
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
  std::vector<double> busy_s;  // by rank
  // Largest number of chunk activations held at one time, by rank.
  std::vector<std::int64_t> peak_activations;
};
// A step starts when its rank is free and its inputs have arrived. REQUIRES: check_schedule returns
// nothing.
[[nodiscard]] PlayedSchedule play_schedule(const ScheduleLists& lists, const PipelineShape& shape,
                                           const StepDurations& durations);

// ---- a played schedule as text: a chart with one line for each rank, and a table of times
//
//    fmt::print("{}", schedule_chart(played, shape, 100));   // rank 0 |F0F1....B0==F2B1==..B2==
//    fmt::print("{}", schedule_table(played, shape));

// Lines of at most `width` columns (at least 40 are used), with a legend below. A step is drawn as
// its label, filled up to its duration; where the width is too small for the label, only the
// beginning of the label is drawn. Dots are bubbles. With one chunk: F0, B0 (b0 and w0 where the
// backward is split). With several chunks the letter is the chunk: a capital for the forward (A0,
// B0, ...), a small letter for the backward (a0, b0, ...).
[[nodiscard]] std::string schedule_chart(const PlayedSchedule& played, const PipelineShape& shape,
                                         std::size_t width);

// A table with the makespan and, per rank, busy time, bubble, bubble share and the largest number
// of activations held, in microbatches through all layers of the rank.
[[nodiscard]] std::string schedule_table(const PlayedSchedule& played, const PipelineShape& shape);

// ---- a user's own schedule (schedule_file.cpp describes the format of its file)

// Throws InputError (file, "/ranks", and the rank, the step and for a deadlock the cycle of waiting
// ranks) for a list that cannot be parsed or that check_schedule rejects. The schedule exists for
// one shape and refuses every other.
[[nodiscard]] std::unique_ptr<const Schedule> read_schedule_file(const std::string& file);
// Same as read_schedule_file, for a document in memory.
[[nodiscard]] std::unique_ptr<const Schedule> parse_schedule(const std::string& name,
                                                             std::string_view json);
// Writes legal lists in the format of such a file.
[[nodiscard]] std::string schedule_json(const ScheduleLists& lists, const PipelineShape& shape);

}  // namespace trainyard
