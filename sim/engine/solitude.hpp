// Which flows never meet another on any of their links, so that a timer prices them exactly.
//
// A set of links is private when at any moment at most one flow can be alive on it. That is certain
// when
//   - the calls of every group class that uses it are made, by one and the same rank class, on one
//     and the same stream (streams are in order, so the calls follow one another), and
//   - no phase of a call has two flows on it.
// A flow all of whose sets are private takes payload / min(rate cap, capacity / weight), whatever
// else happens: nothing it shares is shared at the same time.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/known_programs.hpp"
#include "sim/engine/link_sets.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// By set: true when it is private.
[[nodiscard]] std::vector<bool> private_sets(const Partition& partition, const LinkSets& sets,
                                             KnownPrograms& known);

}  // namespace trainyard
