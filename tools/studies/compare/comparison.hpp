// Compares runs side by side: the inputs that differ, and the effect of each difference, as text,
// JSON, CSV and a page.
//
//    const std::vector<Override> changes = {{"parallelism.zero_stage", "1"},
//                                           {"training.recompute", "full"}};
//    const Comparison c = compare({{"a.json"}, {"a.json", changes}}, {});
//    c.sides[1].figures.step_time_s;
//    c.steps[1];    // from side 0 to side 1, change by change
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/render/text_table.hpp"
#include "tools/studies/batch/batch.hpp"
#include "tools/studies/batch/row.hpp"

namespace trainyard {

struct ComparedSide {
  std::string name;  // "A", "B", ...
  Variant variant;
  nlohmann::ordered_json row;  // of the batch (row.hpp)
  RowFigures figures;
};

// An input that differs between sides, by its path in the resolved scenario. A field of a section
// ("parallelism.tensor", "cluster.fabric") is one input. The value is null for a side that does not
// have it.
struct InputDifference {
  std::string path;
  std::vector<nlohmann::ordered_json> values;  // by side
};

// One step between the first side and another: the inputs that change, and the step time after the
// change. Several inputs change together if one of them alone is not a legal scenario.
struct ChangeStep {
  std::vector<std::string> paths;
  double step_time_s = 0.0;
};

struct Comparison {
  std::vector<ComparedSide> sides;
  std::vector<InputDifference> differences;
  // By side. The list is empty for the first side, for sides without a result, and for sides that
  // differ in one input only.
  std::vector<std::vector<ChangeStep>> steps;
};

struct CompareOptions {
  std::size_t processes = 0;                                    // 0: one per core
  std::function<void(std::size_t, std::size_t)> progress = {};  // runs done, and all runs
  // Polled often. It throws to end the comparison: what it throws reaches the caller of compare().
  std::function<bool()> end = {};
};

// Runs all sides. For each side that differs from the first one in several inputs it also runs the
// scenarios between them. The inputs change one after the other in the order of `differences`, so
// the gain of a step is its gain after the steps before it. Throws InputError if a side is not a
// legal scenario.
[[nodiscard]] Comparison compare(const std::vector<Variant>& variants,
                                 const CompareOptions& options);

// The tables of the report: a column for each side. A table without content has no rows.
struct ComparisonTables {
  TextTable inputs, figures, breakdown, collectives, links;
};
[[nodiscard]] ComparisonTables comparison_tables(const Comparison& comparison);

// The report as text: the sides, the inputs that differ, the key figures with their change against
// the first side, the breakdown of the time, collectives, links, and the steps from the first side
// to each other one.
[[nodiscard]] std::string comparison_text(const Comparison& comparison);

// The comparison as JSON:
// {"sides": [{name, scenario, set, status, message, result, ratio}],
//  "differences": [{path, values}], "steps": [{from, to, changes: [{paths, step_time_s, change}]}]}
// `change` is relative to the step before: -0.1 means that it takes 10 % less time.
[[nodiscard]] nlohmann::ordered_json comparison_json(const Comparison& comparison);

// One line for each input that differs and each number of the results: section, name, and one
// column for each side.
[[nodiscard]] std::string comparison_csv(const Comparison& comparison);

// The ratio of the step of a side to that of the first one, as a measurement would find it. Nothing
// for the first side, and where one of them has no interval.
[[nodiscard]] std::optional<RatioInterval> measured_ratio(const Comparison& comparison,
                                                          const ComparedSide& side);

// The verdict on a side against the first: "B is 12.3 % quicker than A", and the range in which a
// measurement would find it (ratio_text).
[[nodiscard]] std::string comparison_verdict(const Comparison& comparison, std::size_t side);

// The comparison as one HTML page that opens from disk (sim/render/page/document.hpp).
[[nodiscard]] std::string comparison_page(const Comparison& comparison);

}  // namespace trainyard
