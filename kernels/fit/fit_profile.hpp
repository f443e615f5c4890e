// From the measured tables to the fitted sections of the profiles, with their provenance.
#pragma once

#include <filesystem>
#include <string>

namespace trainyard::fit {

struct FitRequest {
  std::filesystem::path measured;  // holds gemm/, attention/, other.json
  std::filesystem::path profiles;  // empty: print only
  std::string date;
};

// Prints the errors on unseen shapes of each GPU, and writes the profiles if asked. Throws
// InputError when a table or a profile cannot be read.
void fit_profiles(const FitRequest& request);

}  // namespace trainyard::fit
