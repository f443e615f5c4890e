// Fits the machine model's constants to measured collectives and says how well they generalise.
//
// Constants of the GPU generations and of the protocols come from rows of one node, those of
// messages and fabrics from rows of several, with the others held fixed. Everything is least
// squares on log(predicted / measured), robust; the same rows give the same constants.
//
//   const Constants fitted = fit_constants(select_fitted(samples));
//   cross_validate(rows, Split::Thirds);      // errors on rows that were left out
#pragma once

#include <vector>

#include "sim/nccl/fit/error_table.hpp"
#include "sim/nccl/fit/predict.hpp"

namespace trainyard::nccl::fit {

using Selection = std::vector<const Sample*>;
// Rows of one node or of several that are fitted, or those that are only judged.
enum class Rows { OneNode, SeveralNodes, Unfitted };
[[nodiscard]] Selection select(const Samples& samples, Rows rows);
[[nodiscard]] Selection select_fitted(const Samples& samples);

// From fixed guesses. A constant that no row depends on keeps its guess.
[[nodiscard]] Constants fit_constants(const Selection& rows);

// What is left out, one part after the other: every third row, all rows of one number of ranks, or
// all of one table (of one release of NCCL) or log, whose errors then are a line by its name.
enum class Split { Thirds, Ranks, Source };
// Errors of the rows left out. Rows by a method, or over a fabric, of which no row is left are not
// judged, nor are those that are not in `judged`, where it is given.
[[nodiscard]] ErrorTable cross_validate(const Selection& rows, Split split,
                                        const Selection* judged = nullptr);

// Errors of given constants; by the sample's machine ("H100", "polaris_a100x4_n2_ofi").
[[nodiscard]] ErrorTable errors_of(const Constants& constants, const Selection& rows);
// Of NCCL's own model, for the operations that it tunes.
[[nodiscard]] ErrorTable unfitted_errors(const Selection& rows);

[[nodiscard]] std::string machine_name(const Sample& sample);

}  // namespace trainyard::nccl::fit
