#include "sim/base/data_directory.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "sim/base/concurrency.hpp"
#include "sim/base/data_use.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/memo.hpp"
#include "sim/base/settings.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

struct PathOfFile {
  std::string path;
};
std::size_t footprint(const PathOfFile& file) { return file.path.size(); }

// Sets a variable of the environment, and restores it.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// Two folders of the user: `folder_`, which the environment names, and the home of data.
class DataDirectory : public testing::Test {
 protected:
  DataDirectory()
      : folder_(fs::temp_directory_path() / ("trainyard_data_" + std::to_string(getpid()))),
        home_(folder_ / "home" / "trainyard"),
        chosen_("TRAINYARD_DATA", folder_),
        at_home_("XDG_DATA_HOME", folder_ / "home"),
        settings_("XDG_CONFIG_HOME", folder_ / "no_settings") {
    write_file(folder_ / "models" / "data" / "own-b.json", "{}");
    write_file(folder_ / "models" / "data" / "own-a.json", "{}");
    write_file(folder_ / "models" / "data" / "README.md", "");
    write_file(home_ / "models" / "data" / "own-a.json", "{}");
    write_file(home_ / "models" / "data" / "at-home.json", "{}");
    write_file(home_ / "topologies" / "data" / "dgx_h100.json", "{}");
  }
  ~DataDirectory() override { fs::remove_all(folder_); }

  fs::path folder_;
  fs::path home_;
  Variable chosen_;
  Variable at_home_;
  Variable settings_;
};

// Do the user's folders come before the shipped data, those of the environment first?
TEST_F(DataDirectory, FoldersOfTheUserComeBeforeShippedData) {
  EXPECT_EQ(data_roots(), (std::vector<fs::path>{folder_, home_, data_directory()}));
  const fs::path second = folder_ / "second";
  write_file(second / "kernels" / "profiles" / "mine.json", "{}");
  const Variable both("TRAINYARD_DATA", folder_.string() + "::" + second.string() + ":");
  EXPECT_EQ(data_roots(), (std::vector<fs::path>{folder_, second, home_, data_directory()}));
}

// Is a relative XDG_DATA_HOME ignored, and ~/.local/share the default?
TEST_F(DataDirectory, TheHomeOfDataFollowsTheXdgSpecification) {
  const Variable none("TRAINYARD_DATA", "");
  const fs::path share = folder_ / "user" / ".local" / "share" / "trainyard";
  fs::create_directories(share);
  const Variable user("HOME", folder_ / "user");
  for (const char* ignored : {"", "home"}) {
    const Variable wrong("XDG_DATA_HOME", ignored);
    EXPECT_EQ(data_roots(), (std::vector<fs::path>{share, data_directory()}));
  }
  const Variable nowhere("HOME", "");
  const Variable unset("XDG_DATA_HOME", "");
  EXPECT_EQ(data_roots(), std::vector<fs::path>{data_directory()});
}

// Are names of all folders sorted, each once, and only JSON files listed?
TEST_F(DataDirectory, NamesAreSortedAndOnlyJson) {
  const std::vector<std::string> names = data_names("models/data");
  EXPECT_TRUE(std::ranges::is_sorted(names));
  for (const char* name : {"own-a", "own-b", "at-home", "gpt3-175b"})
    EXPECT_EQ(std::ranges::count(names, name), 1) << name;
  EXPECT_EQ(std::ranges::count(names, "README"), 0);
  EXPECT_TRUE(data_names("no/such").empty());
}

// Does the first folder that has a name win, and is a file of the user told from a shipped one?
TEST_F(DataDirectory, TheFirstFolderThatHasANameWins) {
  EXPECT_EQ(data_file("models/data", "own-a"), folder_ / "models/data/own-a.json");
  EXPECT_EQ(data_file("models/data", "at-home"), home_ / "models/data/at-home.json");
  EXPECT_EQ(own_data_file("models/data", "at-home"), home_ / "models/data/at-home.json");
  EXPECT_EQ(own_data_file("models/data", "gpt3-175b"), std::nullopt);
  EXPECT_EQ(own_data_file("models/data", "nothing"), std::nullopt);
  EXPECT_EQ(find_data_file("models/data", "nothing"), std::nullopt);
}

// Are the files of the user noted, and shipped ones not?
TEST_F(DataDirectory, FilesOfTheUserAreNoted) {
  const DataUse use;
  (void)data_file("models/data", "gpt3-175b");
  (void)data_file("models/data", (data_directory() / "models/data/gpt3-175b.json").string());
  note_data_file("placement", data_directory() / "scenarios/first/two_gpus.json");
  EXPECT_TRUE(use.files().empty());
  (void)data_file("models/data", "own-b");
  (void)data_file("topologies/data", "dgx_h100");
  (void)data_file("topologies/data", "dgx_h100");
  note_data_file("placement", folder_ / "list.json");
  const std::string node = home_ / "topologies/data/dgx_h100.json";
  const std::string model = folder_ / "models/data/own-b.json";
  const std::string list = folder_ / "list.json";
  EXPECT_EQ(use.files(), (std::vector<OwnDataFile>{{"model", "own-b", model, false},
                                                   {"node", "dgx_h100", node, true},
                                                   {"placement", "list", list, false}}));
}

// Does a cached value note the files it was made of, also on another thread, and only in the
// computation that asks for it?
TEST_F(DataDirectory, CachedValuesNoteTheirFilesAgain) {
  const auto read = [](const fs::path&) { return data_file("models/data", "own-a").string(); };
  const fs::path key = folder_ / "models/data/own-b.json";
  Memo memo;
  for (int round = 0; round < 2; ++round) {
    const DataUse outer;
    const DataUse use;
    run_concurrently(
        true, [&] { (void)read_once<std::string>(key, read); },
        [&] { (void)memo.get<PathOfFile>([&] { return PathOfFile{read(key)}; }, 1); });
    EXPECT_EQ(use.files().size(), 1U);
    EXPECT_EQ(outer.files(), use.files());
  }
  EXPECT_TRUE(DataUse().files().empty());
  EXPECT_EQ(DataUse::current(), nullptr);
}

// Are files found by name and by path?
TEST_F(DataDirectory, FilesByNameAndByPath) {
  EXPECT_EQ(data_file("models/data", "own-a"), folder_ / "models/data/own-a.json");
  const std::string path = (folder_ / "models/data/own-b.json").string();
  EXPECT_EQ(data_file("models/data", path), path);
}

// Does an unknown name suggest the nearest one?
TEST_F(DataDirectory, UnknownNamesGetTheNearest) {
  try {
    (void)data_file("models/data", "own-aa");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "\"own-aa\" is not one of models/data (did you mean \"own-a\"?)");
  }
  EXPECT_THROW((void)data_file("models/data", ""), InputError);
  EXPECT_THROW((void)data_file("models/data", "./own-a"), InputError);
}

// Do the settings name folders, relative to their own, after those of the environment?
TEST_F(DataDirectory, SettingsNameFolders) {
  const fs::path config = folder_ / "config" / "trainyard";
  const Variable place("XDG_CONFIG_HOME", folder_ / "config");
  EXPECT_EQ(settings_file(), config / "settings.json");
  EXPECT_TRUE(settings().file.empty());
  write_file(config / "shared" / "models" / "data" / "of-all.json", "{}");
  write_file(config / "settings.json",
             R"({"data": ["shared"], "processes": 3, "node": "dgx_h200", "fabric": "fat_tree"})");
  EXPECT_EQ(data_roots(),
            (std::vector<fs::path>{folder_, config / "shared", home_, data_directory()}));
  using Options = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(settings().options,
            (Options{{"--processes", "3"}, {"--node", "dgx_h200"}, {"--fabric", "fat_tree"}}));
}

// Is a wrong setting reported with the file and its place?
TEST_F(DataDirectory, WrongSettingsAreSaid) {
  const Variable place("XDG_CONFIG_HOME", folder_ / "config");
  const std::string file = (folder_ / "config" / "trainyard" / "settings.json").string();
  const std::vector<std::pair<const char*, const char*>> cases{
      {R"({"proceses": 3})", ": /proceses: unknown key (did you mean \"processes\"?)"},
      {R"({"processes": 0})", ": /processes: must be"},
      {R"({"data": ["none"]})",
       "/none holds no data of trainyard (name folders that have some of "},
      {"[]", ": must be an object, not"}};
  for (const auto& [text, message] : cases) {
    write_file(file, text);
    try {
      (void)data_roots();
      FAIL() << "no error for " << text;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::StartsWith(file));
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
  }
  EXPECT_EQ(cases.size(), 4U);
}

#ifdef TRAINYARD_CODE_IN_LIBRARY
// Is the file of code in a shared library the library, not the program that has loaded it? Data and
// modules are found from there: the program of a Python module is Python.
TEST(CodeFile, OfALibraryIsTheLibrary) {
  void* const library = ::dlopen(TRAINYARD_CODE_IN_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto file = reinterpret_cast<const char* (*)()>(::dlsym(library, "trainyard_code_file"));
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(fs::path(file()), fs::canonical(TRAINYARD_CODE_IN_LIBRARY));
  EXPECT_EQ(code_file(), program_file());
}
#endif

// Is a wrong environment variable reported?
TEST_F(DataDirectory, AWrongEnvironmentIsSaid) {
  const Variable wrong("TRAINYARD_DATA", "/no/such/place");
  EXPECT_THROW((void)data_roots(), InputError);
  EXPECT_THROW((void)data_file("models/data", "gpt3-175b"), InputError);
  const Variable empty("TRAINYARD_DATA", folder_ / "home");
  EXPECT_THROW((void)data_roots(), InputError);
  EXPECT_THROW(use_shipped_data(folder_ / "home"), InputError);
}

}  // namespace
}  // namespace trainyard
