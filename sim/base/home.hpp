// The folders of a user after the XDG base directory specification.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace trainyard {

// Returns the folder that the variable names ("XDG_DATA_HOME"), or its default below the home
// folder (".local/share"). The specification lets programs ignore a relative path. Empty if no home
// is known.
[[nodiscard]] inline std::filesystem::path home_folder(const char* variable,
                                                       const char* below_home) {
  const auto absolute = [](const char* name) {
    const char* const value = std::getenv(name);
    const std::filesystem::path path = value == nullptr ? "" : value;
    return path.is_absolute() ? path : std::filesystem::path();
  };
  if (std::filesystem::path chosen = absolute(variable); !chosen.empty()) return chosen;
  const std::filesystem::path home = absolute("HOME");
  return home.empty() ? home : home / below_home;
}

}  // namespace trainyard
