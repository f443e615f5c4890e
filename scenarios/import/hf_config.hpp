// Reads the shape of a model from the config.json that Hugging Face stores with its weights.
//
//    if (is_hf_config(document)) shape = shape_of_hf_config(document, "config.json").shape;
//
// Keys and defaults are those of the transformers library's configurations
// (huggingface.co/docs/transformers, "model documentation"); keys that do not affect cost are
// ignored. A model of several parts (vision and text) is represented by its text part.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trainyard {

[[nodiscard]] bool is_hf_config(const nlohmann::ordered_json& document);

struct HfShape {
  nlohmann::ordered_json shape;    // the fields of a models/data file, with its source
  std::vector<std::string> notes;  // properties of the model that the shape omits, a sentence each
};
// Throws InputError that lists everything missing, and for an unknown model_type.
[[nodiscard]] HfShape shape_of_hf_config(const nlohmann::ordered_json& document,
                                         const std::string& file);

// Returns the notes of a shape, parsed from its source, because a scenario may name a config.json
// as its model. Empty for other models.
[[nodiscard]] std::vector<std::string> notes_of_source(const std::string& source);

// Returns the known model types in alphabetical order.
[[nodiscard]] std::vector<std::string> hf_model_types();

}  // namespace trainyard
