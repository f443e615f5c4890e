// The settings of the user: $XDG_CONFIG_HOME/trainyard/settings.json, by default
// ~/.config/trainyard/settings.json. Without the file every setting has its default.
//
//    {
//      "data": ["/srv/trainyard"],   // folders of data, after those of TRAINYARD_DATA
//      "processes": 8,               // default of --processes
//      "node": "my_node",            // default of --node
//      "fabric": "fat_tree"          // default of --fabric
//    }
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace trainyard {

struct Settings {
  std::filesystem::path file = {};               // empty: there is no file
  std::vector<std::filesystem::path> data = {};  // absolute
  // Defaults of options of the command: {"--processes", "8"}.
  std::vector<std::pair<std::string, std::string>> options = {};
};

// Returns the path of the settings, whether or not it exists; empty if no home is known.
[[nodiscard]] std::filesystem::path settings_file();

// Reads the settings, once for each version of the file. Throws InputError, also for unknown keys.
[[nodiscard]] const Settings& settings();

}  // namespace trainyard
