// The shape of a model from the config.json that Hugging Face keeps beside its weights.
//
//   if (is_hf_config(document)) shape = shape_of_hf_config(document, "config.json").shape;
//
// Keys are those of the transformers library's configurations, with the defaults it has for what a
// file leaves out (huggingface.co/docs/transformers, "model documentation"); keys that say nothing
// about cost are passed over. A model of several parts (vision and text) counts with its text part.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trainyard {

[[nodiscard]] bool is_hf_config(const nlohmann::ordered_json& document);

struct HfShape {
  nlohmann::ordered_json shape;    // the fields of a models/data file, with its source
  std::vector<std::string> notes;  // what of the model the shape does not say, a sentence each
};
// Throws InputError with all that is missing at once, and for a model_type that is not known.
[[nodiscard]] HfShape shape_of_hf_config(const nlohmann::ordered_json& document,
                                         const std::string& file);

// The notes of a shape again, from the source that it was given: a scenario may name a config.json
// as its model. Empty for models from elsewhere.
[[nodiscard]] std::vector<std::string> notes_of_source(const std::string& source);

// The model types that are known, in alphabetical order.
[[nodiscard]] std::vector<std::string> hf_model_types();

}  // namespace trainyard
