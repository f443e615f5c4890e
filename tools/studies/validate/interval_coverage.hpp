// How many measured runs are within the intervals of their predictions, where no run of their class
// took part in the fit.
//
//    const std::vector<LeftOutClasses> features = leave_out_classes(runs);
//    for (const Coverage& row : coverage(features.front())) row.inside;   // 0.88
#pragma once

#include <string>
#include <vector>

#include "sim/render/text_table.hpp"
#include "tools/studies/validate/interval_fit.hpp"

namespace trainyard {

// A judged run, and the deviation of its error that runs of other classes fit.
struct JudgedRun {
  std::string group;  // its class; with "data sheet" where only that of its GPU was known
  double error = 0.0;
  double deviation = 0.0;
};

// The judged runs, each class of the feature without its own runs in the fit.
struct LeftOutClasses {
  Feature feature = Feature::Source;
  std::vector<JudgedRun> runs = {};
};

[[nodiscard]] LeftOutClasses leave_out_classes(const std::vector<ErrorOfRun>& runs,
                                               Feature feature);
// The same by source, GPU, model family, scale, release and precision.
[[nodiscard]] std::vector<LeftOutClasses> leave_out_classes(const std::vector<ErrorOfRun>& runs);

// The judged runs of a class.
struct Coverage {
  std::string group;  // empty: all classes
  std::size_t runs = 0;
  double inside = 0.0;      // share of the runs within 1.645 deviations
  double half_width = 0.0;  // mean of 1.645 deviations
};

// All runs as the first row, then each class.
[[nodiscard]] std::vector<Coverage> coverage(const LeftOutClasses& classes);

// The coverage of classes with at least 20 runs.
[[nodiscard]] TextTable coverage_table(const std::vector<LeftOutClasses>& features);

// The share of runs inside over the probability of the interval, as a complete SVG document: a
// curve for each feature.
[[nodiscard]] std::string coverage_svg(const std::vector<LeftOutClasses>& features);

}  // namespace trainyard
