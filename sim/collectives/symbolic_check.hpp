// Plays an algorithm's messages symbolically and tells whether the collective comes out right.
//
// A group rank holds of each piece a set of ranks, those whose contribution is in it. A message
// carries what its sender holds by the messages it names in `after`, and nothing else, so a missing
// dependency shows as a missing contribution. The tests in tests/sim/collectives run it over every
// registered algorithm.
//
//   if (auto fault = symbolic_fault(algorithm, place, Bytes{1 << 20})) FAIL() << *fault;
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
  std::uint32_t switches = 0;  // that take part, with the group ranks after the ranks'
  std::uint32_t servers = 0;   // the last of the ranks, as CollectiveAlgorithm::servers says
  // The byte matrix of an uneven all_to_all: blocks of no bytes need not arrive.
  std::span<const std::int64_t> matrix = {};
  // Names of the messages in faults; empty: "message 4".
  std::span<const std::string> names = {};
};

struct SymbolicFault {
  std::string problem;                        // one sentence
  std::optional<std::uint32_t> message = {};  // the one to blame, where one is
};

// The first fault, or nothing: a message that carries what its sender does not
// hold, adds a contribution twice, waits for what it cannot know, or has the wrong size; a rank
// that ends without exactly the pieces or sums the operation promises.
[[nodiscard]] std::optional<SymbolicFault> find_fault(const SymbolicCase& the_case,
                                                      std::span<const Message> messages);

// Its sentence alone.
[[nodiscard]] std::optional<std::string> symbolic_fault(const SymbolicCase& the_case,
                                                        std::span<const Message> messages);

// The same for an algorithm on a group. REQUIRES: it does not refuse the group.
[[nodiscard]] std::optional<std::string> symbolic_fault(const CollectiveAlgorithm& algorithm,
                                                        const GroupPlace& place, Bytes bytes);

}  // namespace trainyard
