// What other programs call the things of a scenario, as hints for unknown keys.
#pragma once

#include <map>
#include <string>

namespace trainyard {

// From a word (lower case, underscores) to the sentence that names ours: Megatron's flags, Hugging
// Face's fields, usual abbreviations, and our own keys where they stand in the wrong section.
[[nodiscard]] std::map<std::string, std::string> foreign_words();

}  // namespace trainyard
