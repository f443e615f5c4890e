// Where the running program and its data files (models/data, topologies/data, kernels/profiles,
// scenarios) lie.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// The file of the running program; also where /proc is not mounted. Empty where nothing tells.
[[nodiscard]] std::filesystem::path program_file();

// The folder that holds models/, topologies/ ...: $TRAINYARD_DATA if set, else share/trainyard
// beside the installed program, else the source tree it was built from. Throws InputError when none
// of them exists.
[[nodiscard]] std::filesystem::path data_directory();

// The folders below it in which data files stand, at any depth.
[[nodiscard]] std::span<const std::string_view> data_folders();

// A named data file (<data>/<folder>/<name>.json), or the file itself when the text ends in ".json"
// or holds a '/'. Throws InputError that lists the known names and the nearest one.
[[nodiscard]] std::filesystem::path data_file(const std::string& folder,
                                              const std::string& name_or_path);

// Names of the .json files in a data folder, sorted, without ending.
[[nodiscard]] std::vector<std::string> data_names(const std::string& folder);

}  // namespace trainyard
