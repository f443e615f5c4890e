// How well constants do, as Markdown: by GPU, operation and size, and with parts of the rows left
// out.
//
//   fmt::print("{}", errors_markdown(shipped_constants(), read_samples("measured/collectives")));
#pragma once

#include <string>

#include "sim/nccl/fit/fit_machine.hpp"

namespace trainyard::nccl::fit {

// Tables of the errors of `constants` on one node (by GPU), on a table that nobody fitted, and on
// several nodes (by log), each beside NCCL's own model.
[[nodiscard]] std::string errors_markdown(const Constants& constants, const Samples& samples);

// Errors on rows that were left out of the fit, which is made anew for each part: seconds of time.
[[nodiscard]] std::string left_out_markdown(const Samples& samples);

}  // namespace trainyard::nccl::fit
