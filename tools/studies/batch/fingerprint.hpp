// Fingerprints of all inputs of a result: equal fingerprints mean equal results.
//
//    const std::string state = state_fingerprint(data_roots());
//    const std::filesystem::path folder = std::filesystem::path(scenario.file).parent_path();
//    row["fingerprint"] = document_fingerprint(state, resolved(scenario), folder);
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// A hexadecimal fingerprint of the program and of all data files, those of the user included (JSON
// below `roots`, in the order in which names are looked up: models, kernels, topologies, and the
// files that validation reads).
[[nodiscard]] std::string state_fingerprint(const std::vector<std::filesystem::path>& roots);

// A fingerprint of a document, in that state, and of every file that it names. A string in the
// document is a file name if it is the path of a file, relative to `folder` or to the working
// directory. JSON files are searched for further names.
[[nodiscard]] std::string document_fingerprint(const std::string& state,
                                               const nlohmann::ordered_json& document,
                                               const std::filesystem::path& folder);

[[nodiscard]] std::string text_fingerprint(std::string_view text);

}  // namespace trainyard
