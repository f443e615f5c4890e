#include "sim/base/data_directory.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <system_error>

#include "sim/base/data_use.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/home.hpp"
#include "sim/base/nearest.hpp"
#include "sim/base/settings.hpp"

namespace trainyard {

namespace fs = std::filesystem;

namespace {

// A folder of shipped data is recognised by its models/data.
bool holds_shipped_data(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder / "models" / "data", error);
}

// A folder of the user has at least one of the folders of data.
bool holds_some_data(const fs::path& folder) {
  return std::ranges::any_of(data_folders(), [&folder](std::string_view part) {
    std::error_code error;
    return fs::is_directory(folder / part, error);
  });
}

// Returns the source tree that was built into this folder; empty if it is no build folder. CMake
// writes its path, from the build folder, into the file.
fs::path source_tree_of(const fs::path& build_folder) {
  std::ifstream file(build_folder / TRAINYARD_SOURCE_MARKER);
  std::string path;
  if (!std::getline(file, path)) return {};
  return (build_folder / path).lexically_normal();
}

// Walks from the folder of this code to the root. An installed program is in <prefix>/bin, a
// library in <prefix>/lib or below, and a Python module deeper still.
fs::path find_own_data() {
  for (fs::path folder = code_file().parent_path(); !folder.empty();
       folder = folder.parent_path()) {
    for (const fs::path& data : {folder / "share" / "trainyard", source_tree_of(folder)})
      if (!data.empty() && holds_shipped_data(data)) return data;
    if (folder == folder.root_path()) break;
  }
  return {};
}

// The folder that an embedding program set; empty: none.
fs::path& embedded_data() {
  static fs::path folder;
  return folder;
}

// Returns the folder of shipped data; empty if there is none.
const fs::path& shipped_data() {
  if (!embedded_data().empty()) return embedded_data();
  // The result is cached: code does not move while it runs, and it reads data very often.
  static const fs::path kOwn = find_own_data();
  return kOwn;
}

constexpr const char* kDataHint =
    "name folders that have some of models/, topologies/, kernels/ as the shipped data have them";

// The folders of $TRAINYARD_DATA. A folder without data is an error: a misspelt path would
// otherwise be passed over, and shipped data be used in its place.
void add_chosen(std::vector<fs::path>& roots) {
  const char* const value = std::getenv("TRAINYARD_DATA");
  const std::string chosen = value == nullptr ? "" : value;
  for (std::size_t begin = 0; begin < chosen.size();) {
    const std::size_t end = std::min(chosen.find(':', begin), chosen.size());
    const fs::path folder = chosen.substr(begin, end - begin);
    begin = end + 1;
    if (folder.empty()) continue;
    if (!holds_some_data(folder))
      throw InputError(Problem{
          folder, "", "holds no data of trainyard, and TRAINYARD_DATA names it", kDataHint});
    roots.push_back(folder);
  }
}

void add_those_of_settings(std::vector<fs::path>& roots) {
  const Settings& chosen = settings();
  for (const fs::path& folder : chosen.data) {
    if (!holds_some_data(folder))
      throw InputError(Problem{chosen.file, "/data",
                               fmt::format("{} holds no data of trainyard", folder.string()),
                               kDataHint});
    roots.push_back(folder);
  }
}

void add_home(std::vector<fs::path>& roots) {
  const fs::path home = home_folder("XDG_DATA_HOME", ".local/share");
  std::error_code error;
  if (!home.empty() && fs::is_directory(home / "trainyard", error))
    roots.push_back(home / "trainyard");
}

bool is_path(const std::string& text) {
  return text.ends_with(".json") || text.find('/') != std::string::npos;
}

// Returns the kind of a file in a data folder as messages name it.
std::string kind_of(const std::string& folder) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kKinds{
      {{"models/data", "model"},
       {"topologies/data", "node"},
       {"kernels/profiles", "GPU profile"},
       {"models/hosts", "host"},
       {"models/frameworks", "framework"},
       {"models/recipes", "recipe"},
       {"models/optimizers", "optimizer"}}};
  for (const auto& [place, kind] : kKinds)
    if (folder == place) return std::string(kind);
  return folder;
}

// A file of the shipped data, or one that the shipped data include below another name.
bool is_shipped(const fs::path& file) {
  const fs::path& data = shipped_data();
  if (data.empty()) return false;
  std::error_code error;
  const fs::path place = fs::weakly_canonical(file, error)
                             .lexically_relative(fs::weakly_canonical(data, error))
                             .lexically_normal();
  const auto within = [&place](std::string_view part) {
    const fs::path folder = part;
    return std::mismatch(folder.begin(), folder.end(), place.begin(), place.end()).first ==
           folder.end();
  };
  return !error && (within("scenarios") || std::ranges::any_of(data_folders(), within));
}

[[noreturn]] void refuse_name(const std::string& folder, const std::string& name) {
  if (shipped_data().empty()) (void)data_directory();  // throws
  throw InputError(Problem{"", "", fmt::format("\"{}\" is not one of {}", name, folder),
                           suggestion(name, data_names(folder))});
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

const fs::path& code_file() {
  // The dynamic linker knows the path of a shared object; that of the program is empty there.
  static const fs::path kFile = [] {
    Dl_info place{};
    void* object = nullptr;
    const auto* const here = reinterpret_cast<const void*>(&code_file);
    if (::dladdr1(here, &place, &object, RTLD_DL_LINKMAP) == 0 || object == nullptr)
      return program_file();
    const char* const name = static_cast<const link_map*>(object)->l_name;
    if (name == nullptr || *name == '\0') return program_file();
    std::error_code error;
    const fs::path file = fs::canonical(name, error);
    return error ? program_file() : file;
  }();
  return kFile;
}

void use_shipped_data(const fs::path& folder) {
  if (!holds_shipped_data(folder))
    throw InputError(Problem{folder, "", "holds no models/data",
                             "name the folder that holds models/ and topologies/"});
  embedded_data() = folder;
}

fs::path data_directory() {
  if (!shipped_data().empty()) return shipped_data();
  for (const fs::path& root : data_roots())
    if (holds_shipped_data(root)) return root;
  throw InputError(Problem{"", "", "the data files of trainyard are not found",
                           "set TRAINYARD_DATA to the folder that holds models/ and topologies/"});
}

std::vector<fs::path> data_roots() {
  std::vector<fs::path> roots;
  add_chosen(roots);
  add_those_of_settings(roots);
  add_home(roots);
  if (!shipped_data().empty()) roots.push_back(shipped_data());
  return roots;
}

std::span<const std::string_view> data_folders() {
  static constexpr std::array<std::string_view, 6> kFolders{
      "models",        "topologies",
      "kernels",       "sim/collectives/deepep/data",
      "sim/nccl/data", "tools/studies/validate/data"};
  return kFolders;
}

std::vector<std::string> data_names(const std::string& folder) {
  std::set<std::string> names;
  for (const fs::path& root : data_roots()) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(root / folder, error))
      if (entry.path().extension() == ".json") names.insert(entry.path().stem().string());
  }
  if (names.empty() && shipped_data().empty()) (void)data_directory();  // throws
  return {names.begin(), names.end()};
}

std::optional<fs::path> find_in_data(const fs::path& path) {
  std::error_code error;
  for (const fs::path& root : data_roots()) {
    fs::path file = root / path;
    if (fs::is_regular_file(file, error)) return file;
  }
  return {};
}

// A file of the user is noted, because a result that depends on it cannot be repeated elsewhere
// with the shipped data alone.
std::optional<fs::path> find_data_file(const std::string& folder, const std::string& name) {
  const fs::path place = fs::path(folder) / (name + ".json");
  std::optional<fs::path> file = name.empty() ? std::nullopt : find_in_data(place);
  if (!file || *file == shipped_data() / place || is_shipped(*file)) return file;
  std::error_code error;
  const bool replaces = !shipped_data().empty() && fs::exists(shipped_data() / place, error);
  DataUse::note({.kind = kind_of(folder), .name = name, .file = *file, .replaces = replaces});
  return file;
}

fs::path data_file(const std::string& folder, const std::string& name_or_path) {
  if (!is_path(name_or_path)) {
    const std::optional<fs::path> file = find_data_file(folder, name_or_path);
    return file ? *file : (refuse_name(folder, name_or_path), fs::path());
  }
  refuse_confined(name_or_path);
  std::error_code error;
  if (!fs::is_regular_file(name_or_path, error))
    throw InputError(Problem{name_or_path, "", "no such file", ""});
  note_data_file(kind_of(folder), name_or_path);
  return name_or_path;
}

void note_data_file(const std::string& kind, const fs::path& file) {
  if (DataUse::current() == nullptr || is_shipped(file)) return;
  DataUse::note({.kind = kind, .name = file.stem(), .file = file});
}

std::optional<fs::path> own_data_file(const std::string& folder, const std::string& name) {
  const fs::path place = fs::path(folder) / (name + ".json");
  std::optional<fs::path> file = find_in_data(place);
  return file && *file != shipped_data() / place ? file : std::nullopt;
}

}  // namespace trainyard
