// How many measured runs are within the intervals of their predictions, where no run of their class
// took part in the fit.
//
//    for (const Coverage& row : coverage(runs, Feature::Source)) row.inside;   // 0.91
#pragma once

#include <string>
#include <vector>

#include "sim/render/text_table.hpp"
#include "tools/studies/validate/interval_fit.hpp"

namespace trainyard {

// The judged runs of a class within intervals that no run of their own class fitted.
struct Coverage {
  std::string group;
  std::size_t runs = 0;
  double inside = 0.0;      // share of the runs
  double half_width = 0.0;  // mean of 1.645 sqrt(v)
};

// The classes of a feature, each with the deviations that all other classes fit, and all of them as
// the first row.
[[nodiscard]] std::vector<Coverage> coverage(const std::vector<ErrorOfRun>& runs, Feature feature);

// The table of features, classes with at least 20 runs, and their coverage.
[[nodiscard]] TextTable coverage_table(const std::vector<ErrorOfRun>& runs);

// The share of judged runs inside, over the probability of the interval, as a complete SVG
// document: a curve for each feature whose classes are left out.
[[nodiscard]] std::string coverage_svg(const std::vector<ErrorOfRun>& runs);

}  // namespace trainyard
