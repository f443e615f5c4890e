// Parts that a scenario names instead of writing them out: files beside it, and the model and the
// node whose fields `--set` may change.
//
//   spell_out(document, "/model/layers", folder);   // "model": "llama3-8b" becomes its shape
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard {

// Is it the path of a file, and no name of what is shipped?
[[nodiscard]] bool is_path(const std::string& text);

// A file named in a scenario is looked for beside the scenario, then in the working folder.
[[nodiscard]] std::string run_concurrently(const std::filesystem::path& folder,
                                           const std::string& name);

// The name of something shipped as it is, the path of a file as run_concurrently() finds it.
[[nodiscard]] std::string located(const std::filesystem::path& folder, const std::string& name);

// Where the pointer leads below a model or a node that the document names, their fields take the
// name's place; they keep the name, a model's with a word that it was changed. Any other document
// stays as it is. Throws InputError for a name or file that is not there.
void spell_out(nlohmann::ordered_json& document, const std::string& pointer,
               const std::filesystem::path& folder);

}  // namespace trainyard
