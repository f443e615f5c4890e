// The formats of `trainyard import`: the subcommand of each, and how `import --guess` knows its
// files. The table is in command_import.cpp.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import/training/training_format.hpp"
#include "tools/cli/command.hpp"

namespace trainyard {

struct ImportFormat {
  std::string name;     // of the subcommand
  std::string what;     // what its files are
  std::string options;  // what its command needs: "--node NODE -o OUT.json"
  bool (*looks_like)(const ImportSample&);
  std::function<void(CLI::App&, Action&)> add;  // adds the subcommand
};

// In alphabetical order of their names.
[[nodiscard]] const std::vector<ImportFormat>& import_formats();

// The options of subcommands that make a scenario of the files of a training framework.
struct TrainingChoice {
  std::vector<std::string> files;
  std::string out;
  std::vector<std::string> defines;  // NAME=VALUE
  LaunchMachine machine;
};
// Adds all but the files.
void add_training_options(CLI::App& command, TrainingChoice& choice);

// Returns the variables of --define NAME=VALUE. Throws InputError for another form, and for a
// variable whose name is in none of the files, which would have no effect.
[[nodiscard]] std::map<std::string, std::string> defined_variables(
    const std::vector<std::string>& defines, const std::vector<ImportFile>& files);

// Adds the subcommand of a format of training_formats() (import_training.cpp).
void add_import_training(const TrainingFormat& format, CLI::App& import, Action& action);

// Adds `import --guess` (import_guess.cpp), which finds the format of files.
void add_import_guess(CLI::App& import, Action& action);

// Reads what is needed to find the format of a file or folder. Throws InputError where it cannot be
// read.
[[nodiscard]] ImportSample read_sample(const std::string& file);

// Returns the formats that a file looks like, in the order of import_formats().
[[nodiscard]] std::vector<const ImportFormat*> formats_like(const ImportSample& sample);

}  // namespace trainyard
