// The block `power` of a scenario: reading, writing, its schema, and its rules.
//
//    "power": { "gpu_cap_w": 500, "pue": 1.2, "price_per_kwh": 0.08, "kg_co2_per_kwh": 0.4 }
//
// The empty block {} asks for energy without caps and prices. A price of a GPU-hour is the
// scenario's own or a preset's (models/power/prices.hpp).
#pragma once

#include <nlohmann/json.hpp>

#include "models/power/settings.hpp"
#include "scenarios/reader/checks.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

// Reads the block at the key "power" of the root. REQUIRES: it is there.
[[nodiscard]] PowerSettings read_power(JsonObject& root);

[[nodiscard]] nlohmann::ordered_json power_json(const PowerSettings& power);
[[nodiscard]] nlohmann::ordered_json power_schema();

// Checks that one cap and one price of a GPU-hour are given at most, that capital comes with the
// years that it lasts, and that clocks and the preset of a price fit the stages and the GPU.
void check_power(const Check& check);

}  // namespace trainyard
