// The fitted constants as data files, with where they come from.
#pragma once

#include <string>

#include "sim/nccl/fit/fit_machine.hpp"

namespace trainyard::nccl::fit {

// To four significant digits, as files have them.
[[nodiscard]] Constants rounded(Constants constants);

struct Destination {
  std::string folder;
  std::string date;
};
// Rewrites machine_<generation>.json, machine_protocols.json and machine_network.json. Throws
// InputError where the folder cannot be written.
void write_constants(const Constants& constants, const Selection& rows,
                     const Destination& destination);

}  // namespace trainyard::nccl::fit
