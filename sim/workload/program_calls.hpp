// The calls of a program, whoever its partners turn out to be. The i-th call that a member of a
// group makes meets the i-th calls of the others, so a call is known by its place among those of
// its slot.
//
//   ProgramCalls calls(program.operations);
//   calls.by_slot(2);     // the operations that communicate through slot 2, in order
//   calls.ordinal(op, 2); // the place of one of them among these
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/workload/operation_list.hpp"

namespace trainyard {

struct Program;

class ProgramCalls {
 public:
  // A collective that the program makes, once or often.
  struct Collective {
    std::uint16_t slot = 0;
    std::uint32_t call = 0;
  };

  explicit ProgramCalls(const OperationList& operations);

  // One more than the highest slot in use.
  [[nodiscard]] std::size_t slots() const { return by_slot_.size(); }
  [[nodiscard]] const std::vector<OpIndex>& by_slot(std::size_t slot) const {
    return by_slot_[slot];
  }
  // REQUIRES: the operation communicates through the slot.
  [[nodiscard]] std::uint32_t ordinal(OpIndex op, std::uint16_t slot) const {
    const OperationList::Position position = operations_.position_of(op);
    return calls_before_[position.instance * by_slot_.size() + slot] +
           place_in_block_[written(position)];
  }
  // Whether all of them are on one stream.
  [[nodiscard]] bool on_one_stream(std::size_t slot) const { return on_one_stream_[slot]; }
  // By slot: the calls made through it (indices into Workload::calls), ascending, each once.
  [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& distinct_calls() const {
    return distinct_calls_;
  }

  // Collectives that differ in slot or call, in the order in which they first come.
  [[nodiscard]] std::span<const Collective> collectives() const { return collectives_; }
  // The number of an operation's collective among them; kNone: it is no collective.
  [[nodiscard]] std::uint32_t collective_of(OpIndex op) const {
    return collective_[written(operations_.position_of(op))];
  }

 private:
  // The communications of a block, in issue order.
  struct BlockCall {
    std::uint16_t slot = 0;
    OpIndex place = 0;
  };

  [[nodiscard]] OpIndex written(const OperationList::Position& position) const {
    const Instance& instance = operations_.instances()[position.instance];
    return operations_.block_of(instance).begin + position.place;
  }
  [[nodiscard]] std::vector<BlockCall> read_block(const Block& block);
  [[nodiscard]] std::uint32_t collective(const Operation& operation);

  OperationList operations_;
  std::vector<Collective> collectives_;
  std::vector<std::uint32_t> collective_;      // by operation written
  std::vector<std::uint32_t> place_in_block_;  // by operation written, among those of its slot
  std::vector<std::vector<OpIndex>> by_slot_;
  std::vector<std::vector<std::uint32_t>> distinct_calls_;  // by slot
  std::vector<bool> on_one_stream_;                         // by slot
  std::vector<std::uint32_t> calls_before_;                 // [instance][slot]
};

// How a program uses one of its slots.
struct SlotUse {
  std::uint16_t slot = 0;
  OpIndex first = 0;  // operation that uses it first
  bool sends = false;
  bool receives = false;
};
[[nodiscard]] std::vector<SlotUse> slot_uses(const Program& program);

}  // namespace trainyard
