// Does a page show what the program prints? Commands in blocks fenced as console ("$ ...") are run,
// and the lines below each must be its output, to the letter. TRAINYARD_BLESS=1 (tools/bless)
// rewrites the pages; the difference is then read before it is committed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "sim/base/json_parse.hpp"
#include "tests/tools/shell.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::Scratch;

struct Retold {
  std::string text;  // the page with what the commands print now
  std::size_t commands = 0;
};

std::string answer(const Scratch& scratch, const std::string& command) {
  const Outcome outcome = scratch.sh(command);
  const bool says_no = outcome.exit == 1 && outcome.err.empty();
  EXPECT_TRUE(outcome.exit == 0 || says_no) << command << "\n" << outcome.err;
  return outcome.out;
}

Retold retold(const fs::path& page) {
  const Scratch scratch;
  Retold told;
  bool console = false;
  std::istringstream lines(read_file(page));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) console = line == "```console";
    const bool command = console && line.starts_with("$ ");
    if (console && !command && line != "```console") continue;  // what it printed before
    told.text += line + "\n";
    if (!command) continue;
    ++told.commands;
    told.text += answer(scratch, line.substr(2));
  }
  return told;
}

std::vector<fs::path> pages() {
  std::vector<fs::path> all{Scratch::kTree / "README.md"};
  for (const char* folder : {"docs", "scenarios"})
    for (const auto& entry : fs::recursive_directory_iterator(Scratch::kTree / folder))
      if (entry.path().extension() == ".md") all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

TEST(Tutorial, PagesShowWhatTheProgramPrints) {
  std::size_t commands = 0;
  for (const fs::path& page : pages()) {
    const std::string kept = read_file(page);
    if (kept.find("```console") == std::string::npos) continue;
    const Retold told = retold(page);
    commands += told.commands;
    if (std::getenv("TRAINYARD_BLESS") != nullptr) {
      write_file(page, told.text);
    } else {
      EXPECT_EQ(kept, told.text) << page
                                 << " shows other words: tools/bless, and read the difference";
    }
  }
  EXPECT_GE(commands, 29U) << "the ten what-ifs, the concepts and the guides";
}

// The command of a picture's caption on a page, which is quoted and ends with the picture's name.
std::string drawing_command(const std::string& page, const std::string& picture) {
  const std::size_t end = page.find("--svg " + picture + "`");
  if (end == std::string::npos) return "";
  const std::size_t begin = page.rfind('`', end) + 1;
  return page.substr(begin, end - begin) + "--svg " + picture;
}

// Is every picture of the documentation the one that its caption's command draws?
TEST(Tutorial, PicturesAreWhatTheirCaptionsDraw) {
  std::size_t pictures = 0;
  for (const auto& entry : fs::directory_iterator(Scratch::kTree / "docs/images")) {
    const std::string picture = entry.path().filename().string();
    std::string command;
    for (const fs::path& page : pages())
      if (command.empty()) command = drawing_command(read_file(page), picture);
    ASSERT_FALSE(command.empty()) << picture << ": no page says `trainyard ... --svg " << picture
                                  << "`";
    ++pictures;
    const Scratch scratch;
    answer(scratch, command);
    if (std::getenv("TRAINYARD_BLESS") != nullptr) {
      write_file(entry.path(), scratch.read(picture));
    } else {
      EXPECT_EQ(read_file(entry.path()), scratch.read(picture))
          << "another picture: tools/bless, and look at it";
    }
  }
  EXPECT_GE(pictures, 3U);
}

// Is the block of the front page the beginning of what the golden test keeps of that very run?
TEST(Tutorial, TheFrontPageShowsTheGoldenRun) {
  const std::filesystem::path file = Scratch::kTree / "README.md";
  std::string page = read_file(file);
  const std::size_t begin = page.find("```text\n") + 8;
  const std::size_t length = page.find("```", begin) - begin;
  const auto lines = std::ranges::count(page.substr(begin, length), '\n');
  EXPECT_GE(lines, 30);
  std::istringstream golden(
      read_file(Scratch::kTree / "tests/golden/gpt3_175b_64xa100_selective/stdout.txt"));
  std::string beginning;
  std::string line;
  for (auto left = lines; left > 0 && std::getline(golden, line); --left) beginning += line + "\n";
  if (std::getenv("TRAINYARD_BLESS") != nullptr)
    write_file(file, page.replace(begin, length, beginning));
  else
    EXPECT_EQ(page.substr(begin, length), beginning) << "tools/bless, and review the difference";
}

// Returns the cells of a row of a Markdown table without their spaces.
std::vector<std::string> cells(const std::string& row) {
  std::vector<std::string> found;
  std::istringstream text(row.substr(1));
  for (std::string cell; std::getline(text, cell, '|');) {
    const std::size_t from = cell.find_first_not_of(' ');
    found.push_back(
        from == std::string::npos ? "" : cell.substr(from, cell.find_last_not_of(' ') + 1 - from));
  }
  return found;
}

// Does the overview of accuracy have the mean errors of collectives that fit_nccl has written?
TEST(Accuracy, TheOverviewHasTheErrorsOfTheFit) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> fitted;
  std::istringstream errors(read_file(Scratch::kTree / "sim/nccl/data/errors.md"));
  for (std::string line; std::getline(errors, line) && line != "By fabric and number of nodes:";)
    if (line.starts_with("| "))
      if (const auto row = cells(line); row.size() == 6)
        fitted.emplace(std::pair(row[0], row[1]), row);
  std::istringstream page(read_file(Scratch::kTree / "docs/accuracy/overview.md"));
  std::string line;
  while (std::getline(page, line) && !line.starts_with("| one node | operation |")) {
  }
  std::getline(page, line);
  std::size_t rows = 0;
  for (; std::getline(page, line) && line.starts_with("| "); ++rows) {
    const auto shown = cells(line);
    const auto row = fitted.find({shown[0], shown[1]});
    ASSERT_NE(row, fitted.end()) << line;
    for (std::size_t band = 2; band < shown.size(); ++band)
      EXPECT_EQ(shown[band], row->second[band].substr(0, row->second[band].find(" (")))
          << "docs/accuracy/overview.md: " << line;
  }
  EXPECT_GE(rows, 15U);
}

// Does the page on uncertainty have the deviations that the program reads?
TEST(Accuracy, ThePageOnUncertaintyHasTheFittedDeviations) {
  const std::string page = read_file(Scratch::kTree / "docs/explanation/uncertainty.md");
  const auto fitted = parse_unchecked_json(
      read_file(Scratch::kTree / "models/uncertainty/steps.json"))["deviation"];
  const auto shown = [&](const char* part) {
    return fmt::format("{:.1f} %", 100.0 * fitted.at(part).get<double>());
  };
  const std::vector<std::pair<std::string, std::string>> rows{
      {"| software and settings", shown("software")},
      {"| a framework without measured runs", shown("new_framework")},
      {"| 8-bit GEMMs; 4-bit GEMMs", shown("gemms_8_bits") + "; " + shown("gemms_4_bits")},
      {"| experts' kernels", shown("experts")},
      {"| kernels of a GPU priced by another", shown("sibling_gpu")},
      {"| kernels of a GPU known by its data sheet", shown("sheet_gpu")},
      {"| collectives within a node; between nodes",
       shown("collectives_within_nodes") + "; " + shown("collectives_between_nodes")},
      {"| dispatch and combine of tokens", shown("dispatch")},
      {"| the host", shown("host")}};
  for (const auto& [part, deviation] : rows) {
    const std::size_t at = page.find("\n" + part);
    ASSERT_NE(at, std::string::npos) << part;
    EXPECT_EQ(cells(page.substr(at + 1, page.find('\n', at + 1) - at - 1)).at(2), deviation)
        << part;
  }
}

// The keys of a JSON value, as docs/reference/result.md writes them: `[]` for every element, `NAME`
// where the name is free.
void add_keys(const nlohmann::ordered_json& value, const std::string& path,
              std::set<std::string>& keys) {
  if (value.is_array()) {
    for (const auto& element : value) add_keys(element, path + "[]", keys);
    return;
  }
  keys.insert(path);
  if (!value.is_object()) return;
  const std::set<std::string> free{"approximations",   "memory[].by_category_bytes",
                                   "energy.by_kind_j", "energy.mean_w",
                                   "energy.peak_w",    "energy.rack_change_w"};
  const bool free_names = free.contains(path);
  for (const auto& [name, inner] : value.items())
    add_keys(inner, (path.empty() ? "" : path + ".") + (free_names ? "NAME" : name), keys);
}

// Does the page of result keys list every key that a run writes, and none besides?
TEST(Reference, ThePageOfResultKeysIsComplete) {
  const Scratch scratch;
  ASSERT_EQ(scratch.sh("cp topologies/data/dgx_h100.json own_node.json").exit, 0);
  std::set<std::string> written;
  for (const char* run :
       {"scenarios/megatron/gpt3_175b_64xa100_selective.json --timing --explain-fold",
        "scenarios/what_if/dead_rail.json --explain-fold --set "
        "cluster.faults='[{\"rail\": 3, \"dead\": true}]'",
        "scenarios/llama3/llama3_8b_8xh100.json --set cluster.node=./own_node.json "
        "--set power.pue=1.2 --tokens 1T --price 2.5",
        "scenarios/context/packed_llama3_70b_128xh100.json --batches 2",
        "scenarios/unequal/gpt_3p6b_a100_l40s_operators.json",
        "scenarios/unequal/llama3_8b_replicas_h100_a100.json",
        "scenarios/unequal/llama3_8b_8xh100_8xa100.json --set parallelism.balance=auto --set "
        "parallelism.layers_per_stage=null",
        "scenarios/what_if/local_steps.json",
        "scenarios/offload/llama3_8b_8xa100_40gb_cpu_adam.json",
        "scenarios/unequal/llama3_8b_8xh100_8xa100.json --set power.clock_tolerance=0.01 --set "
        "'power.price_preset=[\"lambda_h100_on_demand\", \"lambda_a100_80gb_on_demand\"]'",
        "scenarios/first/two_gpus.json"}) {
    answer(scratch, std::string("trainyard run ") + run + " --no-search --json result.json");
    const auto result = parse_unchecked_json(scratch.read("result.json"));
    for (const auto& [key, value] : result.items()) {
      if (key == "scenario") continue;
      std::set<std::string> keys;
      add_keys(value, key, keys);
      written.merge(keys);
    }
  }
  std::set<std::string> listed;
  std::istringstream page(read_file(Scratch::kTree / "docs/reference/result.md"));
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("| `")) listed.insert(line.substr(3, line.find('`', 3) - 3));
  std::size_t known = 0;
  for (const std::string& key : written) {
    const std::string inner = key + ".", element = key + "[]";
    const bool has_parts = std::ranges::any_of(listed, [&](const std::string& other) {
      return other.starts_with(inner) || other.starts_with(element);
    });
    EXPECT_TRUE(listed.contains(key) || has_parts) << key << " is missing on the page";
    ++known;
  }
  EXPECT_GE(known, 100U);
  for (const std::string& key : listed)
    EXPECT_TRUE(written.contains(key) || key == "scenario") << key << " is in no result";
}

}  // namespace
}  // namespace trainyard
