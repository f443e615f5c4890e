// The content of a program under construction: its operations, in blocks and instances of blocks,
// and their effects on memory. ProgramBuilder adds to both; BlockRecorder makes instances of what
// is alike.
//
//   OperationBlocks operations(streams);
//   const OpIndex gemm = operations.append(op, {});
//   memory.allocate(gemm, Category::Activations, bytes);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "models/lower/step_shape.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// The operations, their dependencies, and what the next computation is to wait for. The operations
// that were written last are open; all before them belong to instances of blocks.
class OperationBlocks {
 public:
  explicit OperationBlocks(std::size_t streams) : last_on_stream_(streams, kNone) {}

  void reserve(std::size_t operations, std::size_t dependencies);
  // Takes the blocks of a list, of which there is no instance yet. REQUIRES: nothing is written.
  void begin_with(const OperationList& blocks);
  // Writes an operation behind all others; returns its number. Inputs on its own stream are left
  // out, as the order of the stream says the same; so is kNone.
  OpIndex append(Operation op, std::span<const OpIndex> after);
  // Puts the open operations from `first` on into another order, which is given by their old
  // numbers; returns their new numbers by the old ones.
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
  // The open operations from that one on.
  [[nodiscard]] std::span<const Operation> written_from(OpIndex op) const {
    return std::span(content_.operations).subspan(open_written_ + (op - open_));
  }
  [[nodiscard]] std::span<const OpIndex> dependencies_of(const Operation& op) const {
    return std::span(content_.dependencies)
        .subspan(op.dependencies_begin, op.dependencies_end - op.dependencies_begin);
  }

  // Makes a block and its first instance of the open operations before `end`, if there are any.
  void close(OpIndex end);
  // Makes the latest instance one of a block that there was before; drops the block written for it.
  void become(std::uint32_t block, std::int32_t microbatch);
  // Adds an instance behind all operations. `last`: by stream that the block uses, the place of its
  // last operation there. REQUIRES: nothing is open.
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
  // All of it; nothing is left.
  [[nodiscard]] OperationList::Content take() { return std::move(content_); }

 private:
  // Dependencies are numbers from open_ on, and before it what blocks say (kBlockInput). Instances
  // stand in the order of the program.
  OperationList::Content content_;
  OpIndex open_ = 0;              // the first open operation
  std::size_t open_written_ = 0;  // where it stands among the written ones
  std::vector<OpIndex> waits_;    // of the next computation
  std::vector<OpIndex> last_on_stream_;
};

// The memory that operations allocate and release, by the number of the operation, and the memory
// that the whole step holds.
class MemoryEffects {
 public:
  void reserve(std::size_t effects) { effects_.reserve(effects); }
  void allocate(OpIndex at_start_of, Category category, std::int64_t bytes);
  void release(OpIndex at_end_of, Category category, std::int64_t bytes);
  void hold(Category category, std::int64_t bytes);  // for the whole step

  [[nodiscard]] std::size_t size() const { return effects_.size(); }
  // All effects from that one on are of operations from `first` on.
  [[nodiscard]] bool begin_with(std::size_t effect, OpIndex first) const;
  // Operations from `first` on have new numbers, by their old ones (OperationBlocks::reorder).
  void renumber(OpIndex first, std::span<const OpIndex> numbers);

  // The effects from that one on came with the block, whose operations begin with `first`.
  void came_with(std::uint32_t block, OpIndex first, std::size_t effect);
  // Both blocks have the same effects at the same places.
  [[nodiscard]] bool same(std::uint32_t one, std::uint32_t other) const {
    return own(one) == own(other);
  }
  // All of them came with blocks, and are of their operations.
  [[nodiscard]] bool all_of_blocks() const;
  // Drops what came with a block, and all that was known of blocks from it on.
  void drop(std::uint32_t block);
  // Writes all effects into the program: those that came with a block stand with its operations.
  void place(OperationBlocks& operations, Program& program);

 private:
  using Effect = std::pair<OpIndex, MemoryEffect>;
  struct Range {
    OpIndex first = 0;  // operation of the block
    std::size_t begin = 0;
    std::size_t end = 0;
    // An effect of an operation from before the block is not the block's own.
    [[nodiscard]] bool owns(const Effect& effect) const { return effect.first >= first; }
  };
  [[nodiscard]] std::vector<Effect> own(std::uint32_t block) const;

  std::vector<Effect> effects_;  // in the order they came
  std::vector<Range> ranges_;    // by block, those of blocks that came with effects
  std::size_t settled_ = 0;      // effects of operations from before the latest reordering or in it
  std::vector<ResidentMemory> resident_;
};

}  // namespace trainyard
