// A figure of a data file, {"value": ..., "source": "..."}: whoever reads it asks where it is from.
//
//   const double share = sourced(root, "fragmentation").number("value", {.least = 0, .most = 1});
#pragma once

#include <string_view>

#include "sim/base/json_reader.hpp"

namespace trainyard {

// The figure at `key`; its source must say something.
[[nodiscard]] inline JsonObject sourced(JsonObject& object, std::string_view key) {
  JsonObject figure = object.object(key);
  if (figure.text("source").empty())
    figure.report("source", "is empty", "name the data sheet, paper or command of the figure");
  return figure;
}

}  // namespace trainyard
