// The algorithm of a call for a group, or the error that says what to choose instead.
#pragma once

#include "sim/collectives/collective.hpp"

namespace trainyard {

// Names of a send_recv that is part of a larger collective: it does not pay the launch, and what
// follows another on its way does not pay the latency either.
inline constexpr const char* kStep = "step";
inline constexpr const char* kStepOn = "step_on";

// By message, does it follow another between the same two on the same channel of an algorithm that
// streams()?
[[nodiscard]] std::vector<bool> follows_on(const CollectiveAlgorithm& algorithm,
                                           std::span<const Message> messages);

// Throws RunError, naming the group and the remedy, where the registry has no such algorithm or it
// refuses the group. A send_recv is "step" where it says so or is to go on, else "direct".
[[nodiscard]] const CollectiveAlgorithm& select_algorithm(const Call& call,
                                                          const GroupPlace& place);

}  // namespace trainyard
