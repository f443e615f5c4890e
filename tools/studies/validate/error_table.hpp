// How far off each kind of run is, as `trainyard run` tells it of a prediction
// (scenarios/simulate/measured_error.hpp reads the table).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/studies/validate/outcome.hpp"

namespace trainyard {

// Kinds with fewer runs are told by their generation of GPUs, and that by nothing if it has fewer.
inline constexpr std::size_t kRunsLeast = 5;

// The runs that were predicted (collectives have no scenario and are no runs), by kind and by
// generation of GPUs: runs, mape, bias, p90. `source` says how they were made.
[[nodiscard]] nlohmann::ordered_json error_table(const std::vector<Outcome>& outcomes,
                                                 const std::string& source);

}  // namespace trainyard
