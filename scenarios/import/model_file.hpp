// A model by the name that a scenario gives it: from models/data, a file in that form, or the
// config.json of Hugging Face.
//
//   load_model("llama3-8b") == load_model("tests/scenarios/import/hf/llama3_8b.json")   // but for
//   names
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/architecture/architecture.hpp"

namespace trainyard {

// Throws InputError for what cannot be found or read.
[[nodiscard]] Architecture load_model(const std::string& name_or_path);

// Its fields as models/data has them, with its name among them.
[[nodiscard]] nlohmann::ordered_json model_fields(const std::string& name_or_path);

}  // namespace trainyard
