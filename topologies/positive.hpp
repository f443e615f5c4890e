// Quantities of hardware that is there: a wire without capacity is a wire left out, and a GPU
// without memory none.
//
//   node.gpu_memory = gpu_memory(memory, "usable");
#pragma once

#include <optional>
#include <string_view>

#include "sim/base/json_reader.hpp"

namespace trainyard {

// As JsonObject::rate(); a zero is reported, with the remedy.
[[nodiscard]] BytesPerSecond positive_rate(JsonObject& object, std::string_view key,
                                           std::string_view remedy,
                                           std::optional<BytesPerSecond> fallback = {});
// As JsonObject::bytes(); a zero, which would stand for memory nobody knows, is reported.
[[nodiscard]] Bytes gpu_memory(JsonObject& object, std::string_view key,
                               std::optional<Bytes> fallback = {});

}  // namespace trainyard
