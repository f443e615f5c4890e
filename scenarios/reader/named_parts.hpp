// Parts that a scenario refers to by name: files, and the model and the node whose fields `--set`
// may change.
//
//    expand_named_part(document, "/model/layers", folder);   // the model's name becomes its shape
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard {

// Returns whether the text is the path of a file, not a name from Trainyard's data.
[[nodiscard]] bool is_path(const std::string& text);

// Returns the path of a file that a scenario names: in the folder of the scenario where it exists
// there, else relative to the working folder.
[[nodiscard]] std::string file_near(const std::filesystem::path& folder, const std::string& name);

// Returns the path of a scenario's file. A relative path that does not exist here is looked up in
// the data folders, so that the examples in "scenarios/" can be run from everywhere. Throws
// InputError where there are no data folders either.
[[nodiscard]] std::string scenario_file(const std::string& path);

// Returns a name from Trainyard's data unchanged, and a path as file_near() finds it.
[[nodiscard]] std::string located(const std::filesystem::path& folder, const std::string& name);

// Replaces the name of a model or a node by its fields, if the pointer leads below it. The name
// remains as a field; that of a model gets the suffix ", changed". Any other document stays as it
// is. Throws InputError for a name or file that does not exist.
void expand_named_part(nlohmann::ordered_json& document, const std::string& pointer,
                       const std::filesystem::path& folder);

}  // namespace trainyard
