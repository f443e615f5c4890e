// The commands that ask a scenario many questions at once; declared apart from command.hpp because
// they stand on boxes of their own.
#pragma once

#include "tools/cli/command.hpp"

namespace trainyard {

void add_compare(CLI::App& app, Action& action);
void add_init(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_search(CLI::App& app, Action& action);
void add_sweep(CLI::App& app, Action& action);

}  // namespace trainyard
