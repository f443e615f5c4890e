// Splits a launch script into the launchers that it calls, with their options. It executes nothing.
//
//    for (const LaunchCall& call : launch_calls(text, "job.sh")) {
//      use(call.launcher, call.line);      // "torchrun" in line 12
//      use(call.last({"nnodes"})->value);  // "4": --nnodes 4
//    }
//
// It substitutes variables and arrays that the script sets and computes $((A * B)). Words inside
// $(...) and backticks stay as they are: only the shell could work them out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

struct LaunchOption {
  std::string name = {};   // without dashes, with '-' for '_': "nproc-per-node", "N"
  std::string given = {};  // as the script writes it: "--nproc_per_node"
  std::string value = {};  // empty: without a value
};

// One call of a launcher. A launcher within another's command ("srun torchrun ...") has the number
// of the outer one.
struct LaunchCall {
  std::string launcher = {};  // "srun", "torchrun", "mpirun", "horovodrun", "deepspeed", ...
  std::size_t line = 0;
  std::vector<LaunchOption> options = {};
  std::string program = {};               // the first word after the options
  std::optional<std::size_t> outer = {};  // in the result of launch_calls

  // Returns the last of the options with one of the names; nullptr where there is none.
  [[nodiscard]] const LaunchOption* last(std::initializer_list<std::string_view> names) const;
};

// `defined` overrides variables of the script and adds others.
[[nodiscard]] std::vector<LaunchCall> launch_calls(
    const std::string& text, const std::string& file,
    const std::map<std::string, std::string>& defined = {});

// Returns the options of the #SBATCH lines of a script, with their lines; empty without such lines.
// Options of #SBATCH lines after the first command do not count, as for sbatch.
struct BatchOption {
  LaunchOption option;
  std::size_t line = 0;
};
[[nodiscard]] std::vector<BatchOption> batch_options(const std::string& text);

// Returns the value of an expression of whole numbers, names, + - * / % and parentheses; nothing
// where a name is not known, or the text is something else.
[[nodiscard]] std::optional<std::int64_t> whole_value(
    std::string_view expression, const std::map<std::string, std::string>& names);

}  // namespace trainyard
