// Every kind of bad input and its one exact message: tests/errors/<name>.json and <name>.expected.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "tests/scenarios/sample.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(TRAINYARD_SOURCE_DIRECTORY) / "tests" / "errors";

// File names in messages are as the user gave them, so the tests stand in the folder.
class Errors : public testing::Test {
 protected:
  Errors() : before_(fs::current_path()) { fs::current_path(kFolder); }
  ~Errors() override { fs::current_path(before_); }

  static std::set<std::string> names() {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(".")) {
      if (entry.path().extension() == ".json") all.insert(entry.path().stem().string());
    }
    return all;
  }

  fs::path before_;
};

std::string message_of(const std::string& file) {
  try {
    (void)load_scenario(file, {});
    return "no error\n";
  } catch (const InputError& error) {
    return std::string(error.what()) + "\n";
  }
}

TEST_F(Errors, EveryBadInputGetsItsExactMessage) {
  for (const std::string& name : names()) {
    SCOPED_TRACE(name);
    const std::string message = message_of(name + ".json");
    if (std::getenv("TRAINYARD_BLESS") != nullptr) write_file(name + ".expected", message);
    EXPECT_EQ(message, read_file(name + ".expected"));
    EXPECT_NE(message, "no error\n");
  }
}

TEST_F(Errors, ThereAreAtLeastTwentyKinds) { EXPECT_GE(names().size(), 20U); }

TEST_F(Errors, AMissingFileIsNamed) {
  EXPECT_EQ(message_of("none.json"), "none.json: no such file\n");
}

}  // namespace
}  // namespace trainyard
