// Predictions of each source as if its rows had never been seen.
//
// Some constants of the data files were fitted on measured steps. For each of them
// data/left_out.json says by whose rows, and what is known without these: published rates of
// kernels, tables of single kernels, the same constant as fitted on another source. A source is
// then predicted with those values in the place of what its own rows gave up; the other sources
// keep theirs.
//
//   const std::vector<Outcome> outcomes = validate_left_out(rows, {});   // in the order of the
//   rows
#pragma once

#include <string>
#include <vector>

#include "tools/studies/validate/constants.hpp"
#include "tools/studies/validate/validation.hpp"

namespace trainyard {

// Constants that rows of `sources` fitted, at what is known without them.
struct LeftOut {
  std::vector<std::string> sources;
  std::vector<Setting> settings;
};

// As data/left_out.json has them. Throws InputError, also where a constant is not in its file.
[[nodiscard]] std::vector<LeftOut> load_left_out();

// As validate() does, with the constants of load_left_out() for the rows of their sources. No
// scenarios are written. Throws InputError.
[[nodiscard]] std::vector<Outcome> validate_left_out(const std::vector<MeasuredRow>& rows,
                                                     const ValidateOptions& options);

}  // namespace trainyard
