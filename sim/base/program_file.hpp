// Where the running program lies.
#pragma once

#include <filesystem>

namespace trainyard {

// The file of the running program; also where /proc is not mounted. Empty where nothing tells.
[[nodiscard]] std::filesystem::path program_file();

}  // namespace trainyard
