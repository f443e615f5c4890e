// `--set path=value`: changes to a scenario before it is read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

// "parallelism.tensor" and "/parallelism/tensor" -> "/parallelism/tensor" (RFC 6901, escapes kept).
[[nodiscard]] std::string override_pointer(const std::string& path);

// The document with the override's value at its path; objects on the way are made. A value of null
// removes the key. Throws InputError when the path leads through something that is no object, or
// the value is broken JSON. Whether the key is known is for the reader to say.
[[nodiscard]] nlohmann::ordered_json with_override(nlohmann::ordered_json document,
                                                   const Override& change);

// Problems at or below an override's path name it instead of the file.
[[nodiscard]] std::vector<Problem> blame_overrides(std::vector<Problem> problems,
                                                   const std::vector<Override>& changes);

}  // namespace trainyard
