// A validation as text, Markdown, CSV, JSON and a picture.
//
//    fmt::print("{}", validation_text(outcomes, {.groups = {Feature::Source, Feature::Gpu}}));
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/studies/validate/memory_rows.hpp"
#include "tools/studies/validate/outcome.hpp"
#include "tools/studies/validate/score.hpp"

namespace trainyard {

// Rows of which each class of a feature was predicted without what it is known by.
struct LeftOutRuns {
  Feature feature = Feature::Source;
  std::vector<Outcome> outcomes = {};
};

struct ReportChoice {
  std::vector<Feature> groups = {Feature::Source, Feature::Gpu, Feature::Parallelism,
                                 Feature::Precision, Feature::Scale};
  std::size_t worst = 10;    // rows listed one by one
  std::string program = {};  // the version that predicted
  std::string date = {};
  // The same rows, each source, or GPU, predicted without its own measurements
  // (validate_left_out). Empty if this was not requested.
  std::vector<LeftOutRuns> left_out = {};
};

// Scores, the worst rows with the parts of their predicted time, and the rows without prediction
// with the reason. The Markdown also lists the commands that fitted constants of the data files.
[[nodiscard]] std::string validation_text(const std::vector<Outcome>& outcomes,
                                          const ReportChoice& choice);
[[nodiscard]] std::string validation_markdown(const std::vector<Outcome>& outcomes,
                                              const ReportChoice& choice);

// One line per row: its features, measured, predicted, error, and the parts of the step or the
// reason. Rows of measured memory follow in the same columns: their figure is the operation, and
// their error is that of the memory.
[[nodiscard]] std::string validation_csv(const std::vector<Outcome>& outcomes,
                                         const std::vector<MemoryOutcome>& memory = {});
[[nodiscard]] nlohmann::ordered_json validation_json(const std::vector<Outcome>& outcomes,
                                                     const ReportChoice& choice);

// A scatter plot of predicted over measured step time as a complete SVG document: both axes
// logarithmic, one colour for each source, the diagonal, and a band of 10 % on both sides of it.
[[nodiscard]] std::string scatter_svg(const std::vector<Outcome>& outcomes);

}  // namespace trainyard
