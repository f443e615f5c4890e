// Golden tests: each tests/golden/<case>/ contains the path of a scenario and everything that the
// command printed and wrote for it. The output is compared byte by byte, but for the version of
// SimGrid. TRAINYARD_BLESS=1 rewrites the files (tools/bless sets it). The difference is read
// before it is committed.
//
//    case.json: { "scenario": "scenarios/first/two_gpus.json", "trace": true,
//                 "options": "--explain" }
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "sim/base/json_parse.hpp"
#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::Scratch;

const fs::path kFolder = Scratch::kTree / "tests" / "golden";

struct Case {
  std::string name;
  std::string scenario;
  std::vector<std::string> files;  // files that the run writes and that are stored
  std::string options;
};

Case read_case(const std::string& name) {
  const auto json = parse_unchecked_json(read_file(kFolder / name / "case.json"));
  Case result{.name = name,
              .scenario = json.at("scenario"),
              .files = {"result.json"},
              .options = " --json result.json " + json.value("options", "")};
  if (json.value("trace", false)) {
    result.files.emplace_back("trace.json");
    result.options += " --trace trace.json";
  }
  return result;
}

std::vector<Case> cases() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.is_directory()) names.insert(entry.path().filename().string());
  }
  std::vector<Case> all;
  for (const std::string& name : names) all.push_back(read_case(name));
  return all;
}

// The first line that differs, with its number.
std::string difference(const std::string& kept, const std::string& now) {
  const auto where = std::mismatch(kept.begin(), kept.end(), now.begin(), now.end()).first;
  const auto line_of = [](const std::string& text, std::size_t at) {
    const std::size_t begin = text.rfind('\n', at == 0 ? 0 : at - 1);
    const std::size_t start = begin == std::string::npos ? 0 : begin + 1;
    return text.substr(start, std::min<std::size_t>(text.find('\n', start) - start, 200));
  };
  const auto at = static_cast<std::size_t>(where - kept.begin());
  return "line " + std::to_string(1 + std::count(kept.begin(), where, '\n')) +
         "\n  kept: " + line_of(kept, at) + "\n  now:  " + line_of(now, std::min(at, now.size())) +
         "\nIf that is meant: tools/bless, read the difference, commit it with the reason.";
}

// The files hold the version that Debian 12 has, wherever they are compared or blessed.
std::string with_simgrid_of_debian_12(const std::string& text) {
  static const std::regex version(R"("SimGrid [0-9.]+")");
  return std::regex_replace(text, version, R"("SimGrid 3.32")");
}

void compare(const fs::path& file, const std::string& printed) {
  const std::string now = with_simgrid_of_debian_12(printed);
  if (std::getenv("TRAINYARD_BLESS") != nullptr) write_file(file, now);
  ASSERT_TRUE(fs::exists(file)) << file << " is missing: run tools/bless";
  const std::string kept = read_file(file);
  EXPECT_TRUE(kept == now) << fs::relative(file, Scratch::kTree) << ", " << difference(kept, now);
}

// Does the command print and write the same bytes as before for every golden case?
TEST(Golden, EveryCaseIsAsItWas) {
  ASSERT_GE(cases().size(), 5U);
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Scratch scratch;
    const Outcome outcome = scratch.sh("trainyard run " + one.scenario + one.options);
    EXPECT_EQ(outcome.exit, 0);
    EXPECT_EQ(outcome.err, "");
    compare(kFolder / one.name / "stdout.txt", outcome.out);
    for (const std::string& file : one.files) {
      compare(kFolder / one.name / file, scratch.read(file));
    }
  }
}

// Is the output independent of the working folder and of how often the command runs?
TEST(Golden, OutputDoesNotDependOnTheFolder) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Scratch scratch;
    const std::string relative = "trainyard run " + one.scenario;
    const std::string absolute = "trainyard run " + (Scratch::kTree / one.scenario).string();
    const std::string out = scratch.sh(relative).out;
    EXPECT_FALSE(out.empty());
    EXPECT_EQ(out, scratch.sh(relative).out);
    EXPECT_EQ(out, scratch.sh(relative, Scratch::kTree).out);
    EXPECT_EQ(out, scratch.sh(absolute).out);
  }
}

}  // namespace
}  // namespace trainyard
