// The algorithm of a call for a group, or the error that says what to choose instead.
#pragma once

#include "sim/collectives/collective.hpp"

namespace trainyard {

// By message, does it follow another between the same two on the same channel of an algorithm that
// streams()?
[[nodiscard]] std::vector<bool> follows_on(const CollectiveAlgorithm& algorithm,
                                           std::span<const Message> messages);

// Throws RunError, naming the group and the remedy, where the registry has no such algorithm or it
// refuses the group. A transfer goes "direct", or as a "step" where it is one of a collective.
[[nodiscard]] const CollectiveAlgorithm& select_algorithm(const Call& call,
                                                          const GroupPlace& place);

}  // namespace trainyard
