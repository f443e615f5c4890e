// The location of the running program and of its data files (models/data, topologies/data,
// kernels/profiles, scenarios).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// Returns the file of the running program, even if /proc is not mounted; empty if it is unknown.
[[nodiscard]] std::filesystem::path program_file();

// Returns the folder that holds models/, topologies/ ...: $TRAINYARD_DATA if set, else
// share/trainyard of the installation, else the source tree of the build. Throws InputError if none
// of them holds data.
[[nodiscard]] std::filesystem::path data_directory();

// The subfolders that contain data files, at any depth.
[[nodiscard]] std::span<const std::string_view> data_folders();

// Returns a named data file (<data>/<folder>/<name>.json), or the path itself if the text ends in
// ".json" or contains a '/'. Throws InputError with the nearest known name, or with all known names
// if none is near.
[[nodiscard]] std::filesystem::path data_file(const std::string& folder,
                                              const std::string& name_or_path);

// Returns the names of the .json files in a data folder, sorted, without the extension.
[[nodiscard]] std::vector<std::string> data_names(const std::string& folder);

}  // namespace trainyard
