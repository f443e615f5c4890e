// Reads rows of published runs, and the files of the study `validate` about them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace trainyard {

// The nodes in the rows of weeks and of energy have this many GPUs, each with a NIC.
inline constexpr double kGpusPerNode = 8.0;

// Returns nothing where the key is absent or holds no number.
[[nodiscard]] std::optional<double> number_at(const nlohmann::ordered_json& object,
                                              const char* key);

// A file of tools/studies/validate/data, by its name without .json. Throws InputError.
[[nodiscard]] nlohmann::ordered_json study_data(const std::string& name);

}  // namespace trainyard
