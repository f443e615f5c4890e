// The version of this program and of the libraries it was built with.
#pragma once

#include <string>

namespace trainyard {

// The version, the revision and the libraries as one line: "trainyard 0.1.0 (revision ..., SimGrid
// 3.32, Boost 1.74, nlohmann/json 3.11.2)".
[[nodiscard]] std::string version_text();
// The version alone: "0.1.0".
[[nodiscard]] std::string version_number();

}  // namespace trainyard
