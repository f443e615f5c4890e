// Matches the calls of a group's members, and tracks which members have reached each call.
//
// A group class has participants (fold.hpp): members of one rank class that reach a call together.
// The i-th call of a participant, counted in the order in which its program issues them, matches
// the i-th call of every other participant. A call is complete, and may move bytes, when all
// participants have reached it.
//
//    Rendezvous rendezvous(input.partition, *input.known);
//    if (auto complete = rendezvous.arrive(rank_class, op, operation.slot))
//      use(complete->group_class, complete->ordinal);   // the call starts
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "sim/engine/engine_programs.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

class Rendezvous {
 public:
  // REQUIRES: `known` outlives the rendezvous.
  Rendezvous(const Partition& partition, EnginePrograms& known);

  struct Call {
    std::uint32_t group_class = 0;
    std::uint32_t ordinal = 0;  // number of the call among the calls of the group
  };

  // Records that a rank class has reached a communication. Returns the call if that completes it.
  [[nodiscard]] std::optional<Call> arrive(std::uint32_t rank_class, OpIndex op,
                                           std::uint16_t slot);

  // The call of the group that an operation belongs to. REQUIRES: the operation communicates
  // through the slot.
  [[nodiscard]] Call call_of(std::uint32_t rank_class, OpIndex op, std::uint16_t slot) const;
  // The operations by which a participant makes its calls, in order.
  [[nodiscard]] std::span<const OpIndex> calls(std::uint32_t group_class,
                                               std::uint32_t participant) const {
    return calls_[group_class][participant];
  }

 private:
  // The group and the participant that the calls of a rank class through a slot belong to.
  struct Endpoint {
    std::uint32_t group_class = kNone;
    std::uint32_t participant = kNone;
    // The calls of the program, which number those of the slot. Null where the participant calls
    // through other slots too.
    const ProgramCalls* calls = nullptr;
  };
  void bind_endpoints(std::uint32_t rank_class, const ProgramCalls& made);

  const Partition& partition_;
  std::vector<std::vector<Endpoint>> endpoints_;              // [rank class][slot]
  std::vector<std::vector<std::span<const OpIndex>>> calls_;  // [group class][participant]
  // The merged calls of participants that call through several slots.
  std::deque<std::vector<OpIndex>> joined_;
  // [group class][ordinal]: participants that have arrived so far. Empty where there is only one.
  std::vector<std::vector<std::uint32_t>> arrived_;
};

}  // namespace trainyard
