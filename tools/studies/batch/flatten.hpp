// A JSON value as a flat list of paths and scalars, for tables.
//
//   flattened({{"model", {{"layers", 2}}}});   // {"model.layers": 2}
#pragma once

#include <nlohmann/json.hpp>

namespace trainyard {

// Keys joined by '.', the elements of arrays by number. Empty objects and arrays leave nothing; a
// scalar at the top has the empty path.
[[nodiscard]] nlohmann::ordered_json flattened(const nlohmann::ordered_json& value);

}  // namespace trainyard
