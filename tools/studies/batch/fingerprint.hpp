// Fingerprints of everything a result depends on: equal ones give equal results.
//
//   const std::string state = state_fingerprint(data_directory());
//   row["fingerprint"] = document_fingerprint(state, resolved(scenario), folder_of_the_file);
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trainyard {

// A number (hexadecimal) for the program and its data files (JSON below `data`: models, kernels,
// topologies, and what validation reads).
[[nodiscard]] std::string state_fingerprint(const std::filesystem::path& data);

// The same for a document, in that state, and for every file that it names: a text in it that is
// the path of a file, from `folder` or from the working folder. JSON files are searched for
// further names.
[[nodiscard]] std::string document_fingerprint(const std::string& state,
                                               const nlohmann::ordered_json& document,
                                               const std::filesystem::path& folder);

[[nodiscard]] std::string text_fingerprint(std::string_view text);

}  // namespace trainyard
