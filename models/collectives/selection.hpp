// The algorithm of a call for a group, or the error that says what to choose instead.
#pragma once

#include "models/collectives/collective.hpp"

namespace trainyard {

// Throws RunError, naming the group and the remedy, where the registry has no such algorithm or it
// refuses the group. A send_recv is "step" where it says so, else "direct".
[[nodiscard]] const CollectiveAlgorithm& select_algorithm(const Call& call,
                                                          const GroupPlace& place);

}  // namespace trainyard
