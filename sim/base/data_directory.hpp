// The location of the running program and of its data files (models/data, topologies/data,
// kernels/profiles, scenarios).
//
// Data files are looked up by name in several folders of one layout. The first folder that has the
// file wins, so a file of the user replaces a shipped one of the same name:
//
//    1. the folders that $TRAINYARD_DATA names, separated by colons
//    2. those that the settings name (settings.hpp)
//    3. $XDG_DATA_HOME/trainyard, which is ~/.local/share/trainyard by default
//    4. the shipped data
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// Returns the file of the running program, even if /proc is not mounted; empty if it is unknown.
[[nodiscard]] std::filesystem::path program_file();

// Returns the file that contains this code: the program, or the shared object of a program that
// embeds Trainyard, such as the C++ library or the Python module. Empty if it is unknown.
[[nodiscard]] const std::filesystem::path& code_file();

// Makes `folder` the folder of the shipped data, for a program that embeds Trainyard and brings the
// data itself. Throws InputError if it holds no models/data. REQUIRES: called before the first data
// file is read, by one thread.
void use_shipped_data(const std::filesystem::path& folder);

// Returns the folder of the shipped data: what use_shipped_data() set, else share/trainyard of the
// installation that contains code_file(), else the source tree if code_file() lies in a build
// folder, else a folder of data_roots() that holds them. Throws InputError if there is none.
[[nodiscard]] std::filesystem::path data_directory();

// Returns the existing folders in which data files are looked up, in order. Throws InputError if
// $TRAINYARD_DATA or the settings name a folder that does not exist or holds no data.
[[nodiscard]] std::vector<std::filesystem::path> data_roots();

// The subfolders that contain data files, at any depth.
[[nodiscard]] std::span<const std::string_view> data_folders();

// Returns a named data file (<root>/<folder>/<name>.json), or the path itself if the text ends in
// ".json" or contains a '/'. Notes a file that was not shipped (data_use.hpp). Throws InputError
// with the nearest known name, or with all known names if none is near.
[[nodiscard]] std::filesystem::path data_file(const std::string& folder,
                                              const std::string& name_or_path);

// Returns the named data file; nothing if no root has it. Notes it as data_file() does.
[[nodiscard]] std::optional<std::filesystem::path> find_data_file(const std::string& folder,
                                                                  const std::string& name);

// Returns the file at this path below the first root that has it ("kernels/profiles/h100.json",
// "scenarios/first/two_gpus.json"); nothing if none has it.
[[nodiscard]] std::optional<std::filesystem::path> find_in_data(const std::filesystem::path& path);

// Notes that a result depends on this file, unless it was shipped: a file that a scenario names by
// its path. `kind` says what it is.
void note_data_file(const std::string& kind, const std::filesystem::path& file);

// Returns the names of the .json files in a data folder, over all roots, sorted, without the
// extension. Throws InputError if there are none and no shipped data.
[[nodiscard]] std::vector<std::string> data_names(const std::string& folder);

// Returns the user's file that this name of a data folder stands for; nothing for a shipped file.
[[nodiscard]] std::optional<std::filesystem::path> own_data_file(const std::string& folder,
                                                                 const std::string& name);

}  // namespace trainyard
