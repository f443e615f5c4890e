// The rows of a sweep in the order in which it was asked, as a table and as CSV.
//
//   SweepRows rows = sweep_rows(variants, journal);
//   fmt::print("{}", sweep_text(rows));
//   write_file("sweep.csv", sweep_csv(rows));
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/studies/batch/batch.hpp"

namespace trainyard {

struct SweepRow {
  Variant variant;
  nlohmann::ordered_json row;  // of the journal; null: not run yet
};
using SweepRows = std::vector<SweepRow>;

// Each variant once, with its row.
[[nodiscard]] SweepRows sweep_rows(const std::vector<Variant>& variants, const Journal& journal);

// A line for each run: what was changed, step time, tokens/s/GPU, MFU, peak memory, whether it
// fits; the quickest that fits is marked. Then how many runs ended how, and why those without a
// result have none.
[[nodiscard]] std::string sweep_text(const SweepRows& rows);

// One line for each run that is done and one column for every change, input and figure that any of
// them has; empty where it has none. RFC 4180.
[[nodiscard]] std::string sweep_csv(const SweepRows& rows);

}  // namespace trainyard
