// Every command that a page or a --help shows is run as it stands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using test::lines_of;
using test::Outcome;
using test::Scratch;
using test::with_subcommands;

// Lines that are not run here, and why.
bool left_out(const std::string& line) {
  constexpr const char* kNot[] = {
      "tools/",                     // the scripts: tools/check runs this very test
      "scenarios/megatron/*.json",  // the table of the front page; run_test plays every shipped one
  };
  return std::any_of(std::begin(kNot), std::end(kNot),
                     [&](const char* part) { return line.find(part) != std::string::npos; });
}

// A server runs until Ctrl-C, which must end it as it ends a run that is over. It is sent as soon
// as the server tells its address.
std::string with_an_end(const std::string& line) {
  if (!line.starts_with("trainyard serve")) return line;
  return "rm -f served; " + line + " >served & pid=$!\n" +
         "until grep -qs http served || ! kill -0 $pid; do sleep 0.02; done\n" +
         "kill -INT $pid; wait $pid; status=$?; cat served; exit $status";
}

// 0, or 1 where the answer is that the step does not fit. What it prints.
std::string expect_answer(const Scratch& scratch, const std::string& line) {
  SCOPED_TRACE(line);
  const Outcome outcome = scratch.sh(with_an_end(line));
  const bool says_no = outcome.exit == 1 && outcome.err.empty();
  EXPECT_TRUE(outcome.exit == 0 || says_no) << outcome.exit << "\n" << outcome.err;
  return outcome.out;
}

// Their examples are about what a user has measured, or need a GPU.
bool wants_measurements(const std::string& command) {
  return command.starts_with("trainyard validate") || command.starts_with("trainyard calibrate") ||
         command.starts_with("trainyard profile") || command == "trainyard import nsys";
}

TEST(Examples, EveryHelpHasOneThatRuns) {
  const Scratch scratch;
  const std::vector<std::string> commands = with_subcommands(scratch, "trainyard");
  EXPECT_GE(commands.size(), 34U);
  for (const std::string& command : commands) {
    const Outcome help = scratch.sh(command + " --help");
    ASSERT_EQ(help.exit, 0) << command;
    EXPECT_EQ(help.err, "");
    std::size_t examples = 0;
    const std::size_t begin = help.out.find("Example:");
    ASSERT_NE(begin, std::string::npos) << command << " --help shows no example";
    for (const std::string& line : lines_of(help.out.substr(begin))) {
      if (!line.starts_with("  trainyard ")) continue;
      ++examples;
      EXPECT_TRUE(line.substr(2).starts_with(command)) << command << ": " << line;
      if (!left_out(line) && !wants_measurements(command)) expect_answer(scratch, line.substr(2));
    }
    EXPECT_GT(examples, 0U) << command;
  }
}

// tutorial_test runs the console blocks of these pages, and compares what they print.
bool runs_in_tutorial(const std::string& page) {
  return page == "README.md" || page.starts_with("docs/") || page.starts_with("scenarios/");
}

// The commands of a page: in a block fenced as sh, or after "$ " in a console block that no other
// test runs. A backslash joins lines, and a here-document belongs to its command.
std::vector<std::string> commands_of(const std::string& name) {
  const std::string page = read_file(Scratch::kTree / name);
  const bool with_consoles = !runs_in_tutorial(name);
  std::vector<std::string> commands;
  bool fenced = false;
  std::string joined, last_line;  // last_line: what ends the here-document
  for (std::string line : lines_of(page)) {
    if (!last_line.empty()) {
      joined += "\n" + line;
      if (line != last_line) continue;
      last_line.clear();
      commands.push_back(std::exchange(joined, ""));
      continue;
    }
    if (line.starts_with("```")) {
      fenced = line == "```sh";
      continue;
    }
    if (with_consoles && line.starts_with("$ ")) {
      line = line.substr(2);
    } else if (!fenced) {
      continue;
    }
    joined += line;
    if (const std::size_t here = line.find("<<'"); here != std::string::npos) {
      last_line = line.substr(here + 3, line.find('\'', here + 3) - here - 3);
    } else if (joined.ends_with("\\")) {
      joined.pop_back();
    } else {
      commands.push_back(std::exchange(joined, ""));
    }
  }
  return commands;
}

std::string with_the_built_one(std::string line) {
  const std::string shown = "build/quickstart/trainyard";
  for (std::size_t at = line.find(shown); at != std::string::npos; at = line.find(shown)) {
    line.replace(at, shown.size(), "trainyard");
  }
  return line;
}

// The text that the commands of a page printed, by file: a page's `run` commands in one, its `show`
// in another.
using Told = std::map<std::string, std::string>;

// Commands of a page run one after the other in one folder: later ones may read what earlier wrote.
Told run_page(const std::string& page) {
  std::string prefix = page;
  std::replace(prefix.begin(), prefix.end(), '/', '-');
  const Scratch scratch;
  Told told;
  for (const std::string& line : commands_of(page)) {
    const std::string command = with_the_built_one(line);
    const bool ours = command.starts_with("trainyard ");
    const bool prepares = command.starts_with("mkdir ") || command.starts_with("cat > ");
    if ((!ours && !prepares) || left_out(command)) continue;
    const std::string printed = expect_answer(scratch, command);
    std::string word;
    std::istringstream(command) >> word >> word;
    if (ours) told[prefix + "-" + word + ".txt"] += "$ " + command + "\n" + printed;
  }
  return told;
}

// The output of commands is kept beside this test, for pages that show the command alone;
// tools/bless rewrites it.
void expect_as_kept(const std::filesystem::path& folder, const Told& told) {
  for (const auto& [name, text] : told) {
    if (std::getenv("TRAINYARD_BLESS") != nullptr) {
      write_file(folder / name, text);
      continue;
    }
    ASSERT_TRUE(std::filesystem::exists(folder / name)) << name << ": tools/bless writes it";
    EXPECT_EQ(read_file(folder / name), text)
        << "the commands of a page print other words: tools/bless, and read the difference";
  }
  for (const auto& file : std::filesystem::directory_iterator(folder))
    EXPECT_TRUE(told.contains(file.path().filename().string())) << file << " is of no command";
}

TEST(Examples, EveryCommandOfTheReadmesPrintsWhatItDid) {
  Told all;
  for (const std::string page :
       {"README.md", "scenarios/README.md", "scenarios/what_if/README.md",
        "tools/studies/collective/README.md", "tools/studies/validate/README.md", "sim/README.md",
        "topologies/README.md", "models/README.md", "kernels/README.md", "tools/README.md",
        "tests/README.md"}) {
    all.merge(run_page(page));
  }
  EXPECT_EQ(all.size(), 11U) << "commands of the front page, of what_if and of collective";
  expect_as_kept(Scratch::kTree / "tests/tools/page_outputs", all);
}

// Does every command of the documentation's guides answer?
TEST(Examples, EveryCommandOfTheGuidesAnswers) {
  std::size_t pages = 0;
  std::size_t commands = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Scratch::kTree / "docs")) {
    const std::string page = std::filesystem::relative(entry.path(), Scratch::kTree).string();
    if (!page.ends_with(".md")) continue;
    if (read_file(entry.path()).find("```sh\n") == std::string::npos) continue;
    for (const auto& [command, printed] : run_page(page)) {
      EXPECT_FALSE(printed.empty()) << command;
      ++commands;
    }
    ++pages;
  }
  EXPECT_GE(pages, 8U);
  EXPECT_GE(commands, 22U);
}

// Does a cluster as the guides write it exist?
TEST(Examples, ClustersOfTheGuidesCanBeBuilt) {
  const Scratch scratch;
  const std::string page = read_file(Scratch::kTree / "docs/how_to/describe_my_cluster.md");
  std::size_t blocks = 0;
  const std::vector<std::string> gpus = {"512", "128"};
  for (std::size_t at = page.find("```json\n"); at != std::string::npos;
       at = page.find("```json\n", at + 1)) {
    const std::string block = page.substr(at + 8, page.find("```", at + 8) - at - 8);
    write_file(scratch.folder() / "block.json", block);
    ASSERT_LT(blocks, gpus.size());
    EXPECT_THAT(expect_answer(scratch, "trainyard show topology --cluster block.json"),
                testing::HasSubstr(gpus[blocks]));
    ++blocks;
  }
  EXPECT_EQ(blocks, gpus.size());
}

}  // namespace
}  // namespace trainyard
