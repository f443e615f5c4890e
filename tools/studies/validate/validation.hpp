// Predictions for many measured rows: each made a scenario and simulated in a process of its own.
//
//   const std::vector<Outcome> outcomes = validate(read_dataset("published.json"), {});
//   score_of_all(outcomes).score.mape;
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tools/studies/validate/outcome.hpp"
#include "tools/studies/validate/row_tables.hpp"

namespace trainyard {

struct ValidateOptions {
  std::size_t processes = 0;  // 0: one per core
  // Answers by scenario, the files it names, program and data (JSON Lines, tools/studies/batch);
  // what it has is not simulated again. Empty: none is kept.
  std::filesystem::path cache = {};
  std::filesystem::path scenarios = {};  // a folder for each row's scenario; empty: none
  std::filesystem::path data = {};       // data directory of the simulations; empty: the usual one
  std::function<void(double)> progress = {};
};

// In the order of the rows. Throws InputError where a file cannot be written.
[[nodiscard]] std::vector<Outcome> validate(const std::vector<MeasuredRow>& rows,
                                            const ValidateOptions& options);

}  // namespace trainyard
