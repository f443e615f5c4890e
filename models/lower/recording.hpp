// A recording is a part of a program under construction that may be written again in few words.
//
// Microbatches are alike but for their numbers: what they write depends on their kind and on what
// stands before them, which a recording remembers: what the next computation was to wait for and
// whether there was a computation at all. Where these are alike again, the same operations follow,
// and those that came from before stand for those that do now: the program gets another instance of
// the block.
//
//   BlockRecorder recorder(build);
//   RecordedBlock block = recorder.begin_block(recorder.border({}));
//   ...                                               // writes operations
//   (void)recorder.end_block(block, {});
//   build.tag({.microbatch = 1});
//   if (!recorder.instantiate(block, recorder.border({}))) ...;   // writes the next microbatch
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "models/lower/program_builder.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// A border is one point of a program with the operations that those behind it may name.
struct RecordingBorder {
  OpIndex next = 0;             // operation
  std::size_t next_effect = 0;  // of memory
  // The operations before it that may be named: the last computation, those the next one waits for,
  // others. kNone: there is none.
  std::vector<OpIndex> outside = {};
  std::vector<std::uint8_t> streams = {};  // of those
  std::size_t waits = 0;                   // how many the next computation waits for

  // The operations that follow see no difference: what they may name is on the same streams, and
  // what is equal at one border is equal at the other.
  [[nodiscard]] bool alike(const RecordingBorder& other) const;
  // An operation as what follows may write it: one from here on by its number from here, another
  // as an outside one, from kBlockInput on; kNone where it may not name it.
  [[nodiscard]] OpIndex inside(OpIndex op) const;
  // The operation that such a number stands for where the same begins here.
  [[nodiscard]] OpIndex copied(OpIndex inside) const {
    return inside < kBlockInput ? next + inside : outside[inside - kBlockInput];
  }
};

struct RecordedBlock {
  RecordingBorder begin = {};
  StepPart part = StepPart::Other;  // as tagged at its begin
  WorkClass work = WorkClass::Compute;
  std::int32_t microbatch = -1;
  std::int32_t beside = -1;         // the other microbatch that it is of; its own
  std::vector<OpIndex> waits = {};  // of the computation behind it (RecordingBorder::inside)
  std::uint32_t block = 0;          // its number in the program
  std::int32_t written_for = -1;    // the microbatch that the operations of that number name
  // It names nothing but what its border knows, so that it may be instantiated unseen.
  bool closed = false;
  std::vector<std::size_t> inputs = {};  // of the block, among those outside
  // By stream that it uses: the place of its last operation.
  std::vector<std::pair<std::uint8_t, OpIndex>> last = {};
};

// Records blocks of the program that a builder writes, and adds instances of them.
class BlockRecorder {
 public:
  // `build` outlives this.
  explicit BlockRecorder(ProgramBuilder& build) : build_(build) {}

  // Interleaves the operations from `first` on with those from `second` on (to the end), which need
  // nothing of each other: whenever one side has started an exchange among experts, the other goes
  // on, so that each travels under the other's computation (DualPipe, DeepSeek-AI 2412.19437
  // section 3.2.1). Both keep their own order. Numbers of operations from `first` on are no longer
  // valid.
  void overlap(OpIndex first, OpIndex second);

  // The border of what is written next. `named`: the operations from before that it may name beside
  // the last computation and those the next one waits for; kNone where it is nothing.
  [[nodiscard]] RecordingBorder border(std::span<const OpIndex> named) const;
  // Marks a block of the program. `border`: the one here. `beside`: the other microbatch that it is
  // of, which goes as far ahead of the tagged one in every instance. REQUIRES: until its end
  // nothing from before it is overlapped.
  [[nodiscard]] RecordedBlock begin_block(RecordingBorder border,
                                          std::optional<std::int32_t> beside = {}) const;
  // Ends the block. Where it turns out as a block with one of the `known` numbers, it becomes an
  // instance of that. Returns false where nothing was written.
  [[nodiscard]] bool end_block(RecordedBlock& block, std::span<const std::uint32_t> known);
  // Adds an instance of the block, for the microbatch that the tags name. `now`: the border here.
  // Returns false, and nothing is added, where what stands before is not alike, or the block names
  // more than its border knows.
  [[nodiscard]] bool instantiate(const RecordedBlock& block, const RecordingBorder& now);
  // Whether what stands before the block is alike to what does now.
  [[nodiscard]] bool stands_alike(const RecordedBlock& block, const RecordingBorder& now) const;
  // Whether its operations name no other microbatch than those that it is of.
  [[nodiscard]] bool names_own(const RecordedBlock& block) const;
  // Adds an instance with these inputs, behind which the next computation waits for `waits`.
  // REQUIRES: what stands before is alike.
  void add_instance(const RecordedBlock& block, const RecordingBorder& now,
                    std::span<const OpIndex> inputs, std::vector<OpIndex> waits);

 private:
  [[nodiscard]] bool is_closed(const RecordedBlock& block) const;
  [[nodiscard]] bool same_block(std::uint32_t fresh, std::uint32_t known, std::int32_t later) const;

  ProgramBuilder& build_;
  std::map<std::uint32_t, std::int32_t> microbatch_of_;  // each recorded block was written for
};

}  // namespace trainyard
