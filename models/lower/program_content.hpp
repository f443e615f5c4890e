// The content of a program under construction: its operations, in blocks and instances of blocks,
// and their effects on memory. ProgramBuilder appends to both. BlockRecorder replaces identical
// blocks by instances.
//
//    OperationBlocks operations(stream_names().size());
//    MemoryEffects memory;
//    const OpIndex gemm = operations.append(op, {});
//    memory.allocate(gemm, Category::Activations, bytes);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "models/lower/step_shape.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// The operations, their dependencies, and the operations that the next computation waits for. The
// operations at the end may be open, which means that they are in no block yet. All operations
// before them belong to instances of blocks.
class OperationBlocks {
 public:
  explicit OperationBlocks(std::size_t streams) : last_on_stream_(streams, kNone) {}

  void reserve(std::size_t operations, std::size_t dependencies);
  // Starts with the blocks of a list, without any instance. REQUIRES: there are no operations yet.
  void begin_with(const OperationList& blocks);
  // Appends an operation and returns its number. Dependencies on the operation's own stream are
  // omitted, because operations of a stream run in order; kNone is ignored.
  OpIndex append(Operation op, std::span<const OpIndex> after);
  // Reorders the open operations from `first` on. `order`: their old numbers in the new order.
  // Returns the new numbers: element i is that of the operation that was first + i.
  std::vector<OpIndex> reorder(OpIndex first, const std::vector<OpIndex>& order);

  // The number of the next operation.
  [[nodiscard]] OpIndex next() const {
    return open_ + static_cast<OpIndex>(content_.operations.size() - open_written_);
  }
  // The last operation on each stream so far; kNone where there is none.
  [[nodiscard]] std::span<const OpIndex> last_on_streams() const { return last_on_stream_; }
  [[nodiscard]] std::vector<OpIndex>& waits() { return waits_; }
  [[nodiscard]] const std::vector<OpIndex>& waits() const { return waits_; }
  [[nodiscard]] std::uint8_t stream_of(OpIndex op) const;
  // The open operations from `op` on.
  [[nodiscard]] std::span<const Operation> written_from(OpIndex op) const {
    return std::span(content_.operations).subspan(open_written_ + (op - open_));
  }
  [[nodiscard]] std::span<const OpIndex> dependencies_of(const Operation& op) const {
    return std::span(content_.dependencies)
        .subspan(op.dependencies_begin, op.dependencies_end - op.dependencies_begin);
  }

  // Turns the open operations before `end` into a block with one instance, if there are any.
  void close(OpIndex end);
  // Makes the last instance an instance of the earlier block `block`, with this microbatch offset,
  // and deletes the last block.
  void become(std::uint32_t block, std::int32_t microbatch);
  // Appends an instance. `last`: for each stream that the block uses, the stream and the index in
  // the block of its last operation there. REQUIRES: no operation is open.
  void add_instance(const Instance& instance, std::span<const OpIndex> inputs,
                    std::span<const std::pair<std::uint8_t, OpIndex>> last);
  [[nodiscard]] const OperationList::Content& content() const { return content_; }
  [[nodiscard]] std::span<const Operation> operations_of(const Block& block) const {
    return std::span(content_.operations).subspan(block.begin, block.count);
  }
  [[nodiscard]] std::span<Operation> operations_of(const Block& block) {
    return std::span(content_.operations).subspan(block.begin, block.count);
  }
  [[nodiscard]] const Instance& instance_of(OpIndex op) const;
  // Moves the content out.
  [[nodiscard]] OperationList::Content take() { return std::move(content_); }

 private:
  // Dependencies of open operations are numbers in the program; those of blocks are relative
  // (kBlockInput). Instances are in program order.
  OperationList::Content content_;
  OpIndex open_ = 0;              // number of the first open operation
  std::size_t open_written_ = 0;  // its index in content_.operations
  std::vector<OpIndex> waits_;    // operations that the next computation waits for
  std::vector<OpIndex> last_on_stream_;
};

// The memory that operations allocate and release, by the number of the operation, and the memory
// that is held for the whole step. Effects of 0 bytes are ignored.
class MemoryEffects {
 public:
  void reserve(std::size_t effects) { effects_.reserve(effects); }
  void allocate(OpIndex at_start_of, Category category, std::int64_t bytes);
  void release(OpIndex at_end_of, Category category, std::int64_t bytes);
  void hold(Category category, std::int64_t bytes);  // for the whole step

  [[nodiscard]] std::size_t size() const { return effects_.size(); }
  // Whether all effects from index `effect` on belong to operations from `first` on.
  [[nodiscard]] bool begin_with(std::size_t effect, OpIndex first) const;
  // Renumbers the operations from `first` on. `numbers`: result of OperationBlocks::reorder.
  void renumber(OpIndex first, std::span<const OpIndex> numbers);

  // Records that the effects from index `effect` on were added while the block was written.
  // `first`: the first operation of the block.
  void record_block_effects(std::uint32_t block, OpIndex first, std::size_t effect);
  // Whether both blocks have the same effects at the same operations.
  [[nodiscard]] bool same(std::uint32_t one, std::uint32_t other) const {
    return own(one) == own(other);
  }
  // Whether every effect was added while its operation's block was written.
  [[nodiscard]] bool all_of_blocks() const;
  // Deletes the effects of the last recorded block.
  void drop(std::uint32_t block);
  // Writes all effects into the program. Effects of a block are attached to its operations.
  void place(OperationBlocks& operations, Program& program);

 private:
  using Effect = std::pair<OpIndex, MemoryEffect>;
  struct Range {
    OpIndex first = 0;      // first operation of the block
    std::size_t begin = 0;  // range in effects_
    std::size_t end = 0;
    // An effect of an operation before the block does not belong to the block.
    [[nodiscard]] bool owns(const Effect& effect) const { return effect.first >= first; }
  };
  [[nodiscard]] std::vector<Effect> own(std::uint32_t block) const;

  std::vector<Effect> effects_;  // in the order of insertion
  std::vector<Range> ranges_;    // by block; empty ranges for blocks that were not recorded
  std::size_t settled_ = 0;      // effects that were added before the last call of renumber()
  std::vector<ResidentMemory> resident_;
};

}  // namespace trainyard
