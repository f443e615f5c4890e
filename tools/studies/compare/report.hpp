// A comparison as text, JSON and CSV.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/studies/compare/comparison.hpp"

namespace trainyard {

// The parts of comparison_text, each a table; empty where there is nothing to say.
struct ComparisonSections {
  std::string sides, inputs, figures, breakdown, collectives, links, steps;
};
[[nodiscard]] ComparisonSections comparison_sections(const Comparison& comparison);

// Side by side: the sides, the inputs that differ, key figures with their change against the first
// side, where the time goes, collectives, links, and the way from the first side to each other one.
[[nodiscard]] std::string comparison_text(const Comparison& comparison);

// {"sides": [{name, scenario, set, status, message, result}], "differences": [{path, values}],
//  "steps": [{from, to, changes: [{paths, step_time_s, change}]}]}; change is relative, -0.1 is 10
//  %
// quicker than before it.
[[nodiscard]] nlohmann::ordered_json comparison_json(const Comparison& comparison);

// One line for each input that differs and each number of the results: section, name, then a column
// for each side.
[[nodiscard]] std::string comparison_csv(const Comparison& comparison);

}  // namespace trainyard
