#include "sim/base/data_directory.hpp"

#include <fmt/format.h>
#include <sys/auxv.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <system_error>

#include "sim/base/error.hpp"
#include "sim/base/nearest.hpp"

namespace trainyard {

namespace fs = std::filesystem;

namespace {

// A data folder is recognised by its models/data.
bool holds_data(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder / "models" / "data", error);
}

// Returns the data folder of the installation, or of the source tree; empty if neither exists.
fs::path own_directory() {
  const fs::path program = program_file();
  const fs::path installed =
      program.empty() ? program : program.parent_path().parent_path() / "share" / "trainyard";
  if (holds_data(installed)) return installed;
  const fs::path source = TRAINYARD_SOURCE_DIRECTORY;
  return holds_data(source) ? source : fs::path();
}

bool is_path(const std::string& text) {
  return text.ends_with(".json") || text.find('/') != std::string::npos;
}

}  // namespace

fs::path program_file() {
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) return program;
  // Without /proc: the path that was executed, as the kernel passes it to the program
  // (getauxval(3)).
  const auto* const executed = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (executed == nullptr) return {};
  program = fs::canonical(executed, error);
  return error ? fs::path() : program;
}

fs::path data_directory() {
  if (const char* chosen = std::getenv("TRAINYARD_DATA"); chosen != nullptr && *chosen != '\0') {
    if (holds_data(chosen)) return chosen;
    throw InputError(
        Problem{chosen, "", "holds no models/data",
                "TRAINYARD_DATA must name the folder that holds models/ and topologies/"});
  }
  // The result is cached: a program does not move while it runs, and it reads data very often.
  static const fs::path kOwn = own_directory();
  if (!kOwn.empty()) return kOwn;
  throw InputError(Problem{"", "", "the data files of trainyard are not found",
                           "set TRAINYARD_DATA to the folder that holds models/ and topologies/"});
}

std::span<const std::string_view> data_folders() {
  static constexpr std::array<std::string_view, 6> kFolders{
      "models",        "topologies",
      "kernels",       "sim/collectives/deepep/data",
      "sim/nccl/data", "tools/studies/validate/data"};
  return kFolders;
}

std::vector<std::string> data_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(data_directory() / folder, error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path data_file(const std::string& folder, const std::string& name_or_path) {
  std::error_code error;
  if (is_path(name_or_path)) {
    if (fs::is_regular_file(name_or_path, error)) return name_or_path;
    throw InputError(Problem{name_or_path, "", "no such file", ""});
  }
  const fs::path file = data_directory() / folder / (name_or_path + ".json");
  if (!name_or_path.empty() && fs::is_regular_file(file, error)) return file;
  const std::vector<std::string> names = data_names(folder);
  throw InputError(Problem{"", "", fmt::format("\"{}\" is not one of {}", name_or_path, folder),
                           suggestion(name_or_path, names)});
}

}  // namespace trainyard
