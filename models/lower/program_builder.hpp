// Writes one Program, operation by operation, as a host would issue kernels to CUDA streams.
//
// Operations on one stream follow each other. What a compute operation must wait for from other
// streams is said beforehand with `wait_for`, as an event wait; communication names its inputs with
// `after`.
//
//   ProgramBuilder build(workload, "stage 0", 0);
//   OpIndex gemm = build.compute("qkv_gemm", Gemm{...});
//   OpIndex gather = build.collective("all_gather", Stream::Tensor, Slot::Tensor, call, {gemm});
//   build.wait_for(gather);
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/lower/interner.hpp"
#include "models/lower/lower.hpp"
#include "models/lower/recording.hpp"
#include "models/lower/step_names.hpp"
#include "models/rank_groups.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// What the operations that follow belong to.
struct Tags {
  StepPart part = StepPart::Other;
  std::int32_t microbatch = -1;
  std::int32_t layer = -1;
  WorkClass work = WorkClass::Compute;
};

struct ProgramSize {
  std::size_t operations = 0;  // as written
  std::size_t dependencies = 0;
  std::size_t effects = 0;
};
[[nodiscard]] ProgramSize size_of(const Program& program);

class ProgramBuilder {
 public:
  using After = std::initializer_list<OpIndex>;

  ProgramBuilder(Interner& interner, std::string name, std::uint32_t stage);

  // Makes room for a program of about that size.
  void reserve(const ProgramSize& size);

  void tag(const Tags& tags) { tags_ = tags; }
  [[nodiscard]] const Tags& tags() const { return tags_; }

  // The next compute operation waits for `op` too; kNone is ignored.
  void wait_for(OpIndex op);
  OpIndex compute(std::string_view name, const Kernel& kernel);
  // The last compute operation as an input stands for the compute stream as it is now: the
  // communication then also starts after all that the next compute operation waits for, as after an
  // event recorded there.
  OpIndex collective(std::string_view name, Stream stream, Slot slot, const ChosenCall& call,
                     After after);
  OpIndex collective(std::string_view name, Stream stream, Slot slot, const CallKey& key,
                     const std::function<ChosenCall()>& make, After after);
  // Work of the CPU, which takes the time given.
  OpIndex delay(std::string_view name, Stream stream, Seconds time, After after);
  OpIndex send(std::string_view name, Stream stream, Slot slot, const ChosenCall& call,
               After after);
  OpIndex recv(std::string_view name, Stream stream, Slot slot, const ChosenCall& call,
               After after);

  // The number the next operation will have.
  [[nodiscard]] OpIndex next() const {
    return open_ + static_cast<OpIndex>(operations_.size() - open_written_);
  }
  // The last compute operation so far, kNone at the start.
  [[nodiscard]] OpIndex last_compute() const { return last_on_stream_[0]; }

  // Interleaves the operations from `first` on with those from `second` on (to the end), which need
  // nothing of each other: whenever one side has started an exchange among experts, the other goes
  // on, so that each travels under the other's computation (DualPipe, DeepSeek-AI 2412.19437
  // section 3.2.1). Both keep their own order. Numbers of operations from `first` on are no longer
  // valid.
  void overlap(OpIndex first, OpIndex second);

  // Marks a block of the program. `named`: what it may name of before beside the last computation
  // and those the next one waits for; kNone where it is nothing. `beside`: the other microbatch
  // that it is of, which goes as far ahead of the tagged one in every instance. Where it turns out
  // as a block with one of the `known` numbers, it becomes an instance of that. False where nothing
  // was written. REQUIRES: until its end nothing from before it is overlapped.
  [[nodiscard]] RecordedBlock begin_block(std::span<const OpIndex> named,
                                          std::optional<std::int32_t> beside = {}) const;
  [[nodiscard]] bool end_block(RecordedBlock& block, std::span<const std::uint32_t> known);
  // Adds an instance of the block, for the microbatch that the tags name. Nothing, and nothing is
  // added, where what stands before is not alike, or the block names more than its border knows.
  [[nodiscard]] std::optional<RecordingBorder> instantiate(const RecordedBlock& block,
                                                           std::span<const OpIndex> named);

  void allocate(OpIndex at_start_of, Category category, std::int64_t bytes);
  void release(OpIndex at_end_of, Category category, std::int64_t bytes);
  void hold(Category category, std::int64_t bytes);  // for the whole step

  // The finished program; the builder is spent.
  [[nodiscard]] Program take();

 private:
  // The call's number; notes which field chose its algorithm.
  [[nodiscard]] std::uint32_t number_of(Slot slot, const ChosenCall& call);
  OpIndex append(OpKind kind, Stream stream, std::uint16_t name, Slot slot, std::uint32_t payload,
                 std::span<const OpIndex> after);
  [[nodiscard]] std::vector<OpIndex> with_waits(After after) const;
  [[nodiscard]] std::vector<OpIndex> overlapped(OpIndex first, OpIndex second) const;
  void reorder(OpIndex first, const std::vector<OpIndex>& order);
  using Effect = std::pair<OpIndex, MemoryEffect>;
  // A block remembers for which microbatch and where it was written, and which effects came with
  // it.
  struct WrittenBlock {
    OpIndex first = 0;
    std::int32_t microbatch = 0;
    std::size_t effects_begin = 0;  // in effects_
    std::size_t effects_end = 0;
  };

  [[nodiscard]] RecordingBorder border(std::span<const OpIndex> named) const;
  void wait_as(const RecordedBlock& recording, const RecordingBorder& now);
  [[nodiscard]] bool is_closed(const RecordedBlock& block) const;
  void end_open(OpIndex end);  // what lies behind the last instance, up to there, becomes a block
  [[nodiscard]] bool same_block(std::uint32_t fresh, std::uint32_t known, std::int32_t later) const;
  void become(std::uint32_t known, std::int32_t later, OpIndex first);
  [[nodiscard]] std::vector<Effect> own_effects(std::uint32_t block) const;
  void place_effects();
  void write_effects(const Block& block, std::vector<Effect> effects);
  [[nodiscard]] std::size_t instance_with(OpIndex op) const;
  [[nodiscard]] std::uint8_t stream_of(OpIndex op) const;
  // Where operations stand that were written since open_.
  [[nodiscard]] std::size_t written_at(OpIndex op) const { return open_written_ + (op - open_); }
  [[nodiscard]] std::span<const Operation> written_from(OpIndex op) const {
    return std::span(operations_).subspan(written_at(op));
  }
  [[nodiscard]] std::span<const OpIndex> dependencies_of(const Operation& op) const {
    return std::span(dependencies_)
        .subspan(op.dependencies_begin, op.dependencies_end - op.dependencies_begin);
  }

  Interner& interner_;
  Program program_;  // its operations come last
  std::vector<Operation> operations_;
  std::vector<OpIndex> dependencies_;  // from open_ on by number, before as blocks say them
  Tags tags_;
  std::vector<OpIndex> waits_;
  std::vector<OpIndex> last_on_stream_;
  std::vector<Effect> effects_;  // by number of the operation, in the order they came
  std::vector<Block> blocks_;
  std::vector<WrittenBlock> written_blocks_;  // by block
  std::vector<Instance> instances_;           // in order, but for what lies behind them
  std::vector<OpIndex> bindings_;
  OpIndex open_ = 0;              // the first operation behind the instances
  std::size_t open_written_ = 0;  // where it stands in operations_
  std::size_t settled_ = 0;       // effects of operations from before the latest overlap or in it
};

}  // namespace trainyard
