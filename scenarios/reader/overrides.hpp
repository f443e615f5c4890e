// Applies `--set path=value` to a scenario before it is read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

// Converts "parallelism.tensor" and "/parallelism/tensor" to "/parallelism/tensor" (RFC 6901;
// escapes are kept).
[[nodiscard]] std::string override_pointer(const std::string& path);

// Returns the document with the override's value at its path and creates missing objects on the
// way. A value of null removes the key. Throws InputError when the path leads through something
// that is neither an object nor a list, or when the value is broken JSON. The reader checks whether
// the key is known.
[[nodiscard]] nlohmann::ordered_json with_override(nlohmann::ordered_json document,
                                                   const Override& change);

// Replaces the file by the override in problems at or below the override's path.
[[nodiscard]] std::vector<Problem> attribute_to_overrides(std::vector<Problem> problems,
                                                          const std::vector<Override>& changes);

}  // namespace trainyard
