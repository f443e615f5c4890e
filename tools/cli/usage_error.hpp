// What is wrong with a command line, in one line with its remedy.
//
//   usage_problem(app, error);   // "there is no option --enigne here (did you mean --engine?)"
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace trainyard {

// `error` is what parsing threw; `app` is the parser afterwards.
[[nodiscard]] std::string usage_problem(const CLI::App& app, const CLI::ParseError& error);

}  // namespace trainyard
