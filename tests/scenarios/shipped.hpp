// The files that the repository ships in scenarios/.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace trainyard {

// Returns the files of several jobs, or those of one scenario each, in alphabetical order.
inline std::vector<std::string> shipped_files(bool of_jobs) {
  const auto folder = std::filesystem::path(TRAINYARD_SOURCE_DIRECTORY) / "scenarios";
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool jobs = entry.path().parent_path().filename() == "jobs";
    if (name.ends_with(".json") && !name.ends_with(".schema.json") && jobs == of_jobs)
      files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}
inline std::vector<std::string> shipped_scenarios() { return shipped_files(false); }
inline std::vector<std::string> shipped_jobs() { return shipped_files(true); }

}  // namespace trainyard
