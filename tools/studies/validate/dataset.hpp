// Reading of data sets of measured training runs.
//
// Forms, told apart by their contents:
//   a JSON array of rows in the form of README.md here (also one with the rows under "rows")
//   a CSV with the columns of vTrain's single-node table: gpus, global_batch, micro_batch, hidden,
//   heads, layers, seq, tp, dp, pp, iteration_ms
//
//   for (const MeasuredRow& row : read_dataset("training/published.json")) ...
#pragma once

#include <filesystem>
#include <vector>

#include "tools/studies/validate/measured_row.hpp"

namespace trainyard {

// Throws InputError where the file is of no known form or a row lacks its id.
[[nodiscard]] std::vector<MeasuredRow> read_dataset(const std::filesystem::path& file);

// Part of it: the rows of vTrain's table.
[[nodiscard]] std::vector<MeasuredRow> read_vtrain_table(const std::string& file,
                                                         const std::string& text);

}  // namespace trainyard
