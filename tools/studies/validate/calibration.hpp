// Calibration: the values of a few named constants at which measured rows are predicted best.
//
//   const Calibration c = calibrate(rows, {read_constant("kernels/...#/...")}, {});
//   c.fit.sources[0].without;     // the error on a series that was left out
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/studies/validate/constant_fit.hpp"
#include "tools/studies/validate/constants.hpp"
#include "tools/studies/validate/validation.hpp"

namespace trainyard {

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

// What `trainyard calibrate` prints.
[[nodiscard]] std::string calibration_text(const Calibration& calibration);

}  // namespace trainyard
