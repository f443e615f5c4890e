#include "tools/cli/version.hpp"

#include <fmt/format.h>

#include <boost/version.hpp>
#include <nlohmann/json.hpp>

namespace trainyard {

std::string version_text() {
  return fmt::format(
      "trainyard {} (revision {}, SimGrid {}, Boost {}.{}, nlohmann/json {}.{}.{}, fmt {}.{}.{})",
      TRAINYARD_VERSION, TRAINYARD_REVISION, TRAINYARD_SIMGRID_VERSION, BOOST_VERSION / 100000,
      BOOST_VERSION / 100 % 1000, NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
      NLOHMANN_JSON_VERSION_PATCH, FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
}

std::string version_number() { return TRAINYARD_VERSION; }

}  // namespace trainyard
