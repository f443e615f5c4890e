// From a measured row to the scenario that predicts it.
//
// What the row says is taken as it is; what it does not say comes from the tables of row_tables.hpp
// and from the rules in row_scenario.cpp, each written into the scenario's assumptions.
//
//   nlohmann::ordered_json document = row_scenario(tables, row);   // a file `trainyard run` takes
#pragma once

#include <nlohmann/json.hpp>

#include "tools/studies/validate/row_tables.hpp"

namespace trainyard {

// The scenario file. Throws InputError where the row says what no scenario can: the message is the
// reason. What a scenario could say but this version refuses is for its reader to tell.
[[nodiscard]] nlohmann::ordered_json row_scenario(const RowTables& tables, const MeasuredRow& row);

}  // namespace trainyard
