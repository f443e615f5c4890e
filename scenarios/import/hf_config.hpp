// Reads the shape of a model from the config.json that Hugging Face stores with its weights.
//
//    if (is_hf_config(document)) shape = shape_of_hf_config(document, "config.json").shape;
//
// The families that are known are those of hf_families.hpp. A model of several parts (vision and
// text) is represented by its language model. What the shape does not say is said in notes, down
// to the keys that nothing looked at (hf_keys.hpp).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/import/hf_families.hpp"

namespace trainyard {

[[nodiscard]] bool is_hf_config(const nlohmann::ordered_json& document);

// Reads the document as its model_type says, or as the model type `as` where it is given. Throws
// InputError with everything that is missing or wrong. For an unknown model_type, the error lists
// the keys that are understood and those that are not.
[[nodiscard]] HfShape shape_of_hf_config(const nlohmann::ordered_json& document,
                                         const std::string& file, const std::string& as = "");

// Returns the notes of a shape, parsed from its source, because a scenario may name a config.json
// as its model. Empty for other models.
[[nodiscard]] std::vector<std::string> notes_of_source(const std::string& source);

// Returns the known model types in alphabetical order.
[[nodiscard]] std::vector<std::string> hf_model_types();

}  // namespace trainyard
