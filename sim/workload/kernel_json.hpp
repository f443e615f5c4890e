// Kernels as JSON objects, for workload files.
//
//    {"kind": "gemm", "m": 8192, "n": 1280, "k": 8192, "dtype": "bf16"}
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json_reader.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard {

[[nodiscard]] nlohmann::ordered_json kernel_to_json(const Kernel& kernel);
// Problems go to the object's file.
[[nodiscard]] Kernel read_kernel(JsonObject& object);

// Reads a whole number of bytes, as a number or as text with a unit ("32 MiB").
[[nodiscard]] std::int64_t read_size(JsonObject& object, std::string_view key, std::int64_t least);

// Reads a field that holds the name of an enumerator. `last` is the last enumerator.
template <class Enum>
[[nodiscard]] Enum read_enumerator(JsonObject& object, std::string_view key, Enum last,
                                   std::optional<Enum> fallback = {}) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    names.emplace_back(to_string(static_cast<Enum>(i)));
  }
  const std::string name = fallback ? object.choice(key, names, std::string(to_string(*fallback)))
                                    : object.choice(key, names);
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (names[static_cast<std::size_t>(i)] == name) return static_cast<Enum>(i);
  }
  return fallback.value_or(Enum{});
}

}  // namespace trainyard
