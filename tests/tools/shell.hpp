// Runs the real command in a shell, as a user types it.
//
//    const Scratch scratch;    // an empty folder with links into the tree
//    const Outcome outcome = scratch.sh("trainyard run scenarios/first/two_gpus.json --out out");
//    outcome.exit; outcome.out; outcome.err;
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/files.hpp"
#include "tests/quick_file.hpp"

namespace trainyard::test {

struct Outcome {
  int exit = -1;
  std::string out, err;
};

// A separate folder for one test, removed with the object. It holds links to scenarios/, models/
// ... of the tree, so that commands copied from a page run unchanged and write nothing into the
// tree.
class Scratch {
 public:
  Scratch() : root_(make_root()) {
    std::filesystem::create_directory(folder());
    for (const char* name : {"scenarios", "models", "topologies", "kernels", "tests"}) {
      std::filesystem::create_directory_symlink(kTree / name, folder() / name);
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  [[nodiscard]] std::filesystem::path folder() const { return root_ / "here"; }
  [[nodiscard]] std::string read(const std::string& name) const {
    return read_file(folder() / name);
  }
  [[nodiscard]] bool holds(const std::string& name) const {
    return std::filesystem::exists(folder() / name);
  }

  // Runs the line with `trainyard` on the path, in the scratch folder or in the given one.
  [[nodiscard]] Outcome sh(const std::string& line) const { return sh(line, folder()); }
  [[nodiscard]] Outcome sh(const std::string& line, const std::filesystem::path& where) const {
    const std::string program = std::filesystem::path(TRAINYARD_COMMAND).parent_path().string();
    write_quickly(root_ / "line.sh", "PATH='" + program + "':\"$PATH\"\ncd '" + where.string() +
                                         "' || exit 99\n" + line + "\n");
    const std::string at = root_.string();
    const int status = std::system(
        ("bash '" + at + "/line.sh' </dev/null >'" + at + "/out' 2>'" + at + "/err'").c_str());
    return {.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            .out = read_file(root_ / "out"),
            .err = read_file(root_ / "err")};
  }

  // Kills the command as soon as the journal has this many lines, and returns the journal as it
  // then is: unfinished runs are lost, written lines are not. The exit code is 98 if the command
  // ended first.
  [[nodiscard]] Outcome killed(const std::string& command, const std::string& journal,
                               int lines) const {
    return sh(command + " >/dev/null & pid=$!\n" + "until [ \"$(cat " + journal +
              " 2>/dev/null | wc -l)\" -ge " + std::to_string(lines) +
              " ]; do kill -0 $pid 2>/dev/null || exit 98; sleep 0.01; done\n" +
              "kill -9 $pid; wait $pid 2>/dev/null; sleep 0.2; cat " + journal);
  }

  inline static const std::filesystem::path kTree{TRAINYARD_SOURCE_DIRECTORY};

 private:
  static std::filesystem::path make_root() {
    std::string name = (std::filesystem::temp_directory_path() / "trainyard_XXXXXX").string();
    return mkdtemp(name.data());
  }

  std::filesystem::path root_;
};

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline bool have(const Scratch& scratch, const std::string& program) {
  return scratch.sh("command -v " + program).exit == 0;
}

// The command and all below it, as the help itself lists them.
inline std::vector<std::string> with_subcommands(const Scratch& scratch,
                                                 const std::string& command) {
  std::vector<std::string> all{command};
  bool listed = false;
  for (const std::string& line : lines_of(scratch.sh(command + " --help").out)) {
    if (!line.starts_with("  ")) listed = line == "Subcommands:";
    if (!listed || !line.starts_with("  ") || line[2] == ' ') continue;
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    for (std::string& below : with_subcommands(scratch, command + " " + name))
      all.push_back(std::move(below));
  }
  return all;
}

}  // namespace trainyard::test
