// Every command that a page or a --help shows is run as it stands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

using test::Outcome;
using test::Scratch;

// Lines that are not run here, and why.
bool left_out(const std::string& line) {
  constexpr const char* kNot[] = {
      "16384xh100",   // a quarter of a minute each; tests of the engine run them
      "1008b_3072x",  // likewise
      "tools/",       // the scripts: tools/check runs this very test
      "scenarios/megatron/*.json",
  };
  return std::any_of(std::begin(kNot), std::end(kNot),
                     [&](const char* part) { return line.find(part) != std::string::npos; });
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// 0, or 1 where the answer is that the step does not fit. What it prints.
std::string expect_answer(const Scratch& scratch, const std::string& line) {
  SCOPED_TRACE(line);
  const Outcome outcome = scratch.sh(line);
  const bool says_no = outcome.exit == 1 && outcome.err.empty();
  EXPECT_TRUE(outcome.exit == 0 || says_no) << outcome.exit << "\n" << outcome.err;
  return outcome.out;
}

TEST(Examples, EveryHelpHasOneThatRuns) {
  const Scratch scratch;
  for (const std::string command : {"trainyard",
                                    "trainyard run",
                                    "trainyard memory",
                                    "trainyard schedule",
                                    "trainyard show",
                                    "trainyard show topology",
                                    "trainyard show workload",
                                    "trainyard show cost",
                                    "trainyard compare",
                                    "trainyard explain",
                                    "trainyard search",
                                    "trainyard sweep",
                                    "trainyard list",
                                    "trainyard schema",
                                    "trainyard collective",
                                    "trainyard import",
                                    "trainyard import nccl-tests",
                                    "trainyard import chakra",
                                    "trainyard import hf-config",
                                    "trainyard import megatron",
                                    "trainyard import nccl-topo",
                                    "trainyard import topo-m",
                                    "trainyard init",
                                    "trainyard man",
                                    "trainyard completion"}) {
    const Outcome help = scratch.sh(command + " --help");
    ASSERT_EQ(help.exit, 0) << command;
    EXPECT_EQ(help.err, "");
    std::size_t examples = 0;
    const std::size_t begin = help.out.find("Example:");
    ASSERT_NE(begin, std::string::npos) << command << " --help shows no example";
    for (const std::string& line : lines_of(help.out.substr(begin))) {
      if (!line.starts_with("  trainyard ")) continue;
      ++examples;
      EXPECT_TRUE(line.substr(2).starts_with(command)) << line;
      if (!left_out(line)) expect_answer(scratch, line.substr(2));
    }
    EXPECT_GT(examples, 0U) << command;
  }
}

// The commands of a page: in a block fenced as sh, or after "$ ". A backslash joins lines.
std::vector<std::string> commands_of(const std::string& page) {
  std::vector<std::string> commands;
  bool fenced = false;
  std::string joined;
  for (std::string line : lines_of(page)) {
    if (line.starts_with("```")) {
      fenced = line == "```sh";
      continue;
    }
    if (line.starts_with("$ ")) {
      line = line.substr(2);
    } else if (!fenced) {
      continue;
    }
    joined += line;
    if (joined.ends_with("\\")) {
      joined.pop_back();
      continue;
    }
    commands.push_back(std::exchange(joined, ""));
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

struct Told {
  std::size_t commands = 0;
  std::string text;  // each command and what it printed
};

// Commands of a page run one after the other in one folder: later ones may read what earlier wrote.
Told run_page(const std::filesystem::path& page) {
  const Scratch scratch;
  Told told;
  for (const std::string& line : commands_of(read_file(page))) {
    const std::string command = with_the_built_one(line);
    const bool ours = command.starts_with("trainyard ");
    const bool prepares = command.starts_with("mkdir ");
    if ((!ours && !prepares) || left_out(command)) continue;
    if (ours) ++told.commands;
    told.text += "$ " + command + "\n" + expect_answer(scratch, command);
  }
  return told;
}

// What the commands of a page print is kept beside this test, for pages that show the command
// alone; tools/bless rewrites it.
void expect_as_kept(const std::string& page, const Told& told) {
  std::string name = page;
  std::replace(name.begin(), name.end(), '/', '-');
  const std::filesystem::path kept = Scratch::kTree / "tests/tools/page_outputs" / (name + ".txt");
  if (std::getenv("TRAINYARD_BLESS") != nullptr) {
    write_file(kept, told.text);
  } else {
    ASSERT_TRUE(std::filesystem::exists(kept)) << kept << ": tools/bless writes it";
    EXPECT_EQ(read_file(kept), told.text)
        << "the commands of " << page << " print other words: tools/bless, and read the difference";
  }
}

TEST(Examples, EveryCommandOfTheReadmesPrintsWhatItDid) {
  std::set<std::string> shown;
  for (const std::string page : {"README.md", "scenarios/README.md", "scenarios/what_if/README.md",
                                 "scenarios/collective/README.md", "scenarios/validate/README.md",
                                 "sim/README.md", "topologies/README.md", "models/README.md",
                                 "kernels/README.md", "tools/README.md", "tests/README.md"}) {
    const Told told = run_page(Scratch::kTree / page);
    if (told.commands == 0) continue;
    shown.insert(page);
    expect_as_kept(page, told);
  }
  EXPECT_THAT(shown, testing::IsSupersetOf({"README.md", "scenarios/what_if/README.md",
                                            "scenarios/collective/README.md"}))
      << "no commands found in them";
}

}  // namespace
}  // namespace trainyard
