// The configurations of training frameworks that can be imported: one row of a table for each
// format, and one file with its reader.
//
//    for (const TrainingFormat& format : training_formats())
//      if (format.looks_like(sample)) scenario = format.read(request);
//
// To add a format, write its reader in a file here, declare it below, and add a row to the table in
// training_format.cpp.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import/imported_scenario.hpp"
#include "scenarios/import/launched_cluster.hpp"
#include "scenarios/import/sample.hpp"

namespace trainyard {

struct ImportFile {
  std::string name;  // as the user named it
  std::string text;
};

struct ImportRequest {
  std::vector<ImportFile> files = {};  // at least one
  LaunchMachine machine = {};
  // Values of the variables of a script, and what a script sets otherwise.
  std::map<std::string, std::string> defines = {};
};

struct TrainingFormat {
  std::string_view name;     // of the subcommand
  std::string_view what;     // what the file is
  std::string_view options;  // that its example needs
  std::string_view example;  // a file of the tree, or several
  std::string_view fields;   // what is understood, for the table of formats
  std::size_t most_files;    // that it reads together
  // Throws InputError for a file that contradicts itself or states too little.
  ImportedScenario (*read)(const ImportRequest&);
  bool (*looks_like)(const ImportSample&);
};

// In alphabetical order of their names.
[[nodiscard]] std::span<const TrainingFormat> training_formats();

// The readers, each in the file of its name.
[[nodiscard]] ImportedScenario import_accelerate(const ImportRequest& request);
[[nodiscard]] ImportedScenario import_deepspeed(const ImportRequest& request);
[[nodiscard]] ImportedScenario import_maxtext(const ImportRequest& request);
[[nodiscard]] ImportedScenario import_megatron_script(const ImportRequest& request);
[[nodiscard]] ImportedScenario import_megatron_yaml(const ImportRequest& request);
[[nodiscard]] ImportedScenario import_nanotron(const ImportRequest& request);
[[nodiscard]] ImportedScenario import_nemo(const ImportRequest& request);
[[nodiscard]] ImportedScenario import_torchtitan(const ImportRequest& request);

}  // namespace trainyard
