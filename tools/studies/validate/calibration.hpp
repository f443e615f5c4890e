// Calibration: the values of a few named constants at which measured rows are predicted best.
//
// To first order log(predicted / measured) = residual + sum of slope_i * log(factor_i), where the
// slope is how much of a row's time follows the constant. The factors minimise the weighted sum of
// 2 s^2 (sqrt(1 + (r/s)^2) - 1): squares near zero, absolute values beyond s, so that a wrong row
// does not pull. Rows of one series err alike, so confidence and cross-validation go by series:
// each is left out once.
//
// Worked: two rows of slope 1 that come out 10 % too fast want a factor of 1/0.9 = 1.111.
//
//   const Calibration c = calibrate(rows, {read_constant("kernels/...#/...")}, {});
//   c.fit.sources[0].without;     // the error on a series that was left out
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/studies/validate/constants.hpp"
#include "tools/studies/validate/validation.hpp"

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

struct CalibrateOptions {
  ValidateOptions validate = {};
  double scale = 0.05;     // of the robust loss, in units of the logarithm of the error
  std::size_t rounds = 2;  // of slopes, fit and simulation at the new values
  // Rows alike in it err alike: confidence and cross-validation leave them out together.
  Feature left_out = Feature::Source;
  // Rows alike in it have a level of their own that is not asked about: only how they differ among
  // themselves tells of the constants, such as a slope with scale.
  std::optional<Feature> level_of = {};
};

// Rows that one constant needs at the least.
inline constexpr std::size_t kRowsPerConstant = 10;

struct Calibration {
  std::vector<Setting> settings = {};  // the constants with their fitted values
  ConstantFit fit = {};                // the last round's, from the values before it
  std::vector<Outcome> before = {};
  std::vector<Outcome> after = {};
  std::size_t rows = 0;  // that could be predicted, and count
};

// Throws InputError where the rows do not support the fit: too few of them for so many constants,
// rows of fewer sources (or what else is left out together) than constants, or constants that they
// cannot tell apart.
[[nodiscard]] Calibration calibrate(const std::vector<MeasuredRow>& rows,
                                    const std::vector<Constant>& constants,
                                    const CalibrateOptions& options);

// The text that `trainyard calibrate` prints.
[[nodiscard]] std::string calibration_text(const Calibration& calibration);

}  // namespace trainyard
