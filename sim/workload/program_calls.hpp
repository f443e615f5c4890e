// The calls of a program by slot, independent of the ranks that the slots lead to. The i-th call of
// one member of a group matches the i-th call of the others, so the index of a call among those of
// its slot (its ordinal) identifies it.
//
//    ProgramCalls calls(program.operations);
//    calls.by_slot(2);      // the operations that communicate through slot 2, in order
//    calls.ordinal(op, 2);  // the index of `op` among these
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/workload/operation_list.hpp"

namespace trainyard {

struct Program;

// The calls that the blocks of a list make. The argument `written` is an index into
// OperationList::written().
class BlockCalls {
 public:
  // A distinct pair of slot and call of Collective operations.
  struct Collective {
    std::uint16_t slot = 0;
    std::uint32_t call = 0;
  };

  explicit BlockCalls(const OperationList& list);

  // The highest slot in use, plus one.
  [[nodiscard]] std::size_t slots() const { return slots_; }
  // Returns the operations of a block that communicate through the slot, as indices in the block,
  // in order.
  [[nodiscard]] std::span<const OpIndex> places(std::uint32_t block, std::size_t slot) const {
    const std::size_t list = block * slots_ + slot;
    return std::span(places_).subspan(begin_[list], begin_[list + 1] - begin_[list]);
  }
  // Returns the slots that a block communicates through, ascending.
  [[nodiscard]] std::span<const std::uint16_t> slots_of(std::uint32_t block) const {
    return std::span(used_).subspan(used_begin_[block],
                                    used_begin_[block + 1] - used_begin_[block]);
  }
  // Returns the index of a communication among those of its block and slot.
  [[nodiscard]] std::uint32_t ordinal(OpIndex written) const { return ordinal_[written]; }
  [[nodiscard]] bool on_one_stream(std::size_t slot) const { return on_one_stream_[slot]; }
  [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& distinct_calls() const {
    return distinct_calls_;
  }
  [[nodiscard]] std::span<const Collective> collectives() const { return collectives_; }
  [[nodiscard]] std::uint32_t collective_of(OpIndex written) const { return collective_[written]; }

 private:
  void read_slots(std::span<const Operation> written);
  void read_block(const Block& block, std::span<const Operation> written);
  [[nodiscard]] std::uint32_t collective(const Operation& operation);

  std::size_t slots_ = 0;
  std::vector<std::size_t> begin_;  // [block][slot], and the end
  std::vector<OpIndex> places_;
  std::vector<std::size_t> used_begin_ = {0};  // by block, and the end
  std::vector<std::uint16_t> used_;            // slots in use
  std::vector<std::uint32_t> ordinal_;         // by operation
  std::vector<Collective> collectives_;
  std::vector<std::uint32_t> collective_;                   // by operation
  std::vector<std::vector<std::uint32_t>> distinct_calls_;  // by slot
  std::vector<bool> on_one_stream_;                         // by slot
};

class ProgramCalls {
 public:
  using Collective = BlockCalls::Collective;

  // `blocks` belongs to a list with the same blocks; null: the constructor computes it.
  explicit ProgramCalls(const OperationList& operations,
                        std::shared_ptr<const BlockCalls> blocks = nullptr);

  [[nodiscard]] const std::shared_ptr<const BlockCalls>& blocks() const { return blocks_; }
  // The highest slot in use, plus one.
  [[nodiscard]] std::size_t slots() const { return by_slot_.size(); }
  [[nodiscard]] const std::vector<OpIndex>& by_slot(std::size_t slot) const {
    return by_slot_[slot];
  }
  // Returns the index of `op` among the calls of its slot. REQUIRES: `op` communicates through
  // `slot`.
  [[nodiscard]] std::uint32_t ordinal(OpIndex op, std::uint16_t slot) const {
    const OperationList::Position position = operations_.position_of(op);
    return calls_before_[position.instance * by_slot_.size() + slot] +
           blocks_->ordinal(written(position));
  }
  // True if all operations of the slot are on one stream.
  [[nodiscard]] bool on_one_stream(std::size_t slot) const { return blocks_->on_one_stream(slot); }
  // By slot: the distinct calls made through it (indices into Workload::calls), ascending.
  [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& distinct_calls() const {
    return blocks_->distinct_calls();
  }

  // The distinct pairs of slot and call of Collective operations, in the order of first use.
  [[nodiscard]] std::span<const Collective> collectives() const { return blocks_->collectives(); }
  // Returns the index of the operation's pair in collectives(); kNone if it is not a Collective.
  [[nodiscard]] std::uint32_t collective_of(OpIndex op) const {
    return blocks_->collective_of(written(operations_.position_of(op)));
  }

 private:
  [[nodiscard]] OpIndex written(const OperationList::Position& position) const {
    const Instance& instance = operations_.instances()[position.instance];
    return operations_.block_of(instance).begin + position.place;
  }

  OperationList operations_;
  std::shared_ptr<const BlockCalls> blocks_;
  std::vector<std::vector<OpIndex>> by_slot_;
  std::vector<std::uint32_t> calls_before_;  // calls made before an instance: [instance][slot]
};

// The use of one slot by a program.
struct SlotUse {
  std::uint16_t slot = 0;
  OpIndex first = 0;  // first operation that uses it
  bool sends = false;
  bool receives = false;
};
[[nodiscard]] std::vector<SlotUse> slot_uses(const Program& program);

}  // namespace trainyard
