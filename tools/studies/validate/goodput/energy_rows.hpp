// Published energy of runs against predictions.
//
// A row has one of three purposes, fixed in data/energy_rows.json of the study `validate` before
// any prediction: it calibrates constants of models/power/data, it judges them, or it checks the
// bookkeeping (power limit times hours). Language models are simulated. For other benchmarks the
// use of tensor cores and memory is supposed. Rows of time over a power cap judge the shape of the
// curve.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trainyard {

struct EnergyRow {
  std::string id;
  std::string purpose = {};  // "calibrates", "judges", "bookkeeping"
  std::string figure = {};   // "node power, W"
  std::string quality = {}, source = {};
  double published = 0.0;
  double predicted = 0.0;
  double error = 0.0;  // relative; of a curve: the mean of |predicted / published - 1|
  std::string supposed = {};
};

// Predicts a row {id, setup, measured, source, quality} of the topic energy into `rows`; otherwise
// returns the reason why not. Throws InputError for a data file that is malformed.
[[nodiscard]] std::string predict_energy(const nlohmann::ordered_json& entry,
                                         std::vector<EnergyRow>& rows);

// A table and the mean of the absolute errors by purpose; empty without rows.
[[nodiscard]] std::string energy_rows_text(const std::vector<EnergyRow>& rows);
[[nodiscard]] nlohmann::ordered_json energy_rows_json(const std::vector<EnergyRow>& rows);

}  // namespace trainyard
