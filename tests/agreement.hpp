// The relative tolerance within which two computations of the same result must agree.
#pragma once

namespace trainyard {

inline constexpr double kAgreement = 1e-9;

}  // namespace trainyard
