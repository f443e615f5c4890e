// What must hold between the fields of a scenario, beyond each field alone.
#pragma once

#include "scenarios/reader/scenario.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

// Reports every broken rule to the file. A rule is tried only where the sections that it joins were
// read without a problem, so that one mistake is not reported twice.
void check_scenario(JsonFile& file, const Scenario& scenario);

// The divisors of a number up to a limit, for "choose one of".
[[nodiscard]] std::string divisors(std::int64_t number, std::int64_t most);

}  // namespace trainyard
