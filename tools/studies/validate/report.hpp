// A validation as text, Markdown, CSV, JSON and a picture.
//
//   fmt::print("{}", validation_text(outcomes, {.groups = {Feature::Source, Feature::Gpu}}));
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/studies/validate/memory_rows.hpp"
#include "tools/studies/validate/outcome.hpp"
#include "tools/studies/validate/score.hpp"

namespace trainyard {

struct ReportChoice {
  std::vector<Feature> groups = {Feature::Source, Feature::Gpu, Feature::Parallelism,
                                 Feature::Precision, Feature::Scale};
  std::size_t worst = 10;    // rows named one by one
  std::string program = {};  // which version predicted
  std::string date = {};
  // The same rows, each source predicted without what its own rows fitted (validate_left_out);
  // empty: that was not asked.
  std::vector<Outcome> left_out = {};
};

// Scores, worst rows with where their predicted time goes, and what could not be predicted and why;
// in Markdown also the commands that fitted constants of the data files.
[[nodiscard]] std::string validation_text(const std::vector<Outcome>& outcomes,
                                          const ReportChoice& choice);
[[nodiscard]] std::string validation_markdown(const std::vector<Outcome>& outcomes,
                                              const ReportChoice& choice);

// One line a row: its features, measured, predicted, error, parts of the step, or the reason. Rows
// of measured memory follow in the same columns: the figure is their operation, and error that of
// the memory.
[[nodiscard]] std::string validation_csv(const std::vector<Outcome>& outcomes,
                                         const std::vector<MemoryOutcome>& memory = {});
[[nodiscard]] nlohmann::ordered_json validation_json(const std::vector<Outcome>& outcomes,
                                                     const ReportChoice& choice);

// Predicted over measured step time, both logarithmic, a colour for each source, the diagonal and
// 10 % to its sides; a complete SVG document.
[[nodiscard]] std::string scatter_svg(const std::vector<Outcome>& outcomes);

// A kind with fewer runs is told by its generation of GPUs; a generation with fewer is not told.
inline constexpr std::size_t kRunsLeast = 5;

// How far off each kind of run is, as `trainyard run` tells it of a prediction
// (scenarios/simulate/measured_error.hpp reads the table): runs, mape, bias and p90 of the
// predicted runs (collectives have no scenario and are no runs), by kind and by generation of GPUs.
// `source` says how they were made.
[[nodiscard]] nlohmann::ordered_json error_table(const std::vector<Outcome>& outcomes,
                                                 const std::string& source);

}  // namespace trainyard
