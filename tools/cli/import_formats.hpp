// What `trainyard import` reads. Each format is one function here, its file, and a row in
// command_import.cpp.
#pragma once

#include "tools/cli/command.hpp"

namespace trainyard {

void add_import_chakra(CLI::App& import, Action& action);
void add_import_hf_config(CLI::App& import, Action& action);
void add_import_megatron(CLI::App& import, Action& action);
void add_import_nccl_tests(CLI::App& import, Action& action);
void add_import_nccl_topo(CLI::App& import, Action& action);
void add_import_topo_m(CLI::App& import, Action& action);

// Of SOURCE_DATE_EPOCH where it is set, for files that are the same every day
// (reproducible-builds.org); else today, in UTC.
[[nodiscard]] std::string import_date();

}  // namespace trainyard
