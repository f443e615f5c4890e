// Reads the arguments of a training launch, from a shell script that passes --flags or from the
// list of settings that Megatron-LM prints at its start.
//
//    LaunchArguments arguments = read_launch_arguments(text, "pretrain.sh", {{"NNODES", "16"}});
//    arguments.integer("num_layers");   // 96
//
// In a script, the reader handles comments and lines that continue after a backslash. It
// substitutes variables that the script sets for $NAME, ${NAME} and ${NAME:-default}, and accepts
// flags anywhere, including in arrays. It executes nothing. A value that only the shell could
// compute is an error that names the flag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// Converts "num_layers" to the flag "--num-layers".
[[nodiscard]] std::string as_flag(std::string name);

// A variable that the branches of a script (if, elif, else, case) set to different values. Nobody
// knows here which branch runs: the last value holds.
struct BranchVariable {
  struct Value {
    std::size_t line = 0;
    std::string text = {};
  };
  std::string name = {};
  std::vector<Value> values = {};  // different ones, by line

  // "H is 4096 in line 4 and 8192 in line 9: the last one holds, say which with --define H=4096".
  [[nodiscard]] std::string sentence() const;
};

// A variable of branches, and the arguments that would change with it.
struct OpenChoice {
  std::string sentence = {};
  std::set<std::string> arguments = {};
};

class LaunchArguments {
 public:
  // `spelling` holds how the file spells an argument where that is not its flag: the path of a
  // configuration.
  LaunchArguments(std::string file, std::map<std::string, std::string> values,
                  std::map<std::string, std::string> spelling = {},
                  std::vector<OpenChoice> choices = {});

  // Return an argument by its name without dashes, with underscores; nothing where it is absent or
  // None. Throw InputError where the value does not have the requested type.
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& name);
  [[nodiscard]] std::optional<double> number(const std::string& name);
  [[nodiscard]] std::optional<std::string> text(const std::string& name);
  // Returns whether a flag is present without a value, or with one that does not say no ("False",
  // "no", "0").
  [[nodiscard]] bool flag(const std::string& name);
  // Throws InputError where the argument is missing.
  [[nodiscard]] std::int64_t need(const std::string& name);

  [[nodiscard]] const std::string& file() const { return file_; }
  // Returns how the file spells an argument: "--num-layers", or "model.num_layers".
  [[nodiscard]] std::string spelled(const std::string& name) const;
  // Returns the names of the given arguments that no caller has read.
  [[nodiscard]] std::vector<std::string> unread() const;
  // Returns the sentences of the choices that change an argument that a caller has read.
  [[nodiscard]] std::vector<std::string> assumed() const;

 private:
  std::string file_;
  std::map<std::string, std::string> values_;  // empty value: a flag without a value
  std::map<std::string, std::string> spelling_;
  std::vector<OpenChoice> choices_;
  std::set<std::string> read_;
};

// `defined` overrides variables of the script and adds others. Throws InputError where the text has
// no argument.
[[nodiscard]] LaunchArguments read_launch_arguments(
    const std::string& text, const std::string& file,
    const std::map<std::string, std::string>& defined = {});

// A line of a script without comments, with lines that continue after a backslash joined and
// variables substituted.
struct ScriptLine {
  std::size_t number = 0;  // of its first line in the file
  std::string text = {};
};

// Returns the line without its comment. A # within a word or in quotes that the line closes begins
// none. `quote` is the quote that earlier lines left open, '\0' for none, and becomes the one that
// this line leaves open. What lies in such quotes is mostly a script of its own (bash -c "..."),
// whose comments are removed, too.
[[nodiscard]] std::string_view without_comment(std::string_view line, char& quote);

struct ScriptText {
  std::vector<ScriptLine> lines = {};
  std::map<std::string, std::string> variables = {};  // those that the script sets, and `defined`
};

// Reads a script as read_launch_arguments does, line by line. Throws InputError where its variables
// make too much text.
[[nodiscard]] ScriptText read_script(const std::string& text, const std::string& file,
                                     const std::map<std::string, std::string>& defined = {});

// Returns the variables of branches. Those that are defined, or that add to their own value, are
// none.
[[nodiscard]] std::vector<BranchVariable> branch_variables(
    const std::string& text, const std::string& file,
    const std::map<std::string, std::string>& defined);

}  // namespace trainyard
