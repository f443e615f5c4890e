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
#include "models/lower/place_effects.hpp"
#include "models/lower/program_block.hpp"
#include "models/lower/program_passage.hpp"
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
  OpIndex collective(std::string_view name, Stream stream, Slot slot, const Call& call,
                     After after);
  OpIndex collective(std::string_view name, Stream stream, Slot slot, const CallKey& key,
                     const std::function<Call()>& make, After after);
  // Work of the CPU, which takes the time given.
  OpIndex delay(std::string_view name, Stream stream, Seconds time, After after);
  OpIndex send(std::string_view name, Stream stream, Slot slot, const Call& call, After after);
  OpIndex recv(std::string_view name, Stream stream, Slot slot, const Call& call, After after);

  // The number the next operation will have.
  [[nodiscard]] OpIndex next() const {
    return tail_ + static_cast<OpIndex>(operations_.size() - tail_written_);
  }
  // The last compute operation so far, kNone at the start.
  [[nodiscard]] OpIndex last_compute() const { return last_on_stream_[0]; }

  // Interleaves the operations from `first` on with those from `second` on (to the end), which need
  // nothing of each other: whenever one side has started an exchange among experts, the other goes
  // on, so that each travels under the other's computation (DualPipe, DeepSeek-AI 2412.19437
  // section 3.2.1). Both keep their own order. Numbers of operations from `first` on are no longer
  // valid.
  void weave(OpIndex first, OpIndex second);

  // Marks what is written between the two. Its tags but for microbatch and layer belong to it.
  // REQUIRES: it names no operation from before it but the last computation and those the next one
  // waits for.
  [[nodiscard]] ProgramBlock begin_block() const;
  void end_block(ProgramBlock& block) const;
  // Writes the block's operations once more, for the microbatch and layer that the tags name.
  // False, and nothing is written, where what stands before is not alike.
  [[nodiscard]] bool repeat(const ProgramBlock& block);

  // The same for a passage, whose operations are not copied: the program says that they come again.
  // `named`: what it may name beside a block's, kNone where it is nothing. `beside`: the other
  // microbatch that it is of, which goes as far ahead of the tagged one wherever it comes again.
  // REQUIRES: until its end nothing from before it is woven.
  [[nodiscard]] WrittenPassage begin_passage(std::span<const OpIndex> named,
                                             std::optional<std::int32_t> beside = {}) const;
  // False where the passage may not come again: it is of other microbatches, or names others.
  [[nodiscard]] bool end_passage(WrittenPassage& passage);
  [[nodiscard]] bool repeat(const WrittenPassage& passage, std::span<const OpIndex> named);

  void allocate(OpIndex at_start_of, Category category, std::int64_t bytes);
  void release(OpIndex at_end_of, Category category, std::int64_t bytes);
  void hold(Category category, std::int64_t bytes);  // for the whole step

  // The finished program; the builder is spent.
  [[nodiscard]] Program take();

 private:
  OpIndex append(OpKind kind, Stream stream, std::uint16_t name, Slot slot, std::uint32_t payload,
                 std::span<const OpIndex> after);
  [[nodiscard]] std::vector<OpIndex> with_waits(After after) const;
  [[nodiscard]] std::vector<OpIndex> woven(OpIndex first, OpIndex second) const;
  void reorder(OpIndex first, const std::vector<OpIndex>& order);
  [[nodiscard]] BlockBorder border(std::span<const OpIndex> named = {}) const;
  [[nodiscard]] bool may_repeat(const WrittenPassage& passage) const;
  [[nodiscard]] OpIndex written_input(WrittenPassage& passage, OpIndex op);
  void close_tail(OpIndex end);  // what lies behind the last passage, up to there, becomes one
  [[nodiscard]] std::uint8_t stream_of(OpIndex op) const;
  // Of operations from tail_ on.
  [[nodiscard]] std::size_t written_at(OpIndex op) const { return tail_written_ + (op - tail_); }
  [[nodiscard]] std::span<const Operation> written_from(OpIndex op) const {
    return std::span(operations_).subspan(written_at(op));
  }
  [[nodiscard]] std::span<const OpIndex> dependencies_of(const Operation& op) const {
    return std::span(dependencies_)
        .subspan(op.dependencies_begin, op.dependencies_end - op.dependencies_begin);
  }

  Interner& interner_;
  Program program_;  // its operations and their dependencies come last
  std::vector<Operation> operations_;
  std::vector<OpIndex> dependencies_;
  Tags tags_;
  std::vector<OpIndex> waits_;
  std::vector<OpIndex> last_on_stream_;
  std::vector<std::pair<OpIndex, MemoryEffect>> effects_;
  std::vector<Passage> passages_;  // in order, but for what lies behind them
  std::vector<OpIndex> outside_;   // OperationList::outside
  std::vector<EffectRange> own_effects_;
  OpIndex tail_ = 0;              // the first operation behind the passages
  std::size_t tail_written_ = 0;  // where it stands in operations_
  std::uint32_t order_ = 0;       // how often operations were given other numbers
  std::size_t settled_ = 0;       // effects of operations from before the latest weave or in it
};

}  // namespace trainyard
