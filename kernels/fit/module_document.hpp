// Whole modules of experts as measured: judged on those left out, and written to
// modules/<gpu>.json.
#pragma once

#include "kernels/fit/fit_profile.hpp"
#include "kernels/fit/targets.hpp"
#include "kernels/profile.hpp"

namespace trainyard::fit {

// Prints how well the modules of each precision and routing are predicted where left out, and
// writes the document where profiles are written at all.
void fit_modules(const Target& target, const FitRequest& request, const GpuProfile& profile);

}  // namespace trainyard::fit
