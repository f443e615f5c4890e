// Executes the messages of an algorithm symbolically and checks that they implement the collective.
//
// For each piece, a group rank holds the set of ranks whose contributions its value contains. A
// message carries the sender's initial value and the messages listed in its `after`, and nothing
// else. A missing dependency therefore appears as a missing contribution. The tests in
// tests/sim/collectives run this check over every registered algorithm.
//
//    const auto fault = symbolic_fault(algorithm, placed, Bytes{1 << 20});
//    TY_CHECK(!fault, fault.value_or(""));
#pragma once

#include <optional>
#include <string>

#include "sim/collectives/collective.hpp"

namespace trainyard {

struct SymbolicCase {
  CollectiveOp op = CollectiveOp::AllReduce;
  std::uint32_t ranks = 0;
  std::uint32_t pieces = 0;
  double bytes = 0.0;
  std::uint32_t switches = 0;  // switches that take part; their group ranks follow the ranks'
  std::uint32_t servers = 0;   // the last of the ranks (CollectiveAlgorithm::servers)
  // The byte matrix of an uneven all_to_all; blocks of zero bytes need not arrive.
  std::span<const std::int64_t> matrix = {};
  // Names of the messages for error texts; empty: "message 4".
  std::span<const std::string> names = {};
};

struct SymbolicFault {
  std::string problem;                        // one sentence
  std::optional<std::uint32_t> message = {};  // the faulty message, if there is one
};

// Returns the first fault, or nothing. Faults are: a message that carries data that its sender does
// not hold, adds a contribution twice, waits for a message that its sender does not receive or that
// does not precede it, or has the wrong size; a rank that does not end with exactly the pieces or
// sums that the operation requires.
[[nodiscard]] std::optional<SymbolicFault> find_fault(const SymbolicCase& the_case,
                                                      std::span<const Message> messages);

// Returns only the sentence of the first fault.
[[nodiscard]] std::optional<std::string> symbolic_fault(const SymbolicCase& the_case,
                                                        std::span<const Message> messages);

// The same for an algorithm on a group. REQUIRES: the algorithm does not refuse the group.
[[nodiscard]] std::optional<std::string> symbolic_fault(const CollectiveAlgorithm& algorithm,
                                                        const PlacedGroup& placed, Bytes bytes);

}  // namespace trainyard
