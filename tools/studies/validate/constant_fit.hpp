// Fitting of a few constants to many rows, robustly, with what the rows can tell about them.
//
// To first order log(predicted / measured) = residual + sum of slope_i * log(factor_i), where the
// slope is how much of a row's time follows the constant. The factors minimise the weighted sum of
// 2 s^2 (sqrt(1 + (r/s)^2) - 1): squares near zero, absolute values beyond s, so that a wrong row
// does not pull. Rows of one series err alike, so confidence and cross-validation go by series:
// each is left out once.
//
// Worked: two rows of slope 1 that come out 10 % too fast want a factor of 1/0.9 = 1.111.
#pragma once

#include <string>
#include <vector>

namespace trainyard {

struct FitRow {
  std::string source;
  double residual = 0.0;            // log(predicted / measured)
  std::vector<double> slopes = {};  // by constant
};

struct SourceCheck {
  std::string source;
  std::size_t rows = 0;
  double before = 0.0;               // MAPE with the constants as they are
  double within = 0.0;               // with those fitted to all rows
  double without = 0.0;              // with those fitted to the rows of all other sources
  std::vector<double> factors = {};  // of that fit
};

struct ConstantFit {
  std::vector<double> factors = {};  // on each constant
  std::vector<double> spread = {};   // jackknife standard error over sources, of the logarithm
  std::vector<SourceCheck> sources = {};
};

// Each row less the mean of the rows of the same level (one name a row): what is common to them
// tells nothing then, nor does a row that is alone in its level, which is left out. Residuals of
// 0.10 and 0.20 of one level become -0.05 and 0.05. REQUIRES: as many levels as rows.
[[nodiscard]] std::vector<FitRow> without_levels(const std::vector<FitRow>& rows,
                                                 const std::vector<std::string>& levels);

// Factors that fit the rows. `scale` is the s above. Throws InputError where the rows cannot tell
// the constants apart, or do not depend on one.
[[nodiscard]] std::vector<double> fit_factors(const std::vector<FitRow>& rows,
                                              const std::vector<std::string>& names, double scale);

// The same with cross-validation. REQUIRES: rows of at least two sources.
[[nodiscard]] ConstantFit fit_constants(const std::vector<FitRow>& rows,
                                        const std::vector<std::string>& names, double scale);

}  // namespace trainyard
