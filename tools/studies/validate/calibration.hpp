// Calibration: finds the values of a few named constants at which measured rows are predicted best.
//
// To first order log(predicted / measured) = residual + sum of slope_i * log(factor_i). The slope
// is the part of a row's time that scales with the constant. The factors minimise the weighted sum
// of 2 s^2 (sqrt(1 + (r/s)^2) - 1), which is quadratic near zero and linear beyond s, so that a
// wrong row has little influence. The errors of rows of one series are correlated, so confidence
// and cross-validation work on series: each series is left out once.
//
// Example: two rows of slope 1 that are predicted 10 % too fast need a factor of 1/0.9 = 1.111.
//
//    Constant c = read_constant("kernels/profiles/h100.json#/gemm/sustained_time/value");
//    const Calibration calibration = calibrate(rows, {c}, {});
//    calibration.fit.sources[0].without;     // the error on a series that was left out
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
  double before = 0.0;               // MAPE with the unchanged constants
  double within = 0.0;               // with the constants fitted to all rows
  double without = 0.0;              // with the constants fitted to the rows of all other sources
  std::vector<double> factors = {};  // of that fit
};

struct ConstantFit {
  std::vector<double> factors = {};  // factor of each constant
  std::vector<double> spread = {};   // jackknife standard error over sources, of the logarithm
  std::vector<SourceCheck> sources = {};
};

// The rows minus the mean of the rows with the same level (one name per row). The common part of a
// level then has no influence on the fit. A row that is alone in its level is left out. Residuals
// of 0.10 and 0.20 of one level become -0.05 and 0.05. REQUIRES: as many levels as rows.
[[nodiscard]] std::vector<FitRow> without_levels(const std::vector<FitRow>& rows,
                                                 const std::vector<std::string>& levels);

// Factors that fit the rows. `scale` is s in the loss above. Throws InputError if the rows cannot
// separate the constants, or do not depend on one of them.
[[nodiscard]] std::vector<double> fit_factors(const std::vector<FitRow>& rows,
                                              const std::vector<std::string>& names, double scale);

// The same fit with cross-validation. REQUIRES: rows of at least two sources.
[[nodiscard]] ConstantFit fit_constants(const std::vector<FitRow>& rows,
                                        const std::vector<std::string>& names, double scale);

struct CalibrateOptions {
  ValidateOptions validate = {};
  double scale = 0.05;     // of the robust loss, in units of the logarithm of the error
  std::size_t rounds = 2;  // of slopes, fit and simulation at the new values
  // The errors of rows with the same value of this feature are correlated: confidence and
  // cross-validation leave these rows out together.
  Feature left_out = Feature::Source;
  // Rows with the same value of this feature have a common level that is not fitted. Only the
  // differences among them determine the constants, for example a slope with scale.
  std::optional<Feature> level_of = {};
};

// The number of rows that one constant needs at least.
inline constexpr std::size_t kRowsPerConstant = 10;

struct Calibration {
  std::vector<Setting> settings = {};  // the constants with their fitted values
  ConstantFit fit = {};                // of the last round, from the values before it
  std::vector<Outcome> before = {};
  std::vector<Outcome> after = {};
  std::size_t rows = 0;  // rows that could be predicted and are used
};

// Fits the constants. Throws InputError if the rows do not support the fit: too few rows for the
// number of constants, fewer sources (or other groups that are left out together) than constants,
// or constants that the rows cannot separate.
[[nodiscard]] Calibration calibrate(const std::vector<MeasuredRow>& rows,
                                    const std::vector<Constant>& constants,
                                    const CalibrateOptions& options);

// The text that `trainyard calibrate` prints.
[[nodiscard]] std::string calibration_text(const Calibration& calibration);

}  // namespace trainyard
