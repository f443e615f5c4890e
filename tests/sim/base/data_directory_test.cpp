#include "sim/base/data_directory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

// A data folder with two models. The environment names it during a test.
class DataDirectory : public testing::Test {
 protected:
  DataDirectory()
      : folder_(fs::temp_directory_path() / ("trainyard_data_" + std::to_string(getpid()))) {
    if (const char* before = std::getenv("TRAINYARD_DATA")) before_ = before;
    write_file(folder_ / "models" / "data" / "gpt-b.json", "{}");
    write_file(folder_ / "models" / "data" / "gpt-a.json", "{}");
    write_file(folder_ / "models" / "data" / "README.md", "");
    setenv("TRAINYARD_DATA", folder_.c_str(), 1);
  }
  ~DataDirectory() override {
    if (before_) {
      setenv("TRAINYARD_DATA", before_->c_str(), 1);
    } else {
      unsetenv("TRAINYARD_DATA");
    }
    fs::remove_all(folder_);
  }

  fs::path folder_;
  std::optional<std::string> before_;
};

// Are names sorted, and only JSON files listed?
TEST_F(DataDirectory, NamesAreSortedAndOnlyJson) {
  EXPECT_EQ(data_directory(), folder_);
  EXPECT_EQ(data_names("models/data"), (std::vector<std::string>{"gpt-a", "gpt-b"}));
  EXPECT_TRUE(data_names("no/such").empty());
}

// Are files found by name and by path?
TEST_F(DataDirectory, FilesByNameAndByPath) {
  EXPECT_EQ(data_file("models/data", "gpt-a"), folder_ / "models/data/gpt-a.json");
  const std::string path = (folder_ / "models/data/gpt-b.json").string();
  EXPECT_EQ(data_file("models/data", path), path);
}

// Does an unknown name suggest the nearest one?
TEST_F(DataDirectory, UnknownNamesGetTheNearest) {
  try {
    (void)data_file("models/data", "gpt-aa");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "\"gpt-aa\" is not one of models/data (did you mean \"gpt-a\"?)");
  }
  EXPECT_THROW((void)data_file("models/data", ""), InputError);
  EXPECT_THROW((void)data_file("models/data", "./gpt-a"), InputError);
}

// Is a wrong environment variable reported?
TEST_F(DataDirectory, AWrongEnvironmentIsSaid) {
  setenv("TRAINYARD_DATA", "/no/such/place", 1);
  EXPECT_THROW((void)data_directory(), InputError);
}

}  // namespace
}  // namespace trainyard
