// The block `reliability` of a scenario: reading, writing, its schema, and its rules.
//
//    "reliability": { "preset": "llama3", "spares": { "nodes": 32 } }
//
// A preset is a file of models/reliability/data, or a path. What the block says replaces what the
// preset says, field by field (a JSON merge patch); a list of failures replaces the whole list.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/reliability/reliability.hpp"
#include "scenarios/reader/checks.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

// The names of the presets.
[[nodiscard]] std::vector<std::string> reliability_presets();

// Reads the block at the key "reliability" of the root. REQUIRES: it is there.
[[nodiscard]] Reliability read_reliability(JsonObject& root, const std::filesystem::path& folder);

// Reads a preset alone. Throws InputError.
[[nodiscard]] Reliability load_reliability(const std::string& name_or_path);

[[nodiscard]] nlohmann::ordered_json reliability_json(const Reliability& reliability);
[[nodiscard]] nlohmann::ordered_json reliability_schema();

// Checks that failed nodes can be replaced, that a checkpoint is written before the next one, and
// that each kind of failure has its fields.
void check_reliability(const Check& check);

}  // namespace trainyard
