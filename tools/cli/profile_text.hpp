// A collective profile as text: what was read, the fit of each curve, and its residuals.
#pragma once

#include <string>

#include "sim/collectives/profile/collective_profile.hpp"

namespace trainyard {

[[nodiscard]] std::string profile_text(const CollectiveProfile& profile);

}  // namespace trainyard
