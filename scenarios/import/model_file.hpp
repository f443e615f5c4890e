// Loads a model by the name that a scenario gives: a name in models/data, a file in that form, or a
// config.json of Hugging Face.
//
//    load_model("llama3-8b");
//    load_model("tests/scenarios/import/hf/llama3_8b.json");   // equal except for names
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/architecture/architecture.hpp"

namespace trainyard {

// Throws InputError for a model that cannot be found or read.
[[nodiscard]] Architecture load_model(const std::string& name_or_path);

// Returns its fields in the form of models/data, including its name.
[[nodiscard]] nlohmann::ordered_json model_fields(const std::string& name_or_path);

}  // namespace trainyard
