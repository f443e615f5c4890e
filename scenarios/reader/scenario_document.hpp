// A scenario from a document in memory: for what makes scenarios instead of reading them.
//
//   Scenario s = read_scenario_document("row 12", {{"model", "llama3-8b"}, ...});
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "scenarios/reader/scenario.hpp"

namespace trainyard {

// As load_scenario, with `name` in the place of the file's. Files that the document names are
// looked for in the working folder. Throws InputError with all problems.
[[nodiscard]] Scenario read_scenario_document(const std::string& name,
                                              const nlohmann::ordered_json& document);

}  // namespace trainyard
