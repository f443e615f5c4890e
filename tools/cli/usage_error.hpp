// What is wrong with a command line, in one line with its remedy.
//
//   usage_problem(app, error);   // "there is no option --enigne here (did you mean --engine?)"
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace trainyard {

// `error` is what parsing threw; `app` is the parser afterwards.
[[nodiscard]] std::string usage_problem(const CLI::App& app, const CLI::ParseError& error);

// What is wrong with the arguments of a line that was parsed: one that is empty, as that of a
// shell's variable that is not set, or that is no text in UTF-8; empty where nothing is.
[[nodiscard]] std::string argument_problem(const CLI::App& app);

}  // namespace trainyard
