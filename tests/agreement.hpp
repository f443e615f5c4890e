// How near two ways to compute the same must come (design section 5): relative.
#pragma once

namespace trainyard {

inline constexpr double kAgreement = 1e-9;

}  // namespace trainyard
