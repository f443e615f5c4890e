// Records blocks of operations of a program under construction, so that the same operations can
// follow again as another instance of a block instead of being written again.
//
// Microbatches differ only in their numbers. The operations of a microbatch depend on the kind of
// its step and on the operations before it that it refers to: the last computation, if there is
// one, and the operations that the next computation waits for. A border stores these references. If
// a later border has the same form, the same operations follow. The program then gets another
// instance of the block, whose inputs are bound to the operations of the later border. Memory and
// time for a repeated microbatch do not depend on the number of its operations.
//
//    RecordedBlock block = recorder.begin_block(recorder.border({}));
//    build.compute("qkv_gemm", gemm);              // and the other operations of microbatch 0
//    if (!recorder.end_block(block, {})) return;   // the microbatch has no operations
//    build.tag({.microbatch = 1});
//    const bool added = recorder.instantiate(block, recorder.border({}));   // false: write them
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

// A border is a position in a program, with the earlier operations that the operations after it may
// refer to.
struct RecordingBorder {
  OpIndex next = 0;             // number of the next operation
  std::size_t next_effect = 0;  // number of the next memory effect
  // Earlier operations that may be referred to: the last computation, the operations that the next
  // computation waits for, and others. kNone: there is no such operation.
  std::vector<OpIndex> outside = {};
  std::vector<std::uint8_t> streams = {};  // streams of `outside`
  std::size_t waits = 0;                   // how many operations the next computation waits for

  // Whether the borders are equivalent for the operations that follow: the operations in `outside`
  // are on the same streams, and any two of them are equal at one border if and only if they are
  // equal at the other.
  [[nodiscard]] bool equivalent(const RecordingBorder& other) const;
  // The number of an operation relative to this border: its distance from `next`, or for an earlier
  // operation kBlockInput plus its index in `outside`. kNone: it may not be referred to.
  [[nodiscard]] OpIndex inside(OpIndex op) const;
  // The operation that has this relative number if the block begins at this border.
  [[nodiscard]] OpIndex copied(OpIndex inside) const {
    return inside < kBlockInput ? next + inside : outside[inside - kBlockInput];
  }
};

struct RecordedBlock {
  RecordingBorder begin = {};
  StepPart part = StepPart::Other;  // tag at its begin
  WorkClass work = WorkClass::Compute;
  std::int32_t microbatch = -1;
  std::int32_t second_microbatch =
      -1;  // its second microbatch (an overlapped pair), or `microbatch`
  // Operations that the computation after the block waits for, as by RecordingBorder::inside.
  std::vector<OpIndex> waits = {};
  std::uint32_t block = 0;        // number of the block in the program
  std::int32_t written_for = -1;  // microbatch that the operations of the block are tagged with
  // The block refers only to operations of its border, so that it can be instantiated at any
  // equivalent border.
  bool closed = false;
  std::vector<std::size_t> inputs = {};  // indices in begin.outside of the inputs of the block
  // For each stream that it uses: the stream and the index in the block of the last operation
  // there.
  std::vector<std::pair<std::uint8_t, OpIndex>> last = {};
};

// Records blocks of the program that a builder writes, and adds instances of them.
class BlockRecorder {
 public:
  // `build` outlives the object.
  explicit BlockRecorder(ProgramBuilder& build) : build_(build) {}

  // Interleaves the operations in [first, second) with those from `second` to the end. Whenever one
  // side has started a dispatch or combine, the other side continues, so that the communication of
  // each side overlaps the computation of the other (DualPipe, DeepSeek-AI 2412.19437 section
  // 3.2.1). Both sides keep their own order. Numbers of operations from `first` on are invalid
  // afterwards.
  void overlap(OpIndex first, OpIndex second);

  // The border at the current position. `named`: earlier operations that the following operations
  // may refer to, in addition to the last computation and to those that the next computation waits
  // for; kNone: no operation. The lists of `storage` are reused.
  [[nodiscard]] RecordingBorder border(std::span<const OpIndex> named,
                                       RecordingBorder storage = {}) const;
  // Begins a block. `border`: the border at the current position. `second_microbatch`: the second
  // microbatch of the block, whose distance from the tagged one is the same in every instance.
  // REQUIRES: until the block ends, overlap() is called for operations of the block only.
  [[nodiscard]] RecordedBlock begin_block(RecordingBorder border,
                                          std::optional<std::int32_t> second_microbatch = {}) const;
  // Ends the block. If it is identical to a block whose number is in `known`, it becomes an
  // instance of that block. Returns false if the block has no operations.
  [[nodiscard]] bool end_block(RecordedBlock& block, std::span<const std::uint32_t> known);
  // Adds an instance of the block for the tagged microbatch. `now`: the border at the current
  // position. Returns false and adds nothing if the borders are not equivalent or the block is not
  // closed.
  [[nodiscard]] bool instantiate(const RecordedBlock& block, const RecordingBorder& now);
  // Whether the block's border and tags are equivalent to the current ones.
  [[nodiscard]] bool is_equivalent(const RecordedBlock& block, const RecordingBorder& now) const;
  // Whether all operations of the block are tagged with a microbatch of the block, or with none.
  [[nodiscard]] bool tags_own_microbatches(const RecordedBlock& block) const;
  // Adds an instance with these inputs; the next computation waits for `waits`. REQUIRES: the
  // borders are equivalent (is_equivalent).
  void add_instance(const RecordedBlock& block, const RecordingBorder& now,
                    std::span<const OpIndex> inputs, std::span<const OpIndex> waits);

 private:
  [[nodiscard]] bool is_closed(const RecordedBlock& block) const;
  [[nodiscard]] bool same_block(std::uint32_t fresh, std::uint32_t known, std::int32_t later) const;

  ProgramBuilder& build_;
  // The microbatch that each recorded block was written for, by the number of the block.
  std::map<std::uint32_t, std::int32_t> microbatch_of_;
  std::vector<OpIndex> inputs_;  // of the instance that instantiate() adds
  std::vector<OpIndex> waits_;   // what the computation after it waits for
};

}  // namespace trainyard
