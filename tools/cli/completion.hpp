// Completion of the command line in shells.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace trainyard {

// The subcommands of a command, in the order of its help.
[[nodiscard]] std::vector<const CLI::App*> commands_of(const CLI::App& app);

// Visits the program and every command with its words, such as "run" or "show topology". The
// program itself comes first, with empty words.
void walk(const CLI::App& app,
          const std::function<void(const CLI::App& command, const std::string& words)>& visit);

// Returns the script that completes commands, options and the values of options in this shell.
// REQUIRES: `shell` is bash, zsh or fish.
[[nodiscard]] std::string completion(const CLI::App& app, const std::string& shell);

}  // namespace trainyard
