// Every kind of bad input and its exact message: tests/errors/<name>.json and <name>.expected.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "sim/base/files.hpp"
#include "tests/scenarios/sample.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

const fs::path kErrorsFolder = fs::path(TRAINYARD_SOURCE_DIRECTORY) / "tests" / "errors";

// File names in messages are as the user gave them, so the tests run in this folder.
class Errors : public testing::Test {
 protected:
  Errors() : before_(fs::current_path()) { fs::current_path(kErrorsFolder); }
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

// Does every bad input get its exact message?
TEST_F(Errors, EveryBadInputGetsItsExactMessage) {
  for (const std::string& name : names()) {
    SCOPED_TRACE(name);
    const std::string message = message_of(name + ".json");
    if (std::getenv("TRAINYARD_BLESS") != nullptr) write_file(name + ".expected", message);
    EXPECT_EQ(message, read_file(name + ".expected"));
    EXPECT_NE(message, "no error\n");
  }
}

// Are there at least twenty kinds of bad input?
TEST_F(Errors, ThereAreAtLeastTwentyKinds) { EXPECT_GE(names().size(), 20U); }

// Do broken bytes give a scenario or an InputError, and never another exception?
TEST(BrokenBytes, AreRefusedAndNothingElse) {
  const std::string whole = sample().dump(1);
  const TemporaryFolder folder;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    texts.push_back(whole.substr(0, i));
    for (const char byte : {'\0', '"', '{', ']', '9', '-', '\x80'}) {
      texts.push_back(whole);
      texts.back()[i] = byte;
    }
  }
  std::size_t refused = 0;
  for (const std::string& text : texts) {
    try {
      (void)load_scenario(folder.write("s.json", text), {});
    } catch (const InputError& error) {
      EXPECT_FALSE(error.problems().empty());
      ++refused;
    }
  }
  EXPECT_GT(refused, texts.size() / 2);
}

// Is a missing file reported?
TEST_F(Errors, AMissingFileIsNamed) {
  EXPECT_EQ(message_of("none.json"), "none.json: no such file\n");
}

}  // namespace
}  // namespace trainyard
