// The model families of Hugging Face configurations whose parts are known, by model_type: which
// keys give the numbers of the shape, and what the shape leaves out.
//
//    const HfFamily* family = find_hf_family("olmoe");
//    HfShape made;
//    family->fill(keys, made);   // keys: hf_keys.hpp
//
// Keys, defaults and parts are those of the transformers library
// (huggingface.co/docs/transformers, "model documentation"), or of the code that is stored with
// the weights where the library does not have the family.
#pragma once

#include <span>
#include <string_view>

#include "scenarios/import/hf_keys.hpp"
#include "scenarios/import/hf_parts.hpp"

namespace trainyard {

struct HfFamily {
  std::string_view type;    // model_type
  std::string_view models;  // well-known models of it
  void (*fill)(HfKeys& keys, HfShape& made);
};

// In alphabetical order.
[[nodiscard]] std::span<const HfFamily> hf_families();
// nullptr for an unknown type.
[[nodiscard]] const HfFamily* find_hf_family(std::string_view type);

// Reads all keys that decoders of any family usually have, under every name that they use, so that
// the record of `keys` tells the usual keys from the others.
void read_usual_keys(HfKeys& keys);

}  // namespace trainyard
