// Runs side by side: what differs between them and which difference does what, as text, JSON, CSV
// and a page.
//
//   Journal journal("");
//   Comparison c = compare({{"a.json"}, {"a.json", {{"parallelism.tensor", "4"}}}}, {});
//   c.sides[1].figures.step_time_s; c.steps[1];   // from side 0 to side 1, change by change
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/studies/batch/batch.hpp"
#include "tools/studies/batch/row.hpp"

namespace trainyard {

struct ComparedSide {
  std::string name;  // "A", "B", ...
  Variant variant;
  nlohmann::ordered_json row;  // of the batch (row.hpp)
  RowFigures figures;
};

// An input that is not the same everywhere, by its path in the resolved scenario: a part of a
// section ("parallelism.tensor", "cluster.fabric"), whole. Null where a side does not have it.
struct InputDifference {
  std::string path;
  std::vector<nlohmann::ordered_json> values;  // by side
};

// One step of the way from the first side to another: these inputs changed (together, where one
// alone is not a scenario), and the step time was afterwards this.
struct ChangeStep {
  std::vector<std::string> paths;
  double step_time_s = 0.0;
};

struct Comparison {
  std::vector<ComparedSide> sides;
  std::vector<InputDifference> differences;
  // By side; empty for the first one, for those without a result, and where one input differs.
  std::vector<std::vector<ChangeStep>> steps;
};

struct CompareOptions {
  std::size_t processes = 0;                                    // 0: one per core
  std::function<void(std::size_t, std::size_t)> progress = {};  // runs done, of how many
};

// Runs all sides. Then, for each side that differs from the first in several inputs, the scenarios
// between them: inputs are changed one after the other in the order of `differences`, so what a
// step gains is what it gains after those before it. Throws InputError where a side is no scenario.
[[nodiscard]] Comparison compare(const std::vector<Variant>& variants,
                                 const CompareOptions& options);

// The parts of comparison_text, each a table; empty where there is nothing to say.
struct ComparisonSections {
  std::string sides, inputs, figures, breakdown, collectives, links, steps;
};
[[nodiscard]] ComparisonSections comparison_sections(const Comparison& comparison);

// Side by side: the sides, the inputs that differ, key figures with their change against the first
// side, where the time goes, collectives, links, and the way from the first side to each other one.
[[nodiscard]] std::string comparison_text(const Comparison& comparison);

// {"sides": [{name, scenario, set, status, message, result}], "differences": [{path, values}],
//  "steps": [{from, to, changes: [{paths, step_time_s, change}]}]}; change is relative: -0.1 is
// 10 % quicker than before it.
[[nodiscard]] nlohmann::ordered_json comparison_json(const Comparison& comparison);

// One line for each input that differs and each number of the results: section, name, then a column
// for each side.
[[nodiscard]] std::string comparison_csv(const Comparison& comparison);

// "B is 12.3 % quicker than A", for a side against the first.
[[nodiscard]] std::string comparison_verdict(const Comparison& comparison, std::size_t side);

// The comparison as one HTML page that opens from disk, in the style of the report of a run.
[[nodiscard]] std::string comparison_page(const Comparison& comparison);

}  // namespace trainyard
