#include "sim/base/settings.hpp"

#include <fmt/format.h>

#include "sim/base/files.hpp"
#include "sim/base/home.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace fs = std::filesystem;

namespace {

Settings read_settings(const fs::path& path) {
  constexpr std::int64_t kProcessesMost = 4096;
  JsonFile file = JsonFile::read(path);
  JsonObject root = file.root();
  Settings settings{.file = path};
  for (const std::string& folder : root.texts("data", std::vector<std::string>{}))
    settings.data.push_back((path.parent_path() / folder).lexically_normal());
  if (root.has("processes"))
    settings.options.emplace_back(
        "--processes",
        fmt::format("{}", root.integer("processes", {.least = 1, .most = kProcessesMost})));
  for (const char* key : {"node", "fabric"})
    if (root.has(key)) settings.options.emplace_back(fmt::format("--{}", key), root.text(key));
  file.finish();
  return settings;
}

}  // namespace

fs::path settings_file() {
  const fs::path home = home_folder("XDG_CONFIG_HOME", ".config");
  return home.empty() ? home : home / "trainyard" / "settings.json";
}

const Settings& settings() {
  static const Settings none;
  const fs::path file = settings_file();
  std::error_code error;
  if (file.empty() || !fs::exists(file, error)) return none;
  return read_once<Settings>(file, read_settings);
}

}  // namespace trainyard
