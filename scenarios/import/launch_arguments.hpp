// The arguments of a training launch: from a shell script that passes --flags, or from the list of
// settings that Megatron-LM prints when it starts.
//
//   LaunchArguments arguments = read_launch_arguments(text, "pretrain.sh", {{"NNODES", "16"}});
//   arguments.integer("num_layers");   // 96
//
// In a script, comments and line ends with a backslash are understood, variables that the script
// sets are put in for $NAME and ${NAME} and ${NAME:-default}, and flags are taken wherever they
// stand, in arrays as well; nothing is run. What only the shell could work out is an error that
// names the flag.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// "num_layers" as it is passed: "--num-layers".
[[nodiscard]] std::string as_flag(std::string name);

class LaunchArguments {
 public:
  LaunchArguments(std::string file, std::map<std::string, std::string> values);

  // By the name without dashes, with underscores; nothing where it is not given or is None. Throws
  // InputError where the value is not of the kind asked for.
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& name);
  [[nodiscard]] std::optional<double> number(const std::string& name);
  [[nodiscard]] std::optional<std::string> text(const std::string& name);
  // A flag that stands there without a value, or is True.
  [[nodiscard]] bool flag(const std::string& name);
  // Throws InputError where it is missing.
  [[nodiscard]] std::int64_t need(const std::string& name);

  [[nodiscard]] const std::string& file() const { return file_; }
  // The arguments that were given and never asked for, by name.
  [[nodiscard]] std::vector<std::string> unread() const;

 private:
  std::string file_;
  std::map<std::string, std::string> values_;  // empty: a flag without a value
  std::set<std::string> read_;
};

// `defined` stands for variables the script does not set, or sets otherwise. Throws InputError
// where no argument is found.
[[nodiscard]] LaunchArguments read_launch_arguments(
    const std::string& text, const std::string& file,
    const std::map<std::string, std::string>& defined = {});

}  // namespace trainyard
